"""Tests of kernel.git."""
