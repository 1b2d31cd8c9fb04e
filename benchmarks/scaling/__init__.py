"""Throughput of a fleet of workers: `python -m benchmarks.scaling`."""

import benchmarks.faults  # noqa: F401  the tests' modules can be imported from here on
