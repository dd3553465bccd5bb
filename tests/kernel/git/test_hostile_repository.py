"""Other people's git data: a repository that was copied with its ``.git``, or that brings one along, runs nothing.

Each attack is told to the user's own git afterwards, which falls for it: what does not work there would prove nothing.
"""

import os
import shutil
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from kernel.git.repository import Repository
from protocol.errors import Refused
from tests.kernel.git.git_project import GitProject, at, ground_in, launched, made, planned, repository

pytestmark = pytest.mark.promise("P28")

NAMES: Final = ("xy", "x=y", "=", "a.b", "x=y.clean", 'q"u', "back\\slash", "-c", "é=", "lfs")


@pytest.fixture
def git_project(tmp_path: Path) -> GitProject:
    return ground_in(tmp_path)


def canary(git_project: GitProject) -> Path:
    return git_project.folder / "RAN"


def configure(git_project: GitProject, text: str, file: str = ".git/config") -> None:
    """Add ``text`` to a configuration, with RUN as a command that leaves a trace."""
    run = f"touch {canary(git_project)}; cat"
    with (git_project.root / file).open("a") as config:
        config.write(text.replace("RUN", run) + "\n")


async def use(git: Repository, git_project: GitProject, folders: Sequence[str] = ("",)) -> str:
    """Do all that is done with a repository, and with files in ``folders``. Returns why it was refused, or ""."""
    changed, new = [f"{folder}a.txt" for folder in folders], [f"{folder}new.txt" for folder in folders]
    try:
        base = await git.base()
        await git.branches()
        await git.included()
        tree = await made(git, planned(base, git))
        for path in (*changed, *new):
            git_project.write(path, "changed\n", tree)
        changes = await git.changes(tree, patch=True)
        assert {*changed, *new} <= {file.path for file in changes.files}
        assert await git.losses(tree) == f"uncommitted files: {len(changed) + len(new)}"
        for path in new:
            at(tree, path).unlink()
        for path in changed:
            git_project.write(path, (git_project.root / path).read_text(), tree)
        await git.losses(tree)
        await git.remove(tree)
    except Refused as refused:
        return refused.text
    return ""


@pytest.mark.parametrize("kind", ["clean", pytest.param("smudge", marks=pytest.mark.long("[clean]")), "process"])
async def test_no_filter_of_the_repository_runs_whatever_its_name(git_project: GitProject, kind: str) -> None:
    filters = {f"f{number}": name for number, name in enumerate(NAMES)}
    git_project.write(".gitattributes", "".join(f"{folder}/* filter={name}\n" for folder, name in filters.items()))
    for folder in filters:
        git_project.write(f"{folder}/a.txt", "one\n")
        git_project.write(f"{folder}/b.txt", "two\n")
    git_project.commit()
    for folder, name in filters.items():
        escaped = name.replace("\\", "\\\\").replace('"', '\\"')
        run = f"touch {canary(git_project)}-{folder}; cat"
        configure(git_project, f'[filter "{escaped}"]\n\t{kind} = "{run}"\n\trequired = false')
    async with repository(git_project) as git:
        assert await use(git, git_project, [f"{folder}/" for folder in filters]) == ""
    assert ran(git_project) == set()
    for folder in filters:
        git_project.write(f"{folder}/a.txt", "set it off\n")
        (git_project.root / folder / "b.txt").unlink()
    for words in (("add", *(f"{folder}/a.txt" for folder in filters)), ("checkout", "--", ".")):
        git_project.try_git(*words)
    assert ran(git_project) == set(filters), "each attack is one"


def ran(git_project: GitProject) -> set[str]:
    """The folders whose filters left a trace."""
    before = f"{canary(git_project).name}-"
    return {path.name.removeprefix(before) for path in git_project.folder.glob(f"{before}*")}


def fsmonitor(git_project: GitProject) -> None:
    configure(git_project, '[core]\n\tfsmonitor = "RUN"')


def hook(git_project: GitProject) -> None:
    file = git_project.root / ".git/hooks/post-checkout"
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"#!/bin/sh\ntouch {canary(git_project)}\n")
    file.chmod(0o755)
    shutil.copy(file, file.with_name("reference-transaction"))
    shutil.copy(file, file.with_name("post-index-change"))


def hooks_elsewhere(git_project: GitProject) -> None:
    hook(git_project)
    shutil.move(git_project.root / ".git/hooks", git_project.folder / "hooks")
    configure(git_project, f"[core]\n\thooksPath = {git_project.folder}/hooks")


def included(git_project: GitProject) -> None:
    configure(git_project, '[core]\n\tfsmonitor = "RUN"', ".git/more")
    configure(git_project, "[include]\n\tpath = more")


def included_where(git_project: GitProject) -> None:
    configure(git_project, '[core]\n\tfsmonitor = "RUN"', ".git/more")
    configure(git_project, '[includeIf "gitdir:**"]\n\tpath = more')


def of_the_worktree(git_project: GitProject) -> None:
    configure(git_project, "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tworktreeConfig = true")
    configure(git_project, '[core]\n\tfsmonitor = "RUN"', ".git/config.worktree")


def attributes_elsewhere(git_project: GitProject) -> None:
    (git_project.folder / "attributes").write_text("* filter=x=y\n")
    configure(
        git_project, f'[core]\n\tattributesFile = {git_project.folder}/attributes\n[filter "x=y"]\n\tclean = "RUN"'
    )


def attributes_of_its_own(git_project: GitProject) -> None:
    (git_project.root / ".git/info").mkdir(exist_ok=True)
    (git_project.root / ".git/info/attributes").write_text("* filter=x=y\n")
    configure(git_project, '[filter "x=y"]\n\tclean = "RUN"')


def shown(git_project: GitProject) -> None:
    git_project.write(".gitattributes", "* diff=x=y merge=x=y\n")
    git_project.commit()
    git_project.write("a.txt", "changed\n")
    configure(git_project, '[diff "x=y"]\n\ttextconv = "RUN"\n\tcommand = "RUN"\n[merge "x=y"]\n\tdriver = "RUN"')


def shown_outside(git_project: GitProject) -> None:
    git_project.write("a.txt", "changed\n")
    configure(git_project, '[diff]\n\texternal = "RUN"')


def signed(git_project: GitProject) -> None:
    tree, parent = git_project.git("rev-parse", "HEAD^{tree}"), git_project.git("rev-parse", "HEAD")
    who = "a <a@b> 1700000000 +0000"
    signature = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----"
    text = f"tree {tree}\nparent {parent}\nauthor {who}\ncommitter {who}\n{signature}\n\nsigned\n"
    (git_project.folder / "commit").write_text(text)
    made = git_project.git("hash-object", "-t", "commit", "-w", str(git_project.folder / "commit"))
    git_project.git("reset", "--quiet", "--hard", made)
    (git_project.folder / "gpg").write_text(f"#!/bin/sh\ntouch {canary(git_project)}\n")
    (git_project.folder / "gpg").chmod(0o755)
    configure(git_project, f"[log]\n\tshowSignature = true\n[gpg]\n\tprogram = {git_project.folder}/gpg")


def asked_of_a_promisor(git_project: GitProject) -> None:
    blob = git_project.git("rev-parse", "HEAD:a.txt")
    (git_project.root / f".git/objects/{blob[:2]}/{blob[2:]}").unlink()
    configure(
        git_project,
        "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tpartialClone = evil\n"
        f'[remote "evil"]\n\tpromisor = true\n\turl = "ext::sh -c touch% {canary(git_project)}"\n'
        '[protocol "ext"]\n\tallow = always',
    )


def asked_of_a_promisor_by_another_name(git_project: GitProject) -> None:
    asked_of_a_promisor(git_project)
    text = (git_project.root / ".git/config").read_text().replace("ext::sh", "https://x/sh")
    (git_project.root / ".git/config").write_text(text)
    configure(git_project, '[url "ext::sh"]\n\tinsteadOf = https://x/sh')


def asked_of_a_program(git_project: GitProject) -> None:
    asked_of_a_promisor(git_project)
    (git_project.folder / "pack").write_text(f"#!/bin/sh\ntouch {canary(git_project)}\n")
    (git_project.folder / "pack").chmod(0o755)
    configure(git_project, f'[remote "evil"]\n\turl = {git_project.root}\n\tuploadpack = {git_project.folder}/pack')
    text = (git_project.root / ".git/config").read_text().splitlines()
    (git_project.root / ".git/config").write_text("\n".join(line for line in text if "ext::" not in line) + "\n")


def filled_submodule(git_project: GitProject) -> None:
    """Git is started in it to find out whether it is dirty, which .gitmodules can ask for."""
    sub = git_project.root / "sub"
    sub.mkdir()
    git_project.git("init", "--quiet", cwd=sub)
    (sub / "f.txt").write_text("1\n")
    (sub / ".gitattributes").write_text("* filter=x=y\n")
    git_project.git("add", "--all", cwd=sub)
    git_project.git("commit", "--quiet", "-m", "sub", cwd=sub)
    git_project.write(".gitmodules", '[submodule "sub"]\n\tpath = sub\n\turl = ./sub\n\tignore = none\n')
    git_project.commit()
    configure(git_project, '[filter "x=y"]\n\tclean = "RUN"\n[core]\n\tfsmonitor = "RUN"', "sub/.git/config")
    (sub / "f.txt").write_text("2\n")


STATUS: Final = ("status",)


@dataclass(frozen=True)
class Attack:
    """``plant`` prepares it, and ``words`` are what the user's own git would be asked. ``why``: it is refused."""

    plant: Callable[[GitProject], None]
    words: tuple[str, ...] = STATUS
    why: str = ""


ATTACKS: Final = (
    Attack(fsmonitor),
    Attack(hook, ("checkout", "-q", "-b", "x")),
    Attack(hooks_elsewhere, ("checkout", "-q", "-b", "x")),
    Attack(included),
    Attack(included_where),
    Attack(of_the_worktree),
    Attack(attributes_elsewhere, ("add", "--renormalize", ".")),
    Attack(attributes_of_its_own, ("add", "--renormalize", ".")),
    Attack(shown, ("diff", "HEAD")),
    Attack(shown_outside, ("diff", "HEAD")),
    Attack(signed, ("log", "-1")),
    Attack(asked_of_a_promisor, ("cat-file", "-p", "HEAD:a.txt"), "object missing in the repository"),
    Attack(asked_of_a_promisor_by_another_name, ("cat-file", "-p", "HEAD:a.txt"), "object missing"),
    Attack(asked_of_a_program, ("cat-file", "-p", "HEAD:a.txt"), "object missing"),
    Attack(filled_submodule),
)


async def test_nothing_of_its_configuration_runs(tmp_path: Path, subtests: pytest.Subtests) -> None:
    async with launched(tmp_path) as launcher:
        for attack in ATTACKS:
            with subtests.test(attack.plant.__name__):
                git_project = ground_in(tmp_path / attack.plant.__name__)
                attack.plant(git_project)
                refused = await use(git_project.repository(launcher), git_project)
                assert refused.partition(":")[0].startswith(attack.why.partition(":")[0])
                assert not canary(git_project).exists()
                git_project.try_git(*attack.words)
                assert canary(git_project).exists(), "the attack is one"


def redirected(git_project: GitProject) -> None:
    shutil.move(git_project.root / ".git", git_project.folder / "elsewhere")
    (git_project.root / ".git").mkdir()
    for name in ("HEAD", "objects", "refs"):
        source = git_project.folder / "elsewhere" / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, git_project.root / ".git" / name)
    (git_project.root / ".git/commondir").write_text(f"{git_project.folder}/elsewhere\n")


def named(git_project: GitProject) -> None:
    shutil.move(git_project.root / ".git", git_project.folder / "elsewhere")
    (git_project.root / ".git").write_text(f"gitdir: {git_project.folder}/elsewhere\n")


def linked(git_project: GitProject) -> None:
    shutil.move(git_project.root / ".git", git_project.folder / "elsewhere")
    (git_project.root / ".git").symlink_to(git_project.folder / "elsewhere")


def of_another_tree(git_project: GitProject) -> None:
    (git_project.folder / "other").mkdir()
    git_project.git("config", "core.worktree", str(git_project.folder / "other"))


def embedded(git_project: GitProject) -> None:
    for path in (git_project.root / ".git").iterdir():
        shutil.move(path, git_project.root / path.name)
    (git_project.root / ".git").rmdir()
    git_project.git("init", "--quiet", cwd=git_project.folder)


def as_another_tree(git_project: GitProject) -> None:
    """A linked tree that the repository knows nothing of."""
    own = git_project.folder / "elsewhere/worktrees/x"
    shutil.move(git_project.root / ".git", git_project.folder / "elsewhere")
    own.mkdir(parents=True)
    (own / "HEAD").write_text("ref: refs/heads/main\n")
    (own / "commondir").write_text("../..\n")
    (own / "gitdir").write_text(f"{git_project.folder}/third/.git\n")
    (git_project.root / ".git").write_text(f"gitdir: {own}\n")


def in_parts(git_project: GitProject) -> None:
    shutil.move(git_project.root / ".git/objects", git_project.folder / "elsewhere")
    (git_project.root / ".git/objects").symlink_to(git_project.folder / "elsewhere")


REDIRECTIONS: Final = (
    (redirected, "points to another repository"),
    (named, "which does not refer back to it"),
    (linked, "is a symbolic link"),
    (of_another_tree, "core.worktree"),
    (embedded, "bare repository"),
    (as_another_tree, "which does not refer back to it"),
    (in_parts, "is not a folder"),
)


async def test_a_git_directory_that_is_not_the_projects_own_is_not_used(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    async with launched(tmp_path) as launcher:
        for plant, why in REDIRECTIONS:
            with subtests.test(plant.__name__):
                git_project = ground_in(tmp_path / plant.__name__)
                plant(git_project)
                with pytest.raises(Refused, match=why) as caught:
                    await git_project.repository(launcher).base()
                assert caught.value.code == "bad_definition"


FILES: Final = (
    "HEAD", "config", "packed-refs", "index", "shallow", "info/exclude", "info/attributes", "objects/info/alternates",
    "refs/heads/main", "refs/tags/one",
)  # fmt: skip
FOLDERS: Final = (
    "worktrees", "info", "lfs", "reftable", "refs/heads", "refs/heads/awk", "refs/heads/awk/review", "objects/pack",
    "objects/info", "objects/99",
)  # fmt: skip


@contextmanager
def planted(place: Path, plant: Callable[[], object]) -> Generator[None]:
    """Have what ``plant`` makes at ``place`` for the time of the block."""
    before = place.with_name(f"{place.name}-before")
    place.parent.mkdir(parents=True, exist_ok=True)
    if os.path.lexists(place):
        place.rename(before)
    plant()
    yield
    place.unlink()
    if before.exists():
        before.rename(place)


async def test_no_link_and_no_pipe_in_a_git_directory_is_followed_or_waited_for(
    git_project: GitProject, subtests: pytest.Subtests
) -> None:
    victim, secret = git_project.folder / "victim", git_project.folder / "secret"
    victim.mkdir()
    secret.write_text("PRIVATE-KEY\n")
    own = git_project.root / ".git"
    async with repository(git_project) as git:
        base = await git.base()
        for name in (*FILES, *FOLDERS):
            plants = [partial(os.symlink, victim if name in FOLDERS else secret, own / name)]
            plants += [partial(os.mkfifo, own / name)] if name in FILES else []
            for plant in plants:
                with subtests.test(name, plant=plant.func.__name__), planted(own / name, plant):
                    with pytest.raises(Refused, match=name.rpartition("/")[2]) as caught:
                        await git.add(planned(base, git), confined=True)
                    assert caught.value.code in ("bad_definition", "setup_failed")
                    assert list(victim.iterdir()) == []
                    kept = [path for path in git.place.rglob("*") if path.is_file()]
                    assert not [path for path in kept if b"PRIVATE" in path.read_bytes()]
        assert at(await made(git, planned(base, git)), "a.txt").exists(), "without them it is one as any other"


async def test_what_git_waits_for_is_told_with_the_limit(
    git_project: GitProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kernel.git.runner.SECONDS", 0.5)
    os.mkfifo(git_project.root / ".gitignore")
    git_project.write(".worktreeinclude", "*.env\n")
    async with repository(git_project) as git:
        with pytest.raises(Refused, match=r"timed out after 0\.5 s"):
            await git.included()


async def test_the_users_own_filters_go_on_working(git_project: GitProject) -> None:
    (git_project.folder / ".gitconfig").write_text('[filter "case"]\n\tsmudge = tr a-z A-Z\n\tclean = tr A-Z a-z\n')
    git_project.write(".gitattributes", "*.txt filter=case\n")
    git_project.write("loud.txt", "HELLO\n")
    git_project.commit()
    configure(git_project, '[filter "case"]\n\tsmudge = "RUN"\n\tclean = "RUN"')
    async with repository(git_project) as git:
        tree = await made(git, planned(await git.base(), git))
        assert at(tree, "loud.txt").read_text() == "HELLO\n"
        os.utime(at(tree, "loud.txt"), (1, 1))
        assert await git.losses(tree) is None, "cleaned, it is as it was"
        git_project.write("loud.txt", "HELLO YOU\n", tree)
        assert "+hello you" in (await git.changes(tree, patch=True)).patch
    assert not canary(git_project).exists()


async def test_git_lfs_of_the_user_is_told_to_fetch_nothing(git_project: GitProject) -> None:
    filters = '[filter "lfs"]\n\tsmudge = "cat >/dev/null; printf %s ${GIT_LFS_SKIP_SMUDGE:-fetched}"\n\tclean = cat\n'
    (git_project.folder / ".gitconfig").write_text(filters)
    git_project.write(".gitattributes", "*.bin filter=lfs\n")
    git_project.write("a.bin", "pointer\n")
    git_project.commit()
    async with repository(git_project) as git:
        tree = await made(git, planned(await git.base(), git))
        assert at(tree, "a.bin").read_text() == "1"


@pytest.mark.long("tests/kernel/git/test_repository.py")
async def test_a_linked_tree_and_a_submodule_of_the_user_are_projects_as_well(git_project: GitProject) -> None:
    git_project.git("worktree", "add", "--quiet", "-b", "side", str(git_project.folder / "side"))
    git_project.git("init", "--quiet", "--initial-branch=main", str(git_project.folder / "outer"))
    add = ("-c", "protocol.file.allow=always", "submodule", "add", "--quiet", str(git_project.root), "sub")
    git_project.git(*add, cwd=git_project.folder / "outer")
    async with launched(git_project.folder) as launcher:
        for where in (git_project.folder / "side", git_project.folder / "outer/sub"):
            shutil.rmtree(git_project.folder / "trees", ignore_errors=True)
            git = git_project.repository(launcher, where)
            base = await git.base()
            tree = await made(git, planned(base, git, where.name))
            assert at(tree, "a.txt").read_text() == "one\n"
            assert git_project.git("status", "--porcelain", cwd=at(tree)) == ""
            assert await git.losses(tree) is None
            await git.remove(tree)
