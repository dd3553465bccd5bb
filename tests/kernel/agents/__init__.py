"""Tests of kernel.agents."""
