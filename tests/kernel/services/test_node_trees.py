"""Attempts on a node, over a real repository, a real store and a second machine: what goes there, what comes back."""

import hashlib
import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from kernel.agents.providers import CauseError
from kernel.git.branches import Branches
from kernel.procs.command import run_command
from kernel.procs.launcher import Launcher
from kernel.procs.spec import SpawnTransient
from kernel.services import nodes as nodes_service
from kernel.services.node_files import NodePlace, relocate
from kernel.services.node_trees import FilesOnNodes, NodePreparation, NodeTrees
from kernel.services.preparation import NotHome
from kernel.services.tree_work import TreeWork, WorkChecks
from kernel.services.working_directory import Confinement
from kernel.store.attempts import Identity
from kernel.store.transitions import worktrees
from kernel.store.transitions.lease import Leased
from kernel.store.transitions.worktrees import Worktree
from protocol.agent import AgentDefinition, AgentLimits, McpServer
from protocol.ipc import Limits, McpAddress, Sandbox, Start, Turn
from protocol.node import NodeFacts
from protocol.tools import ProjectTool, Skill
from tests.kernel.git.git_project import at, ground_in, launched
from tests.kernel.git.node_ground import FarMachine, far_machine
from tests.kernel.services.landing_project import LandingProject, attempt_of, stored_ground
from tests.shorthand import present

MORE = ', "workspace": {"git": "worktree", "setup": [{"shell": "echo $AGENT_NAME in $AGENT_PROJECT >>.venv"}]}'


class Nodes:
    """One node, ``far``, which can be gone."""

    def __init__(self, far: FarMachine) -> None:
        self.far = far
        self.there = True

    def launcher(self, name: str, /) -> Launcher:
        return {"far": self.far.launcher}[name]

    def facts(self, _name: str, /) -> NodeFacts | None:
        return self.far.facts if self.there else None


@dataclass
class Ground:
    """A project with a run of alice, and a node."""

    place: LandingProject
    nodes: Nodes
    files: FilesOnNodes
    alice: Leased
    work_here: TreeWork
    parts: NodeTrees

    def far(self, path: str) -> Path:
        return Path(self.nodes.far.facts.state_dir, path)

    @property
    def run(self) -> int:
        assert self.alice.run is not None
        return self.alice.run

    @property
    def there(self) -> NodePreparation:
        return self.files.preparation("far")

    @property
    def tree(self) -> Worktree:
        return present(self.place.reader.now(worktrees.of, self.alice.run, self.alice.agent))

    def start(self, **more: object) -> Start:
        start = Start(
            instruction="i1", attempt=self.alice.attempt, epoch=1, agent="alice", space="team:t1", backend="sdk",
            model="mock/m", provider=None, system="", messages=(), message=f"work in {self.tree.path}", entries=(),
            limits=Limits(), mcp=McpAddress(url="http://127.0.0.1:1/mcp"), token="t", cwd=self.tree.cwd,
            env={"PATH": "/here", "SECRET": "s"}, idempotency_key="i1", attempt_dir="/here/run/i1-1",
        )  # fmt: skip
        return msgspec.structs.replace(start, **more)

    async def work(self, start: Start, command: str, leased: Leased | None = None) -> None:
        """Do what an attempt does there: as its worker would be started."""
        leased = leased or self.alice
        await self.there.prepare(leased, start)
        moved = self.there.relocate(start, DEFINITION)
        shell = ("/bin/sh", "-c", command)
        done = await run_command(
            self.nodes.far.launcher, leased.attempt, shell, cwd=moved.cwd, env=moved.env, timeout_seconds=60,
            output_limit_bytes=10_000,
        )  # fmt: skip
        assert done.ok, done.stderr_tail


DEFINITION = AgentDefinition(name="alice", model="mock/m")


@asynccontextmanager
async def ground(tmp_path: Path, more: str = MORE) -> AsyncGenerator[Ground]:
    git_project = ground_in(tmp_path / "here")
    git_project.write(".gitignore", ".venv\n")
    git_project.commit()
    async with (
        launched(git_project.folder) as launcher,
        far_machine(tmp_path / "far") as far,
        stored_ground(git_project, launcher) as place,
    ):
        repository, trees = git_project.repository(launcher), place.trees()
        work = TreeWork(trees=trees, branches=Branches(repository), reader=place.reader, writer=place.writer)
        parts = NodeTrees(
            root=git_project.root, repository=repository, trees=trees, work=work, reader=place.reader,
            writer=place.writer,
        )  # fmt: skip
        run = await place.run_of("alice", planned=True, more=more)
        [tree] = place.reader.now(worktrees.of_run, run)
        nodes = Nodes(far)
        yield Ground(
            place, nodes, FilesOnNodes(parts, cast("nodes_service.Nodes", nodes)), attempt_of(tree), work, parts
        )


@pytest.mark.promise("P89")
async def test_an_attempt_works_in_a_clone_that_was_set_up_there_once_and_its_work_is_here_after_it(
    g: Ground, tmp_path: Path
) -> None:
    skill = tmp_path / "skill"
    skill.mkdir()
    (skill / "SKILL.md").write_text("read me")
    known = Skill(name="s", description="d", folder=str(skill), files={"SKILL.md": digest("read me")})
    start = g.start(skills=(known,), session_dir="/here/sessions")
    await g.work(start, f"cat {g.nodes.far.facts.state_dir}/lent/i1-1/skills/0/SKILL.md >said; pwd >>said")
    clone = g.far(f"trees/r{g.alice.run}/alice/tree")
    assert (clone / ".venv").read_text() == f"alice in {clone}\n"
    await g.there.finish(g.alice)
    tree = Path(g.tree.path)
    assert (tree / "said").read_text() == f"read me{clone}\n"
    assert not (tree / ".venv").exists()
    assert (g.tree.ahead, g.tree.tip) == (1, g.place.git_project.git("rev-parse", g.tree.branch))
    assert not list(g.far("lent").iterdir())
    await g.work(g.start(), "echo more >>said")
    await g.there.abandon(g.alice)
    assert (clone / ".venv").read_text().count("\n") == 1
    assert (tree / "said").read_text().endswith("more\n")


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.promise("P89")
async def test_an_agent_without_a_tree_has_a_branch_for_what_it_does_and_the_checkout_stays(tmp_path: Path) -> None:
    async with ground(tmp_path, more="") as g:
        project = g.place.git_project
        bob = msgspec.structs.replace(g.alice, agent="bob", name="bob", space="main", run=None)
        start = g.start()
        await g.work(start, "true", bob)
        await g.there.finish(bob)
        assert "awk/node" not in project.git("for-each-ref")
        await g.work(start, "echo bob >b.txt", bob)
        await g.there.finish(bob)
        assert project.git("show", "awk/node/main/bob:b.txt") == "bob"
        assert not (project.root / "b.txt").exists()
        await g.work(start, "cat b.txt && echo again >>b.txt", bob)
        await g.there.finish(bob)
        assert project.git("show", "awk/node/main/bob:b.txt") == "bob\nagain"
        project.git("merge", "--quiet", "awk/node/main/bob")
        project.write("c.txt", "mine\n")
        project.commit()
        await g.work(start, "cat c.txt", bob)
        await g.there.finish(bob)
        assert not project.git("status", "--porcelain")


@pytest.mark.promise("P89")
async def test_what_is_this_machines_alone_is_refused_with_what_to_do(g: Ground) -> None:
    for start, said in (
        (g.start(backend="claude", login=True), "login: true"),
        (g.start(hooks=msgspec.Raw(b'{"a": 1}')), "cli.hooks"),
        (g.start(backend="claude", command=("/here/claude-that-is-nowhere",)), "not on the PATH there"),
    ):
        with pytest.raises(CauseError, match=said):
            await g.there.prepare(g.alice, start)
    g.nodes.there = False
    with pytest.raises(SpawnTransient, match="node far is not connected"):
        await g.there.prepare(g.alice, g.start())


@pytest.mark.promise("P89")
async def test_work_that_is_refused_on_its_way_home_is_told_to_whoever_waits_for_it(g: Ground) -> None:
    alone = "git checkout --quiet --orphan other; git -c user.name=a -c user.email=a@l commit -qm x --allow-empty"
    names = f'here=$(git symbolic-ref --short HEAD); {alone}; git branch -M "$here"'
    tip = g.place.git_project.git("rev-parse", "main")
    for end in (g.there.finish, g.there.abandon):
        await g.work(g.start(), names)
        if end == g.there.finish:
            with pytest.raises(NotHome, match="is not a descendant of"):
                await end(g.alice)
        else:
            await end(g.alice)
        assert g.place.git_project.git("rev-parse", g.tree.branch) == tip


async def test_a_setup_that_fails_there_says_where_and_is_tried_again(tmp_path: Path) -> None:
    """It is noted as done only once it is."""
    async with ground(tmp_path, more=MORE.replace("echo $", "test -e /no/such && echo $")) as g:
        for _ in range(2):
            with pytest.raises(CauseError, match=r"node far: workspace.setup\[0\] of alice failed"):
                await g.there.prepare(g.alice, g.start())


@pytest.mark.promise("P89")
async def test_what_an_agent_asks_of_its_tree_is_answered_from_the_clone_that_it_works_in(g: Ground) -> None:
    project, work = g.place.git_project, g.work_here
    await g.work(g.start(), "echo one >b.txt")
    who = g.alice
    caller = Identity(
        agent=who.agent, name=who.name, space=who.space, instruction=who.instruction, epoch=1, live=True
    )  # fmt: skip
    tree, tip = await work.commit(caller, "in my own words")
    assert (tip.made, tip.ahead) == (True, 1)
    assert project.git("log", "-1", "--format=%s", tree.branch) == "in my own words"
    _, standing = await work.standing(caller)
    assert standing.tip.commit == tip.commit
    checks = WorkChecks(
        root=project.root, trees=g.place.trees(), reader=g.place.reader, confinement=cast("Confinement", None),
        hidden=(), launcher=g.place.launcher, env={}, away=work.away,
    )  # fmt: skip
    outcome = await checks.check(caller, "cat .venv", AgentLimits(), task="t1", confined=False)
    assert outcome.why is None
    await g.there.finish(g.alice)
    assert not work.away


@pytest.mark.promise("P89")
async def test_a_program_of_the_project_is_run_there_only_as_it_was_trusted(g: Ground) -> None:
    project = g.place.git_project
    project.write("tool.sh", "#!/bin/sh\n", None)
    pinned = {"tool.sh": digest("#!/bin/sh\n"), "later.js": ""}
    start = g.start(backend="exec", command=(str(project.root / "tool.sh"),), pinned=pinned)
    with pytest.raises(CauseError, match=r"tool.sh differs from the trusted file"):
        await g.there.prepare(g.alice, start)
    tree = Path(g.tree.path)
    (tree / "tool.sh").write_text("#!/bin/sh\n")
    await g.there.prepare(g.alice, start)
    assert g.there.relocate(start, DEFINITION).command == (f"{g.far(f'trees/r{g.run}/alice/tree')}/tool.sh",)
    g.far(f"trees/r{g.run}/alice/tree/later.js").write_text("mine\n")
    await g.there.finish(g.alice)
    with pytest.raises(CauseError, match=r"later.js differs from the trusted file"):
        await g.there.prepare(g.alice, start)


@pytest.mark.long("the other tests of this file")
@pytest.mark.promise("P89")
async def test_what_an_agent_left_here_goes_with_it_to_the_node(tmp_path: Path) -> None:
    async with ground(tmp_path, more=', "workspace": {"git": "worktree", "commit": "manual"}') as g:
        await g.work(g.start(), "true")
        await g.there.finish(g.alice)
        at(g.tree, "a.txt").write_text("left\n")
        await g.work(g.start(), "cat a.txt >b.txt")
        await g.there.finish(g.alice)
        assert at(g.tree, "b.txt").read_text() == "left\n"


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
    there = present(relocate(confined, definition, PLACE, TOPS).sandbox)
    assert there.program == "/far/bin/bwrap"
    assert set(there.writable) == {PLACE.tree, PLACE.attempt_dir, PLACE.session_dir}
    assert set(there.readable) == {f"{PLACE.attempt_dir}/alive", PLACE.files}
    assert there.hidden == ("/far/state",)
