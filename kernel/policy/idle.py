"""The reason why a kernel that may end by itself must not yet. Pure."""

import msgspec


class Outstanding(msgspec.Struct, frozen=True, kw_only=True):
    """The things that a kernel is needed for, as far as the log knows, and the newest event of it."""

    event: int = 0
    work: bool = False
    """Instructions that have not ended, also those that wait for a person, who is told of them by a kernel alone."""
    runs: bool = False
    """Runs of workflows that come to an end; what was started and stays is there again with the next kernel."""
    votes: bool = False
    merges: bool = False
    schedules: bool = False
    deliveries: bool = False
    """Webhooks that will be tried again."""
    passing: bool = False
    """Words of workflows that keep none, which are to be removed soon."""


def kept_by(outstanding: Outstanding, *, requests: int, hooks: bool) -> str | None:
    """Return what keeps the kernel, in words; None: nothing. ``requests``: those that are being answered, streams
    among them; ``hooks``: programs without a token may have something to say at any time.

    What failed for good, and an agent in error, keep none: nothing waits for them, and they are in the log.
    """
    reasons = (
        (outstanding.work, "work that has not ended"),
        (outstanding.runs, "a run that has not ended"),
        (outstanding.votes, "a vote that is open"),
        (outstanding.merges, "a merge that is under way"),
        (outstanding.schedules, "a schedule"),
        (outstanding.deliveries, "a webhook that is tried again"),
        (outstanding.passing, "words that are to be removed"),
        (requests > 0, "a client that is served"),
        (hooks, "hooks in the project file"),
    )
    return next((text for holds, text in reasons if holds), None)
