"""An agent with a list of models: what its attempts ask after a failure, and when the first model is asked again."""

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import apsw
import pytest
import trio

from kernel.agents.registration import register
from kernel.policy.fallback import CLOSED_MS
from kernel.store import instruction_views
from kernel.store.agents import ps
from kernel.store.circuit_breakers import breakers
from kernel.store.transitions.append import append
from kernel.store.transitions.steering import resume_agent
from protocol.ipc import Entry, Error, Exited, Result, Start
from protocol.names import AgentKey
from protocol.ndjson import encode
from tests.kernel.services.kernel_core import Core, PlayedLauncher, PlayedWorker, core
from tests.shorthand import present

DONE = Result(status="done", text="hi")
SAID = Entry(k=0, kind="reply", text="hi", stop_reason="end_turn", last=True)
QUOTA = Error(cause="quota", text="no credit", http_status=402)
DOWN = Error(cause="overloaded", text="down", http_status=503)
AGENT = "backend: mock\nmodel: [mock/one, mock/two]\nretry: { backoff: 0s }\nmock:\n  - text: hi\n"
ONE, TWO = "mock/one", "mock/two"


@pytest.fixture
async def team(tmp_path: Path) -> AsyncGenerator[Core]:
    """A core whose alice has two models."""
    async with core(tmp_path, PlayedLauncher()) as it:
        (tmp_path / ".agents/alice.yaml").write_text(AGENT)
        await register(it.catalog, it.writer, it.reader)
        yield it


async def begun(it: Core, number: int) -> tuple[PlayedWorker, str]:
    """The worker that was started as the ``number``-th, and the model that it is to ask."""
    worker = await it.launcher.next(number)
    await worker.say()
    start = await worker.hear()
    assert isinstance(start, Start)
    return worker, start.model


async def report(it: Core, worker: PlayedWorker, *frames: Entry | Error | Result) -> None:
    with trio.fail_after(20), it.feed.subscribe(types=("attempt.ended",)) as ends:
        await worker.outbox.send_all(b"".join(map(encode, frames)))
        await worker.leave(Exited(code=0))
        await anext(ends)


async def attempt(it: Core, number: int, model: str, *frames: Entry | Error | Result) -> None:
    """Let the ``number``-th worker, which is to ask ``model``, report ``frames`` and leave."""
    worker, asked = await begun(it, number)
    assert asked == model
    await report(it, worker, *frames)


def _told(conn: apsw.Connection) -> list[dict[str, Any]]:
    found = conn.execute("SELECT CAST(data AS TEXT) FROM events WHERE type = 'model.fallback' ORDER BY seq")
    return [json.loads(str(data)) for (data,) in found]


def told(it: Core) -> list[dict[str, Any]]:
    """The changes of models in the log."""
    return it.reader.now(_told)


async def test_a_spent_account_is_no_end_where_there_is_another_model(team: Core) -> None:
    instruction = await team.send()
    await attempt(team, 1, ONE, QUOTA)
    assert team.reader.now(ps, team.now_ms)[0].shown.model == ONE
    await attempt(team, 2, TWO, SAID, DONE)
    assert await team.until(instruction, lambda status: status == "done")
    assert told(team) == [{"from": ONE, "to": TWO, "cause": "quota", "until": None}]
    shown = present(team.reader.now(instruction_views.info, instruction, team.now_ms))
    assert (shown.model, shown.tried) == (TWO, 1), "a change is not charged"
    assert [[one.model for one in row.models] for row in shown.attempts] == [[ONE], [TWO]]
    assert team.reader.now(ps, team.now_ms)[0].shown.model == TWO, "the model in use"


async def test_no_attempt_asks_a_closed_model_and_then_one_probes_it(team: Core, tmp_path: Path) -> None:
    await team.send()
    await attempt(team, 1, ONE, Error(cause="rate_limited", text="slow", http_status=429, retry_after=600.0))
    await attempt(team, 2, TWO, SAID, DONE)
    assert told(team)[0]["until"] == "1970-01-01T00:26:40.000Z"
    team.now_ms += 599_999
    await team.deadlines.run_once()
    await team.send()
    await attempt(team, 3, TWO, SAID, DONE)
    team.now_ms += 1
    await team.deadlines.run_once()
    assert [one.state for one in team.reader.now(breakers)] == ["open"], "nobody waits for it"
    await team.send()
    probe, asked = await begun(team, 4)
    assert (asked, [one.state for one in team.reader.now(breakers)]) == (ONE, ["half_open"])
    await report(team, probe, DOWN)
    await attempt(team, 5, TWO, SAID, DONE)
    assert [one["cause"] for one in told(team)] == ["rate_limit", "unavailable"], "a failed probe is conclusive"
    team.now_ms += CLOSED_MS
    await team.send()
    await attempt(team, 6, ONE, SAID, DONE)
    assert team.reader.now(breakers) == (), "it is well again"
    await team.send()
    await attempt(team, 7, ONE, SAID, DONE)
    assert len(told(team)) == 2


async def test_a_server_that_is_down_is_tried_three_times_and_its_tries_are_refunded(team: Core) -> None:
    instruction = await team.send()
    for number in (1, 2, 3):
        await attempt(team, number, ONE, DOWN)
        team.now_ms += 10_000
        await team.deadlines.run_once()
        team.dispatcher.go_on()
    await attempt(team, 4, TWO, DOWN)
    team.now_ms += 10_000
    team.dispatcher.go_on()
    await attempt(team, 5, TWO, SAID, DONE)
    assert await team.until(instruction, lambda status: status == "done")
    assert told(team) == [{"from": ONE, "to": TWO, "cause": "unavailable", "until": None}]
    assert present(team.reader.now(instruction_views.info, instruction, team.now_ms)).tried == 2


async def test_a_near_reset_is_waited_for(team: Core) -> None:
    instruction = await team.send()
    await attempt(team, 1, ONE, Error(cause="rate_limited", text="slow", http_status=429, retry_after=60.0))
    assert (team.status(instruction), told(team)) == ("waiting", [])
    team.now_ms += 60_000
    await team.deadlines.run_once()
    await attempt(team, 2, ONE, SAID, DONE)


@pytest.mark.parametrize(
    "error",
    [
        Error(cause="refusal", text="no"),
        Error(cause="invalid", text="bad request", http_status=400),
        Error(cause="auth", text="no entry", http_status=401),
    ],
)
async def test_what_another_model_cannot_help_changes_nothing(team: Core, error: Error) -> None:
    instruction = await team.send()
    await attempt(team, 1, ONE, error)
    assert team.status(instruction) in ("failed", "waiting")
    assert told(team) == []
    assert len(team.launcher.spawned) == 1


async def test_where_all_models_are_closed_the_work_waits_for_the_one_that_opens_first(team: Core) -> None:
    instruction = await team.send()
    await attempt(team, 1, ONE, Error(cause="rate_limited", text="slow", http_status=429, retry_after=3600.0))
    await attempt(team, 2, TWO, QUOTA)
    assert await team.until(instruction, lambda status: status == "waiting")
    assert len(told(team)) == 1, "there was nothing to change to"
    team.now_ms += CLOSED_MS
    await team.deadlines.run_once()
    await attempt(team, 3, TWO, SAID, DONE)
    assert await team.until(instruction, lambda status: status == "done")


async def test_unknown_models_fail_at_once(team: Core) -> None:
    instruction = await team.send()
    gone = Error(cause="invalid", text="no such model", http_status=404)
    await attempt(team, 1, ONE, gone)
    await attempt(team, 2, TWO, gone)
    assert (team.status(instruction), [one["cause"] for one in told(team)]) == ("failed", ["model"])


async def test_who_waits_for_a_model_takes_another_one_when_it_is_closed(team: Core, tmp_path: Path) -> None:
    """Without a reset, an attempt waits a little; once the model is closed, no work stays behind."""
    instruction = await team.send()
    slow = Error(cause="rate_limited", text="slow", http_status=429)
    for number in (1, 2, 3):
        await attempt(team, number, ONE, slow)
        team.now_ms += 20_000
        await team.deadlines.run_once()
    await attempt(team, 4, TWO, SAID, DONE)
    assert await team.until(instruction, lambda status: status == "done")
    assert [one["cause"] for one in told(team)] == ["rate_limit"]


async def test_a_resumed_agent_asks_its_first_model_at_once(team: Core) -> None:
    await team.send()
    await attempt(team, 1, ONE, QUOTA)
    await attempt(team, 2, TWO, SAID, DONE)
    await team.writer.commit(resume_agent, AgentKey("alice"))
    assert team.reader.now(breakers) == ()
    await team.writer.commit(append, team.draft())
    await attempt(team, 3, ONE, SAID, DONE)
