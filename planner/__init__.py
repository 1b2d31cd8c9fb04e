"""The planning agent. It knows nothing of MCP servers: tools come as a `ToolPool`."""
