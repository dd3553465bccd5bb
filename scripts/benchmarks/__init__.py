"""Measures the promised figures on this machine, each beside its limit, in one run."""
