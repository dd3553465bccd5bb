"""Core rules: pure functions from a message and a view of the state to effects."""
