"""The MCP face of the planner. It knows nothing of prompts."""
