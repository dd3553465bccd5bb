"""Agents: what their files say, where their models are, and the prompt an attempt opens with.

It knows files and environment, not the store: what was said comes in as messages.
"""
