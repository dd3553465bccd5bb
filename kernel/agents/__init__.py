"""Agents: their definitions, models, resources and the prompt of an attempt.

Modules here read files and the environment, but not the store: messages are passed in.
"""
