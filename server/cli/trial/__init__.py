"""`planloom try`: a short evaluation of the models that a person has, on a project of its own."""
