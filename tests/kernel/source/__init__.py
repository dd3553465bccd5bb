"""Tests of kernel.source."""
