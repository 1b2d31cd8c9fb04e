"""The record of all runs, in a file or in Redis."""
