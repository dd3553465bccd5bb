"""Interpretation of files in a separate process: no kernel, event loop or network, one JSON document on stdout.

Uses the loader; running work is not known here.
"""
