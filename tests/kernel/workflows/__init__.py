"""Tests of kernel.workflows."""
