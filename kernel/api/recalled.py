"""The entries that an agent keeps, ranked for a query, as tools and routes answer; and the bounds of such questions."""

from collections.abc import Callable
from typing import Final

import trio

from kernel.agents.personal_context import ContextPlace, PersonalContexts
from kernel.operations.context import MemoryAccess
from protocol.agent_files import MemoryReport, memory_rows
from protocol.agent_memory import Entry, Tier, time_ms
from protocol.errors import Refused

SEARCH_LIMIT: Final = 50
READ_LIMIT: Final = 100
QUERY_CHARACTERS: Final = 1000
SEARCHED_TIERS: Final[tuple[Tier, ...]] = ("core", "working")
"""Archive is searched only on demand."""


async def recalled(
    memory: MemoryAccess,
    contexts: PersonalContexts,
    place: ContextPlace,
    query: str,
    limit: int,
    tiers: tuple[Tier, ...],
    counts: Callable[[Entry], bool] = lambda _entry: True,
) -> MemoryReport:
    """What the agent at ``place`` keeps, ranked for ``query``, as far as it ``counts``: ``total`` had a word of it."""
    kept = await trio.to_thread.run_sync(contexts.memory, place)
    found = await memory.history.find(place.agent, kept, query, limit, tiers, counts=counts)
    return MemoryReport(
        agent=place.agent,
        entries=memory_rows(kept.kept[one.place] for one in found.ranked),
        total=found.total,
        skipped=contexts.told(place, kept),
    )


def time_of(text: str | None, default: int) -> int:
    """A time of a query in milliseconds. Raises Refused (bad_request)."""
    if text is None:
        return default
    try:
        return time_ms(text if "T" in text else f"{text}T00:00:00Z")
    except ValueError:
        raise Refused(
            "bad_request", f"{text[:40]!r} is no time", "such as 2026-11-21 or 2026-11-21T08:00:00Z"
        ) from None
