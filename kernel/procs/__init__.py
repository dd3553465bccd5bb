"""Processes and their supervision: launchers, handles, attempt directories. All programs run in a keeper.

The only user of Linux's /proc in the kernel. This package knows no instruction, agent or database.
"""
