"""One agent in several workflows, and spoken to directly: one loop, one queue, and threads of their own."""

from pathlib import Path

import msgspec

from kernel.rule.draft import Draft, MemberSpec, RunSpec
from kernel.store import agents
from kernel.store.transitions.append import append
from protocol.ipc import Entry, Exited, Result, Start
from protocol.names import AgentKey, SpaceId, workflow_space
from protocol.workflow import Ref, WorkflowDefinition
from tests.kernel.services.kernel_core import Core, PlayedLauncher, core

ALICE = MemberSpec(name="alice", key=AgentKey("alice"), origin="file")


async def begin(it: Core, name: str) -> SpaceId:
    """A workflow that refers to alice, and gives her work."""
    definition = WorkflowDefinition(name=name, agents={"alice": Ref(ref="alice")})
    payload = RunSpec(
        name=name,
        tag="main",
        mode="start",
        file=f".workflows/{name}.yaml",
        definition=msgspec.json.encode(definition),
        members=(ALICE,),
        kickoff=f"@alice the secret of {name}",
    )
    space = workflow_space(name)
    await it.writer.commit(append, Draft(kind="status", space=space, sender="system", text="started", payload=payload))
    return space


async def test_an_agent_of_three_workflows_does_one_thing_at_a_time(tmp_path: Path) -> None:
    async with core(tmp_path, PlayedLauncher()) as it:
        spaces = [await begin(it, name) for name in ("review", "deploy", "triage")]
        await it.send("the secret of dm")
        assert it.reader.now(agents.workspaces, AgentKey("alice")) == ("deploy:main", "review:main", "triage:main")
        seen: list[str] = []
        for number in range(1, 5):
            worker = await it.launcher.next(number)
            assert len(it.launcher.spawned) == number, "one live attempt"
            await worker.say()
            start = await worker.hear()
            assert isinstance(start, Start)
            told = str(msgspec.to_builtins((start.messages, start.message)))
            own = start.space.partition(":")[0]
            assert [name for name in ("review", "deploy", "triage", "dm") if f"secret of {name}" in told] == [own]
            seen.append(start.space)
            await finish(it, number)
        assert sorted(seen) == sorted([*spaces, "dm:alice"])


async def finish(it: Core, number: int) -> None:
    """The worker's part, to its end."""
    worker = it.launcher.spawned[number - 1]
    await worker.say(Entry(k=0, kind="reply", text="ok", stop_reason="end_turn"), Result(status="done"))
    await worker.leave(Exited(code=0))
