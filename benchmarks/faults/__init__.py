"""Faults and load on the real server: `python -m benchmarks.faults`."""
