"""The worker's own tools, a file each. They run where the agent works; what the kernel knows is asked of Daemon MCP."""
