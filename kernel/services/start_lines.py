"""A start that fits: what a long resume brings along goes in lines of its own. Pure."""

from collections.abc import Iterator
from itertools import accumulate
from typing import Final

import msgspec

from protocol.codec import LINE_LIMIT_BYTES, encode
from protocol.ipc import Entry, Start

ENTRIES_BYTES: Final = LINE_LIMIT_BYTES // 4
"""How much of a start's line may be entries; the rest of it is the prompt's."""


def in_lines(start: Start) -> Iterator[Start | Entry]:
    """``start`` with the first of its entries, then the others one by one.

    The prompt itself is not divided: one that exceeds a line makes ``encode`` raise LineTooLong.
    """
    sizes = accumulate(len(encode(entry)) for entry in start.entries)
    fitting = sum(1 for size in sizes if size <= ENTRIES_BYTES)
    rest = start.entries[fitting:]
    yield msgspec.structs.replace(start, entries=start.entries[:fitting], entries_follow=len(rest)) if rest else start
    yield from rest
