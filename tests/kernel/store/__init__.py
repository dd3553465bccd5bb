"""Tests of kernel/store."""
