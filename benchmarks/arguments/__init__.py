"""Who should write the arguments of a call? The argument routes, on calls that can be checked."""
