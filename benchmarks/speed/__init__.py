"""What a run costs in tokens and simulated seconds, in three designs and at least."""
