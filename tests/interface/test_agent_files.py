"""agent memory, notes and todo, as the kernel answers; and the files that commands write themselves."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from interface.safe_dir import SafeDir
from protocol.agent_files import MemoryReport, MemoryRow, NoteRow, NotesReport, TodoReport, TodoRow
from tests.interface.conftest import Cli
from tests.interface.hostile import HOSTILE, obeyed
from tests.interface.kernel_double import KernelDouble

PATH: Final = "/agents/alice"


def _knows(kernel: KernelDouble, text: str, skipped: tuple[str, ...] = ()) -> None:
    entry = MemoryRow(key="k", value=text, tier="core", visibility="public", trust="user", file="core.yaml")
    memory = MemoryReport(agent="alice", entries=(entry,), total=1, skipped=skipped)
    note = NoteRow(n=1, file="2026-11-21-x.md", date="2026-11-21", title=text, text=f"{text}\n")
    todo = TodoReport(agent="alice", items=(TodoRow(n=1, text=text, done=True),), skipped=skipped)
    kernel.answers |= {
        **dict.fromkeys((f"GET {PATH}/memory", f"PUT {PATH}/memory/k", f"GET {PATH}/memory/search"), memory),
        f"DELETE {PATH}/memory/k": memory,
        **dict.fromkeys((f"GET {PATH}/notes", f"POST {PATH}/notes"), NotesReport(agent="alice", notes=(note,))),
        **dict.fromkeys((f"GET {PATH}/todo", f"POST {PATH}/todo", f"PUT {PATH}/todo/1", f"DELETE {PATH}/todo/1"), todo),
    }


@pytest.mark.parametrize(
    ("words", "asked", "body", "says"),
    [
        ("memory alice", f"GET {PATH}/memory", None, "terse"),
        ("memory alice get k", f"GET {PATH}/memory", None, "terse\n"),
        ("memory alice set k terse", f"PUT {PATH}/memory/k", {"value": "terse", "tier": None, "visibility": None}, "k"),
        ("memory alice set k - --tier core", f"PUT {PATH}/memory/k", {"value": "in", "tier": "core"}, "k"),
        ("memory alice search Q -n 3", f"GET {PATH}/memory/search", None, "terse"),
        ("memory alice rm k", f"DELETE {PATH}/memory/k", None, ""),
        ("notes alice", f"GET {PATH}/notes", None, "2026-11-21-x.md"),
        ("notes alice add -", f"POST {PATH}/notes", {"text": "in\n"}, "2026-11-21"),
        ("notes alice show 1", f"GET {PATH}/notes", None, "terse\n"),
        ("todo alice", f"GET {PATH}/todo", None, "  1  [x] terse\n"),
        ("todo alice add more", f"POST {PATH}/todo", {"text": "more"}, "[x] terse"),
        ("todo alice done 1", f"PUT {PATH}/todo/1", {"done": True}, "[x] terse"),
        ("todo alice rm 1", f"DELETE {PATH}/todo/1", None, "[x] terse"),
    ],
)
def test_what_agents_keep_is_asked_of_the_kernel(
    words: str, asked: str, body: dict[str, object] | None, says: str, cli: Cli, kernel: KernelDouble
) -> None:
    _knows(kernel, "terse")
    ran = cli("agent", *words.split(), stdin="in\n")
    assert (ran.code, ran.err) == (0, "")
    assert says in ran.out
    (one,) = [one for one in kernel.asked if f"{one.method} {one.path}" == asked]
    assert body is None or body.items() <= one.body.items()


def test_a_note_that_is_not_there_is_no_bug(cli: Cli, kernel: KernelDouble) -> None:
    _knows(kernel, "terse")
    assert cli("agent", "notes", "alice", "show", "3").code == 5


@pytest.mark.promise("P16")
@pytest.mark.parametrize("text", [text for text in HOSTILE if text != "\ud800"], ids=ascii)
def test_what_agents_wrote_is_shown_and_not_obeyed(text: str, cli: Cli, kernel: KernelDouble) -> None:
    _knows(kernel, f"a{text}", (text,))
    for words in ("memory alice", "memory alice get k", "notes alice", "notes alice show 1", "todo alice"):
        for more in ([], ["--json"]):
            ran = cli("agent", *words.split(), *more)
            assert ran.code == 0, ran.err
            assert obeyed(ran.out + ran.err) == []
    assert "skipped: " in cli("agent", "todo", "alice").err


KILLED = """
import os, sys
from interface.safe_dir import SafeDir
os.fsync = lambda descriptor: os.kill(os.getpid(), 9)
with SafeDir.open(sys.argv[1], "x") as folder:
    folder.write("core.yaml", "new: half\\n" * 1000)
"""


@pytest.mark.promise("SF19")
def test_a_file_is_never_half_written(tmp_path: Path) -> None:
    file = tmp_path / "core.yaml"
    file.write_text("old: whole\n")
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], timeout=20, check=False)
    assert (done.returncode, file.read_text()) == (-9, "old: whole\n")


def test_a_file_keeps_its_mode_and_a_new_one_has_the_users(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        with SafeDir.open(str(tmp_path), "x") as folder:
            folder.write("a", "1")
            assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640
            (tmp_path / "a").chmod(0o604)
            folder.write("a", "2")
            assert (tmp_path / "a").stat().st_mode & 0o777 == 0o604
            with pytest.raises(FileExistsError):
                folder.write("a", "3", new=True)
    finally:
        os.umask(before)
    assert (tmp_path / "a").read_text() == "2"
