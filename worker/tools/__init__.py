"""The worker's own tools, one module each.

They run in the agent's working directory; Daemon MCP has the kernel's tools.
"""
