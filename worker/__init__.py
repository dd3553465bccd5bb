"""Workers: one isolated process per attempt, which runs a model and tools on a conversation.

A worker knows neither the workflow of its agent, nor whether the kernel will repeat the attempt.
"""
