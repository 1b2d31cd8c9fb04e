"""What people see of a run: folds of its events."""
