"""Completion in shells: what each command takes, as a script for each shell, and what there is right now."""
