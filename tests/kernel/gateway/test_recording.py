"""Model requests are recorded where a file says so: without secrets, each part once, until the work is deleted."""

import json
from typing import Any

import msgspec
import pytest

from kernel.services.recording import recorder_for
from kernel.store import exchanges
from kernel.store.exchanges import WireRecord
from kernel.store.transitions.lease import Leased, lease
from kernel.store.transitions.retention import instructions as with_data
from kernel.store.transitions.retention import sweep_instructions
from protocol.agent import AgentDefinition
from protocol.project import ProjectDefinition
from tests.builders.api import ServedKernel
from tests.kernel.gateway.scripted import KEY, PATHS, Door, Hit, Line, credential, upstream

LATER = 10**15


async def leased(kernel: ServedKernel) -> Leased:
    found = await kernel.writer.commit(lease, await kernel.send(), b"digest")
    assert found is not None
    return found


def agent(**keys: Any) -> AgentDefinition:
    return msgspec.convert({"name": "alice", "model": "acme/m1", **keys}, AgentDefinition)


def recorder(door: Door, attempt: Leased, definition: AgentDefinition, **project: Any) -> Any:
    defined = msgspec.convert(project, ProjectDefinition)
    secrets = {KEY: "[key]", "hunter2hunter2": "[PASSWORD]"}
    return recorder_for(attempt, definition, defined, secrets, door.kernel.writer, lambda: 1_700_000_000_000)


@pytest.mark.parametrize(
    ("own", "project", "recorded"),
    [
        ({}, {}, False),
        ({}, {"recording": "on"}, True),
        ({}, {"recording": "errors"}, True),
        ({"recording": "off"}, {"recording": "on"}, False),
        ({"recording": "errors"}, {}, True),
        ({"login": True}, {"recording": "on"}, False),
        ({"login": True, "recording": "errors"}, {}, False),
        ({"login": True, "recording": "on"}, {}, True),
    ],
)
async def test_the_agents_key_counts_before_the_projects_and_a_login_is_its_own_decision(
    door: Door, own: dict[str, Any], project: dict[str, Any], recorded: bool
) -> None:
    found = recorder(door, await leased(door.kernel), agent(**own), **project)
    assert (found is not None) is recorded


async def test_an_exchange_is_shown_without_secrets_and_exported(door: Door) -> None:
    attempt = await leased(door.kernel)

    async def script(line: Line, _hit: Hit) -> None:
        await line.reply(json.dumps({"echo": f"{KEY} hunter2hunter2", "usage": {}}).encode())

    async with upstream(script) as provider, door.client() as client:
        keep = recorder(door, attempt, agent(recording="on"))
        placeholder = door.admit(provider.url, "openai", record=keep)
        for text in ("one", "my password is hunter2hunter2"):
            sent = {"model": "m1", "messages": [{"role": "user", "content": text}]}
            answer = await client.post(PATHS["openai"], headers=credential("openai", placeholder), json=sent)
            assert "hunter2hunter2" in answer.text
            await door.gateway.idle(5)  # the order of the recordings
    await door.gateway.idle(5)
    report = await door.kernel.get(f"/instructions/{attempt.instruction}/wire")
    assert (report["schema"], report["total"], report["next"]) == ("awk/wire/1", 2, None)
    first, second = report["exchanges"]
    assert (first["n"], first["attempt"], first["model"], first["status"]) == (1, 1, "m1", 200)
    assert first["response"] == {"echo": "[key] [PASSWORD]", "usage": {}}
    assert second["request"] == {"model": "m1", "messages": [{"role": "user", "content": "my password is [PASSWORD]"}]}
    stored = [bytes(body) for (body,) in door.kernel.reader.now(lambda conn: conn.execute("SELECT body FROM blobs"))]
    assert stored and not any(secret in body for body in stored for secret in (KEY.encode(), b"hunter2"))
    archive = await door.kernel.ask("GET", "/spaces/dm:alice/export")
    rows = [json.loads(line) for line in archive.body.splitlines() if b'"part":"wire"' in line]
    assert [row["row"]["exchange"]["n"] for row in rows] == [1, 2]
    page = await door.kernel.ask("GET", "/spaces/dm:alice/export?format=md")
    assert b"Recorded exchanges" in page.body and b"[PASSWORD]" in page.body
    parts = await door.kernel.get(f"/instructions/{attempt.instruction}/wire?limit=1")
    rest = await door.kernel.get(f"/instructions/{attempt.instruction}/wire?after={parts['next']}")
    assert parts["exchanges"] + rest["exchanges"] == report["exchanges"]


async def fails(line: Line, _hit: Hit) -> None:
    await line.reply(b"overloaded", 529, content_type="text/plain")


async def breaks_off(line: Line, _hit: Hit) -> None:
    await line.begin()
    await line.data({"half": 1})


SAID = 'data: {"half": 1}\n\n'


@pytest.mark.parametrize(("script", "status", "response"), [(fails, 529, "overloaded"), (breaks_off, 200, SAID)])
async def test_only_failures_are_recorded_where_errors_are_asked_for(
    door: Door, script: Any, status: int, response: str
) -> None:
    attempt, good = await leased(door.kernel), [True]

    async def play(line: Line, hit: Hit) -> None:
        await (line.reply(b"{}") if good[0] else script(line, hit))

    async with upstream(play) as provider, door.client() as client:
        placeholder = door.admit(provider.url, "gemini", record=recorder(door, attempt, agent(recording="errors")))
        for good[0] in (True, False):
            asked = client.build_request("POST", PATHS["gemini"], headers=credential("gemini", placeholder), json={})
            await client.send(asked, stream=True)
    async with upstream() as gone:
        pass
    lost = door.admit(gone.url, record=recorder(door, attempt, agent(recording="errors")))
    assert (await door.ask(lost)).status_code == 502
    await door.gateway.idle(5)
    report = await door.kernel.get(f"/instructions/{attempt.instruction}/wire")
    assert {(one["status"], one["response"]) for one in report["exchanges"]} == {(status, response), (None, None)}


def growing(count: int) -> list[bytes]:
    """The requests of a conversation: each repeats the one before it."""
    said = [{"role": "user", "content": f"{n} " + "word " * 2000} for n in range(count)]
    return [json.dumps({"max": 1, "messages": said[: n + 1], "system": "s" * 20_000}).encode() for n in range(count)]


async def test_equal_bodies_are_stored_once_and_all_are_shown_whole(door: Door) -> None:
    attempt, bodies = await leased(door.kernel), growing(40)
    keep = recorder(door, attempt, agent(recording="on"))
    for body in [*bodies, *bodies]:
        await keep(WireRecord("m1", body, b"{}", 200, 1))
    stored = door.kernel.reader.now(lambda conn: conn.execute("SELECT sum(length(body)) FROM blobs").get)
    assert int(stored) < sum(map(len, bodies)) + 1000
    report = door.kernel.reader.now(exchanges.report, attempt.instruction, 0, 1000)
    assert [one.request for one in report.exchanges] == [json.loads(body) for body in bodies[: len(report.exchanges)]]
    pages, after = 0, 0
    while True:
        page = door.kernel.reader.now(exchanges.report, attempt.instruction, after, 1000)
        pages += len(page.exchanges)
        if page.next is None:
            break
        after = int(page.next)
    assert pages == 80


async def test_recording_stops_at_its_limit(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchanges, "INSTRUCTION_BYTES", 1000)
    attempt = await leased(door.kernel)
    for n in range(3):
        exchange = WireRecord("m1", b"%d" % n * 300, b"x" * 300, 200, 1)
        await door.kernel.writer.commit(exchanges.add, attempt.instruction, 1, exchange, 0)
    assert door.kernel.reader.now(exchanges.report, attempt.instruction, 0, 10).total == 1


async def test_recordings_are_deleted_with_old_work(door: Door) -> None:
    attempt = await leased(door.kernel)
    exchange = WireRecord("m1", b"{}", b"{}", 200, 1)
    await door.kernel.writer.commit(exchanges.add, attempt.instruction, 1, exchange, 0)
    assert (await door.kernel.ask("POST", f"/instructions/{attempt.instruction}/cancel")).status == 200
    old = door.kernel.reader.now(with_data, before=LATER)
    await door.kernel.writer.commit(sweep_instructions, old, LATER)
    assert (await door.kernel.get(f"/instructions/{attempt.instruction}/wire"))["exchanges"] == []
    assert door.kernel.reader.now(with_data, before=LATER) == ()


async def test_an_unknown_instruction_is_not_found(door: Door) -> None:
    assert (await door.kernel.ask("GET", "/instructions/i99/wire")).status == 404
