"""Execution: one isolated process per attempt, a function of system prompt, messages and tools.

A worker does not know its workflow, or whether its work will be retried.
"""
