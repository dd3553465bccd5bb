"""Bodies of the REST API and of ``--json``: one Struct for both, so they cannot differ.

Every document the kernel answers a command with names its ``schema`` (contracts.md section 9).
"""
