"""Attempts and the dispatcher, on a real store: whatever happens, no work stays open for ever."""

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import apsw
import msgspec
import pytest
import trio

from kernel.agents.registration import register
from kernel.agents.resources import NOTHING, AgentResources, resources_of
from kernel.agents.trust import agent_units
from kernel.procs.launcher import Launcher
from kernel.procs.spec import SpawnTransient, Spec
from kernel.services import start_frame
from kernel.services.dispatcher import Dispatcher
from kernel.services.kept_workers import WorkerPlace
from kernel.services.preparation import Preparation
from kernel.services.work_places import WorkPlace, WorkPlaces
from kernel.store import circuit_breakers, instructions
from kernel.store.transitions.append import append
from kernel.store.transitions.close import cancel
from kernel.store.transitions.lease import Leased
from kernel.store.transitions.steering import pause_agent, resume_agent
from protocol.agent import AgentDefinition
from protocol.errors import UNREACHED
from protocol.instruction import Usage
from protocol.ipc import Entry, Error, Exited, Ready, Result, Start, Stop
from protocol.message import Event
from protocol.names import AgentKey
from protocol.ndjson import encode
from protocol.project import ProjectDefinition
from protocol.trust import Grant
from tests.kernel.services.kernel_core import Core, PlayedLauncher, PlayedWorker, core

DONE = Result(status="done", text="hi")
ALICE = AgentKey("alice")


def hi(k: int = 0, *, last: bool = False) -> Entry:
    return Entry(k=k, kind="reply", text="hi", stop_reason="end_turn", last=last)


ATTEMPTS = "SELECT instruction, ended_ms IS NOT NULL, outcome, exit FROM attempts ORDER BY instruction"


def attempts_of(it: Core) -> list[tuple[object, ...]]:
    """Number, whether it has ended, how, and with which exit."""
    return it.reader.now(lambda conn: cast("list[tuple[object, ...]]", conn.execute(ATTEMPTS).fetchall()))


@pytest.mark.promise("P3")
async def test_a_reply_is_there_before_its_worker_has_left_and_its_agent_begins_nothing_until_then(it: Core) -> None:
    """The next attempt of an agent never meets the last one's processes, and who waits for a reply not either."""
    first = await it.send()
    worker = await it.launcher.next()
    second = await it.send()
    await worker.say(hi(last=True), DONE)
    assert await it.until(first, lambda status: status not in ("leased", "running")) == "done"
    await trio.testing.wait_all_tasks_blocked(0.05)
    assert (it.status(second), len(it.launcher.spawned)) == ("queued", 1)
    assert attempts_of(it) == [(1, 0, None, None)]
    await worker.leave(Exited(code=3))
    await (await it.launcher.next(2)).say(hi(last=True), DONE)
    assert await it.until(second, lambda status: status not in ("queued", "leased", "running")) == "done"
    assert attempts_of(it)[0] == (1, 1, "done", "3")


class _SlowToFinish(Preparation):
    """What is in the working tree takes its time to be committed."""

    async def finish(self, leased: Leased) -> None:
        with trio.move_on_after(0.3):
            await trio.sleep_forever()


async def test_no_limit_of_time_takes_back_a_reply_that_was_there(it: Core, tmp_path: Path) -> None:
    text = "backend: mock\nmock:\n  - text: hi\ntimeouts:\n  total: 0.1s\n"
    (tmp_path / ".agents/alice.yaml").write_text(text)
    services = it.attempts.services  # pyright: ignore[reportPrivateUsage]
    it.attempts.services = msgspec.structs.replace(  # pyright: ignore[reportPrivateUsage]
        services, places=WorkPlaces(WorkPlace(launcher=cast("Launcher", it.launcher), preparation=_SlowToFinish()))
    )
    instruction = (await it.dispatcher.append(it.draft(), None)).instruction_ids[0]
    worker = await it.launcher.next()
    entry = msgspec.structs.replace(hi(last=True), usage=Usage(input_tokens=10))
    await worker.outbox.send_all(b"".join(map(encode, (Ready(pid=1, version="t"), entry, DONE))))
    assert await it.until(instruction, lambda status: status not in ("leased", "running")) == "done"
    assert it.reader.now(_booked) == [(1, 10)]
    await worker.leave(Exited(code=0))


def _booked(conn: apsw.Connection) -> list[tuple[object, ...]]:
    return list(conn.execute("SELECT entries, input_tokens FROM instructions"))


async def test_the_last_entry_and_the_end_are_one_commit(tmp_path: Path) -> None:
    async with core(tmp_path, PlayedLauncher()) as it:
        commits: list[list[str]] = []
        publish = it.writer._publish  # pyright: ignore[reportPrivateUsage]

        def note(events: Sequence[Event]) -> None:
            commits.append([event.type for event in events])
            publish(events)

        it.writer._publish = note  # pyright: ignore[reportPrivateUsage]
        instruction = (await it.dispatcher.append(it.draft(), None)).instruction_ids[0]
        assert it.status(instruction) == "leased"
        worker = await it.launcher.next()
        await worker.outbox.send_all(b"".join(map(encode, (Ready(pid=1, version="t"), hi(last=True), DONE))))
        await it.until(instruction, lambda status: status == "done")
        await worker.leave(Exited(code=0))
        await it.dispatcher.drain(0.0)
    assert commits[:2] == [
        ["message", "instruction.queued", "instruction.leased"],
        ["attempt.started", "instruction.step", "message", "instruction.ended"],
    ]
    assert ["attempt.ended"] in commits[2:]


async def test_a_message_to_an_agent_that_has_replied_is_leased_at_once_and_begun_when_its_worker_has_left(
    it: Core,
) -> None:
    first = (await it.dispatcher.append(it.draft(), None)).instruction_ids[0]
    worker = await it.launcher.next()
    await worker.say(hi(last=True), DONE)
    await it.until(first, lambda status: status == "done")
    await trio.testing.wait_all_tasks_blocked()
    second = (await it.dispatcher.append(it.draft(), None)).instruction_ids[0]
    await trio.testing.wait_all_tasks_blocked(0.05)
    assert (it.status(second), len(it.launcher.spawned)) == ("leased", 1)
    await worker.leave(Exited(code=0))
    await (await it.launcher.next(2)).say(hi(last=True), DONE)
    assert await it.until(second, lambda status: status != "leased") == "done"


async def test_work_that_was_leased_for_a_place_not_yet_left_can_be_cancelled(it: Core) -> None:
    """It never gets a process; and what comes then still waits for the worker that is leaving."""
    first = (await it.dispatcher.append(it.draft(), None)).instruction_ids[0]
    worker = await it.launcher.next()
    await worker.say(hi(last=True), DONE)
    await it.until(first, lambda status: status == "done")
    await trio.testing.wait_all_tasks_blocked()
    second = (await it.dispatcher.append(it.draft(), None)).instruction_ids[0]
    await trio.testing.wait_all_tasks_blocked()
    await it.writer.commit(cancel, second)
    await trio.testing.wait_all_tasks_blocked(0.05)
    third = (await it.dispatcher.append(it.draft(), None)).instruction_ids[0]
    await trio.testing.wait_all_tasks_blocked(0.05)
    assert (it.status(second), it.status(third), len(it.launcher.spawned)) == ("cancelled", "queued", 1)
    await worker.leave(Exited(code=0))
    await (await it.launcher.next(2)).say(hi(last=True), DONE)
    assert await it.until(third, lambda status: status not in ("queued", "leased")) == "done"


async def test_a_message_to_an_agent_that_may_not_begin_waits_and_takes_nobodys_place(it: Core) -> None:
    await it.writer.commit(pause_agent, ALICE)
    await trio.testing.wait_all_tasks_blocked()
    first = (await it.dispatcher.append(it.draft(), None)).instruction_ids[0]
    await trio.testing.wait_all_tasks_blocked(0.05)
    assert (it.status(first), it.launcher.spawned) == ("queued", [])
    await it.writer.commit(resume_agent, ALICE)
    worker = await it.launcher.next()
    second = (await it.dispatcher.append(it.draft(), None)).instruction_ids[0]
    assert it.status(second) == "queued"
    await worker.finish(hi(last=True), DONE)
    await (await it.launcher.next(2)).say(hi(last=True), DONE)
    assert await it.until(second, lambda status: status not in ("queued", "leased", "running")) == "done"


async def test_an_attempt_that_leaves_has_the_queue_looked_at_only_where_there_is_one(
    it: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str] = []
    look = Dispatcher.run_once

    def noted(dispatcher: Dispatcher, nursery: trio.Nursery) -> int:
        looks.append("look")
        return look(dispatcher, nursery)

    monkeypatch.setattr(Dispatcher, "run_once", noted)
    instruction = (await it.dispatcher.append(it.draft(), None)).instruction_ids[0]
    worker = await it.launcher.next()
    await worker.say(hi(last=True), DONE)
    await it.until(instruction, lambda status: status == "done")
    await worker.leave(Exited(code=0))
    await it.attempts.until_gone(lambda _: True)
    await trio.testing.wait_all_tasks_blocked(0.05)
    assert (it.attempts.running, looks) == ({}, [])
    instruction = (await it.dispatcher.append(it.draft(), None)).instruction_ids[0]
    worker = await it.launcher.next(2)
    following = (await it.dispatcher.append(it.draft(), None)).instruction_ids[0]
    await worker.finish(hi(last=True), DONE)
    await (await it.launcher.next(3)).say(hi(last=True), DONE)
    assert await it.until(following, lambda status: status not in ("queued", "leased", "running")) == "done"


@pytest.mark.promise("P11")
async def test_with_a_message_what_is_first_in_the_queue_is_leased(it: Core) -> None:
    older = await it.writer.commit(append, it.draft())
    place = WorkerPlace(ALICE, None, None, lambda _place: None)
    appended, attempt = await it.attempts.append_and_lease(it.draft(), None, place)
    assert attempt is not None
    assert attempt.leased.instruction == older.instruction_ids[0]
    assert appended.instruction_ids != older.instruction_ids


async def test_a_client_that_leaves_while_its_message_is_leased_leaves_no_lease_without_an_attempt(it: Core) -> None:
    with trio.CancelScope() as client:
        client.cancel()
        await it.dispatcher.append(it.draft(), None)
    await trio.testing.wait_all_tasks_blocked(0.05)
    opened = it.reader.now(instructions.live)
    assert len(opened) == len(it.launcher.spawned)


@pytest.mark.promise("SF03")
async def test_a_store_that_is_full_when_an_attempt_ends_only_delays_it(it: Core) -> None:
    instruction = await it.send()
    worker = await it.launcher.next()
    await worker.say()
    await it.until(instruction, lambda status: status != "queued")

    def fill(tx: object) -> None:
        it.full = tx.conn.execute("PRAGMA page_count").get  # type: ignore[attr-defined]
        tx.conn.execute(f"PRAGMA max_page_count = {it.full}")  # type: ignore[attr-defined]

    def empty(tx: object) -> None:
        tx.conn.execute("PRAGMA max_page_count = 1000000")  # type: ignore[attr-defined]

    await it.writer.commit(fill)
    await worker.finish(Entry(k=0, kind="reply", text="x" * 200_000, stop_reason="end_turn"), DONE)
    await trio.testing.wait_all_tasks_blocked(0.3)
    assert it.status(instruction) == "leased"
    await it.writer.commit(empty)
    assert await it.until(instruction, lambda status: status in ("done", "dead", "failed")) == "done"


@pytest.mark.promise("SF11")
async def test_a_foreign_lock_on_the_database_only_delays_what_is_booked(it: Core, tmp_path: Path) -> None:
    instruction = await it.send()
    worker = await it.launcher.next()
    stranger = apsw.Connection(str(tmp_path / "agent-worker.db"))
    stranger.execute("BEGIN IMMEDIATE")
    await worker.finish(Entry(k=0, kind="reply", text="hi", stop_reason="end_turn"), DONE)
    await trio.testing.wait_all_tasks_blocked(0.2)
    stranger.execute("ROLLBACK")
    stranger.close()
    assert await it.until(instruction, lambda status: status in ("done", "dead", "failed")) == "done"


@pytest.mark.promise("P8")
async def test_a_stop_does_not_wait_for_a_process_that_never_starts(tmp_path: Path) -> None:
    async with core(tmp_path, PlayedLauncher(hangs=True)) as it:
        instruction = await it.send()
        await it.launcher.arrived.wait()
        with trio.fail_after(5):
            await it.dispatcher.drain(0.0)
        assert it.status(instruction) == "queued"


@pytest.mark.promise("P8")
async def test_a_stop_reaches_work_that_is_being_leased(it: Core) -> None:
    instruction = await it.send()
    with trio.fail_after(10):
        await it.dispatcher.drain(0.0)
    assert it.status(instruction) == "queued"


def trust(it: Core, own: AgentResources) -> None:
    """Keep the user's consent to what alice demands."""
    (found,) = agent_units(it.catalog.agent("alice").definition, it.catalog.project(), own)
    it.kept.append(Grant(subject=found.subject, demands=found.demands, digest=found.digest, at=""))


def trust_program(it: Core, folder: Path) -> None:
    (folder / "run").write_text("#!/bin/sh\n")
    (folder / "run").chmod(0o755)
    trust(it, resources_of(it.catalog.agent("alice").definition, it.catalog.project(), folder))


async def first_alone_works(it: Core, worker: PlayedWorker, first: str, second: str = "") -> None:
    """The first instruction is done, and the second one, or the next, starts no worker."""
    await worker.finish(DONE)
    assert await it.until(first, lambda status: status == "done")
    second = second or await it.send()
    assert await it.until(second, lambda status: status in ("failed", "done")) == "failed"
    assert len(it.launcher.spawned) == 1


@pytest.mark.promise("P19")
async def test_an_edit_that_needs_trust_is_not_run_for_a_message_that_was_sent_before(it: Core, tmp_path: Path) -> None:
    first = await it.send()
    worker = await it.launcher.next()
    second = await it.send()
    (tmp_path / ".agents/alice.yaml").write_text("backend: mock\nmock:\n  - shell: 'touch pwned'\n")
    await first_alone_works(it, worker, first, second)


@pytest.mark.promise("P19")
async def test_a_program_that_was_written_anew_is_not_run_for_what_was_kept(it: Core, tmp_path: Path) -> None:
    (tmp_path / ".agents/alice.yaml").write_text("backend: exec\ncommand: [./run]\n")
    trust_program(it, tmp_path)
    first = await it.send()
    worker = await it.launcher.next()
    (tmp_path / "run").write_text("#!/bin/sh\ntouch pwned\n")
    await first_alone_works(it, worker, first)


@pytest.mark.promise("P10")
async def test_a_program_writes_no_more_than_its_quota_of_bytes_over_all_attempts(it: Core, tmp_path: Path) -> None:
    (tmp_path / ".agents/alice.yaml").write_text(
        "backend: exec\ncommand: [./run]\nlimits: {bytes: 2KiB}\nretry: {backoff: 0}\n"
    )
    await register(it.catalog, it.writer, it.reader)
    trust_program(it, tmp_path)
    instruction = await it.send()
    first = await it.launcher.next()
    await first.finish(Entry(k=0, kind="reply", text="x" * 1500), Error(cause="network", text="gone"))
    second = await it.launcher.next(2)
    await second.say(Entry(k=1, kind="reply", text="y" * 1500, usage=Usage(input_tokens=7)))
    assert isinstance(await second.hear(), Start)
    stop = await second.hear()
    assert isinstance(stop, Stop)
    assert "2,048 bytes of stored text (limits.bytes)" in stop.reason
    await second.leave(Exited(code=0))
    assert await it.until(instruction, lambda status: status not in ("queued", "leased", "running")) == "incomplete"
    conn = it.database.reader()
    bodies = [bytes(body) for (body,) in conn.execute("SELECT body FROM entries ORDER BY k")]
    assert [b"xxx" in body or b"yyy" in body for body in bodies] == [True, False]
    assert conn.execute("SELECT cause, input_tokens FROM instructions").fetchall() == [("resource", 7)]
    told = conn.execute("SELECT count(*) FROM events WHERE type = 'quota.reached'").get
    assert (told, len(it.launcher.spawned)) == (1, 2)


async def test_what_our_own_workers_write_is_in_no_quota(it: Core, tmp_path: Path) -> None:
    (tmp_path / ".agents/alice.yaml").write_text("backend: mock\nmock: [{text: hi}]\nlimits: {bytes: 1KiB}\n")
    await register(it.catalog, it.writer, it.reader)
    instruction = await it.send()
    worker = await it.launcher.next()
    await worker.finish(Entry(k=0, kind="reply", text="x" * 5000, stop_reason="end_turn"), DONE)
    assert await it.until(instruction, lambda status: status not in ("queued", "leased", "running")) == "done"


@pytest.mark.promise("P9")
async def test_what_an_agent_brings_along_is_read_beside_the_kernels_loop(
    it: Core, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readers: list[int] = []

    def reading(definition: AgentDefinition, project: ProjectDefinition, root: Path) -> AgentResources:
        readers.append(threading.get_ident())
        return resources_of(definition, project, root)

    monkeypatch.setattr(start_frame, "resources_of", reading)
    for number, tools in enumerate(("[]", "[skills]"), 1):
        (tmp_path / ".agents/alice.yaml").write_text(f"backend: mock\nmock: [{{text: hi}}]\ntools: {tools}\n")
        sent = await it.send()
        worker = await it.launcher.next(number)
        await worker.finish(DONE)
        await it.until(sent, lambda status: status == "done")
        assert len(readers) == number - 1
    assert threading.get_ident() not in readers


@pytest.mark.promise("P19")
async def test_kept_consent_counts_for_each_attempt_until_it_is_taken_back(it: Core, tmp_path: Path) -> None:
    (tmp_path / ".agents/alice.yaml").write_text("backend: mock\nmock:\n  - shell: make\n")
    trust(it, NOTHING)
    first = await it.send()
    worker = await it.launcher.next()
    it.kept.clear()
    await first_alone_works(it, worker, first)


@pytest.mark.promise("PF03")
async def test_refused_credentials_are_asked_for_once_and_cost_nothing(it: Core) -> None:
    """Exit 0 after an error with 403: the breaker opens, nobody tries again, no attempt is charged."""
    instruction, behind = await it.send(), await it.send()
    worker = await it.launcher.next()
    await worker.finish(Error(cause="auth", text="no entry", http_status=403))
    await it.until(instruction, lambda status: status == "waiting")
    (breaker,) = it.reader.now(circuit_breakers.breakers)
    assert (breaker.state, breaker.reason) == ("open", "credentials")
    it.now_ms += 24 * 3600 * 1000
    await it.deadlines.run_once()
    await trio.testing.wait_all_tasks_blocked(0.05)
    assert (it.status(instruction), it.status(behind), len(it.launcher.spawned)) == ("waiting", "queued", 1)
    assert charged(it) == [(0, 0, 0)]


@pytest.mark.promise("P9")
async def test_a_provider_is_not_to_blame_where_the_kernels_own_tools_were_not_reached(it: Core) -> None:
    instruction = await it.send()
    for code, counted in ((UNREACHED, 0), (None, 1)):
        worker = await it.launcher.next(1 + counted)
        await worker.finish(Error(cause="network", text="no connection", code=code))
        await it.until(instruction, lambda status: status == "queued")
        assert len(it.reader.now(circuit_breakers.breakers)) == counted
        it.now_ms += 60_000
        await it.send()  # so that it is looked for work


async def test_a_failure_that_passes_is_tried_again_after_its_time(it: Core) -> None:
    instruction = await it.send()
    worker = await it.launcher.next()
    await worker.finish(Error(cause="rate_limited", text="slow down", http_status=429, retry_after=60.0))
    await it.until(instruction, lambda status: status == "waiting")
    it.now_ms += 59_999
    assert await it.deadlines.run_once() == pytest.approx(0.001)
    it.now_ms += 1
    await it.deadlines.run_once()
    probe = await it.launcher.next(2)
    await probe.finish(Entry(k=0, kind="reply", text="hi", stop_reason="end_turn"), DONE)
    assert await it.until(instruction, lambda status: status == "done")
    assert it.reader.now(circuit_breakers.breakers) == ()


class Short(PlayedLauncher):
    """A machine that has no process to spare, the first time."""

    refused = False

    async def spawn(self, spec: Spec) -> PlayedWorker:
        if not self.refused:
            self.refused = True
            self.arrived.set()
            raise SpawnTransient("EAGAIN: fork")
        return await super().spawn(spec)


@pytest.mark.promise("PF17")
async def test_a_machine_short_of_processes_is_waited_for(tmp_path: Path) -> None:
    async with core(tmp_path, Short()) as it:
        instruction = await it.send()
        await it.launcher.arrived.wait()
        await it.until(instruction, lambda status: status == "queued")
        it.now_ms += 30_000
        await it.deadlines.run_once()
        worker = await it.launcher.next()
        await worker.finish(Entry(k=0, kind="reply", text="hi", stop_reason="end_turn"), DONE)
        assert await it.until(instruction, lambda status: status == "done")
        assert charged(it) == [(1, 0, 0)]


@pytest.mark.promise("PF16")
async def test_a_program_that_cannot_be_run_fails_at_once_and_is_no_crash(it: Core) -> None:
    instruction = await it.send()
    worker = await it.launcher.next()
    await worker.leave(Exited(failed="ENOENT: /bin/nope"))
    assert await it.until(instruction, lambda status: status in ("failed", "dead", "waiting")) == "failed"
    assert charged(it)[0][1:] == (0, 0)
    assert len(it.launcher.spawned) == 1


CHARGED = """
SELECT i.attempts, i.crashes, (SELECT count(*) FROM crashes) FROM instructions AS i ORDER BY i.id LIMIT 1
"""


def charged(it: Core) -> list[tuple[object, ...]]:
    """Attempts and crashes of the first instruction, and crashes of anybody."""
    return cast("list[tuple[object, ...]]", it.database.reader().execute(CHARGED).fetchall())


@pytest.mark.promise("PF25")
async def test_who_waits_for_a_process_is_seen_to(tmp_path: Path) -> None:
    async with core(tmp_path, PlayedLauncher(hangs=True)) as it:
        instruction = await it.send()
        await it.launcher.arrived.wait()
        assert it.attempts.running[instruction].doing == "waiting for its worker to start"
