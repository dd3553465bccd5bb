"""Landing where files cannot be written, or a kernel is killed: branch, index and files move together, or stay."""

import errno
import os
import shutil
import stat
import subprocess
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kernel.git import file_exchange
from kernel.git.merging import Merging
from kernel.procs.launcher import Launcher
from kernel.services import landings as service
from kernel.store.transitions import landings
from kernel.store.transitions.landings import request_landing
from protocol.api.runs import MergeInfo, MergeRequest
from tests.kernel.git.git_project import GitProject, ground_in, launched
from tests.kernel.services.landing_project import Died, Interference, LandingProject, landing_ground

pytestmark = pytest.mark.promise("P33")

FILES: dict[str, bytes | None] = {
    "a.txt": b"alice\n", "d/deep/old.txt": b"changed\n", "gone.txt": None, "new/n.txt": b"new\n", "run.sh": b"two\n",
    "was file": None, "was file/inner": b"inner\n", "folder/x": None, "folder/y/z": None, "folder": b"a file\n",
}  # fmt: skip
PLACES: dict[str, tuple[int, ...]] = {"aside": (0, 3, 6), "file": (0, 5), "files": (0,), "index": (0,)}
"""Steps of the exchange, before the branch moves, and at which of its files they fail."""


@pytest.fixture
async def launcher(tmp_path: Path) -> AsyncGenerator[Launcher]:
    async with launched(tmp_path) as made:
        yield made


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of 24 MB."""
    made = tmp_path / "small"
    made.mkdir()
    words = ("mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(made))
    if subprocess.run(words, check=False, capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    yield made
    subprocess.run(("umount", "--lazy", str(made)), check=True)


def project_in(folder: Path) -> GitProject:
    git_project = ground_in(folder)
    for name in ("d/deep/old.txt", "gone.txt", "run.sh", "was file", "folder/x", "folder/y/z", "stays.txt"):
        git_project.write(name, f"{name}\n")
    (git_project.root / "run.sh").chmod(0o755)
    (git_project.root / "link").symlink_to("a.txt")
    git_project.commit()
    git_project.write("untracked.txt", "mine\n")
    return git_project


@pytest.fixture
async def place(tmp_path: Path, launcher: Launcher) -> AsyncGenerator[LandingProject]:
    async with landing_ground(project_in(tmp_path / "here"), launcher, Interference()) as made:
        yield made


def state_of(git_project: GitProject) -> dict[str, object]:
    """All files with their modes, the index, refs, and locks; not objects and logs."""
    found: dict[str, object] = {}
    for path in sorted(git_project.root.rglob("*")):
        name = str(path.relative_to(git_project.root))
        if not name.startswith((".git/objects", ".git/logs", ".git/index")) and not path.is_dir():
            mode = path.lstat().st_mode
            found[name] = stat.S_IMODE(mode), os.readlink(path) if path.is_symlink() else path.read_bytes()
    found["index"] = git_project.git("ls-files", "--stage")
    found["lock"] = (git_project.root / ".git/index.lock").exists()
    return found


def landed(git_project: GitProject, info: MergeInfo) -> None:
    """The branch, the index and the files are at the merge, and nothing else is left."""
    assert (info.state, git_project.git("rev-parse", "main")) == ("merged", info.commit), info
    assert git_project.git("status", "--porcelain") == "?? untracked.txt"
    git_project.git("diff-files", "--quiet")
    for name, content in FILES.items():
        path = git_project.root / name
        assert (path.read_bytes() if path.is_file() else None) == content, name
    assert [
        one.name for one in (git_project.root / ".git").iterdir() if "agent-worker" in one.name or "lock" in one.name
    ] == []


@contextmanager
def failing_filter(git_project: GitProject) -> Generator[None]:
    """A filter of the user's own (Git LFS without a network): required, and it fails for one file."""
    (git_project.folder / ".gitconfig").write_text(
        '[filter "lfs"]\n\tclean = cat\n\tsmudge = "test -e $HOME/network && cat"\n\trequired = true\n'
    )
    yield
    (git_project.folder / "network").touch()


@contextmanager
def immutable(path: Path) -> Generator[None]:
    if subprocess.run(("chattr", "+i", str(path)), capture_output=True, check=False).returncode:
        pytest.skip("chattr +i is not possible here")
    try:
        yield
    finally:
        subprocess.run(("chattr", "-i", str(path)), capture_output=True, check=True)


@pytest.mark.parametrize("kind", ["filter", "immutable file", "immutable folder"])
async def test_files_that_cannot_be_written_leave_everything_as_it_was(
    tmp_path: Path, launcher: Launcher, kind: str
) -> None:
    git_project = project_in(tmp_path / "here")
    (git_project.root / ".gitattributes").write_text("run.sh filter=lfs\n")
    git_project.commit()
    faults = {
        "filter": lambda: failing_filter(git_project),
        "immutable file": lambda: immutable(git_project.root / "d/deep/old.txt"),
        "immutable folder": lambda: immutable(git_project.root / "folder/y"),
    }
    async with landing_ground(git_project, launcher, Interference()) as place:
        place.branch("alice", FILES)
        run, before, refs = await place.run_of("alice"), state_of(git_project), place.refs()
        with faults[kind]():
            info = await place.land(run)
            words = "smudge filter lfs failed" if kind == "filter" else "Operation not permitted"
            assert (info.state, words in info.why, place.refs()) == ("refused", True, refs), info
            assert state_of(git_project) == before
        again = await place.land(run)
        assert again.state == "merged", again.why
        assert git_project.git("status", "--porcelain") == ""


async def test_a_full_disk_leaves_everything_as_it_was(small: Path, launcher: Launcher) -> None:
    """On a file system of 24 MB: files grow to 1 MB each. Refused; with room again it lands."""
    git_project = ground_in(small / "here")
    for number in range(20):
        git_project.write(f"f{number}", f"{number}\n")
    git_project.commit()
    ballast = small / "ballast"
    async with landing_ground(git_project, launcher, Interference()) as place:
        place.branch("alice", {f"f{number}": b"%d\n" % number * 400_000 for number in range(20)})
        run, refs = await place.run_of("alice"), place.refs()
        ballast.write_bytes(bytes(12 * 2**20))
        before = state_of(git_project)
        info = await place.land(run)
        assert (info.state, place.refs(), state_of(git_project)) == ("refused", refs, before), info
        ballast.unlink()
        again = await place.land(run)
        assert (again.state, git_project.git("status", "--porcelain")) == ("merged", ""), again


def fails(code: int) -> Callable[[], object]:
    def act() -> None:
        raise OSError(code, os.strerror(code))

    return act


async def test_a_step_that_fails_takes_the_steps_before_it_back(
    place: LandingProject, subtests: pytest.Subtests
) -> None:
    place.branch("alice", FILES)
    run, refs, before = await place.run_of("alice"), place.refs(), state_of(place.git_project)
    place.interference.one_by_one = True
    for point, numbers in PLACES.items():
        for number in numbers:
            with subtests.test(point, number=number):
                place.interference.acts[point] = [*[lambda: None] * number, fails(errno.ENOSPC)]
                info = await place.land(run)
                assert (info.state, os.strerror(errno.ENOSPC) in info.why) == ("refused", True), info
                assert not place.interference.acts, "it was not reached"
                assert (place.refs(), state_of(place.git_project)) == (refs, before)
    landed(place.git_project, await place.land(run))


async def test_a_branch_that_git_cannot_move_takes_the_files_back(
    place: LandingProject, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    place.branch("alice", FILES)
    run, before, move = await place.run_of("alice"), state_of(place.git_project), Merging.move

    async def moves(*_args: object) -> bool:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Merging, "move", moves)
    info = await place.land(run)
    assert (info.state, state_of(place.git_project)) == ("refused", before), info
    monkeypatch.setattr(Merging, "move", move)
    landed(place.git_project, await place.land(run))


@pytest.mark.parametrize("point", ["aside", "file", "files", "index"])
async def test_what_the_user_writes_meanwhile_is_neither_lost_nor_landed(place: LandingProject, point: str) -> None:
    root = place.git_project.root
    place.branch("alice", FILES)

    def save() -> None:
        for name in ("a.txt", "run.sh", "new/n.txt"):
            (root / name).parent.mkdir(exist_ok=True)
            new = root / f"{name}.tmp"
            new.write_text("the user's\n")
            new.rename(root / name)

    place.interference.acts[point] = [save]
    info = await place.land(await place.run_of("alice"))
    assert [(root / name).read_text() for name in ("a.txt", "run.sh", "new/n.txt")] == ["the user's\n"] * 3
    assert info.state == ("refused" if point in ("aside", "file") else "merged"), info
    assert (root / "gone.txt").exists() == (info.state == "refused")
    assert not (root / ".git/index.lock").exists()


async def test_a_program_that_still_writes_to_an_old_file_keeps_its_words(place: LandingProject) -> None:
    file = place.git_project.root / "a.txt"
    place.branch("alice", FILES)
    with file.open("a") as target:

        def write() -> None:
            target.write("more\n")
            target.flush()

        place.interference.acts["files"] = [write]
        info = await place.land(await place.run_of("alice"))
    assert (info.state, "changed by another program meanwhile: 'a.txt'" in info.why, file.read_text()) == (
        "refused",
        True,
        "one\nmore\n",
    )


KILLS = (
    "aside:6", "file:2", "index:1", "moved:1",
    *(pytest.param(kill, marks=pytest.mark.long("[file:2]")) for kill in ("aside:1", "file:6", "staged:1", "files:1")),
)  # fmt: skip


@pytest.mark.parametrize("kill", KILLS)
async def test_a_kernel_killed_while_files_move_leaves_the_next_one_to_land_them(
    place: LandingProject, kill: str
) -> None:
    place.branch("alice", FILES)
    place.interference.dies_at = kill
    info = await place.land(await place.run_of("alice"))
    assert place.interference.dies_at == "", place.interference.passed
    landed(place.git_project, info)
    assert place.git_project.git("log", "--first-parent", "--format=%s", "main").count("Merge") == 1


async def test_the_lock_of_a_branch_goes_also_where_the_next_kernel_refuses_to_move_it(place: LandingProject) -> None:
    place.branch("alice", FILES)
    lock = place.git_project.root / ".git/refs/heads/main.lock"

    def left() -> None:
        [checked] = place.reader.now(landings.unfinished)
        lock.write_text(f"{checked.tip}\n")
        (place.git_project.root / "stays.txt").write_text("the user's\n")

    place.interference.dies_at = "index:1"
    place.interference.acts["index"] = [left]
    info = await place.land(await place.run_of("alice"))
    assert (info.state, info.files, lock.exists()) == ("refused", ("stays.txt",), False), info


@pytest.mark.parametrize("kill", KILLS)
async def test_who_removes_the_lock_of_a_dead_kernel_and_commits_takes_nothing_back(
    place: LandingProject, kill: str
) -> None:
    git_project = place.git_project
    place.branch("alice", FILES)
    landing = await place.ask(await place.run_of("alice"))
    place.interference.dies_at = kill
    with pytest.raises(Died):
        await place.kernel().run_once()
    place.interference.dead, place.interference.dies_at = False, ""
    lock = git_project.root / ".git/index.lock"
    assert "awk start" in lock.read_text()
    lock.unlink()
    git_project.git("add", "--all", ":!untracked.txt")
    git_project.try_git("-c", "user.name=u", "-c", "user.email=u@l", "commit", "--quiet", "-m", "what is there")
    await place.serve()
    info = place.outcome(landing)
    if info.state == "refused":  # the one file that was neither the old nor the new one as the kernel was killed
        assert "conflicts" in info.why
        assert kill.startswith("aside")
        return
    on_main = {
        name: place.read(name)
        for name in git_project.git("ls-tree", "-r", "--name-only", "-z", "main").split("\0")
        if name
    }
    assert {name: on_main.get(name) for name in FILES} == {
        name: None if content is None else content.decode().strip() for name, content in FILES.items()
    }
    assert git_project.git("status", "--porcelain") in ("?? untracked.txt", "")
    assert not lock.exists()


async def test_files_that_were_taken_back_after_a_kernel_died_are_told(place: LandingProject) -> None:
    git_project = place.git_project
    place.branch("alice", FILES)
    landing = await place.ask(await place.run_of("alice"))
    place.interference.dies_at = "moved:1"
    with pytest.raises(Died):
        await place.kernel().run_once()
    place.interference.dead, place.interference.dies_at = False, ""
    (git_project.root / ".git/index.lock").unlink()
    git_project.git("checkout", "main^", "--", "a.txt", "gone.txt")
    git_project.git("commit", "--quiet", "-am", "back")
    await place.serve()
    info, commit = place.outcome(landing), git_project.git("rev-parse", "main")
    assert (info.state, info.why) == ("merged", f"since then 2 files were reverted by {commit}: 'a.txt', 'gone.txt'")
    assert git_project.git("status", "--porcelain") == "?? untracked.txt"


async def test_files_that_cannot_be_put_back_are_put_back_later(
    place: LandingProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.branch("alice", FILES)
    run, before = await place.run_of("alice"), state_of(place.git_project)
    landing = await place.ask(run)
    put_back = file_exchange.go_back

    def cannot(*_args: object) -> None:
        fails(errno.EROFS)()

    monkeypatch.setattr("kernel.git.checkout_move.go_back", cannot)
    place.interference.acts["files"] = [fails(errno.EROFS)]
    kernel = place.kernel()
    for _ in range(2):
        assert await kernel.run_once() == service.STUCK_SECONDS
        [open_one] = place.reader.now(landings.unfinished)
        assert (open_one.id, open_one.state) == (landing.id, "checked")
    assert (place.git_project.root / ".git/index.lock").exists()
    monkeypatch.setattr("kernel.git.checkout_move.go_back", put_back)
    place.interference.acts["staged"] = [lambda: before.update(again=state_of(place.git_project))]
    await place.serve()
    landed(place.git_project, place.outcome(landing))
    again = before.pop("again")
    assert isinstance(again, dict)
    assert {name: again[name] for name in before if name != "lock"} == {
        name: before[name] for name in before if name != "lock"
    }


@pytest.mark.promise("P15")
async def test_a_link_in_the_place_of_the_folder_for_new_files_is_not_followed(
    place: LandingProject, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "precious").write_text("precious\n")
    (place.git_project.root / ".git/.agent-worker-files").symlink_to(victim)
    place.branch("alice", FILES)
    landed(place.git_project, await place.land(await place.run_of("alice")))
    assert [one.name for one in victim.iterdir()] == ["precious"]


async def test_a_folder_that_becomes_a_link_while_files_move_is_not_written_through(
    place: LandingProject, tmp_path: Path
) -> None:
    victim, folder = tmp_path / "victim", place.git_project.root / "d"
    victim.mkdir()
    place.branch("alice", FILES)

    def swap() -> None:
        shutil.move(folder, tmp_path / "moved")
        folder.symlink_to(victim)

    place.interference.acts["staged"] = [swap]
    info = await place.land(await place.run_of("alice"))
    assert (info.state, list(victim.iterdir())) == ("refused", []), info


async def test_the_lock_of_another_kernel_is_not_taken_for_ones_own(place: LandingProject) -> None:
    lock = place.git_project.root / ".git/index.lock"
    file_exchange.lock(str(lock.parent), "0" * 40)
    place.branch("alice", FILES)
    info = await place.land(await place.run_of("alice"))
    assert (info.state, "another git process is running" in info.why, lock.exists()) == ("refused", True, True), info


async def test_one_landing_whose_files_cannot_be_written_does_not_keep_the_others(
    tmp_path: Path, launcher: Launcher
) -> None:
    git_project = project_in(tmp_path / "here")
    (git_project.root / ".gitattributes").write_text("run.sh filter=lfs\n")
    git_project.commit()
    async with landing_ground(git_project, launcher, Interference()) as place:
        place.branch("alice", {"run.sh": b"two\n"})
        place.branch("bob", {"a.txt": b"bob\n"})
        asked = [await place.ask(await place.run_of(name)) for name in ("alice", "bob")]
        with failing_filter(git_project):
            await place.serve()
        assert [place.outcome(one).state for one in asked] == ["refused", "merged"]
        assert git_project.git("status", "--porcelain") == ""


async def test_work_that_was_given_back_and_is_unchanged_is_not_given_back_again(place: LandingProject) -> None:
    place.branch("alice", {"a.txt": b"alice\n"})
    run, base = await place.run_of("alice"), place.git_project.git("rev-parse", "main")
    place.git_project.write("a.txt", "the user's\n")
    place.git_project.commit()
    returned: list[int] = []
    for step in ("first", "by hand", "unchanged", "changed"):
        if step == "changed":
            place.branch("alice", {"a.txt": b"alice again\n"}, base)
        delivers = step != "by hand"
        record, plan = place.plan(run, MergeRequest(give_back=delivers))
        landing = await place.writer.commit(request_landing, record, plan, delivers=delivers)
        await place.serve()
        returned.append(len(place.outcome(landing).returned_to))
    assert returned == [1, 0, 0, 1]
