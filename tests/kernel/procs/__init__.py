"""Processes are run without knowing why: real processes, real pipes, the real clock."""
