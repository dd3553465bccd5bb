"""The worker's own tools, one module each. They run in the working directory; Daemon MCP has the other tools."""
