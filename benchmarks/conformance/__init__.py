"""The official conformance suite of MCP on the real server: `python -m benchmarks.conformance`."""

import benchmarks.faults  # noqa: F401  the tests' modules can be imported from here on
