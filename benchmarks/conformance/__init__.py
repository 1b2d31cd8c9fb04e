"""The official conformance suite of MCP on the real server: `python -m benchmarks.conformance`."""
