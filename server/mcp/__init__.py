"""What an MCP client sees: tools, tasks, prompts, resources and progress."""
