"""Tests of kernel/policy."""
