"""A message on its way: sent once however often it is tried, and waited for through restarts of the kernel."""

import contextlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from interface.cli.asking import can_ask
from interface.cli.consent import with_consent
from interface.cli.context import Context
from interface.cli.exits import worst
from interface.cli.views import results as view
from interface.client import Client, new_key
from interface.failure import Failure, Unreachable
from interface.follow import Expired, Follower
from interface.outcomes import TURNS, Outcomes
from interface.sse import ServerEvent


def post_once(
    context: Context, path: str, body: Mapping[str, object], wait_seconds: float | None
) -> tuple[bytes, Client]:
    """POST ``body``; where the kernel goes away meanwhile, once more to the next one, with the same key.

    Asks for trust where that is needed and a person is there.
    """

    def post(asked: Mapping[str, object]) -> tuple[bytes, Client]:
        key = new_key()
        client = context.started_kernel()
        try:
            return client.post(path, asked, key=key, wait_seconds=wait_seconds), client
        except Unreachable:
            context.out.note("note: the kernel went away; asking again")
        client = context.started_kernel()
        return client.post(path, asked, key=key, wait_seconds=wait_seconds), client

    return with_consent(context, body, post)


def await_outcomes(context: Context, ids: Sequence[str], timeout_seconds: float | None = None) -> Outcomes:
    """The results of ``ids``; only those there are, once ``timeout_seconds`` have passed."""
    outcomes = Outcomes(ids, attended=can_ask(context))
    if not ids:
        return outcomes
    follower = Follower(
        connect=context.returning_kernel,
        query={"type": ",".join(sorted(TURNS))},
        clock=context.clock,
        say=context.out.note,
        deadline=None if timeout_seconds is None else context.clock.now() + timeout_seconds,
    )
    with contextlib.suppress(Expired):
        outcomes.wait(follower)
    return outcomes


def report(receipt: dict[str, Any], outcomes: Outcomes) -> bytes:
    """The document of ``send --wait``, ``ask`` and ``serve`` (protocol.api.SendReport)."""
    kept = {name: receipt[name] for name in ("message_id", "instruction_ids")}
    return json.dumps({"schema": "awk/send/1", **kept, "results": outcomes.results}).encode()


def conclude(context: Context, body: bytes) -> int:
    """Say on stderr what was not done. Returns the worst of the results."""
    context.out.lines(())
    for complaint in view.complaints(body):
        context.out.note(complaint)
    return worst(json.loads(body)["results"])


def timed_out(outcomes: Outcomes) -> Failure:
    """What a wait ends with that ended by its deadline."""
    still = outcomes.open
    return Failure("timeout", f"{', '.join(still)} not done in time; the work goes on", f"look with: show {still[0]}")


def as_line(event: ServerEvent) -> str:
    """An event as one line of ``--jsonl``; what the kernel sends without a type of its own gets that of the stream."""
    if event.type != "accepted":
        return event.data
    return json.dumps({"type": "accepted", **json.loads(event.data)}, ensure_ascii=False)


def as_result(document: bytes) -> bytes:
    """The last line of ``--jsonl``: the report, with a type like every line before it."""
    return json.dumps({"type": "result", **json.loads(document)}, ensure_ascii=False).encode()
