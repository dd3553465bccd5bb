"""Attempts on nodes: placed by what they need, charged for nothing that a node does, and waiting where none fits."""

from pathlib import Path
from typing import cast

import pytest
import trio
import trio.testing

from kernel.agents.registration import register
from kernel.policy.agent_status import readiness
from kernel.policy.needs import needs
from kernel.procs.spec import SpawnTransient, Spec
from kernel.services.work_places import PATIENCE_MS, PAUSE_MS
from kernel.store import agents, instruction_views, instructions
from kernel.store.needs import snapshot
from kernel.store.transitions.append import append
from kernel.store.transitions.steering import reset_agent
from protocol.ipc import Entry, Error, Exited, Result
from protocol.names import AgentKey
from tests.kernel.services.kernel_core import Core, PlayedLauncher, PlayedWorker, core
from tests.kernel.services.played_nodes import PlayedNode, PlayedNodes, places_with
from tests.shorthand import present

DONE = Result(status="done", text="hi")
REPLY = Entry(k=0, kind="reply", text="hi", stop_reason="end_turn", last=True)
LOST = Exited(signal=9, killed=True, lost=True)
ON_GPU = "backend: mock\nmock:\n  - text: hi\nneeds:\n  labels: [gpu]\n"

pytestmark = pytest.mark.promise("P88")

ATTEMPTS = "SELECT instruction, epoch, node, outcome FROM attempts ORDER BY instruction, epoch"
CHARGES = "SELECT state, attempts, crashes FROM instructions WHERE id = 1"
RESTARTS = "SELECT state, restarts, crash_streak, (SELECT count(*) FROM crashes) FROM agents WHERE key = 'alice'"


def read(it: Core, question: str) -> list[tuple[object, ...]]:
    return it.reader.now(lambda conn: cast("list[tuple[object, ...]]", conn.execute(question).fetchall()))


async def on_gpu(it: Core, root: Path, text: str = ON_GPU) -> None:
    (root / ".agents/alice.yaml").write_text(text)
    await register(it.catalog, it.writer, it.reader)


async def finish(worker: PlayedWorker) -> None:
    await worker.finish(REPLY, DONE)


async def test_who_asks_for_a_label_works_on_a_node_that_has_it_and_all_say_so(tmp_path: Path) -> None:
    here, nodes = PlayedLauncher(), PlayedNodes(PlayedNode("n0", labels=()), PlayedNode("n1"))
    async with core(tmp_path, here, places_with(nodes, here)) as it:
        (tmp_path / ".agents/bob.yaml").write_text("backend: mock\nmock:\n  - text: hi\n")
        await on_gpu(it, tmp_path)
        with it.feed.subscribe(types={"instruction.leased"}) as events:
            instruction = await it.send()
            worker = await nodes.by_name["n1"].launcher.next()
            assert (await anext(events)).data["node"] == "n1"
        (row,) = [one.shown for one in it.reader.now(agents.ps, it.now_ms) if one.shown.name == "alice"]
        assert row.node == "n1"
        await it.writer.commit(append, Core.draft_to("bob"))
        await finish(await here.next())
        await finish(worker)
        assert await it.until(instruction, lambda status: status not in ("leased", "running")) == "done"
        info = present(it.reader.now(instruction_views.info, instruction, it.now_ms))
        assert [one.node for one in info.attempts] == ["n1"]
    assert len(here.spawned) == 1
    assert nodes.by_name["n0"].launcher.spawned == []


async def test_the_death_of_a_node_is_charged_to_nobody_and_its_work_goes_on_at_once_however_often(
    tmp_path: Path,
) -> None:
    """Twelve in a row: neither counter, nor restart budget, nor breaker; and it is never dead."""
    here, nodes = PlayedLauncher(), PlayedNodes(PlayedNode("n1"))
    async with core(tmp_path, here, places_with(nodes, here)) as it:
        await on_gpu(it, tmp_path)
        instruction = await it.send()
        for number in range(1, 13):
            worker = await nodes.by_name["n1"].launcher.next(number)
            if number % 3 == 0:
                await worker.say()
            if number % 4 == 0:
                await worker.say(Error(cause="network", text="the provider cannot be reached"))
            await worker.leave(LOST)
        await finish(await nodes.by_name["n1"].launcher.next(13))
        assert await it.until(instruction, lambda status: status in ("done", "dead", "failed")) == "done"
        assert {outcome for *_, outcome in read(it, ATTEMPTS)[:-1]} == {"node_lost"}
        assert read(it, CHARGES) == [("done", 1, 0)]
        assert read(it, RESTARTS) == [("active", 0, 0, 0)]
        assert read(it, "SELECT * FROM breakers") == []


class NotConnected(PlayedLauncher):
    """A node that was up when the work was leased and is not any more."""

    async def spawn(self, spec: Spec) -> PlayedWorker:
        """Nothing."""
        self.nodes.by_name["n1"].state = "connecting"
        raise SpawnTransient(f"cannot start {spec.attempt}: node n1 is not connected")

    nodes: PlayedNodes


async def test_a_node_that_is_gone_when_a_worker_is_to_start_there_costs_nothing_and_another_takes_it(
    tmp_path: Path,
) -> None:
    here, gone = PlayedLauncher(), NotConnected()
    nodes = gone.nodes = PlayedNodes(PlayedNode("n1", launcher=gone), PlayedNode("n2", workers=1))
    async with core(tmp_path, here, places_with(nodes, here)) as it:
        await on_gpu(it, tmp_path)
        instruction = await it.send()
        await finish(await nodes.by_name["n2"].launcher.next())
        assert await it.until(instruction, lambda status: status in ("done", "dead", "failed")) == "done"
        assert [row[:3] for row in read(it, ATTEMPTS)] == [(1, 1, "n1"), (1, 2, "n2")]
        assert read(it, ATTEMPTS)[0][3] == "node_lost"
        assert read(it, CHARGES) == [("done", 1, 0)]


async def test_without_a_node_that_fits_it_waits_in_its_place_and_after_a_minute_a_person_is_told(
    tmp_path: Path,
) -> None:
    here, nodes = PlayedLauncher(), PlayedNodes(PlayedNode("n1", state="lost"))
    async with core(tmp_path, here, places_with(nodes, here)) as it:
        await on_gpu(it, tmp_path)
        (tmp_path / ".agents/bob.yaml").write_text("backend: mock\nmock:\n  - text: hi\n")
        await register(it.catalog, it.writer, it.reader)
        instruction = await it.send()
        other = (await it.writer.commit(append, Core.draft_to("bob"))).instruction_ids[0]
        await finish(await here.next())
        assert await it.until(other, lambda status: status not in ("queued", "leased", "running")) == "done"
        assert it.status(instruction) == "queued"
        it.now_ms += 60_000
        await register(it.catalog, it.writer, it.reader)
        nodes.announce()
        assert await it.until(instruction, lambda status: status == "waiting") == "waiting"
        (need,) = needs(it.reader.now(snapshot, it.now_ms))
        assert (need.kind, need.agent, need.blocks) == ("node", "alice", (instruction,))
        assert "labels gpu" in need.text
        assert [one.command for one in need.actions] == ["awk reset alice", f"awk cancel {instruction}"]
        await it.writer.commit(reset_agent, AgentKey("alice"))
        assert await it.until(instruction, lambda status: status == "queued") == "queued"
        it.now_ms += 60_000
        nodes.announce()
        await trio.testing.wait_all_tasks_blocked()
        it.now_ms += 60_000
        nodes.announce()
        assert await it.until(instruction, lambda status: status == "waiting") == "waiting"
        nodes.change("n1", "up")
        await finish(await nodes.by_name["n1"].launcher.next())
        assert await it.until(instruction, lambda status: status not in ("waiting", "queued", "leased", "running"))
        assert it.status(instruction) == "done"


async def test_a_person_is_told_of_it_also_while_every_machine_is_at_work(tmp_path: Path) -> None:
    here, nodes = PlayedLauncher(), PlayedNodes()
    async with core(tmp_path, here, places_with(nodes, here)) as it:
        for name in ("bob", "carol", "dave", "erin"):
            (tmp_path / f".agents/{name}.yaml").write_text("backend: mock\nmock:\n  - text: hi\n")
        await on_gpu(it, tmp_path)
        for number, name in enumerate(("bob", "carol", "dave", "erin"), 1):
            await it.writer.commit(append, Core.draft_to(name))
            await here.next(number)
        instruction = await it.send()
        for milliseconds in (PAUSE_MS, PATIENCE_MS):
            it.now_ms += milliseconds
            nodes.announce()
            await trio.testing.wait_all_tasks_blocked()
        assert await it.until(instruction, lambda status: status == "waiting") == "waiting"
        assert len(here.spawned) == 4
        (need,) = needs(it.reader.now(snapshot, it.now_ms))
        assert (need.kind, need.agent) == ("node", "alice")
        for worker in here.spawned:
            await finish(worker)


async def test_what_waits_for_a_node_goes_on_here_once_its_file_asks_for_none(tmp_path: Path) -> None:
    here, nodes = PlayedLauncher(), PlayedNodes()
    async with core(tmp_path, here, places_with(nodes, here)) as it:
        await on_gpu(it, tmp_path)
        instruction = await it.send()
        await trio.testing.wait_all_tasks_blocked(0.01)
        it.now_ms += 60_000
        nodes.announce()
        await it.until(instruction, lambda status: status == "waiting")
        stands = it.reader.now(instructions.of, [instruction], it.now_ms)
        assert [(one.kind, one.reason) for one in stands.values()] == [("person", "node")]
        assert readiness("waiting", "node", 0, "active", None, 0, 0, it.now_ms).kind == "person"
        await on_gpu(it, tmp_path, "backend: mock\nmock:\n  - text: hi\n")
        await finish(await here.next())
        assert await it.until(instruction, lambda status: status in ("done", "dead", "failed")) == "done"


async def test_a_node_takes_as_many_as_its_workers_and_the_others_wait_their_turn(tmp_path: Path) -> None:
    here, nodes = PlayedLauncher(), PlayedNodes(PlayedNode("n1", workers=2))
    async with core(tmp_path, here, places_with(nodes, here)) as it:
        names = [f"a{n}" for n in range(5)]
        for name in names:
            (tmp_path / f".agents/{name}.yaml").write_text(ON_GPU)
        await register(it.catalog, it.writer, it.reader)
        sent = [(await it.writer.commit(append, Core.draft_to(name))).instruction_ids[0] for name in names]
        launcher = nodes.by_name["n1"].launcher
        for number in range(1, 6):
            worker = await launcher.next(number)
            assert len(launcher.spawned) <= number + 1
            it.now_ms += 60_000
            await finish(worker)
        for one in sent:
            assert await it.until(one, lambda status: status not in ("queued", "leased", "running")) == "done"
    assert here.spawned == []


async def test_a_node_that_is_drained_gets_nothing_new_and_keeps_what_it_has(tmp_path: Path) -> None:
    here, nodes = PlayedLauncher(), PlayedNodes(PlayedNode("n1"), PlayedNode("n2", workers=1))
    async with core(tmp_path, here, places_with(nodes, here)) as it:
        await on_gpu(it, tmp_path)
        nodes.by_name["n2"].state = "lost"
        first = await it.send()
        worker = await nodes.by_name["n1"].launcher.next()
        nodes.change("n2", "up")
        nodes.change("n1", "draining")
        await finish(worker)
        assert await it.until(first, lambda status: status not in ("leased", "running")) == "done"
        second = await it.send()
        await finish(await nodes.by_name["n2"].launcher.next())
        assert await it.until(second, lambda status: status not in ("queued", "leased", "running")) == "done"
        nodes.by_name["n1"].state = "up"
        third = await it.send()
        await finish(await nodes.by_name["n2"].launcher.next(2))
        assert await it.until(third, lambda status: status not in ("queued", "leased", "running")) == "done"


async def test_a_node_that_was_taken_away_is_one_that_is_lost(tmp_path: Path) -> None:
    here, nodes = PlayedLauncher(), PlayedNodes(PlayedNode("n1"))
    places = places_with(nodes, here)
    async with core(tmp_path, here, places) as it:
        await on_gpu(it, tmp_path)
        instruction = await it.send()
        worker = await nodes.by_name["n1"].launcher.next()
        gone = nodes.by_name.pop("n1")
        await worker.leave(LOST)
        await it.until(instruction, lambda status: status == "queued")
        nodes.by_name["n1"] = gone
        nodes.announce()
        await finish(await gone.launcher.next(2))
        assert await it.until(instruction, lambda status: status not in ("queued", "leased", "running")) == "done"
