"""The upstream MCP servers: their processes, connections, tools and results."""
