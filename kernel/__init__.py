"""Kernel: the Trio process that schedules instructions, stores all state and hosts Daemon MCP.

It never imports a model SDK or parses a vendor CLI's format; workers do that.
"""
