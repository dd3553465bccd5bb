"""Benchmarks of the performance figures that the documentation promises, each compared with its limit."""
