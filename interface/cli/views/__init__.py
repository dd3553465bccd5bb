"""Text for people, one file per document: ``lines(body, screen)`` is a pure function of the kernel's JSON.

Apart from the commands, so that ``--json``, which passes the kernel's document through, never loads msgspec.
"""
