"""Copies of a project for runs that must not see each other."""

import os
import subprocess
from pathlib import Path

import pytest

from kernel.inspect.project_copy import copy_project
from protocol.errors import Refused
from protocol.inspection import CopiedProject

ENVIRON = {"PATH": os.environ["PATH"], "HOME": "/nowhere", "GIT_DIR": "/nowhere"}


def git(cwd: Path, *words: str) -> str:
    names = {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    environ = {**names, "PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull}
    return subprocess.run(
        ("git", *words), cwd=cwd, env=environ, capture_output=True, check=True, text=True
    ).stdout.strip()


def filled(root: Path) -> None:
    """Files, links in and out, a pipe, and a state directory in the middle of them."""
    (root / "sub/state/projects").mkdir(parents=True)
    (root / "sub/a.txt").write_text("a")
    (root / "inward").symlink_to(root / "sub" / "a.txt")
    (root / "outward").symlink_to("/etc/hostname")
    (root / "beside").symlink_to("sub/a.txt")
    os.mkfifo(root / "pipe")


def test_a_project_without_git_is_copied_as_it_is(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    filled(root)
    (root / "sub/.git").mkdir()
    (root / "sub/.git/config").write_text("[core]\n")
    made = tmp_path / "one"
    copy = copy_project(root, str(made), str(root / "sub/state"), ENVIRON)
    assert sorted(os.listdir(made)) == ["beside", "inward", "outward", "sub"]
    assert os.listdir(made / "sub") == ["a.txt"]
    assert os.readlink(made / "inward") == "sub/a.txt"
    assert (os.readlink(made / "outward"), os.readlink(made / "beside")) == ("/etc/hostname", "sub/a.txt")
    assert copy == CopiedProject(git=False, inside="")


def test_a_repository_keeps_its_commit_and_nothing_else_of_git(tmp_path: Path) -> None:
    """One branch, no remote, no hook; what was not committed is a commit, what git ignores is there; also of a linked
    working tree, of a project below the top, and of a commit without a branch."""
    top = tmp_path / "top"
    (top / "app").mkdir(parents=True)
    git(tmp_path, "init", "--quiet", "--initial-branch=main", str(top))
    (top / ".gitignore").write_text("node_modules\n")
    (top / "app/a.txt").write_text("one")
    git(top, "add", "--all")
    git(top, "commit", "--quiet", "-m", "first")
    git(top, "branch", "awk/review/main/coder")
    first = git(top, "rev-parse", "HEAD")
    (top / "app/a.txt").write_text("two")
    (top / "new.txt").write_text("new")
    (top / "node_modules").mkdir()
    (top / "node_modules/lib.js").write_text("lib")
    hook = top / ".git/hooks/post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    hook.chmod(0o755)
    made = tmp_path / "made"
    copy = copy_project(top / "app", str(made), str(tmp_path / "state"), ENVIRON)
    assert copy == CopiedProject(git=True, inside="app")
    assert git(made, "rev-parse", "HEAD^") == first
    assert (git(made, "branch", "--all", "--format=%(refname)"), git(made, "remote")) == ("refs/heads/main", "")
    assert git(made, "status", "--porcelain") == ""
    assert [(made / name).read_text() for name in ("app/a.txt", "new.txt", "node_modules/lib.js")] == [
        "two",
        "new",
        "lib",
    ]
    assert git(top, "status", "--porcelain") == "M app/a.txt\n?? new.txt"
    linked = tmp_path / "linked"
    git(top, "worktree", "add", "--quiet", "--detach", str(linked))
    copy_project(linked, str(tmp_path / "three"), str(tmp_path / "state"), ENVIRON)
    assert git(tmp_path / "three", "rev-parse", "HEAD") == first
    assert git(tmp_path / "three", "symbolic-ref", "HEAD") == "refs/heads/compared"
    again = tmp_path / "four"
    copy_project(made / "app", str(again), str(tmp_path / "state"), ENVIRON, file="a.txt", text="three")
    made = again
    assert git(made, "show", "--format=%an %s", "--stat", "HEAD").startswith("agent-worker Replace a.txt\n\n app/a.txt")
    assert (git(made, "status", "--porcelain"), (made / "app/a.txt").read_text()) == ("", "three")


def test_what_cannot_be_copied_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "a").write_bytes(b"12345")
    monkeypatch.setattr("kernel.inspect.project_copy.LIMIT_BYTES", 4)
    with pytest.raises(Refused, match="more than"):
        copy_project(root, str(tmp_path / "made"), "/nowhere", ENVIRON)
    monkeypatch.undo()
    git(tmp_path, "init", "--quiet", str(root))
    (root / ".gitmodules").write_text("")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "-m", "first")
    with pytest.raises(Refused, match="submodules"):
        copy_project(root, str(tmp_path / "again"), "/nowhere", ENVIRON)


HOSTILE = """[core]
\tfsmonitor = "touch RAN-fsmonitor; false"
[filter "evil"]
\tclean = "touch RAN-clean; cat"
\tsmudge = "touch RAN-smudge; cat"
"""


@pytest.mark.promise("P28")
@pytest.mark.parametrize("kind", ["untracked", "tracked", "top"])
def test_no_program_of_a_repository_in_the_project_runs(kind: str, tmp_path: Path) -> None:
    top = tmp_path / "top"
    nested = top if kind == "top" else top / "sub"
    nested.mkdir(parents=True)
    for folder in dict.fromkeys((nested, top)):
        (folder / "a.txt").write_text("one")
        git(folder, "init", "--quiet", "--initial-branch=main")
        git(folder, "add", "a.txt", *(["sub"] if kind == "tracked" and folder == top else []))
        git(folder, "commit", "--quiet", "-m", "first")
    (nested / ".gitattributes").write_text("* filter=evil\n")
    with (nested / ".git/config").open("a") as config:
        config.write(HOSTILE.replace("RAN", f"{tmp_path}/RAN"))
    (nested / "a.txt").write_text("two")
    made = tmp_path / "made"
    assert copy_project(top, str(made), str(tmp_path / "state"), ENVIRON).git
    copy_project(top, str(tmp_path / "more"), str(tmp_path / "state"), ENVIRON, file="w.yaml", text="one: agent\n")
    assert list(tmp_path.glob("RAN*")) == []
    assert git(made, "status", "--porcelain") == ""
    assert [path.relative_to(made) for path in made.rglob(".git")] == [Path(".git")]
    assert (made / nested.relative_to(top) / "a.txt").read_text() == "two"
    git(nested, "add", "--all")
    assert list(tmp_path.glob("RAN*")), "the attack is one"


def test_a_link_that_takes_the_place_of_a_file_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "secret").write_text("secret")
    (root / "a").write_text("a")
    look = os.lstat

    def swapped(path: str, *, dir_fd: int | None = None) -> os.stat_result:
        facts = look(path, dir_fd=dir_fd)
        if path == "a":
            (root / "a").unlink()
            (root / "a").symlink_to(tmp_path / "secret")
        return facts

    monkeypatch.setattr("os.lstat", swapped)
    with pytest.raises(Refused, match="is a link"):
        copy_project(root, str(tmp_path / "made"), "/nowhere", ENVIRON)
    assert not (tmp_path / "made/a").exists()
