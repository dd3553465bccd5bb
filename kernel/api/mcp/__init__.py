"""Daemon MCP: the context tools of a working agent, over the MCP revisions that clients in the field speak."""
