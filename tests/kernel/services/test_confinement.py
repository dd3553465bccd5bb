"""Where attempts work and what confines them: described from files, tried before anything is started."""

import os
import shutil
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
import trio

from kernel.agents.environment import RUN_OUTSIDE, find_bubblewrap, home_fault
from kernel.agents.providers import CauseError
from kernel.procs.launcher import ExecLauncher
from kernel.procs.spec import SpawnTransient
from kernel.services.working_directory import Confinement, Placeholders, WorkingDirectory
from kernel.store.transitions import worktrees
from kernel.store.transitions.worktrees import Worktree
from protocol.agent import AgentDefinition
from protocol.ipc import Sandbox, Start
from tests.kernel.git.git_project import ground_in, launched
from tests.kernel.services.landing_project import Interference, attempt_of, landing_ground
from tests.shorthand import present
from worker.models.model import BLANK
from worker.sandbox import READ, WRITE, mounts

ALICE = AgentDefinition(name="alice", backend="mock", sandbox="on")


def program(folder: Path, script: str) -> str:
    path = folder / "bwrap"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def start(folder: Path) -> Start:
    return msgspec.structs.replace(BLANK, cwd=str(folder), attempt_dir="/state/run/i1-1", hidden=("/state",))


@asynccontextmanager
async def confinement(
    root: Path, bwrap: str, home: str = "", contexts: tuple[str, ...] = ()
) -> AsyncGenerator[Confinement]:
    (root / "run").mkdir()
    async with trio.open_nursery() as nursery:
        launcher = ExecLauncher(run_dir=root / "run", environ={"PATH": "/usr/bin:/bin"})
        await nursery.start(launcher.run)
        environ = {"PATH": "/usr/bin", "AGENT_WORKER_BWRAP": bwrap, "HOME": home}
        placeholders = Placeholders(root, root / "run/placeholders.json")
        yield Confinement(
            root=root, environ=environ, launcher=launcher, placeholders=placeholders, contexts=lambda: contexts
        )
        nursery.cancel_scope.cancel()


@pytest.mark.promise("XF19")
async def test_a_tree_is_free_to_change_and_the_project_is_only_seen(tmp_path: Path) -> None:
    tree = Worktree(
        run=1, agent="alice", name="alice", space="w:main", state="made", repository="/repo/.git", base="0" * 40,
        branch="awk/w/main/alice", path="/state/trees/w/main/alice", folder="sub",
    )  # fmt: skip
    async with confinement(tmp_path, program(tmp_path, "exit 0")) as confine:
        box = present(confine.of(ALICE, WorkingDirectory(tree.cwd, tree.path, tree), start(tmp_path)))
        clone = "/state/trees/.clones/w/main/alice"
        assert box.writable == (tree.path, clone, "/state/run/i1-1")
        assert {str(tmp_path), str(tmp_path / ".agents"), "/repo/.git/objects"} <= {*box.readable}
        assert box.instead == {f"{tree.path}/.git": f"{clone}.link"}
        own = present(confine.of(ALICE, WorkingDirectory(str(tmp_path), str(tmp_path)), start(tmp_path)))
        assert str(tmp_path) in own.writable
        assert str(tmp_path) not in own.readable
        assert str(tmp_path / ".git") in own.readable
        assert str(tmp_path / ".git") not in box.readable, "the project is read-only as a whole"
        off = msgspec.structs.replace(ALICE, sandbox="off")
        assert confine.of(off, WorkingDirectory("/t", "/t"), start(tmp_path)) is None


@pytest.mark.promise("XF19")
async def test_a_sandbox_that_does_not_work_is_none(tmp_path: Path) -> None:
    broken = program(tmp_path, "echo 'bwrap: No permissions to create new namespace' >&2; exit 1")
    async with confinement(tmp_path, broken) as confine:
        with pytest.raises(CauseError, match="No permissions to create new namespace"):
            await confine.check(Sandbox(program=broken, private_bytes=1))
        program(tmp_path, "exit 0")
        await confine.check(Sandbox(program=broken, private_bytes=1))


@pytest.mark.promise("XF19")
async def test_what_cannot_be_confined_is_refused(tmp_path: Path) -> None:
    async with confinement(tmp_path, "no-such-bwrap") as confine:
        with pytest.raises(CauseError, match="bwrap was not found on the kernel's PATH"):
            confine.of(ALICE, WorkingDirectory("/t", "/t"), start(tmp_path))
        own = msgspec.structs.replace(ALICE, backend="exec", command=("x",))
        with pytest.raises(CauseError, match="whose program is the worker itself"):
            confine.of(own, WorkingDirectory("/t", "/t"), start(tmp_path))


def test_a_relative_folder_of_the_path_brings_no_bubblewrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "exit 0")
    monkeypatch.chdir(tmp_path)
    for path in (".", "./", "../" + tmp_path.name, ":/nowhere", ""):
        assert find_bubblewrap({"PATH": path}) in (None, "/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap"), path


@pytest.mark.promise("P6", "P18", "XF19")
@pytest.mark.parametrize("home", [".", "sub/home", "link"])
async def test_a_project_that_holds_the_home_confines_nobody(tmp_path: Path, home: str) -> None:
    (tmp_path / "sub/home").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path)
    async with confinement(tmp_path, program(tmp_path, "exit 0"), str(tmp_path / home)) as confine:
        for directory in (WorkingDirectory(str(tmp_path), str(tmp_path)), WorkingDirectory("/t", "/t")):
            with pytest.raises(CauseError, match=r"your home .* so the agent could access it"):
                confine.of(ALICE, directory, start(tmp_path))
    assert home_fault(Path("/"), {"HOME": str(tmp_path)}) is not None
    assert home_fault(tmp_path, {"HOME": str(tmp_path.parent)}) is None
    assert home_fault(tmp_path, {"HOME": f"{tmp_path}-two"}) is None


@pytest.mark.promise("P19", "XF19")
@pytest.mark.parametrize("name", [".git", ".agents", ".envrc"])
async def test_what_is_a_link_cannot_be_protected(tmp_path: Path, name: str) -> None:
    (tmp_path / name).symlink_to(tmp_path / "elsewhere")
    async with confinement(tmp_path, program(tmp_path, "exit 0")) as confine:
        with pytest.raises(CauseError, match=f"{name} is a symbolic link"):
            confine.of(ALICE, WorkingDirectory(str(tmp_path), str(tmp_path)), start(tmp_path))


@pytest.mark.promise("P19", "XF19")
async def test_what_the_user_runs_by_itself_is_there_to_be_protected_and_goes_when_nobody_needs_it(
    tmp_path: Path,
) -> None:
    (tmp_path / ".vscode").mkdir()
    (tmp_path / ".vscode/settings.json").write_text("{}")
    async with confinement(tmp_path, program(tmp_path, "exit 0")) as confine:
        box = present(confine.of(ALICE, WorkingDirectory(str(tmp_path), str(tmp_path)), start(tmp_path)))
        await confine.ready("i1-1", box)
        await confine.ready("i2-1", box)
        assert all((tmp_path / name).exists() for name in RUN_OUTSIDE)
        confine.release("i1-1")
        assert all((tmp_path / name).exists() for name in RUN_OUTSIDE), "another one still works there"
        (tmp_path / ".claude/commands").mkdir()
        confine.release("i2-1")
        confine.release("i3-1")
    left = [name for name in RUN_OUTSIDE if (tmp_path / name).exists()]
    assert left == [".vscode", ".claude"]


@pytest.mark.promise("P19", "XF19")
async def test_contexts_of_agents_are_protected_wherever_they_are_also_before_they_are_there(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    directory = WorkingDirectory(str(tmp_path), str(tmp_path))
    async with confinement(tmp_path, program(tmp_path, "exit 0"), contexts=("ctx", "docs/a/b", "new/c")) as confine:
        box = present(confine.of(ALICE, directory, start(tmp_path)))
        folders = [str(tmp_path / one) for one in ("ctx", "docs/a/b", "new/c")]

        def there(*names: str) -> list[bool]:
            return [(tmp_path / name).is_dir() for name in names]

        assert set(folders) <= {*box.readable}
        above = [str(tmp_path / one) for one in ("docs", "docs/a", "new")]
        assert [one for one in box.writable if one in above] == above
        check = confine.of_check(str(tmp_path), ())
        assert ({*folders} <= {*check.readable}, {*above} <= {*check.writable}) == (True, True)
        at = {mount.path: mount.kind for mount in mounts("/bin/sh", {}, box)}
        assert {at[one] for one in folders} == {READ}
        assert {at[one] for one in above} == {WRITE}
        await confine.ready("i1-1", box)
        assert all(there("ctx", "docs/a/b", "new/c"))
        confine.release("i1-1")
        assert there("ctx", "docs/a", "new", "docs") == [False, False, False, True]
        shutil.rmtree(tmp_path / "docs")
        (tmp_path / "docs").symlink_to(tmp_path / "elsewhere")
        with pytest.raises(CauseError, match="docs is a symbolic link"):
            confine.of(ALICE, directory, start(tmp_path))


def users_own(path: Path) -> None:
    """Something empty that was not made here."""
    if path.name == ".envrc":
        path.touch(0o400)
    else:
        path.mkdir()


def replace(made: Path) -> None:
    """One of the user's own in its place: later than what was made, by the clock of the file system too."""
    before = made.lstat()
    while (made.lstat().st_ino, made.lstat().st_ctime_ns) == (before.st_ino, before.st_ctime_ns):
        made.unlink() if made.is_file() else made.rmdir()
        users_own(made)


def left_in(root: Path) -> set[str]:
    return {name for name in RUN_OUTSIDE if (root / name).exists()}


@pytest.mark.promise("P14")
@pytest.mark.parametrize("name", RUN_OUTSIDE)
async def test_something_empty_of_the_user_stays(tmp_path: Path, name: str) -> None:
    users_own(tmp_path / name)
    async with confinement(tmp_path, program(tmp_path, "exit 0")) as confine:
        box = present(confine.of(ALICE, WorkingDirectory(str(tmp_path), str(tmp_path)), start(tmp_path)))
        await confine.ready("i1-1", box)
        confine.release("i1-1")
    assert left_in(tmp_path) == {name}


@pytest.mark.promise("P14")
@pytest.mark.parametrize("name", RUN_OUTSIDE)
def test_what_the_user_has_made_instead_stays(tmp_path: Path, name: str) -> None:
    placeholders = Placeholders(tmp_path, tmp_path / "record")
    placeholders.hold("i1-1", RUN_OUTSIDE)
    replace(tmp_path / name)
    placeholders.release("i1-1")
    assert left_in(tmp_path) == {name}


@pytest.mark.promise("P14")
def test_what_a_killed_kernel_made_goes_and_what_the_user_made_since_stays(tmp_path: Path) -> None:
    record = tmp_path / "record"
    Placeholders(tmp_path, record).hold("i1-1", RUN_OUTSIDE)
    replace(tmp_path / ".idea")
    after = Placeholders(tmp_path, record)
    after.hold("i1-2", RUN_OUTSIDE)
    after.release("i1-2")
    assert left_in(tmp_path) == {".idea"}


@pytest.mark.parametrize("text", ["", "[]", '{".idea": 1}', '{".vscode": {"inode": 1, "changed_ns": 1}, "../x": null}'])
def test_a_record_that_is_damaged_has_nothing_removed_that_it_does_not_prove(tmp_path: Path, text: str) -> None:
    record = tmp_path / "record"
    record.write_text(text)
    (tmp_path / ".vscode").mkdir()
    (tmp_path / ".idea").mkdir()
    placeholders = Placeholders(tmp_path, record)
    placeholders.hold("i1-1", RUN_OUTSIDE)
    placeholders.release("i1-1")
    assert left_in(tmp_path) == {".vscode", ".idea"}


def test_a_record_that_cannot_be_kept_holds_nothing_up(tmp_path: Path) -> None:
    placeholders = Placeholders(tmp_path, tmp_path / "nowhere/record")
    placeholders.hold("i1-1", RUN_OUTSIDE)
    placeholders.release("i1-1")
    assert left_in(tmp_path) == set()


def filled(disk: Path) -> Callable[[str], os.statvfs_result]:
    """What the system says of disks, where that of ``disk`` has no block left."""
    look = os.statvfs

    def told(path: str) -> os.statvfs_result:
        said = list(look(path))
        if Path(path).is_relative_to(disk):
            said[4] = 0
        return os.statvfs_result(said)

    return told


@pytest.mark.promise("SF03")
@pytest.mark.parametrize("disk", ["project", "trees", ""])
async def test_a_tree_that_cannot_be_made_waits_for_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, disk: str
) -> None:
    git_project = ground_in(tmp_path / "here")
    async with launched(tmp_path) as launcher, landing_ground(git_project, launcher, Interference()) as place:
        place.branch("alice", {"alice.txt": b"x\n"})
        run = await place.run_of("alice")
        [tree] = place.reader.now(worktrees.of_run, run)
        (git_project.root / ".git/worktrees").write_text("in the way")
        if disk:
            monkeypatch.setattr("os.statvfs", filled(git_project.folder / disk))
            with pytest.raises(SpawnTransient, match="no space left on the disk of"):
                await place.trees().ready(attempt_of(tree), confined=False)
        else:
            with pytest.raises(CauseError, match="worktrees") as caught:
                await place.trees().ready(attempt_of(tree), confined=False)
            assert caught.value.cause == "spawn_permanent"
        (git_project.root / ".git/worktrees").unlink()
        assert await place.trees().ready(attempt_of(tree), confined=False)
