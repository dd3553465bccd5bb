"""A message on its way: sent once however often it is tried, and waited for through restarts of the kernel."""

import contextlib
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from interface.cli.asking import can_ask
from interface.cli.consent import with_consent
from interface.cli.context import Context
from interface.cli.escape import one_line
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
    outcomes = Outcomes(ids, attended=can_ask(context), tell=lambda event: context.out.notes(retry_notes(event)))
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


def retry_notes(event: ServerEvent) -> list[str]:
    """That an attempt failed and another one follows, where the event tells of that."""
    if event.type != "instruction.queued":
        return []
    told = json.loads(event.data)
    data = told.get("data") or {}
    if data.get("n") is None:
        return []
    then = f"attempt {data['n'] + 1} of {data['tries']} follows" if data.get("tries") else "it is tried again"
    why = one_line(
        f"{told.get('agent')}: {told.get('instruction')}: {data.get('cause')}: {data.get('text') or 'no word'}"
    )
    return [f"note: {why}; {then}"]


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


def as_line(event: ServerEvent, wall_seconds: float) -> str:
    """An event as one line of ``--jsonl``: every line has a type, a schema and a time, spelled as the kernel spells."""
    if event.type != "accepted":
        return event.data.replace("{", '{"schema":"awk/event/1",', 1)
    return _line("accepted", {"schema": "awk/accepted/1", **json.loads(event.data)}, wall_seconds)


def as_result(document: bytes, wall_seconds: float) -> bytes:
    """The last line of ``--jsonl``: the report, with a type and a time like every line before it."""
    return _line("result", json.loads(document), wall_seconds).encode()


def _line(kind: str, document: dict[str, Any], wall_seconds: float) -> str:
    at = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(wall_seconds))}.{int(wall_seconds % 1 * 1000):03}Z"
    return json.dumps({"type": kind, "at": at, **document}, ensure_ascii=False, separators=(",", ":"))
