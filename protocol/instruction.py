"""An instruction: one piece of work for one agent, its lanes, states and cost."""

from typing import Annotated, Final, Literal, get_args

import msgspec

Lane = Literal["immediate", "normal", "background"]
LANES: Final[tuple[Lane, ...]] = get_args(Lane)
"""Lanes in order of precedence; each is FIFO."""

Status = Literal[
    "queued", "leased", "running", "yielded", "waiting", "done", "incomplete", "failed", "dead", "cancelled"
]
STATUSES: Final[tuple[Status, ...]] = get_args(Status)
LIVE: Final[frozenset[Status]] = frozenset({"leased", "running"})
"""States in which an attempt executes the instruction. An agent has at most one such instruction."""
ENDED: Final[frozenset[Status]] = frozenset({"done", "incomplete", "failed", "dead", "cancelled"})

WaitReason = Literal[
    "provider", "credentials", "quota", "approval", "budget", "hops", "answer", "person", "node", "paused"
]
"""Reason of a wait. If the wait has an end time, the instruction then continues automatically;
otherwise a person has to act."""

DeliveryState = Literal["queued", "leased", "injected", "acked", "dead"]


LARGEST: Final = 2**53
"""Largest number in frames and JSON: every JSON parser represents it exactly, and sums of it fit into the database."""

Count = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]
Amount = Annotated[float, msgspec.Meta(ge=0, le=LARGEST)]

TOKEN_KINDS: Final = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
COST_DIGITS: Final = 10
"""Decimal places of an amount in US dollars: a token of the cheapest model costs about 1e-8."""


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Usage of model calls: tokens of four disjoint kinds. ``cost_usd`` is null if the price is unknown, never 0."""

    input_tokens: Count = 0
    output_tokens: Count = 0
    cache_read_tokens: Count = 0
    cache_write_tokens: Count = 0
    cost_usd: Amount | None = None

    def __post_init__(self) -> None:
        """Round the cost, so that sums have no binary noise: 0.086, not 0.08600000000000001."""
        if self.cost_usd is not None:
            msgspec.structs.force_setattr(self, "cost_usd", round(self.cost_usd, COST_DIGITS))

    @property
    def tokens(self) -> int:
        """Return the total number of tokens, as budgets count it."""
        return self.input_tokens + self.output_tokens + self.cache_read_tokens + self.cache_write_tokens

    def beyond(self, other: "Usage") -> "Usage":
        """Return the tokens in excess of ``other``, separately for each kind."""
        return Usage(**{kind: max(0, getattr(self, kind) - getattr(other, kind)) for kind in TOKEN_KINDS})

    def plus(self, other: "Usage") -> "Usage":
        """Return the sum, at most LARGEST; its cost is known if either cost is."""
        costs = [cost for cost in (self.cost_usd, other.cost_usd) if cost is not None]
        tokens = {kind: min(getattr(self, kind) + getattr(other, kind), LARGEST) for kind in TOKEN_KINDS}
        return Usage(**tokens, cost_usd=min(sum(costs), LARGEST) if costs else None)
