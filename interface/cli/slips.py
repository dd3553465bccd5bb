"""Slips of the pen: the command that a word was most likely meant to be."""

from typing import Final

from interface.cli.table import BY_WORD

_CLOSE: Final = 0.7
"""How like a command a word is that may be a slip of it: statsu is status, and bogus is not logs."""


def meant_command(word: str) -> str | None:
    """The command of ours that ``word`` is a slip of: another case, swapped letters, or nearly all letters the same."""
    from difflib import get_close_matches  # noqa: PLC0415  (10 ms, for slips only)

    small = word.lower()
    if small in BY_WORD:
        return small
    known = [command for command in BY_WORD if command[0] != "_"]
    swapped = [command for command in known if sorted(command) == sorted(small)]  # strat is start, though as like stats
    close = swapped or get_close_matches(small, known, n=1, cutoff=_CLOSE)
    return close[0] if close else None
