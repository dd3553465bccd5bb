"""Tests of kernel/rule."""
