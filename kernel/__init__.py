"""Decides: the Trio process that schedules instructions, keeps all state and hosts Daemon MCP.

It never imports a model SDK or a vendor CLI's format: what runs, runs in a worker.
"""
