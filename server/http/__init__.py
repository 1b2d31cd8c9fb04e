"""What is served over HTTP besides MCP: the OpenAI API and the view in a browser."""
