"""Workflows: from a file to a running workspace. Everything is validated before anything starts.

Reads files and runs setup commands; the rules control a started workflow.
"""
