"""Recordings of all that the outside sees, so that each change of it is a reviewed diff of ``recorded``."""
