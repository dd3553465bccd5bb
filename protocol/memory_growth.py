"""``awk memory growth``: how a memory grows over generated runs, most of whose items are junk."""

from typing import Literal

import msgspec

Route = Literal["written", "judged", "proposed"]
"""How items come into a memory: as agents write them; the same, judged by a guard's model (``llm_curation``) that is
wrong in one of ten; proposed after each run (``auto_store``), where somebody takes all that is in the tray."""


class GrowthRow(msgspec.Struct, frozen=True, kw_only=True):
    """A memory after so many ``runs``, of which ``items`` came: ``worth`` is the share of its entries that is worth
    keeping, ``kept`` the share of what is worth keeping that is in it; ``kinds`` of its entries, junk among them.
    """

    route: Route
    runs: int
    items: int
    entries: int
    characters: int
    worth: float
    kept: float
    kinds: dict[str, int]


class GrowthReport(msgspec.Struct, frozen=True, kw_only=True):
    """The growth by each route; ``junk`` is the share of all items that is not worth keeping, and of what kinds."""

    seed: int
    junk: float
    kinds: dict[str, int]
    rows: tuple[GrowthRow, ...]
    schema: str = "awk/memory-growth/1"
