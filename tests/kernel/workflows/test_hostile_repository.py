"""Other people's git data: a repository that was copied with its ``.git``, or that brings one along, runs nothing.

Each attack is told to the user's own git afterwards, which falls for it: what does not work there would prove nothing.
"""

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from kernel.workflows.repository import Repository
from protocol.errors import Refused
from tests.kernel.workflows.git_ground import Ground, at, ground_in, launched, made, planned, repository

pytestmark = pytest.mark.promise("P28")

NAMES: Final = ("xy", "x=y", "=", "a.b", "x=y.clean", 'q"u', "back\\slash", "-c", "é=", "lfs")


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return ground_in(tmp_path)


def canary(ground: Ground) -> Path:
    return ground.folder / "RAN"


def configure(ground: Ground, text: str, file: str = ".git/config") -> None:
    """Add ``text`` to a configuration, with RUN as a command that leaves a trace."""
    run = f"touch {canary(ground)}; cat"
    with (ground.root / file).open("a") as config:
        config.write(text.replace("RUN", run) + "\n")


async def use(git: Repository, ground: Ground, folders: Sequence[str] = ("",)) -> str:
    """Everything that is ever done with a repository, and with files in ``folders`` of it ("", "docs/").

    Returns why it was refused; "": it was not.
    """
    changed, new = [f"{folder}a.txt" for folder in folders], [f"{folder}new.txt" for folder in folders]
    try:
        base = await git.base()
        await git.branches()
        await git.included()
        tree = await made(git, planned(base, git))
        for path in (*changed, *new):
            ground.write(path, "changed\n", tree)
        changes = await git.changes(tree, patch=True)
        assert {*changed, *new} <= {file.path for file in changes.files}
        assert await git.losses(tree) == f"changed or new files that are not committed: {len(changed) + len(new)}"
        for path in new:
            at(tree, path).unlink()
        for path in changed:
            ground.write(path, (ground.root / path).read_text(), tree)
        await git.losses(tree)
        await git.remove(tree)
    except Refused as refused:
        return refused.text
    return ""


@pytest.mark.parametrize("kind", ["clean", "smudge", "process"])
async def test_no_filter_of_the_repository_runs_whatever_its_name(ground: Ground, kind: str) -> None:
    """git splits what ``-c`` is given at the first ``=``; nothing of ours depends on a filter's name."""
    filters = {f"f{number}": name for number, name in enumerate(NAMES)}
    ground.write(".gitattributes", "".join(f"{folder}/* filter={name}\n" for folder, name in filters.items()))
    for folder in filters:
        ground.write(f"{folder}/a.txt", "one\n")
        ground.write(f"{folder}/b.txt", "two\n")
    ground.commit()
    for folder, name in filters.items():
        escaped = name.replace("\\", "\\\\").replace('"', '\\"')
        run = f"touch {canary(ground)}-{folder}; cat"
        configure(ground, f'[filter "{escaped}"]\n\t{kind} = "{run}"\n\trequired = false')
    async with repository(ground) as git:
        assert await use(git, ground, [f"{folder}/" for folder in filters]) == ""
    assert ran(ground) == set()
    for folder in filters:
        ground.write(f"{folder}/a.txt", "set it off\n")
        (ground.root / folder / "b.txt").unlink()
    for words in (("add", *(f"{folder}/a.txt" for folder in filters)), ("checkout", "--", ".")):
        ground.try_git(*words)
    assert ran(ground) == set(filters), "each attack is one"


def ran(ground: Ground) -> set[str]:
    """The folders whose filters left a trace."""
    before = f"{canary(ground).name}-"
    return {path.name.removeprefix(before) for path in ground.folder.glob(f"{before}*")}


def fsmonitor(ground: Ground) -> None:
    configure(ground, '[core]\n\tfsmonitor = "RUN"')


def hook(ground: Ground) -> None:
    file = ground.root / ".git/hooks/post-checkout"
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"#!/bin/sh\ntouch {canary(ground)}\n")
    file.chmod(0o755)
    shutil.copy(file, file.with_name("reference-transaction"))
    shutil.copy(file, file.with_name("post-index-change"))


def hooks_elsewhere(ground: Ground) -> None:
    hook(ground)
    shutil.move(ground.root / ".git/hooks", ground.folder / "hooks")
    configure(ground, f"[core]\n\thooksPath = {ground.folder}/hooks")


def included(ground: Ground) -> None:
    configure(ground, '[core]\n\tfsmonitor = "RUN"', ".git/more")
    configure(ground, "[include]\n\tpath = more")


def included_where(ground: Ground) -> None:
    configure(ground, '[core]\n\tfsmonitor = "RUN"', ".git/more")
    configure(ground, '[includeIf "gitdir:**"]\n\tpath = more')


def of_the_worktree(ground: Ground) -> None:
    configure(ground, "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tworktreeConfig = true")
    configure(ground, '[core]\n\tfsmonitor = "RUN"', ".git/config.worktree")


def attributes_elsewhere(ground: Ground) -> None:
    (ground.folder / "attributes").write_text("* filter=x=y\n")
    configure(ground, f'[core]\n\tattributesFile = {ground.folder}/attributes\n[filter "x=y"]\n\tclean = "RUN"')


def attributes_of_its_own(ground: Ground) -> None:
    (ground.root / ".git/info").mkdir(exist_ok=True)
    (ground.root / ".git/info/attributes").write_text("* filter=x=y\n")
    configure(ground, '[filter "x=y"]\n\tclean = "RUN"')


def shown(ground: Ground) -> None:
    ground.write(".gitattributes", "* diff=x=y merge=x=y\n")
    ground.commit()
    ground.write("a.txt", "changed\n")
    configure(ground, '[diff "x=y"]\n\ttextconv = "RUN"\n\tcommand = "RUN"\n[merge "x=y"]\n\tdriver = "RUN"')


def shown_outside(ground: Ground) -> None:
    ground.write("a.txt", "changed\n")
    configure(ground, '[diff]\n\texternal = "RUN"')


def signed(ground: Ground) -> None:
    tree, parent = ground.git("rev-parse", "HEAD^{tree}"), ground.git("rev-parse", "HEAD")
    who = "a <a@b> 1700000000 +0000"
    signature = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----"
    text = f"tree {tree}\nparent {parent}\nauthor {who}\ncommitter {who}\n{signature}\n\nsigned\n"
    (ground.folder / "commit").write_text(text)
    made = ground.git("hash-object", "-t", "commit", "-w", str(ground.folder / "commit"))
    ground.git("reset", "--quiet", "--hard", made)
    (ground.folder / "gpg").write_text(f"#!/bin/sh\ntouch {canary(ground)}\n")
    (ground.folder / "gpg").chmod(0o755)
    configure(ground, f"[log]\n\tshowSignature = true\n[gpg]\n\tprogram = {ground.folder}/gpg")


def asked_of_a_promisor(ground: Ground) -> None:
    blob = ground.git("rev-parse", "HEAD:a.txt")
    (ground.root / f".git/objects/{blob[:2]}/{blob[2:]}").unlink()
    configure(
        ground,
        "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tpartialClone = evil\n"
        f'[remote "evil"]\n\tpromisor = true\n\turl = "ext::sh -c touch% {canary(ground)}"\n'
        '[protocol "ext"]\n\tallow = always',
    )


def asked_of_a_promisor_by_another_name(ground: Ground) -> None:
    asked_of_a_promisor(ground)
    text = (ground.root / ".git/config").read_text().replace("ext::sh", "https://x/sh")
    (ground.root / ".git/config").write_text(text)
    configure(ground, '[url "ext::sh"]\n\tinsteadOf = https://x/sh')


def asked_of_a_program(ground: Ground) -> None:
    asked_of_a_promisor(ground)
    (ground.folder / "pack").write_text(f"#!/bin/sh\ntouch {canary(ground)}\n")
    (ground.folder / "pack").chmod(0o755)
    configure(ground, f'[remote "evil"]\n\turl = {ground.root}\n\tuploadpack = {ground.folder}/pack')
    text = (ground.root / ".git/config").read_text().splitlines()
    (ground.root / ".git/config").write_text("\n".join(line for line in text if "ext::" not in line) + "\n")


def filled_submodule(ground: Ground) -> None:
    """Git is started in it to find out whether it is dirty, which .gitmodules can ask for."""
    sub = ground.root / "sub"
    sub.mkdir()
    ground.git("init", "--quiet", cwd=sub)
    (sub / "f.txt").write_text("1\n")
    (sub / ".gitattributes").write_text("* filter=x=y\n")
    ground.git("add", "--all", cwd=sub)
    ground.git("commit", "--quiet", "-m", "sub", cwd=sub)
    ground.write(".gitmodules", '[submodule "sub"]\n\tpath = sub\n\turl = ./sub\n\tignore = none\n')
    ground.commit()
    configure(ground, '[filter "x=y"]\n\tclean = "RUN"\n[core]\n\tfsmonitor = "RUN"', "sub/.git/config")
    (sub / "f.txt").write_text("2\n")


STATUS: Final = ("status",)


@dataclass(frozen=True)
class Attack:
    """``plant`` prepares it, and ``words`` are what the user's own git would be asked. ``why``: it is refused."""

    plant: Callable[[Ground], None]
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
    Attack(asked_of_a_promisor, ("cat-file", "-p", "HEAD:a.txt"), "an object is missing in the repository"),
    Attack(asked_of_a_promisor_by_another_name, ("cat-file", "-p", "HEAD:a.txt"), "an object is missing"),
    Attack(asked_of_a_program, ("cat-file", "-p", "HEAD:a.txt"), "an object is missing"),
    Attack(filled_submodule),
)


async def test_nothing_of_its_configuration_runs(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """Monitors, hooks, includes, drivers, signatures, transports, submodules."""
    async with launched(tmp_path) as launcher:
        for attack in ATTACKS:
            with subtests.test(attack.plant.__name__):
                ground = ground_in(tmp_path / attack.plant.__name__)
                attack.plant(ground)
                refused = await use(ground.repository(launcher), ground)
                assert refused.partition(":")[0].startswith(attack.why.partition(":")[0])
                assert not canary(ground).exists()
                ground.try_git(*attack.words)
                assert canary(ground).exists(), "the attack is one"


def redirected(ground: Ground) -> None:
    shutil.move(ground.root / ".git", ground.folder / "elsewhere")
    (ground.root / ".git").mkdir()
    for name in ("HEAD", "objects", "refs"):
        source = ground.folder / "elsewhere" / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, ground.root / ".git" / name)
    (ground.root / ".git/commondir").write_text(f"{ground.folder}/elsewhere\n")


def named(ground: Ground) -> None:
    shutil.move(ground.root / ".git", ground.folder / "elsewhere")
    (ground.root / ".git").write_text(f"gitdir: {ground.folder}/elsewhere\n")


def linked(ground: Ground) -> None:
    shutil.move(ground.root / ".git", ground.folder / "elsewhere")
    (ground.root / ".git").symlink_to(ground.folder / "elsewhere")


def of_another_tree(ground: Ground) -> None:
    (ground.folder / "other").mkdir()
    ground.git("config", "core.worktree", str(ground.folder / "other"))


def embedded(ground: Ground) -> None:
    for path in (ground.root / ".git").iterdir():
        shutil.move(path, ground.root / path.name)
    (ground.root / ".git").rmdir()
    ground.git("init", "--quiet", cwd=ground.folder)


def as_another_tree(ground: Ground) -> None:
    """A linked tree that the repository knows nothing of."""
    own = ground.folder / "elsewhere/worktrees/x"
    shutil.move(ground.root / ".git", ground.folder / "elsewhere")
    own.mkdir(parents=True)
    (own / "HEAD").write_text("ref: refs/heads/main\n")
    (own / "commondir").write_text("../..\n")
    (own / "gitdir").write_text(f"{ground.folder}/third/.git\n")
    (ground.root / ".git").write_text(f"gitdir: {own}\n")


def in_parts(ground: Ground) -> None:
    shutil.move(ground.root / ".git/objects", ground.folder / "elsewhere")
    (ground.root / ".git/objects").symlink_to(ground.folder / "elsewhere")


REDIRECTIONS: Final = (
    (redirected, "points to another repository"),
    (named, "which does not say that it belongs here"),
    (linked, "is a link"),
    (of_another_tree, "core.worktree"),
    (embedded, "it is a bare repository"),
    (as_another_tree, "which does not say that it belongs here"),
    (in_parts, "is no folder"),
)


async def test_a_git_directory_that_is_not_the_projects_own_is_not_used(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """By a file, a link, a setting, as tracked files; said, and nothing is made."""
    async with launched(tmp_path) as launcher:
        for plant, why in REDIRECTIONS:
            with subtests.test(plant.__name__):
                ground = ground_in(tmp_path / plant.__name__)
                plant(ground)
                with pytest.raises(Refused, match=why) as caught:
                    await ground.repository(launcher).base()
                assert caught.value.code == "bad_definition"


async def test_the_users_own_filters_go_on_working(ground: Ground) -> None:
    """Git LFS is one: of the user's configuration, whatever the repository's says about a filter of that name."""
    (ground.folder / ".gitconfig").write_text('[filter "case"]\n\tsmudge = tr a-z A-Z\n\tclean = tr A-Z a-z\n')
    ground.write(".gitattributes", "*.txt filter=case\n")
    ground.write("loud.txt", "HELLO\n")
    ground.commit()
    configure(ground, '[filter "case"]\n\tsmudge = "RUN"\n\tclean = "RUN"')
    async with repository(ground) as git:
        tree = await made(git, planned(await git.base(), git))
        assert at(tree, "loud.txt").read_text() == "HELLO\n"
        os.utime(at(tree, "loud.txt"), (1, 1))
        assert await git.losses(tree) is None, "cleaned, it is as it was"
        ground.write("loud.txt", "HELLO YOU\n", tree)
        assert "+hello you" in (await git.changes(tree, patch=True)).patch
    assert not canary(ground).exists()


@pytest.mark.long("tests/kernel/workflows/test_repository.py")
async def test_a_linked_tree_and_a_submodule_of_the_user_are_projects_as_well(ground: Ground) -> None:
    """A file ``.git`` that git made: the directory that it names says where it belongs."""
    ground.git("worktree", "add", "--quiet", "-b", "side", str(ground.folder / "side"))
    ground.git("init", "--quiet", "--initial-branch=main", str(ground.folder / "outer"))
    add = ("-c", "protocol.file.allow=always", "submodule", "add", "--quiet", str(ground.root), "sub")
    ground.git(*add, cwd=ground.folder / "outer")
    async with launched(ground.folder) as launcher:
        for where in (ground.folder / "side", ground.folder / "outer/sub"):
            shutil.rmtree(ground.folder / "trees", ignore_errors=True)
            git = ground.repository(launcher, where)
            base = await git.base()
            tree = await made(git, planned(base, git, where.name))
            assert at(tree, "a.txt").read_text() == "one\n"
            assert ground.git("status", "--porcelain", cwd=at(tree)) == ""
            assert await git.losses(tree) is None
            await git.remove(tree)
