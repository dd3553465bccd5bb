"""Daemon MCP: the context tools of running attempts, for all MCP revisions that clients use."""
