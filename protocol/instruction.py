"""An instruction: one piece of work for one agent, its lanes, states and cost."""

from typing import Final, Literal, get_args

import msgspec

Lane = Literal["immediate", "normal", "background"]
LANES: Final[tuple[Lane, ...]] = get_args(Lane)
"""In order of precedence; FIFO inside each."""

Status = Literal[
    "queued", "leased", "running", "yielded", "waiting", "done", "incomplete", "failed", "dead", "cancelled"
]
STATUSES: Final[tuple[Status, ...]] = get_args(Status)
LIVE: Final[frozenset[Status]] = frozenset({"leased", "running"})
"""An attempt holds it: at most one instruction of an agent is in one of these."""
ENDED: Final[frozenset[Status]] = frozenset({"done", "incomplete", "failed", "dead", "cancelled"})

WaitReason = Literal["provider", "credentials", "quota", "approval", "budget", "hops", "answer", "paused"]
"""What a waiting instruction waits for. With a time it goes on by itself; without one somebody has to do something."""

DeliveryState = Literal["queued", "leased", "injected", "acked", "dead"]


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What model calls cost: tokens of four kinds, none in two of them. ``cost_usd`` is null where the price is not
    known, never 0."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost_usd: float | None = None

    @property
    def tokens(self) -> int:
        """All of them, as budgets count."""
        return self.input_tokens + self.output_tokens + self.cache_read_tokens + self.cache_write_tokens

    def plus(self, other: "Usage") -> "Usage":
        """The sum; its cost is known if any part's is."""
        costs = [cost for cost in (self.cost_usd, other.cost_usd) if cost is not None]
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            cost_usd=sum(costs) if costs else None,
        )
