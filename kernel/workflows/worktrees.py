"""Working trees of a workflow's members: named when it starts, furnished before an agent begins."""

import itertools
import os
import shutil
import stat
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

import msgspec

from kernel.git.repository import INCLUDE, Base
from kernel.procs.command import run_command
from kernel.procs.launcher import Launcher
from kernel.source.safe_paths import NotInside, open_file, open_folder
from kernel.store.transitions.worktrees import PlannedTree, Worktree
from kernel.workflows.setup import command_fault
from protocol.errors import Refused
from protocol.ipc import Sandbox
from protocol.names import AGENT_BRANCHES, RunId
from protocol.workflow import WorkflowDefinition, WorktreeStep

FILES: Final = 20_000
BYTES: Final = 1024**3
"""Of what is copied into one tree."""
_OUTPUT_BYTES: Final = 16 * 1024 * 1024
_TAIL_LINES: Final = 20
_numbers: Final = itertools.count(1)


def plan_trees(
    run: RunId,
    workflow: str,
    names: Sequence[str],
    base: Base,
    *,
    place: Path,
    branches: Collection[str],
    paths: Collection[str],
) -> tuple[PlannedTree, ...]:
    """A tree and a branch for each of ``names``: ``awk/review/r12/alice``; where that is taken, ``alice.2``.

    It is taken where another database had a run of that number. Raises Refused (bad_definition) where a branch of the
    user's stands where ours have to be.
    """
    for name in (AGENT_BRANCHES, f"{AGENT_BRANCHES}/{workflow}", f"{AGENT_BRANCHES}/{workflow}/{run}"):
        if f"refs/heads/{name}" in branches:
            raise Refused(
                "bad_definition", f"the branch {name} is in the way of {AGENT_BRANCHES}/{workflow}/{run}/...",
                "rename that branch",
            )  # fmt: skip
    taken = frozenset({*branches, *paths})
    trees: list[PlannedTree] = []
    for member in names:
        number = 1
        while True:
            # No agent's name has a dot in it, so no other member is called alice.2.
            name = member if number == 1 else f"{member}.{number}"
            branch = f"{AGENT_BRANCHES}/{workflow}/{run}/{name}"
            path = str(place / workflow / run / name)
            if not {f"refs/heads/{branch}", path} & taken:
                break
            number += 1
        tree = PlannedTree(
            name=member, repository=base.repository, base=base.commit, branch=branch, path=path, folder=base.folder
        )
        trees.append(tree)
    return tuple(trees)


class WorktreeSetup(msgspec.Struct, frozen=True):
    """The agent that works in a tree, as its commands are told."""

    tree: Worktree
    definition: WorkflowDefinition
    tag: str
    project: Path

    @property
    def variables(self) -> dict[str, str]:
        """In the environment of its commands."""
        agents = list(self.definition.agents)
        number = 0 if self.tree.shared else agents.index(self.tree.name) + 1
        return {
            "AGENT_NAME": self.tree.name,
            "AGENT_NUMBER": str(number),
            "AGENT_WORKFLOW": self.definition.name,
            "AGENT_TAG": self.tag,
            "AGENT_PROJECT": str(self.project),
        }


async def run_steps(
    what: str,
    steps: Sequence[WorktreeStep],
    furnishing: WorktreeSetup,
    *,
    launcher: Launcher,
    env: Mapping[str, str],
    sandbox: Sandbox | None = None,
) -> None:
    """Run ``steps`` in the tree, in order, in its agent's ``sandbox`` if that has one.

    Raises Refused (setup_failed) at the first that fails, SpawnTransient.
    """
    for index, step in enumerate(steps):
        result = await run_command(
            launcher,
            f"tree-{next(_numbers)}",
            ("/bin/sh", "-c", step.shell),
            cwd=furnishing.tree.cwd,
            env={**env, **furnishing.variables},
            timeout_seconds=step.timeout,
            output_limit_bytes=_OUTPUT_BYTES,
            sandbox=sandbox,
        )
        fault = command_fault(result, step.timeout, _OUTPUT_BYTES)
        if fault is not None:
            shown = " ".join(step.shell.split())[:100]
            printed = result.stderr_tail.strip() or result.stdout  # some say on standard output why they fail
            said = printed.decode("utf-8", "replace").strip().splitlines()[-_TAIL_LINES:]
            text = f"workspace.{what}[{index}] of {furnishing.tree.name} failed: {fault}: {shown}"
            raise Refused("setup_failed", text, "\n".join(["it said:", *said]) if said else None)


def copy_included(names: Sequence[str], project: Path, tree: Worktree) -> None:
    """Copy the files ``names`` of the project into ``tree``, unless they are there. Blocks. Raises Refused."""
    if len(names) > FILES:
        raise _too_much(f"{len(names)} files")
    size = 0
    for name in names:
        try:
            size += _copy_one(name, project, tree.cwd)
        except (OSError, NotInside) as error:
            text = f"what {INCLUDE} names cannot be copied: {name[:200]!r}: {error}"
            raise Refused("setup_failed", text, "correct it, or remove it") from error
        if size > BYTES:
            raise _too_much(f"more than {BYTES // 2**20} MiB")


def _copy_one(name: str, project: Path, cwd: str) -> int:
    folder, base = os.path.split(name)
    with ExitStack() as opened:
        source, target = _folder(str(project), folder, opened), _folder(cwd, folder, opened, make=True)
        facts = os.lstat(base, dir_fd=source)
        mode = facts.st_mode
        if facts.st_size > BYTES:
            raise _too_much(f"more than {BYTES // 2**20} MiB")
        with suppress(FileExistsError):
            if stat.S_ISLNK(mode):
                os.symlink(os.readlink(base, dir_fd=source), base, dir_fd=target)
            elif stat.S_ISREG(mode):
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
                with (
                    open(open_file(source, base, os.O_RDONLY), "rb") as file,
                    open(os.open(base, flags, stat.S_IMODE(mode), dir_fd=target), "wb") as out,
                ):
                    shutil.copyfileobj(file, out)
                    return out.tell()
    return 0


def _folder(top: str, folder: str, opened: ExitStack, *, make: bool = False) -> int:
    descriptor = open_folder(top, folder, make=make) if folder else os.open(top, os.O_RDONLY | os.O_DIRECTORY)
    opened.callback(os.close, descriptor)
    return descriptor


def _too_much(how_much: str) -> Refused:
    return Refused("setup_failed", f"{INCLUDE} names {how_much}", "name less, or fetch it in workspace.setup")
