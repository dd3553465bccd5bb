"""Processes and their supervision: launchers, handles, attempt directories.

The only user of Linux's /proc in the kernel.

All programs run in a keeper. This package does not know instructions, agents or the database.
"""
