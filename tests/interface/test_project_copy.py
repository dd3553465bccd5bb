"""Copies of a project for runs that must not see each other."""

import os
import subprocess
from pathlib import Path

import pytest

from interface.failure import Failure
from interface.project_copy import ProjectCopy, copy_again

ENVIRON = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull, "GIT_DIR": "/nowhere"}


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
    """No link leads back into it, nothing of ours or that is no file comes along; a copy of a copy is as good."""
    root = tmp_path / "root"
    root.mkdir()
    filled(root)
    copy = ProjectCopy(str(root), ENVIRON, str(root / "sub/state"))
    copy.make(str(tmp_path / "one"))
    copy_again(str(tmp_path / "one"), str(tmp_path / "two"))
    for made in (tmp_path / "one", tmp_path / "two"):
        assert sorted(os.listdir(made)) == ["beside", "inward", "outward", "sub"]
        assert os.listdir(made / "sub") == ["a.txt"]
        assert os.readlink(made / "inward") == str(made / "sub/a.txt")
        assert (os.readlink(made / "outward"), os.readlink(made / "beside")) == ("/etc/hostname", "sub/a.txt")
    assert (copy.top, copy.inside) == (None, "")


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
    copy = ProjectCopy(str(top / "app"), ENVIRON, str(tmp_path / "state"))
    made = tmp_path / "made"
    copy.make(str(made))
    assert (copy.top, copy.inside) == (str(top), "app")
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
    ProjectCopy(str(linked), ENVIRON, "").make(str(tmp_path / "three"))
    assert git(tmp_path / "three", "rev-parse", "HEAD") == first
    assert git(tmp_path / "three", "symbolic-ref", "HEAD") == "refs/heads/compared"


def test_what_cannot_be_copied_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too large, or with submodules."""
    root = tmp_path / "root"
    root.mkdir()
    (root / "a").write_bytes(b"12345")
    monkeypatch.setattr("interface.project_copy.LIMIT_BYTES", 4)
    with pytest.raises(Failure, match="more than"):
        ProjectCopy(str(root), ENVIRON, "").make(str(tmp_path / "made"))
    monkeypatch.undo()
    git(tmp_path, "init", "--quiet", str(root))
    (root / ".gitmodules").write_text("")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "-m", "first")
    with pytest.raises(Failure, match="submodules"):
        ProjectCopy(str(root), ENVIRON, "").make(str(tmp_path / "again"))
