"""Tests of Daemon MCP, with the SDK's own client and with raw JSON-RPC."""
