"""A log that another version of this program has written to, with kinds and events that this one does not know."""

from typing import Final

import msgspec

from interface.cli import event_view
from interface.cli.commands.channel import messages_lines
from interface.cli.output import Screen
from kernel.store.transaction import Transaction
from kernel.store.transitions.recovery import recover
from protocol.api.messages import Channel
from tests.builders.api import ServedKernel

SCREEN: Final = Screen()
MESSAGE: Final = """
INSERT INTO messages (kind, space, sender, addressed, text, hops, cause, run, at_ms)
VALUES ('poll', 'dm:alice', 'bob', '', 'from elsewhere', 0, NULL, NULL, 5)
"""
ENTRY: Final = """
INSERT INTO entries (instruction, k, epoch, kind, body, at_ms)
VALUES (1, 0, 1, 'song', CAST('{"t": "entry", "k": 0, "kind": "song"}' AS BLOB), 5)
"""
STRANGE: Final = (
    "PRAGMA ignore_check_constraints = ON",  # a schema that knew them had other lists
    MESSAGE,
    "INSERT INTO events (type, at_ms, message) SELECT 'message', 5, max(seq) FROM messages",
    "INSERT INTO events (type, at_ms, agent, data) VALUES ('moon.phase', 5, 'bob', CAST('{\"full\": [1]}' AS BLOB))",
    "INSERT INTO events (type, at_ms, data) VALUES ('kernel.started', 5, CAST('{\"pid\": 1}' AS BLOB))",
    ENTRY,
    "PRAGMA ignore_check_constraints = OFF",
)


def write_strangely(tx: Transaction) -> None:
    """What we do not know, in every table that is only ever added to."""
    for statement in STRANGE:
        tx.conn.execute(statement).fetchall()


async def test_what_another_version_wrote_is_shown_and_hides_nothing(kernel: ServedKernel) -> None:
    await kernel.ask("POST", "/messages", {"to": "alice", "text": "before"})
    await kernel.writer.commit(write_strangely)
    await kernel.ask("POST", "/messages", {"to": "alice", "text": "after"})
    channel = await kernel.ask("GET", "/spaces/dm:alice/channel")
    assert messages_lines(msgspec.convert(channel.json, Channel), SCREEN) == [
        "user -> alice: before",
        "bob: from elsewhere",
        "user -> alice: after",
    ]
    strange = await kernel.ask("GET", "/messages/m2")
    assert (strange.status, strange.json["message"]["kind"]) == (200, "poll")
    log = await kernel.ask("GET", "/events?follow=0&since=0")
    events = [event_view.event_of(line[6:]) for line in log.body.decode().split("\n") if line.startswith("data: {")]
    shown = [event_view.event_line(event, SCREEN) for event in events]
    assert [line for line in shown if "moon.phase" in line] == ["1970-01-01T00:00:00.005Z moon.phase bob full=[1]"]
    assert sum("from elsewhere" in line for line in shown) == 1
    assert [event.seq for event in events] == list(range(1, len(events) + 1))


async def test_an_entry_of_another_version_keeps_no_kernel_from_starting(kernel: ServedKernel) -> None:
    await kernel.attempt()
    await kernel.writer.commit(write_strangely)
    recovered = await kernel.writer.commit(recover)
    assert recovered.requeued == ("i1",)
