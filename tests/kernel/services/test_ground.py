"""Where attempts work and what confines them: described from files, tried before anything is started."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
import trio

from kernel.agents.providers import CauseError
from kernel.procs.exec import ExecLauncher
from kernel.services.ground import Confinement, Ground
from kernel.store.worktrees import Worktree
from protocol.agent import AgentDefinition
from protocol.ipc import Sandbox, Start
from worker.blank import BLANK

ALICE = AgentDefinition(name="alice", backend="mock", sandbox="on")


def program(folder: Path, script: str) -> str:
    path = folder / "bwrap"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def start(folder: Path) -> Start:
    return msgspec.structs.replace(BLANK, cwd=str(folder), attempt_dir="/state/run/i1-1", hidden=("/state",))


@asynccontextmanager
async def confinement(root: Path, bwrap: str) -> AsyncGenerator[Confinement]:
    (root / "run").mkdir()
    async with trio.open_nursery() as nursery:
        launcher = ExecLauncher(run_dir=root / "run", environ={"PATH": "/usr/bin:/bin"})
        await nursery.start(launcher.run)
        yield Confinement(root=root, environ={"PATH": "/usr/bin", "AGENT_WORKER_BWRAP": bwrap}, launcher=launcher)
        nursery.cancel_scope.cancel()


async def test_a_tree_is_free_to_change_and_the_project_is_only_seen(tmp_path: Path) -> None:
    """XF19: with a tree of its own an agent cannot write the project, nor the repository's git directory."""
    tree = Worktree(
        run=1, agent="alice", name="alice", space="w:main", state="made", repository="/repo/.git", base="0" * 40,
        branch="awk/w/main/alice", path="/state/trees/w/main/alice", folder="sub",
    )  # fmt: skip
    async with confinement(tmp_path, program(tmp_path, "exit 0")) as confine:
        box = confine.of(ALICE, Ground(tree.cwd, tree.path, tree), start(tmp_path))
        assert box is not None
        clone = "/state/trees/.clones/w/main/alice"
        assert box.writable == (tree.path, clone, "/state/run/i1-1")
        assert {str(tmp_path), str(tmp_path / ".agents"), "/repo/.git/objects"} <= {*box.readable}
        assert box.instead == {f"{tree.path}/.git": f"{clone}.link"}
        own = confine.of(ALICE, Ground(str(tmp_path), str(tmp_path)), start(tmp_path))
        assert own is not None
        assert str(tmp_path) in own.writable
        assert str(tmp_path) not in own.readable
        assert str(tmp_path / ".git") in own.readable
        off = msgspec.structs.replace(ALICE, sandbox="off")
        assert confine.of(off, Ground("/t", "/t"), start(tmp_path)) is None


async def test_a_sandbox_that_does_not_work_is_none(tmp_path: Path) -> None:
    """XF19: where the system lets nobody make namespaces, bubblewrap's own words are told; asked again each time."""
    broken = program(tmp_path, "echo 'bwrap: No permissions to create new namespace' >&2; exit 1")
    async with confinement(tmp_path, broken) as confine:
        with pytest.raises(CauseError, match="No permissions to create new namespace"):
            await confine.check(Sandbox(program=broken))
        program(tmp_path, "exit 0")
        await confine.check(Sandbox(program=broken))


async def test_what_cannot_be_confined_is_refused(tmp_path: Path) -> None:
    """XF19: nobody runs unconfined who asked to be confined."""
    async with confinement(tmp_path, "no-such-bwrap") as confine:
        with pytest.raises(CauseError, match="bwrap is not on the kernel's PATH"):
            confine.of(ALICE, Ground("/t", "/t"), start(tmp_path))
        own = msgspec.structs.replace(ALICE, backend="exec", command=("x",))
        with pytest.raises(CauseError, match="your program is the worker"):
            confine.of(own, Ground("/t", "/t"), start(tmp_path))
