"""Executes: one isolated process per attempt, a function of system prompt, messages and tools.

It does not know why it runs, what workflow it is in, or whether it will be retried.
"""
