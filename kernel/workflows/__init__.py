"""Workflows: from a file to a running workspace. Validates everything before anything starts.

It reads files and runs setup commands; what a started workflow then does is the rule's business.
"""
