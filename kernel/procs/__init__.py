"""Runs processes and sees them gone: launchers, handles, attempt directories. Linux's /proc stops here.

Everything that is run, is run in a keeper. It does not know why: no instruction, agent or database is known here.
"""
