"""What an agent keeps, ranked for a query, as tools and routes answer it; and the bounds of such questions."""

from collections.abc import Callable
from typing import Final

import trio

from kernel.agents.personal_context import ContextPlace, PersonalContexts
from kernel.api.context import MemoryAccess
from protocol.agent_memory import Entry, Tier, time_ms
from protocol.api.history import Recalled, RecalledItem
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
) -> Recalled:
    """What the agent at ``place`` keeps, ranked for ``query``, as far as it ``counts``."""
    kept = await trio.to_thread.run_sync(contexts.memory, place)
    found = await memory.history.find(
        place.agent,
        kept,
        query,
        limit,
        tiers,
        counts,
    )
    rows = ((kept.kept[one.place].entry, one.score) for one in found.ranked)
    return Recalled(
        agent=place.agent,
        found=tuple(
            RecalledItem(
                key=entry.key,
                value=entry.value,
                tier=entry.tier,
                trust=entry.trust,
                sources=entry.source.messages,
                at=entry.at,
                score=round(score, 3),
            )
            for entry, score in rows
        ),
        total=found.total,
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
