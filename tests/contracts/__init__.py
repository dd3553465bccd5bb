"""Reusable suites: what every implementation of a seam must do."""
