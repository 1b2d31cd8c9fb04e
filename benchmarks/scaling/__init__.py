"""Throughput of a fleet of workers: `python -m benchmarks.scaling`."""
