"""A start frame on a node names nothing of the kernel's machine, and has no variable that the agent's file does not."""

import random
from typing import Any

import msgspec
import pytest

from kernel.services.node_files import NodePlace, relocate
from protocol.agent import AgentDefinition, McpServer
from protocol.ipc import Limits, McpAddress, Sandbox, Start, Turn
from protocol.node import NodeFacts
from protocol.tools import ProjectTool, Skill

FAR = NodeFacts(home="/far/home", path="/far/bin:/usr/bin", state_dir="/far/state", mcp_url="http://127.0.0.1:7/mcp")
PLACE = NodePlace(
    facts=FAR,
    tree="/far/state/trees/r1/alice/tree",
    cwd="/far/state/trees/r1/alice/tree/sub",
    attempt_dir="/far/state/run/i1-1",
    session_dir="/far/state/sessions/alice/w+main/claude",
    files="/far/state/lent/i1-1",
    program="/far/bin/claude",
    bubblewrap="/far/bin/bwrap",
)
ROOT, TREE = "/kernel/home/me/project", "/kernel/home/me/.agent-worker/projects/p/worktrees/w/r1/alice"
TOPS = {ROOT: PLACE.cwd, TREE: PLACE.tree}
STATE = "/kernel/home/me/.agent-worker/projects/p"
NAMES = ("TOKEN", "DATABASE", "HOME", "PATH", "TMPDIR", "LC_ALL", "SSL_CERT_FILE", "TZ", "AGENT_WORKER_CALL")


def drawn(seed: int) -> tuple[Start, AgentDefinition, dict[str, str]]:
    """A frame as the kernel makes it for itself, and the values in its environment."""
    dice = random.Random(seed)
    values = {name: f"/kernel/value-{name}-{dice.random()}" for name in NAMES}
    named = tuple(name for name in NAMES[:2] if dice.random() < 0.5)
    inside = dice.choice((ROOT, TREE))
    skills = tuple(
        Skill(
            name=f"s{n}",
            description="d",
            folder=f"{dice.choice((ROOT, f'{STATE}/sessions/a/b/claude/own-skills'))}/s{n}",
        )
        for n in range(dice.randrange(3))
    )
    command = dice.choice(((), ("/kernel/bin/claude",), (f"{ROOT}/tools/agent.sh", "--x")))
    told = f"You work in {inside}, read {inside}/a.md; " + " ".join(f"({one.folder}/SKILL.md)" for one in skills)
    box = Sandbox(program="/kernel/bin/bwrap", writable=(TREE,), hidden=("/kernel/home",), private_bytes=1)
    start = Start(
        instruction="i1", attempt="i1-1", epoch=1, agent="alice", space="w:main", backend="claude", model="m",
        provider=None, system=told, system_stable=dice.randrange(len(told)), messages=(Turn(role="user", text=told),),
        message=told, entries=(), limits=Limits(), mcp=McpAddress(url="http://127.0.0.1:1/kernel/mcp"), token="t",
        cwd=inside, env={**values, **{name: values[name] for name in named}}, secrets=named, idempotency_key="i1",
        skills=skills, command=command, attempt_dir=f"{STATE}/run/i1-1",
        session_dir=dice.choice(("", f"{STATE}/sessions/a/b/claude")), hidden=("/kernel/home/me/.agent-worker",),
        sandbox=dice.choice((None, box)), pinned={f"{ROOT}/tools/x": "ab"},
        project_tools={"x": ProjectTool(description="d", command=(f"{ROOT}/tools/x", "a"))},
        mcp_servers={"s": McpServer(command=f"{ROOT}/tools/x", args=(f"{inside}/y",), env={"A": f"{inside}/z"})},
    )  # fmt: skip
    fields: dict[str, Any] = {"name": "alice", "env": named}
    return start, msgspec.convert(fields, AgentDefinition), values


@pytest.mark.promise("P89")
def test_nothing_of_the_kernels_machine_is_left_but_what_the_agents_file_names() -> None:
    for seed in range(1000):
        start, definition, values = drawn(seed)
        moved = relocate(start, definition, PLACE, TOPS)
        passed = {name: values[name] for name in definition.env}
        text = msgspec.json.encode(moved).decode()
        for value in passed.values():
            assert value in text
            text = text.replace(value, "")
        assert "/kernel" not in text, (seed, text)
        assert moved.env == {
            **passed, "HOME": FAR.home, "PATH": FAR.path, "LANG": "C.UTF-8", "AGENT_WORKER_CALL": "http://127.0.0.1:7",
        }  # fmt: skip
        assert (moved.cwd, moved.mcp.url, moved.hidden) == (PLACE.cwd, FAR.mcp_url, ("/far/state",))
        assert (moved.sandbox is None) == (start.sandbox is None)
        assert moved.system.startswith(start.system[: start.system_stable][:9])


def test_a_program_of_the_project_is_run_from_the_clone_and_any_other_from_the_path_there() -> None:
    start, definition, _ = drawn(1)
    for command, there in (
        ((f"{ROOT}/tools/agent.sh", "--x"), (f"{PLACE.cwd}/tools/agent.sh", "--x")),
        (("/usr/local/bin/claude",), ("/far/bin/claude",)),
        ((), ()),
    ):
        assert relocate(msgspec.structs.replace(start, command=command), definition, PLACE, TOPS).command == there


def test_a_folder_whose_name_only_begins_alike_is_left_as_it_was_said() -> None:
    """Text is changed only where it names what moved."""
    start, definition, _ = drawn(1)
    said = f"see {ROOT}-old and {ROOT}/x"
    moved = relocate(msgspec.structs.replace(start, message=said), definition, PLACE, TOPS)
    assert moved.message == f"see {ROOT}-old and {PLACE.cwd}/x"


def test_a_confined_agent_sees_its_clone_and_nothing_else_of_the_nodes_state() -> None:
    start, definition, _ = drawn(1)
    confined = msgspec.structs.replace(
        start, sandbox=Sandbox(program="/kernel/bwrap", private_bytes=1), session_dir="/kernel/s"
    )
    there = relocate(confined, definition, PLACE, TOPS).sandbox
    assert there is not None
    assert there.program == "/far/bin/bwrap"
    assert set(there.writable) == {PLACE.tree, PLACE.attempt_dir, PLACE.session_dir}
    assert set(there.readable) == {f"{PLACE.attempt_dir}/alive", PLACE.files}
    assert there.hidden == ("/far/state",)
