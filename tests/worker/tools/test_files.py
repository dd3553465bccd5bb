"""read, write, edit, list, grep: inside the working directory and nowhere else, whole or not at all, bounded."""

import os
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from protocol.ipc import Json, ToolCall
from tests.worker.tools.conftest import use
from worker.io.trio_io import TrioIO
from worker.tool import FileClaims, ToolOutcome, ToolRunners
from worker.tools.confined_files import LIMIT_BYTES, ConfinedDir, NotAllowed
from worker.tools.file_search import LIMIT_DEPTH, BadPattern, Glob
from worker.tools.files import FILES

SECRET = "nobody's business"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A working directory with traps in it, and something outside."""
    (tmp_path / "secret").write_text(SECRET)
    made = tmp_path / "work"
    for folder in ("src/deep", ".git/hooks", "state"):
        (made / folder).mkdir(parents=True)
    (made / "src/a.py").write_text("one = 1\ntwo = 2\none = 1\n")
    (made / "src/deep/b.txt").write_text("deep one\n")
    (made / "state/token").write_text(SECRET)
    (made / "out").symlink_to(tmp_path)
    (made / "leaf").symlink_to(tmp_path / "secret")
    (made / "inner").symlink_to("src")
    (made / "loop").symlink_to("loop")
    os.mkfifo(made / "pipe")
    (made / "image").write_bytes(b"\x89PNG\0\0one")
    return made


async def do(root: Path, name: str, **args: Any) -> ToolOutcome:
    """One call of the file tool ``name``; the state folder is hidden from it."""
    place = ConfinedDir(str(root), (str(root / "state"), str(root.parent / "elsewhere")))
    return await use(next(tool for tool in FILES if tool.name == name).on(place), **args)


OUTSIDE = ["../secret", "out/secret", "leaf", "/etc/passwd", "src/../../secret", "out", "~/x/../../../../etc/passwd"]
CALLS: dict[str, dict[str, Any]] = {
    "read": {},
    "write": {"content": "x"},
    "edit": {"old": "n", "new": "x"},
    "list": {},
    "grep": {"pattern": "."},
}


class Claiming:
    """A kernel in which bob holds ``src/a.py`` for a task, and alice the rest of it."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    async def run(self, name: str, args: dict[str, Any], key: str) -> ToolOutcome:
        assert key
        self.asked.append((name, args["path"]))
        holder = "bob" if args["path"] == "src/a.py" else "alice"
        return ToolOutcome(f'{{"space": "review:main", "tasks": [{{"id": "t3", "title": "x", "holder": "{holder}"}}]}}')


@pytest.mark.promise("P40")
async def test_what_a_colleague_holds_for_a_task_is_not_written(root: Path) -> None:
    """By whatever link it is named; the holder is named; what only reads is not held up."""
    place, kernel = ConfinedDir(str(root)), Claiming()
    own = {tool.name: tool.on(place) for tool in FILES}
    hands = ToolRunners(kernel=kernel, own=own, seconds=5, waits=TrioIO(), claims=FileClaims(kernel, "alice"))

    async def call(name: str, **args: Any) -> ToolOutcome:
        return await hands.run(ToolCall(id="1", name=name, args=Json(msgspec.json.encode(args))), "0.0:1")

    for path in ("src/a.py", "inner/a.py"):
        for outcome in (await call("write", path=path, content=""), await call("edit", path=path, old="two", new="2")):
            assert outcome.is_error
            assert "bob for task t3" in outcome.text
    assert "two = 2" in (root / "src/a.py").read_text()
    assert not (await call("write", path="src/new.py", content="x")).is_error
    assert kernel.asked[-1] == ("team_task_list", "src/new.py")
    before = len(kernel.asked)
    assert not (await call("read", path="src/a.py")).is_error
    assert (await call("write", path="../out", content="")).is_error
    assert len(kernel.asked) == before


@pytest.mark.promise("XF01", "XF05")
@pytest.mark.parametrize("path", OUTSIDE)
async def test_no_path_leads_out(root: Path, path: str) -> None:
    before = sorted(os.listdir(root.parent))
    for name, args in CALLS.items():
        outcome = await do(root, name, path=path, **args)
        assert outcome.is_error and SECRET not in outcome.text, (name, path)
    assert (root.parent / "secret").read_text() == SECRET
    assert sorted(os.listdir(root.parent)) == before


@pytest.mark.promise("CF11", "XF01")
@pytest.mark.parametrize(
    "path", ["pipe", "loop", "src", "state/token", "no\0name", "x" * 300, "a/" * 5000 + "x", "no\ud800text"]
)
async def test_what_is_no_file_for_tools_is_told_without_blocking(root: Path, path: str) -> None:
    for name in ("read", "write", "edit"):
        outcome = await do(root, name, path=path, **CALLS[name])
        assert outcome.is_error and SECRET not in outcome.text


@pytest.mark.promise("XF03")
@pytest.mark.parametrize(
    "path",
    [".git/hooks/pre-commit", "src/.git/config", ".agents/alice.yaml", ".workflows/w.yaml", "moniro.yaml", ".mcp.json",
     ".GIT/config", "hook", ".agent\u017f/alice.yaml", ".g\u200cit/config", ".worktreeinclude"],
)  # fmt: skip
async def test_what_decides_what_is_run_here_is_not_written(root: Path, path: str) -> None:
    """A tool that only writes files does not become one that runs commands."""
    (root / "hook").symlink_to(".git/hooks/post-commit")
    outcome = await do(root, "write", path=path, content="x")
    assert outcome.is_error and "files that control execution" in outcome.text
    assert list((root / ".git/hooks").iterdir()) == []


@pytest.mark.promise("XF01")
async def test_who_swaps_what_is_on_the_way_gains_nothing(root: Path) -> None:
    outside = root.parent / "elsewhere"
    outside.mkdir()
    (outside / "x").write_text(SECRET)
    folder, aside, link = root / "folder", root / "aside", root / "link"
    folder.mkdir()
    (folder / "x").write_text("mine")
    link.symlink_to("src")
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            folder.rename(aside)
            folder.symlink_to(outside)
            folder.unlink()
            aside.rename(folder)
            for target in (outside, "src"):
                (root / "new").symlink_to(target)
                (root / "new").replace(link)

    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        read = [await do(root, "read", path="folder/x") for _ in range(150)]
        written = [await do(root, "write", path="link/y", content="y") for _ in range(50)]
    finally:
        over.set()
        swapping.join()
    assert os.listdir(outside) == ["x"]
    assert not any(SECRET in outcome.text for outcome in read)
    assert any(not one.is_error for one in read) and any(not one.is_error for one in written), "never got through"


async def test_a_file_is_read_by_lines(root: Path) -> None:
    assert (await do(root, "read", path="src/a.py")).text == "     1\tone = 1\n     2\ttwo = 2\n     3\tone = 1"
    part = await do(root, "read", path=str(root / "inner/a.py"), offset=2, limit=1)
    assert part.text == "     2\ttwo = 2\n[3 lines; continue with offset 3]"
    assert (await do(root, "read", path="src/a.py", offset=9)).text == "[the file has 3 lines]"
    assert (await do(root, "read", path="image")).text == "[a binary file of 9 bytes]"


@pytest.mark.promise("P10")
async def test_a_file_that_is_too_large_is_told(root: Path) -> None:
    with (root / "large").open("wb") as file:
        file.truncate(LIMIT_BYTES + 1)
    for name in ("read", "edit"):
        assert "larger than 16 MiB" in (await do(root, name, path="large", **CALLS[name])).text
    assert (await do(root, "grep", pattern="x", path=".", glob="large")).text == "[nothing found]"


@pytest.mark.promise("P10")
async def test_a_file_does_not_grow_without_bound(root: Path) -> None:
    (root / "many").write_text("a" * 1_000_000)
    outcome = await do(root, "edit", path="many", old="a", new="b" * 100_000, all=True)
    assert outcome.is_error and "would exceed 16 MiB" in outcome.text
    assert (root / "many").stat().st_size == 1_000_000


@pytest.mark.promise("P10")
async def test_folders_without_end_are_gone_through_to_a_depth(root: Path) -> None:
    folder = os.open(root / "src/deep", os.O_RDONLY)
    for _ in range(1100):
        os.mkdir("d", dir_fd=folder)
        below = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = below
    os.close(folder)
    try:
        cut = f"[folders more than {LIMIT_DEPTH} deep were not searched]"
        assert (await do(root, "grep", path="src", pattern="deep")).text == f"src/deep/b.txt:1: deep one\n{cut}"
        assert (await do(root, "list", path="src", glob="*.txt")).text == f"src/deep/b.txt\n{cut}"
    finally:
        _remove(root / "src/deep/d")


def _remove(top: Path) -> None:
    while top.exists():
        below = top.with_name("below")
        if (top / "d").exists():
            (top / "d").rename(below)
        top.rmdir()
        if below.exists():
            below.rename(top)


@pytest.mark.promise("SF19")
async def test_a_file_is_written_whole_and_keeps_its_mode(root: Path) -> None:
    os.link(root.parent / "secret", root / "hard")
    (root / "src/a.py").chmod(0o751)
    assert (await do(root, "write", path="src/a.py", content="new\n")).text == "wrote src/a.py, 4 bytes"
    assert (await do(root, "write", path="new/er/c.txt", content="é")).text == "created new/er/c.txt, 2 bytes"
    assert (await do(root, "write", path="hard", content="mine")).is_error is False
    assert (root / "src/a.py").stat().st_mode & 0o777 == 0o751
    assert (root.parent / "secret").read_text() == SECRET
    assert sorted(os.listdir(root / "src")) == ["a.py", "deep"]


async def test_a_passage_is_replaced_where_it_is_the_only_one(root: Path) -> None:
    twice = await do(root, "edit", path="src/a.py", old="one = 1", new="x")
    assert twice.is_error and "2 times" in twice.text
    assert (await do(root, "edit", path="src/a.py", old="two = 2", new="two = 3")).text == "replaced line 2 of src/a.py"
    every = await do(root, "edit", path="src/a.py", old="one = 1", new="", all=True)
    assert every.text == "replaced 2 passages in src/a.py"
    assert (root / "src/a.py").read_text() == "\ntwo = 3\n\n"
    missing = await do(root, "edit", path="src/a.py", old="two  =  3", new="x")
    assert missing.is_error and "differs only in white space" in missing.text
    assert (await do(root, "edit", path="image", old="one", new="two")).is_error


async def test_line_ends_are_left_as_they_are(root: Path) -> None:
    (root / "dos").write_bytes(b"a\r\nb\r\n\xff")
    assert "CRLF" in (await do(root, "edit", path="dos", old="a\nb", new="x")).text
    assert (await do(root, "edit", path="dos", old="b", new="c")).is_error is False
    assert (root / "dos").read_bytes() == b"a\r\nc\r\n\xff"


async def test_folders_are_listed_and_searched(root: Path) -> None:
    assert (await do(root, "list", path="src")).text == "a.py  24 bytes\ndeep/"
    top = (await do(root, "list")).text.splitlines()
    assert f"leaf -> {root.parent}/secret" in top and "pipe  [no file]" in top
    assert not any(line.startswith("state") for line in top)
    assert (await do(root, "list", glob="*.py")).text == "src/a.py"
    assert (await do(root, "list", path="src", glob="deep/*")).text == "src/deep/b.txt"
    assert (await do(root, "list", glob="*.rs")).text == "[none]"


async def test_lines_are_found_in_text_files(root: Path) -> None:
    (root / "node_modules").mkdir()
    (root / "node_modules/x.js").write_text("one")
    found = await do(root, "grep", pattern="^o.*1$|one")
    assert found.text.splitlines() == [
        "image: [a binary file matches]", "src/a.py:1: one = 1", "src/a.py:3: one = 1", "src/deep/b.txt:1: deep one",
    ]  # fmt: skip
    assert (await do(root, "grep", pattern="ONE", path="src/deep/b.txt")).text == "[nothing found]"
    assert (await do(root, "grep", pattern="ONE", ignore_case=True, glob="*.txt")).text == "src/deep/b.txt:1: deep one"
    assert (await do(root, "grep", pattern="one", limit=1, path="src")).text.endswith("[more than 1 lines]")
    assert (await do(root, "grep", pattern="nobody")).text == "[nothing found]"


@pytest.mark.promise("XF23")
async def test_a_pattern_costs_what_the_text_is_long(root: Path) -> None:
    """google-re2; what takes another engine for ever is over at once."""
    (root / "bomb").write_text("a" * 200_000 + "!\n")
    assert (await do(root, "grep", pattern="(a+)+$", path="bomb")).text == "[nothing found]"
    assert "not a valid RE2 regular expression" in (await do(root, "grep", pattern="(")).text


@pytest.mark.parametrize(
    ("glob", "yes", "no"),
    [
        ("*.py", ["a.py", "x/y/a.py"], ["a.pyc", "a.py/b"]),
        ("src/*.py", ["src/a.py"], ["src/x/a.py", "a.py"]),
        ("src/**/*.py", ["src/a.py", "src/x/y/a.py"], ["a.py"]),
        ("a?[1].c", ["ab[1].c", "x/ab[1].c"], ["a/[1].c", "ab1.c"]),
    ],
)
def test_globs_mean_what_people_expect(glob: str, yes: list[str], no: list[str]) -> None:
    assert [path for path in (*yes, *no) if path in Glob(glob)] == yes
    with pytest.raises(BadPattern):
        Glob("x" * 2000)


def test_a_worktree_below_a_hidden_folder_is_not_hidden(root: Path) -> None:
    inside = ConfinedDir(str(root / "src"), (str(root),))
    assert inside.find("a.py") == ("a.py",)
    with pytest.raises(NotAllowed):
        inside.find("../image")
