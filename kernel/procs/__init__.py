"""Processes and their supervision: launchers, handles, attempt directories. Every program runs under a keeper.

In the kernel only this package reads Linux's /proc. It does not use instructions, agents or the database.
"""
