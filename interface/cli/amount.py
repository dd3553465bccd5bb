"""Amounts as people type them: money in USD, and numbers of tokens. What is no limit is an error, not ignored."""

import re
from argparse import ArgumentTypeError
from typing import Final

_USD: Final = re.compile(r"\$?(\d{1,7}(?:\.\d{1,6})?|\.\d{1,6})", re.ASCII)
_TOKENS: Final = re.compile(r"\d{1,12}", re.ASCII)


def usd(text: str) -> float:
    """``0.50`` or ``$2``. Raises ArgumentTypeError, which argparse shows as a usage error."""
    match = _USD.fullmatch(text)
    if match is None or not 0 < float(match[1]) <= 1_000_000:
        raise ArgumentTypeError(f"{text!r} is not an amount of USD: write it as 0.50, more than 0")
    return float(match[1])


def tokens(text: str) -> int:
    """A whole number, more than 0. Raises ArgumentTypeError."""
    if not _TOKENS.fullmatch(text) or int(text) == 0:
        raise ArgumentTypeError(f"{text!r} is not a number of tokens: write it as 50000, more than 0")
    return int(text)
