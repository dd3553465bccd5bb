"""Workers: the loop, the adapters, the link; real SDKs against a scripted server, real pipes, a real MCP server."""
