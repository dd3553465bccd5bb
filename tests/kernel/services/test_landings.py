"""Landing branches over real git: all or nothing, in order, once, and whoever else is at work in the repository."""

import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from kernel.git import merging as landing
from kernel.git.merging import Added, Conflict, Merging, RunToMerge, merging_in
from kernel.git.runner import ProjectGit
from kernel.git.view import GitView
from kernel.procs.command import CommandResult
from kernel.procs.launcher import Launcher
from kernel.store import tasks
from kernel.store.transaction import Transaction
from kernel.store.transitions import landings, worktrees
from kernel.store.transitions.worktrees import worktree_gone
from kernel.workflows.setup import CheckOutcome, CheckRun, check_merge
from protocol.api.runs import MergeRequest
from protocol.ipc import Bound, Sandbox
from protocol.tasks import TaskSpec
from tests.kernel.git.git_project import GitProject, ground_in, launched
from tests.kernel.services.landing_histories import PLANTED
from tests.kernel.services.landing_project import (
    BRANCH,
    Interference,
    LandingProject,
    attempt_of,
    commit,
    landing_ground,
)
from tests.shorthand import present

pytestmark = pytest.mark.promise("P33")

SHOWN = "nothing is checked"
"""The planted fault that the ordinary suite tries."""
LIKELY = {SHOWN: 110, "the branch is moved from wherever it is": 105, "a checkout is left half done": 109}
"""The seeds from which on to look."""
LINES = b"".join(b"line %d\n" % number for number in range(30))


@pytest.fixture
async def launcher(tmp_path: Path) -> AsyncGenerator[Launcher]:
    async with launched(tmp_path) as made:
        yield made


@pytest.fixture
async def place(tmp_path: Path, launcher: Launcher) -> AsyncGenerator[LandingProject]:
    git_project = ground_in(tmp_path / "here")
    git_project.write("lines.txt", LINES.decode())
    git_project.write("old name.txt", LINES.decode().replace("line", "row"))
    git_project.write("gone.txt", "to be removed\n")
    git_project.commit()
    async with landing_ground(git_project, launcher, Interference()) as made:
        yield made


def clean(git_project: GitProject) -> bool:
    return git_project.git("status", "--porcelain") == "" and not (git_project.root / ".git/index.lock").exists()


@pytest.mark.long("tests/kernel/git/test_branches.py")
async def test_what_is_renamed_removed_and_binary_lands_with_the_files(place: LandingProject) -> None:
    place.branch("alice", {"old name.txt": None, "new/name.txt": LINES.replace(b"line", b"row"), "gone.txt": None})
    place.branch("bob", {"old name.txt": LINES.replace(b"line", b"row").replace(b"row 7", b"row seven")})
    place.branch("carol", {"x.bin": bytes(range(256)), "näw\nfile\t\"'": b"hostile\n", "-rf": b"dash\n"})
    before = place.refs()
    run = await place.run_of("carol", "alice", "bob")
    info = await place.land(run)
    assert (info.state, [one.agent for one in info.branches]) == ("merged", ["carol", "alice", "bob"]), info
    assert "row seven" in (place.git_project.root / "new/name.txt").read_text()
    assert (place.git_project.root / "x.bin").read_bytes() == bytes(range(256))
    assert not (place.git_project.root / "gone.txt").exists()
    assert (place.git_project.root / "-rf").exists()
    assert clean(place.git_project)
    assert place.refs() == {**before, "refs/heads/main": info.commit}
    shown = (await place.trees().report(run, None, patch=True))[0]
    assert (shown.agent, shown.state, shown.branch) == (info.id, "merged", "main")
    assert "+row seven" in shown.patch and {"gone.txt", "x.bin"} <= {file.path for file in shown.files}
    assert [one.state for one in await place.trees().report(run, "alice", patch=False)] == ["made"]
    again = await place.land(run)
    assert (again.state, again.commit) == ("merged", None)


async def test_conflicts_change_nothing_and_name_the_files(place: LandingProject, subtests: pytest.Subtests) -> None:
    kinds: dict[str, tuple[dict[str, bytes | None], dict[str, bytes | None], str]] = {
        "text": (
            {"lines.txt": LINES.replace(b"line 3\n", b"3\n")},
            {"lines.txt": LINES.replace(b"line 3\n", b"x\n")},
            "lines.txt",
        ),
        "binary": ({"b.bin": b"\0\1"}, {"b.bin": b"\0\2"}, "b.bin"),
        "removed": ({"gone.txt": None}, {"gone.txt": b"kept and changed\n"}, "gone.txt"),
        "folder": ({"n": b"file\n"}, {"n/inner": b"folder\n"}, "n"),
    }
    for kind, (one, other, file) in kinds.items():
        with subtests.test(kind):
            place.branch("alice", one)
            place.branch("bob", other)
            place.branch("carol", {"c.txt": b"fine\n"})
            before = place.refs()
            info = await place.land(await place.run_of("carol", "alice", "bob"))
            assert (info.state, any(name.startswith(file) for name in info.files)) == ("refused", True), info
            assert [one.agent for one in info.branches if one.conflict] == ["bob"]
            assert place.refs() == before
            assert clean(place.git_project)


@pytest.mark.promise("P40")
@pytest.mark.parametrize(("folder", "files"), [("", "src/**"), ("src", "a.txt")])
async def test_a_branch_that_changes_what_another_holds_for_a_task_waits_for_that(
    place: LandingProject, folder: str, files: str
) -> None:
    place.branch("alice", {"src/a.txt": b"alice\n"})
    place.branch("bob", {"b.txt": b"bob\n"})
    run = await place.run_of("alice", "bob", folder=folder)
    space = place.plan(run)[0].space

    def hold(tx: Transaction) -> None:
        spec = TaskSpec(title="Rework it", files=(files,))
        number, _ = tasks.insert(tx, space, spec, tasks.NewTask(creator="system", hops=0), None)
        assert tasks.make_step(tx, tasks.by_number(tx.conn, number), tasks.TaskChange(step="free", by="system"))
        claim = tasks.TaskChange(step="claim", by="bob", holder="bob")
        assert tasks.make_step(tx, tasks.by_number(tx.conn, number), claim)

    def end(tx: Transaction) -> None:
        assert tasks.make_step(tx, tasks.by_number(tx.conn, 1), tasks.TaskChange(step="finish", by="bob"))

    await place.writer.commit(hold)
    before = place.refs()
    refused = await place.land(run)
    assert (refused.state, refused.files, place.refs()) == ("refused", ("src/a.txt",), before)
    assert "claimed by bob for task t1" in refused.why
    assert (await place.land(run, MergeRequest(agent="bob"))).state == "merged"
    await place.writer.commit(end)
    assert (await place.land(run)).state == "merged"


@pytest.mark.promise("P28")
async def test_nothing_that_a_branch_or_the_repository_names_is_run(place: LandingProject, tmp_path: Path) -> None:
    marker = tmp_path / "it ran"
    git_project = place.git_project
    run = f"touch '{marker}'; false"
    for key in (
        "merge.evil.driver",
        "filter.evil.smudge",
        "filter.evil.clean",
        "filter.evil.process",
        "core.fsmonitor",
    ):
        git_project.git("config", key, run)
    for key in ("diff.evil.textconv", "diff.external", "gpg.program", "core.editor", "sequence.editor"):
        git_project.git("config", key, run)
    attributes = b"* merge=evil filter=evil diff=evil text=auto\n"
    place.branch("alice", {".gitattributes": attributes, "lines.txt": LINES.replace(b"line 3\n", b"3\n")})
    place.branch("bob", {"lines.txt": LINES.replace(b"line 20\n", b"20\n"), "b.txt": b"b\n"})
    place.branch("eve", {".gitattributes": attributes, "lines.txt": LINES.replace(b"line 3\n", b"evil\n")})
    runs = await place.run_of("alice", "bob"), await place.run_of("eve")
    for hook in ("reference-transaction", "post-merge", "pre-commit", "post-checkout", "post-index-change", "update"):
        file = git_project.root / ".git/hooks" / hook
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"#!/bin/sh\n{run}\n")
        file.chmod(0o755)
    merged = await place.land(runs[0], MergeRequest(check="test -f b.txt"))
    refused = await place.land(runs[1], MergeRequest(give_back=True))
    assert (merged.state, refused.state) == ("merged", "refused"), (merged, refused)
    assert not marker.exists()


async def test_what_merges_and_does_not_pass_its_check_goes_to_whoever_made_it_red(place: LandingProject) -> None:
    check = 'test "$(cat n*.txt | wc -l)" -le 2 || { echo too many; exit 1; }'
    for name in ("alice", "bob", "carol", "dave"):
        place.branch(name, {f"n-{name}.txt": name.encode() + b"\n"})
    before = place.refs()
    run = await place.run_of("alice", "bob", "carol", "dave")
    info = await place.land(run, MergeRequest(check=check, give_back=True))
    assert (info.state, "too many" in info.output, place.refs()) == ("refused", True, before), info
    [work] = info.returned_to
    told = place.reader.now(lambda conn: conn.execute("SELECT text FROM messages ORDER BY seq DESC").fetchone())
    assert place.reader.now(landings.work_of, run, "carol")[0] == (int(work[1:]),)
    assert "| too many" in str(told)
    assert not list((place.git_project.folder / "trees").rglob("n-*.txt"))


@pytest.mark.long("tests/kernel/procs/test_command.py")
async def test_a_check_may_use_no_more_of_the_machine_than_those_whose_work_it_checks(
    place: LandingProject, subtests: pytest.Subtests
) -> None:
    loose = '{"processes": 1000, "memory": 1073741824}'
    place.branch("alice", {"alice.txt": b"alice\n"})
    place.branch("bob", {"bob.txt": b"bob\n"})
    before = place.refs()
    for kind, limits, check in (
        ("processes", '{"processes": 4}', "for _ in 1 2 3 4 5; do sleep 1000 & done; wait"),
        ("memory", '{"memory": 67108864}', "cat /dev/zero | tail -c 200000000"),
    ):
        with subtests.test(kind):
            run = await place.run_of("alice", "bob", limits={"alice": loose, "bob": limits})
            info = await place.land(run, MergeRequest(check=check))
            assert (info.state, f"(limits.{kind})" in info.why, place.refs()) == ("refused", True, before), info


@pytest.mark.long("tests/kernel/services/test_landings.py")
async def test_what_is_too_large_is_refused_before_git_reads_it(
    place: LandingProject, subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, limit in (("FILE_BYTES", 1000), ("BRANCH_BYTES", 20_000), ("LIST_BYTES", 10_000)):
        monkeypatch.setattr(landing, name, limit)
    place.branch("file", {"d/large\n.bin": bytes(1001)})
    place.branch("between", {"large.bin": bytes(1002)})
    place.branch("between", {"large.bin": None, "b.txt": b"b\n"}, BRANCH + "between")
    place.branch("all", {f"{number}.bin": bytes([number]) * 999 for number in range(21)})
    place.branch("names", {f"{number}.bin": bytes(999) for number in range(21)})
    place.branch("list", {f"{number}.txt": b"x\n" for number in range(200)})
    place.branch("fine", {f"{number}.bin": bytes([number]) * 999 for number in range(15)} | {"lines.txt": None})
    run = ProjectGit.run
    merged: list[str] = []

    async def seen(git: ProjectGit, view: GitView, *words: str, **more: Any) -> CommandResult:
        merged.extend(words[-1:] if words[0] == "merge-tree" else ())
        return await run(git, view, *words, **more)

    monkeypatch.setattr(ProjectGit, "run", seen)
    for name, why in (
        ("file", "'d/large' has 1,001 bytes; the limit is 1000B"),
        ("between", "'large.bin' has 1,002 bytes"),
        ("all", "it adds 2"),
        ("names", "it changes files of 20,979 bytes"),
        ("list", "the file list exceeds"),
    ):
        with subtests.test(name):
            before = place.refs()
            info = await place.land(await place.run_of(name))
            assert (info.state, why in info.why, merged, place.refs()) == ("refused", True, [], before), info
    assert (await place.land(await place.run_of("fine"))).state == "merged"
    assert merged == [place.git_project.git("rev-parse", BRANCH + "fine")]


def contents(root: Path) -> dict[str, bytes]:
    files = (path for path in root.rglob("*") if path.is_file() and ".git/objects" not in str(path))
    return {str(path): path.read_bytes() for path in files}


async def test_a_checkout_that_is_not_clean_is_left_alone(place: LandingProject, subtests: pytest.Subtests) -> None:
    root = place.git_project.root
    place.branch("alice", {"a.txt": b"alice\n", "new.txt": b"new\n"})
    run = await place.run_of("alice")

    def left(kind: str) -> None:
        match kind:
            case "changed":
                (root / "a.txt").write_text("mine\n")
            case "staged":
                (root / "s.txt").write_text("s\n")
                place.git_project.git("add", "s.txt")
            case "in the way":
                (root / "new.txt").write_text("precious\n")
            case "merging":
                (root / ".git/MERGE_HEAD").write_text(place.git_project.git("rev-parse", "HEAD"))
            case "locked":
                (root / ".git/index.lock").touch()
            case _:
                place.git_project.git("update-index", "--assume-unchanged", "a.txt")

    for kind in ("changed", "staged", "in the way", "merging", "locked", "overlooked"):
        with subtests.test(kind):
            left(kind)
            seen = contents(root)
            info = await place.land(run)
            assert (info.state, info.why != "") == ("refused", True), info
            assert contents(root) == seen
            for file in (".git/MERGE_HEAD", ".git/index.lock", "new.txt", "s.txt"):
                (root / file).unlink(missing_ok=True)
            place.git_project.git("update-index", "--no-assume-unchanged", "a.txt")
            place.git_project.git("reset", "--quiet", "--hard")
    assert (await place.land(run)).state == "merged"
    assert clean(place.git_project)


@pytest.mark.long("tests/kernel/services/test_landings.py")
async def test_what_git_ignores_in_a_checkout_is_not_written_over(
    place: LandingProject, subtests: pytest.Subtests
) -> None:
    root = place.git_project.root
    place.git_project.write(".gitignore", ".env\ncache\n")
    place.git_project.commit()
    mine: dict[str, str] = {".env": "SECRET=1\n", "cache/deep/mine.db": "mine\n", "cache": "mine\n"}
    theirs = {".env": ".env", "cache/deep/mine.db": "cache", "cache": "cache/deep/theirs"}
    named = {".env": ".env", "cache/deep/mine.db": "cache/deep", "cache": "cache"}
    for name, content in mine.items():
        with subtests.test(name):
            place.git_project.write(name, content)
            place.branch("alice", {theirs[name]: b"theirs\n"})
            run, before = await place.run_of("alice"), place.refs()
            record, plan = place.plan(run)
            info, shown = await place.land(run), await place.kernel().preview(record, plan)
            assert (info.state, shown.state, info.files, shown.files) == (
                "refused",
                "refused",
                (named[name],),
                info.files,
            ), info
            assert ((root / name).read_text(), place.refs()) == (content, before)
            (root / name).unlink()
            if name.startswith("cache/"):
                shutil.rmtree(root / "cache")
    place.git_project.write("cache/deep/theirs", "theirs\n")
    assert (await place.land(await place.run_of("alice"))).state == "merged", "it is as it is to be, so nothing is lost"
    assert clean(place.git_project)


async def test_a_folder_that_only_the_repository_calls_a_working_tree_is_not_written_to(
    place: LandingProject, tmp_path: Path
) -> None:
    git_project = place.git_project
    home = tmp_path / "home"
    home.mkdir()
    git_project.git("branch", "release")
    git_project.git("worktree", "add", "--quiet", str(tmp_path / "linked"), "release")
    place.branch("alice", {"new.txt": b"new\n"})
    run = await place.run_of("alice")
    assert (await place.land(run, MergeRequest(into="release"))).state == "merged"
    assert (tmp_path / "linked/new.txt").exists()
    git_project.git("branch", "planted", "main")
    own = git_project.root / ".git/worktrees/x"
    own.mkdir()
    for name, text in (("HEAD", "ref: refs/heads/planted"), ("commondir", "../.."), ("gitdir", f"{home}/.git")):
        (own / name).write_text(f"{text}\n")
    git_project.git("read-tree", f"--index-output={own}/index", "main")
    for name in git_project.git("ls-tree", "--name-only", "main").splitlines():
        shutil.copyfile(git_project.root / name, home / name)
    seen = sorted(home.iterdir())
    info = await place.land(run, MergeRequest(into="planted"))
    assert (info.state, str(home) in info.why, sorted(home.iterdir())) == ("refused", True, seen), info


@pytest.mark.parametrize(
    "name",
    [
        "agent-worker.index",
        "logs/refs/heads/main",
        *(
            pytest.param(name, marks=pytest.mark.long("[above]"))
            for name in ("agent-worker.lock", "logs/HEAD", "logs/refs/heads", "logs")
        ),
    ],
)
async def test_nothing_is_written_by_way_of_a_link_in_the_repository(
    place: LandingProject, tmp_path: Path, name: str
) -> None:
    place.branch("alice", {"new.txt": b"new\n"})
    run = await place.run_of("alice")
    victim, link = tmp_path / "victim", place.git_project.root / ".git" / name
    is_folder = name in ("logs", "logs/refs/heads")
    victim.mkdir() if is_folder else victim.write_text("precious\n")
    (place.git_project.root / ".git/logs/refs/heads").mkdir(parents=True, exist_ok=True)
    shutil.rmtree(link) if is_folder else link.unlink(missing_ok=True)
    link.symlink_to(victim)
    info = await place.land(run)
    assert (info.state, (place.git_project.root / "new.txt").exists()) == ("merged", True), info
    assert (list(victim.iterdir()) == []) if is_folder else (victim.read_text() == "precious\n")
    assert clean(place.git_project)


async def test_a_check_does_not_run_where_a_link_of_a_branch_leads(place: LandingProject, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    place.git_project.write("sub/a.txt", "a\n")
    place.git_project.commit()
    link = str(outside).encode()
    rows = f"commit refs/heads/{BRANCH}alice\ncommitter u <u@l> 1790000000 +0000\ndata 1\nw\nfrom refs/heads/main\n"
    rows += f"D sub\nM 120000 inline sub\ndata {len(link)}\n"
    place.git_project.give(rows.encode() + link + b"\n", "fast-import", "--quiet", "--force")
    tip = place.git_project.git("rev-parse", f"{BRANCH}alice")
    async with merging_in(place.git(), str(place.git_project.root / ".git")) as merging:
        run = CheckRun(place.launcher, "check-link", place.git_project.environ, Bound())
        outcome = await check_merge(merging, tip, "touch here", "sub", run, sandbox=None)
    assert (outcome.why, list(outside.iterdir())) == ("the merged tree has no folder sub", [])


async def test_a_branch_that_somebody_moved_is_not_moved_again(place: LandingProject) -> None:
    old, tip = place.git_project.git("rev-parse", "main"), place.branch("alice", {"a.txt": b"alice\n"})
    theirs = commit(place.git_project, "refs/heads/side", {"u.txt": b"user\n"}, "main")
    place.git_project.git("branch", "elsewhere", theirs)
    async with merging_in(place.git(), str(place.git_project.root / ".git")) as merging:
        assert not await merging.move("elsewhere", old, tip)
        assert place.git_project.git("rev-parse", "elsewhere") == theirs
        assert await merging.move("elsewhere", theirs, tip)
    assert place.git_project.git("rev-parse", "elsewhere") == tip


async def test_a_check_is_confined_as_soon_as_any_agent_of_the_run_was(
    place: LandingProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs: list[str | None] = []

    async def check(*_args: object, sandbox: Sandbox | None) -> CheckOutcome:
        programs.append(None if sandbox is None else sandbox.program)
        return CheckOutcome(None)

    monkeypatch.setattr("kernel.services.landings.check_merge", check)
    for name in ("alice", "bob", "carol"):
        place.branch(name, {f"{name}.txt": b"x\n"})
    run, alone = await place.run_of("alice", "bob"), MergeRequest(agent="alice", check="true")
    assert (await place.land(run, alone)).state == "merged"
    [bob] = (tree for tree in place.reader.now(worktrees.of_run, run) if tree.name == "bob")
    assert await place.trees().ready(attempt_of(bob), confined=True)
    place.branch("alice", {"more.txt": b"x\n"})
    assert (await place.land(run, alone)).state == "merged"
    made = present(place.reader.now(worktrees.of, run, bob.agent))
    await place.git_project.repository(place.launcher).remove(made, force=True)
    await place.writer.commit(worktree_gone, made)
    place.branch("alice", {"last.txt": b"x\n"})
    assert (await place.land(run, alone)).state == "merged"
    assert programs == [None, "bob", "bob"]
    together = [await place.run_of("alice"), await place.run_of("dave", "carol")]
    [carol] = (tree for tree in place.reader.now(worktrees.of_run, together[1]) if tree.name == "carol")
    assert await place.trees().ready(attempt_of(carol), confined=True)
    for one, name in zip(together, ("alice", "dave"), strict=True):
        place.branch(name, {f"{name} again.txt": b"x\n"})
        await place.ask(one, MergeRequest(agent=name, check="true"))
    await place.serve()
    assert programs[3:] == ["carol"], "what lands together is checked together"


@pytest.mark.parametrize("checked_out", [True, pytest.param(False, marks=pytest.mark.long("[True]"))])
async def test_a_commit_that_comes_right_before_the_branch_moves_is_not_lost(
    place: LandingProject, monkeypatch: pytest.MonkeyPatch, checked_out: bool
) -> None:
    """The branch moves only from where it was read. It is merged anew; a checkout that lags behind then is refused."""
    into = "main" if checked_out else "release"
    place.git_project.git("branch", "release")
    place.branch("alice", {"new.txt": b"alice\n"})
    run, move = await place.run_of("alice"), Merging.move

    theirs: list[str] = []

    async def moves(merging: Merging, branch: str, expected: str, tip: str) -> bool:
        if not theirs:
            theirs.append(commit(place.git_project, f"refs/heads/{into}", {"theirs.txt": b"theirs\n"}, into))
        return await move(merging, branch, expected, tip)

    monkeypatch.setattr(Merging, "move", moves)
    info = await place.land(run, MergeRequest(into=into))
    assert place.read("theirs.txt", into) == "theirs"
    assert not (place.git_project.root / ".git/index.lock").exists()
    if checked_out:
        assert (info.state, place.git_project.git("rev-parse", into)) == ("refused", theirs[0]), info
        assert not (place.git_project.root / "new.txt").exists()
    else:
        assert (info.state, info.tries, place.read("new.txt", into)) == ("merged", 2, "alice"), info


@pytest.mark.parametrize("checked_out", [True, False])
@pytest.mark.long("tests/kernel/git/test_branches.py")
async def test_a_branch_that_another_git_has_locked_is_refused_and_not_tried_for_ever(
    place: LandingProject, monkeypatch: pytest.MonkeyPatch, checked_out: bool
) -> None:
    monkeypatch.setattr(landing, "LOCKED_MS", 10)
    into = "main" if checked_out else "release"
    place.git_project.git("branch", "release")
    lock = place.git_project.root / f".git/refs/heads/{into}.lock"
    place.branch("alice", {"new.txt": b"alice\n"})
    run, before = await place.run_of("alice"), place.refs()
    lock.touch()
    info = await place.land(run, MergeRequest(into=into))
    assert (info.state, info.tries, str(lock) in info.why, lock.exists()) == ("refused", 1, True, True), info
    assert (place.refs(), clean(place.git_project)) == (before, True)
    lock.unlink()

    def left() -> None:
        [checked] = place.reader.now(landings.unfinished)
        lock.write_text(f"{checked.tip}\n")

    place.interference.acts["checked"] = [left]
    assert (await place.land(run, MergeRequest(into=into))).state == "merged"
    assert clean(place.git_project)


@pytest.mark.promise("P28")
async def test_filters_of_the_users_own_work_on_a_checkout_that_moves_and_on_what_is_checked(
    place: LandingProject,
) -> None:
    git_project = place.git_project
    (git_project.folder / ".gitconfig").write_text('[filter "case"]\n\tsmudge = tr a-z A-Z\n\tclean = tr A-Z a-z\n')
    git_project.git("config", "filter.case.smudge", "false")
    place.branch("alice", {".gitattributes": b"*.up filter=case\n", "new.up": b"quiet\n"})
    info = await place.land(await place.run_of("alice"), MergeRequest(check='test "$(cat new.up)" = QUIET'))
    assert (info.state, place.read("new.up")) == ("merged", "quiet"), info
    assert (git_project.root / "new.up").read_text() == "QUIET\n"


async def test_a_branch_that_others_move_meanwhile_gets_what_they_did_as_well(place: LandingProject) -> None:
    place.git_project.git("checkout", "--quiet", "-b", "elsewhere")
    place.branch("alice", {"a.txt": b"alice\n"})
    run = await place.run_of("alice")
    place.interference.acts["checked"] = [
        lambda: commit(place.git_project, "refs/heads/main", {"u.txt": b"user\n"}, "main")
    ]
    info = await place.land(run)
    assert (info.state, info.tries) == ("merged", 2)
    assert (place.read("a.txt"), place.read("u.txt")) == ("alice", "user")
    assert (place.git_project.root / "a.txt").read_text() == "one\n"
    place.branch("alice", {"a.txt": b"alice again\n"})
    place.interference.acts["checked"] = [lambda: place.git_project.git("branch", "-D", "main")]
    gone = await place.land(await place.run_of("alice", base="elsewhere"), MergeRequest(into="main"))
    assert (gone.state, "branch main not found: create it with git branch main" in gone.why) == ("refused", True)
    odd = await place.land(await place.run_of("alice", base="elsewhere"), MergeRequest(into="x;$(id)"))
    assert "create it with git branch 'x;$(id)'" in odd.why


@pytest.mark.long("tests/kernel/policy/test_landing.py")
async def test_ten_clean_landings_are_checked_once_and_one_red_one_does_not_keep_the_others(
    place: LandingProject, tmp_path: Path
) -> None:
    log = tmp_path / "checks"
    check = f"echo x >> '{log}'; test ! -f red.txt"
    for batch, red in (("a", None), ("b", 6)):
        asked = []
        for number in range(10):
            files: dict[str, bytes | None] = {f"{batch}{number}.txt": b"x\n"}
            place.branch(f"{batch}{number}", {**files, **({"red.txt": b"x\n"} if number == red else {})})
            asked.append(await place.ask(await place.run_of(f"{batch}{number}"), MergeRequest(check=check)))
        log.unlink(missing_ok=True)
        await place.serve()
        states = [place.outcome(one).state for one in asked]
        assert states == ["refused" if number == red else "merged" for number in range(10)]
        assert len(log.read_text().splitlines()) <= (1 if red is None else 9)
    assert clean(place.git_project)
    assert "red.txt" not in place.git_project.git("ls-tree", "--name-only", "main").split()


async def test_a_conflict_with_work_that_does_not_land_is_tried_again(place: LandingProject) -> None:
    place.branch("alice", {"a.txt": b"alice\n", "red.txt": b"x\n"})
    place.branch("bob", {"a.txt": b"bob\n"})
    request = MergeRequest(check="test ! -f red.txt")
    asked = [await place.ask(await place.run_of(name), request) for name in ("alice", "bob")]
    await place.serve()
    assert [place.outcome(one).state for one in asked] == ["refused", "merged"]


async def test_what_is_asked_for_while_others_are_merged_is_checked_with_them(
    place: LandingProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, add = tmp_path / "checks", Merging.add
    for name, files in (("alice", {"a.txt": b"alice\n"}), ("bob", {"b.txt": b"bob\n"}), ("carol", {"a.txt": b"c\n"})):
        place.branch(name, dict(files))
    request = MergeRequest(check=f"echo x >> '{log}'")
    later = [(await place.run_of(name), request) for name in ("bob", "carol")]
    asked = [await place.ask(await place.run_of("alice"), request)]

    async def adds(merging: Merging, base: str, wanted: RunToMerge) -> Added | Conflict:
        while later:
            asked.append(await place.ask(*later.pop(0)))
        return await add(merging, base, wanted)

    monkeypatch.setattr(Merging, "add", adds)
    await place.serve()
    assert [place.outcome(one).state for one in asked] == ["merged", "merged", "refused"]
    assert (log.read_text(), place.git_project.git("reflog", "main").count("awk merge")) == ("x\n", 1)


@pytest.mark.long("tests/kernel/services/test_landing_faults.py")
async def test_a_kernel_may_die_at_every_point_of_a_landing(
    tmp_path: Path, launcher: Launcher, subtests: pytest.Subtests
) -> None:
    points = ["begun", "kept", "checked", "locked", "staged", "files", "index", "moved", "landed"]
    for number, (point, here) in enumerate((point, here) for here in (True, False) for point in points):
        if not here and point in ("locked", "staged", "files", "index", "moved"):
            continue
        with subtests.test(point, checked_out=here):
            git_project = ground_in(tmp_path / str(number))
            async with landing_ground(git_project, launcher, Interference(f"{point}:1")) as place:
                if not here:
                    git_project.git("checkout", "--quiet", "--detach")
                place.branch("alice", {"a.txt": b"alice\n", "d/n.txt": b"new\n"})
                place.branch("bob", {"b.txt": b"bob\n"})
                info = await place.land(await place.run_of("alice", "bob"))
                assert place.interference.dies_at == "", place.interference.passed
                assert (info.state, info.commit) == ("merged", git_project.git("rev-parse", "main"))
                assert git_project.git("log", "--first-parent", "--format=%s", "main").count("Merge") == 2
                assert (place.read("a.txt"), place.read("b.txt"), place.read("d/n.txt")) == ("alice", "bob", "new")
                assert clean(git_project)
                assert {BRANCH + name for name in ("alice", "bob")} <= {ref[11:] for ref in place.refs()}


async def test_a_file_that_was_changed_after_a_kernel_died_over_it_stays(place: LandingProject) -> None:
    root = place.git_project.root
    place.branch(
        "alice", {"a.txt": b"alice\n", "lines.txt": LINES + b"more\n", "gone.txt": None, "new.txt": b"whole\n"}
    )

    def meanwhile() -> None:
        (root / "a.txt").write_text("somebody's\n")
        (root / "gone.txt").write_text("somebody's\n")

    place.interference.dies_at = "files:1"
    place.interference.acts["files"] = [meanwhile]
    run, before = await place.run_of("alice"), place.refs()
    info = await place.land(run)
    assert (info.state, info.files, place.refs()) == ("refused", ("a.txt", "gone.txt"), before), info
    assert [(root / name).read_text() for name in ("a.txt", "gone.txt")] == ["somebody's\n"] * 2
    assert ((root / "lines.txt").read_bytes(), (root / "new.txt").exists()) == (LINES, False)
    assert place.git_project.git("status", "--porcelain").splitlines() == ["M a.txt", " M gone.txt"]
    assert not (root / ".git/index.lock").exists()
    place.git_project.git("checkout", "--", ".")
    assert (await place.land(run)).state == "merged"
    assert clean(place.git_project)


@pytest.mark.long("tests/e2e/test_merge.py")
async def test_the_user_is_the_author_and_the_reflog_knows(place: LandingProject) -> None:
    place.git_project.git("config", "user.name", "Ada L")
    place.git_project.git("config", "user.email", "ada@localhost")
    place.branch("alice", {"a.txt": b"alice\n"})
    run = await place.run_of("alice")
    info = await place.land(run, MergeRequest(squash=True))
    assert place.git_project.git("log", "-1", "--format=%an <%ae> %cn%n%P", "main").splitlines() == [
        "Ada L <ada@localhost> Ada L",
        place.git_project.git("rev-parse", "main^"),
    ]
    assert info.commit == place.git_project.git("rev-parse", "main")
    assert (await place.land(run, MergeRequest(squash=True))).commit is None
    assert "awk merge" in place.git_project.git("reflog", "main")


def histories(*words: str) -> subprocess.CompletedProcess[str]:
    """Try histories in a process of its own, which waits for all that its kernels leave."""
    command = [sys.executable, "-m", "tests.kernel.services.landing_histories", *words]
    return subprocess.run(command, cwd=Path(__file__).parents[3], capture_output=True, text=True, check=False)


@pytest.mark.long("the other tests of this file")
def test_generated_histories_land_whole_and_lose_nothing() -> None:
    tried = histories("2", "--seed", "1001")
    assert (tried.returncode, "2 histories, 0 wrong" in tried.stdout) == (0, True), tried


@pytest.mark.parametrize("fault", PLANTED)
@pytest.mark.long("the other tests of this file")
def test_the_judge_of_histories_sees_a_fault(fault: str) -> None:
    tried = histories("--fault", fault, "--seed", str(LIKELY.get(fault, 100)))
    assert (tried.returncode, "1 faults planted, 0 not found" in tried.stdout) == (0, True), tried


async def test_who_conflicts_with_a_colleague_of_its_run_is_told_to_merge_a_commit_that_is_there(
    place: LandingProject,
) -> None:
    place.branch("alice", {"lines.txt": LINES.replace(b"line 3\n", b"3\n")})
    place.branch("bob", {"lines.txt": LINES.replace(b"line 3\n", b"x\n")})
    info = await place.land(await place.run_of("alice", "bob"), MergeRequest(give_back=True))
    assert ([one.agent for one in info.branches if one.conflict], len(info.returned_to)) == (["bob"], 1), info
    told = place.reader.now(lambda conn: conn.execute("SELECT text FROM messages ORDER BY seq DESC").fetchone())
    named = str(told).partition("merge the commit ")[2].split(" ", 1)[0]
    assert "3" in place.read("lines.txt", named).splitlines()
