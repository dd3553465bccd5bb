"""Commits go to a clone on a node, and what is done there comes back as commits, and as nothing else."""

import shutil
import subprocess
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec
import pytest

from kernel.git import clone as foreign_commits
from kernel.git.node_sync import LOST, NodeSync
from kernel.git.repository import Repository
from kernel.procs.handle import Handle
from kernel.procs.spec import NodeLost
from kernel.store.transitions.worktrees import Worktree
from protocol.errors import Refused
from protocol.ipc import Exited
from tests.kernel.git.git_project import GitProject, at, ground_in, repository
from tests.kernel.git.node_ground import FarMachine, commit_far, far_machine, home_of, tree_at_home

pytestmark = pytest.mark.promise("P89")


class Ground:
    """A project, alice's tree in it, a node, and the two brought together."""

    def __init__(self, project: GitProject, there: FarMachine, repo: Repository, tree: Worktree) -> None:
        self.project = project
        self.far = there
        self.repository = repo
        self.tree = tree

    @property
    def sync(self) -> NodeSync:
        return self.far.sync(home_of(self.repository, self.tree))

    def tip(self) -> str:
        return self.project.git("rev-parse", self.tree.branch)

    def refs(self) -> str:
        return self.project.git("for-each-ref", "--format=%(refname)")


@asynccontextmanager
async def ground(folder: Path, *, brought: bool = True) -> AsyncGenerator[Ground]:
    project = ground_in(folder / "here")
    async with repository(project) as repo, far_machine(folder / "far") as there:
        g = Ground(project, there, repo, await tree_at_home(repo))
        if brought:
            await g.sync.bring()
        yield g


async def test_a_commit_goes_to_the_node_and_what_is_done_there_comes_back(tmp_path: Path) -> None:
    async with ground(tmp_path, brought=False) as g:
        g.project.write(".gitignore", "cache/\n", g.tree)
        g.project.write("b.txt", "here\n", g.tree)
        g.project.commit(g.tree)
        await g.sync.bring()
        assert (g.far.tree / "b.txt").read_text() == "here\n"
        (g.far.tree / "a.txt").write_text("two\n")
        commit_far(g.project, g.far)
        (g.far.tree / "new.txt").write_text("not committed\n")
        (g.far.tree / "cache").mkdir()
        (g.far.tree / "cache/kept").write_text("ignored\n")
        before = g.tip()
        done = await g.sync.collect()
        assert g.tip() == done.tip != before
        assert at(g.tree, "a.txt").read_text() == "two\n"
        assert at(g.tree, "new.txt").read_text() == "not committed\n"
        assert not at(g.tree, "cache").exists()
        log = g.project.git("log", "--format=%an|%s", f"{before}..{g.tree.branch}").splitlines()
        assert [line.split("|")[1] for line in log] == ["alice: work of i1 (r1)", "far work"]
        assert not g.project.git("status", "--porcelain", cwd=at(g.tree))
        await g.sync.bring()
        assert (g.far.tree / "cache/kept").read_text() == "ignored\n"


def hostile_chain(g: Ground) -> None:
    """Each of the two stays in the tree as it is written; together they lead out of it."""
    (g.far.tree / "d/e").mkdir(parents=True)
    (g.far.tree / "d/e/top").symlink_to("../..")
    (g.far.tree / "over").symlink_to("d/e/top/../..")


def hostile_absolute(g: Ground) -> None:
    (g.far.tree / "passwd").symlink_to("/etc/passwd")


def hostile_submodule(g: Ground) -> None:
    g.project.git("update-index", "--add", "--cacheinfo", f"160000,{g.tip()},vendor", cwd=g.far.tree)
    g.project.git("commit", "--quiet", "-m", "sub", cwd=g.far.tree)


def hostile_git_path(g: Ground) -> None:
    """A tree object with a folder ``.git``, as no git would write it."""
    git = g.project.git
    blob = git("hash-object", "-w", "a.txt", cwd=g.far.tree)
    raw = b"100644 config\0" + bytes.fromhex(blob)
    inner = write_object(g, raw)
    outer = write_object(g, b"40000 .GIT\0" + bytes.fromhex(inner))
    commit = git("commit-tree", outer, "-p", "HEAD", "-m", "evil", cwd=g.far.tree)
    git("reset", "--quiet", "--soft", commit, cwd=g.far.tree)
    git("update-ref", f"refs/heads/{g.tree.branch}", commit, cwd=g.far.tree)
    git("config", "core.protectNTFS", "false", cwd=g.far.tree)


def write_object(g: Ground, raw: bytes) -> str:
    words = ("git", "hash-object", "-t", "tree", "--literally", "-w", "--stdin")
    done = subprocess.run(words, cwd=g.far.tree, env=g.project.environ, input=raw, capture_output=True, check=True)
    return done.stdout.decode().strip()


async def test_a_large_thin_pack_of_a_node_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernel.git.clone._LOOSE", 0)  # as if every pack had 100 objects
    async with ground(tmp_path, brought=False) as g:
        g.project.write("long.txt", "".join(f"line {number}\n" for number in range(2000)), g.tree)
        g.project.commit(g.tree)
        await g.sync.bring()
        with (g.far.tree / "long.txt").open("a") as file:
            file.write("one more\n")
        assert (await g.sync.collect()).tip == g.tip()
        assert at(g.tree, "long.txt").read_text().endswith("one more\n")


def hostile_past(g: Ground) -> None:
    """What is gone again in the last commit is in the one before."""
    hostile_absolute(g)
    commit_far(g.project, g.far)
    (g.far.tree / "passwd").unlink()
    commit_far(g.project, g.far)


def hostile_broken(g: Ground) -> None:
    """An object of the last commit is not there."""
    (g.far.tree / "b.txt").write_text("gone")
    commit_far(g.project, g.far)
    name = g.project.git("rev-parse", "HEAD:b.txt", cwd=g.far.tree)
    Path(g.far.tree, ".git/objects", name[:2], name[2:]).unlink()


MODULES: Final = '[submodule "x"]\n\tpath = x\n\turl = ext::sh -c true\n'
HOSTILE: Final[dict[str, Callable[[Ground], object]]] = {
    "a link that leads out": lambda g: (g.far.tree / "out").symlink_to("../../../../etc"),
    "leads out of the tree": hostile_chain,
    "a link that leads out of the tree": hostile_absolute,
    "a link into the git folder": lambda g: (g.far.tree / "config").symlink_to(".git/config"),
    "a submodule": hostile_submodule,
    "submodule": lambda g: (g.far.tree / ".gitmodules").write_text(MODULES),
    "filter=evil": lambda g: (g.far.tree / ".gitattributes").write_text("*.txt filter=evil\n"),
    "merge=evil": lambda g: (g.far.tree / ".gitattributes").write_text("*.txt merge=evil\n"),
    "hasDot": hostile_git_path,
    "out of the tree": hostile_past,
    "cannot be packed": hostile_broken,
}


@pytest.mark.long("the other tests of this file")
async def test_what_is_hostile_is_refused_and_stays_on_the_node(tmp_path: Path) -> None:
    for number, (said, make) in enumerate(HOSTILE.items()):
        async with ground(tmp_path / str(number)) as g:
            make(g)
            before, refs, objects = g.tip(), g.refs(), g.project.git("count-objects", "-v")
            with pytest.raises(Refused) as refused:
                await g.sync.collect()
            assert said in refused.value.text, (said, refused.value.text)
            assert (g.tip(), g.refs(), g.project.git("count-objects", "-v")) == (before, refs, objects), said
            notes = (await g.sync.bring()).notes
            aside = next(g.far.clone.glob("kept-*"))
            assert str(aside) in notes[0]
            assert (g.far.tree / "a.txt").read_text() == "one\n"
            assert not g.project.git("status", "--porcelain", cwd=at(g.tree))


async def test_hooks_settings_and_refs_of_the_clone_do_not_come_along(tmp_path: Path) -> None:
    async with ground(tmp_path) as g:
        git, proof = g.far.tree / ".git", tmp_path / "ran"
        for hook in ("pre-commit", "post-checkout", "reference-transaction", "post-index-change"):
            path = git / "hooks" / hook
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"#!/bin/sh\necho {hook} >>{proof}\n")
            path.chmod(0o755)
        for key, value in {
            "core.fsmonitor": f"touch {proof}", "core.sshCommand": f"touch {proof}", "alias.status": f"!touch {proof}",
            "core.hooksPath": str(git / "hooks"), "core.pager": f"touch {proof}", "diff.external": f"touch {proof}",
        }.items():  # fmt: skip
            (git / "config").write_text((git / "config").read_text() + setting(key, value))
        (g.far.tree / "a.txt").write_text("two\n")
        (git / "refs/heads/stranger").write_text(g.tip() + "\n")
        refs = g.refs()
        await g.sync.collect()
        assert at(g.tree, "a.txt").read_text() == "two\n"
        assert g.refs() == refs
        await g.sync.bring()
        assert not proof.exists()


def setting(key: str, value: str) -> str:
    section, _, name = key.partition(".")
    return f'[{section}]\n\t{name} = "{value}"\n'


async def test_what_a_lost_node_still_holds_is_kept_under_a_ref_before_its_clone_is_brought_up_to_date(
    tmp_path: Path,
) -> None:
    async with ground(tmp_path) as g:
        (g.far.tree / "a.txt").write_text("on the lost node\n")
        g.project.write("a.txt", "elsewhere\n", g.tree)
        g.project.commit(g.tree)
        tip = g.tip()
        notes = (await g.sync.bring()).notes
        lost = [ref for ref in g.refs().splitlines() if ref.startswith(LOST)]
        assert len(lost) == 1
        assert lost[0] in notes[0]
        assert g.project.git("show", f"{lost[0]}:a.txt") == "on the lost node"
        assert g.tip() == tip
        assert (g.far.tree / "a.txt").read_text() == "elsewhere\n"
        assert not (await g.sync.bring()).notes


async def test_what_is_left_on_a_node_by_a_kernel_that_died_is_taken_before_the_next_attempt(tmp_path: Path) -> None:
    async with ground(tmp_path) as g:
        (g.far.tree / "a.txt").write_text("half done\n")
        (g.far.tree / ".git/index.lock").touch()
        (g.far.tree / ".git/refs/heads" / f"{g.tree.branch}.lock").touch()
        assert "were added" in (await g.sync.bring()).notes[0]
        assert at(g.tree, "a.txt").read_text() == "half done\n"


async def test_a_result_that_does_not_follow_from_the_branch_is_refused_and_kept(tmp_path: Path) -> None:
    async with ground(tmp_path, brought=False) as g:
        g.project.write("b.txt", "here\n", g.tree)
        g.project.commit(g.tree)
        await g.sync.bring()
        before = g.tip()
        g.project.git("reset", "--quiet", "--hard", "HEAD~1", cwd=g.far.tree)
        (g.far.tree / "c.txt").write_text("other\n")
        commit_far(g.project, g.far)
        with pytest.raises(Refused, match="is not a descendant"):
            await g.sync.collect()
        assert g.tip() == before
        await g.sync.bring()
        assert g.tip() == before
        assert LOST in g.refs()
        assert (g.far.tree / "b.txt").read_text() == "here\n"


@pytest.mark.long("the other tests of this file")
async def test_another_branch_in_the_clone_is_told_and_nothing_of_it_is_lost(tmp_path: Path) -> None:
    async with ground(tmp_path) as g:
        g.project.git("checkout", "--quiet", "-b", "own", cwd=g.far.tree)
        (g.far.tree / "a.txt").write_text("own\n")
        with pytest.raises(Refused, match="'own' is checked out"):
            await g.sync.collect()
        await g.sync.bring()
        assert (next(g.far.clone.glob("kept-*")) / "a.txt").read_text() == "own\n"


async def test_a_clone_in_which_its_agent_works_is_never_set_aside(tmp_path: Path) -> None:
    async with ground(tmp_path) as g:
        g.project.git("checkout", "--quiet", "-b", "own", cwd=g.far.tree)
        with pytest.raises(Refused, match="'own' is checked out"):
            await g.sync.bring(live=True)
        assert g.far.tree.is_dir()


async def test_a_clone_whose_repository_was_destroyed_is_made_anew_beside_it(tmp_path: Path) -> None:
    async with ground(tmp_path) as g:
        (g.far.tree / "a.txt").write_text("mine\n")
        shutil.rmtree(g.far.tree / ".git")
        with pytest.raises(Refused):
            await g.sync.collect()
        with pytest.raises(Refused, match="no longer a git repository"):
            await g.sync.clear()
        await g.sync.bring()
        assert (g.far.tree / "a.txt").read_text() == "one\n"
        assert (next(g.far.clone.glob("kept-*")) / "a.txt").read_text() == "mine\n"


async def test_a_small_pack_with_much_in_it_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign_commits, "FILES_BYTES", 10 * 2**20)
    async with ground(tmp_path) as g:
        for number in range(20):
            (g.far.tree / f"{number}.bin").write_bytes(bytes(2**20))
        with pytest.raises(Refused, match="exceed 10 MiB"):
            await g.sync.collect()


async def test_a_node_gets_nothing_of_the_project_by_naming_it(tmp_path: Path) -> None:
    async with ground(tmp_path) as g:
        g.project.git("checkout", "--quiet", "-b", "private")
        g.project.write("secret.txt", "secret\n")
        g.project.commit()
        g.project.git("fetch", "--quiet", str(g.project.root), "private", cwd=g.far.tree)
        before = g.tip()
        for words in (("merge", "--quiet", "--no-ff", "-m", "mine", "FETCH_HEAD"), ("reset", "--quiet", "FETCH_HEAD")):
            g.project.git(*words, cwd=g.far.tree)
            with pytest.raises(Refused, match="did not receive"):
                await g.sync.collect()
        assert g.tip() == before


async def test_a_project_without_its_history_works_on_a_node_as_well(tmp_path: Path) -> None:
    whole = ground_in(tmp_path / "whole")
    whole.write("b.txt", "two\n")
    whole.commit()
    project = GitProject(tmp_path / "here")
    project.folder.mkdir()
    whole.git("clone", "--quiet", "--depth=1", f"file://{whole.root}", str(project.root))
    async with repository(project) as repo, far_machine(tmp_path / "far") as there:
        g = Ground(project, there, repo, await tree_at_home(repo))
        await g.sync.bring()
        (g.far.tree / "b.txt").write_text("three\n")
        await g.sync.collect()
        assert at(g.tree, "b.txt").read_text() == "three\n"
        assert project.git("rev-list", "--count", g.tree.branch) == "2"


@pytest.mark.long("the other tests of this file")
async def test_a_repository_of_longer_names_is_cloned_as_one(tmp_path: Path) -> None:
    """SHA-256, where git has that."""
    project = GitProject(tmp_path / "here")
    project.root.mkdir(parents=True)
    project.git("init", "--quiet", "--object-format=sha256", "--initial-branch=main")
    project.write("a.txt", "one\n")
    project.commit()
    async with repository(project) as repo, far_machine(tmp_path / "far") as there:
        g = Ground(project, there, repo, await tree_at_home(repo))
        await g.sync.bring()
        (g.far.tree / "a.txt").write_text("two\n")
        assert len((await g.sync.collect()).tip) == 64
        assert at(g.tree, "a.txt").read_text() == "two\n"


async def test_a_node_that_goes_in_the_middle_is_lost_and_nothing_else_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ground(tmp_path) as g:
        ended = Handle.wait

        async def lost(handle: Handle) -> Exited:
            exited = await ended(handle)
            return msgspec.structs.replace(exited, lost=True) if "files-" in handle.attempt else exited

        monkeypatch.setattr(Handle, "wait", lost)
        for step in (g.sync.bring, g.sync.collect):
            with pytest.raises(NodeLost):
                await step()
