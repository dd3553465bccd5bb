"""What another version says of itself before it takes over, and how little is believed."""

import os
from pathlib import Path

import psutil
import pytest
import trio

from kernel.services.handover import Program, TrialFailed, interpreter_at, try_version
from protocol.errors import Refused

SECONDS = 20.0


def program(folder: Path, script: str) -> Program:
    """A program that does what ``script`` says, whatever its arguments; the last of them is what it is given."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\nfor given; do :; done\n{script}\n")
    path.chmod(0o755)
    return Program(str(path), ("--project", "/p"))


async def test_a_version_that_reads_what_it_is_given_says_its_own(tmp_path: Path) -> None:
    says = """echo noise; grep -q table /proc/self/fd/$given && echo '{"version": "2.0", "more": 1}'"""
    assert await try_version(program(tmp_path, says), b"the table", SECONDS) == "2.0"


@pytest.mark.promise("P93")
@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 'no such schema' >&2; exit 78", r"cannot take over \(exit code 78\): no such schema"),
        ("exit 3", r"exit code 3\): it does not say why"),
        ("kill -9 $$", r"exit code -9"),
        ("echo 'python: No module named kernel' >&2; exit 1", r"no agent-worker beside \S+: install it in that env"),
        ("echo 2.0", "does not say its version: it said b'2.0'"),
        ("yes | head -c 10000000", "does not say its version"),
    ],
)
async def test_a_version_that_fails_says_why(tmp_path: Path, script: str, said: str) -> None:
    with trio.fail_after(SECONDS), pytest.raises(TrialFailed, match=said):
        await try_version(program(tmp_path, script), b"", SECONDS)


@pytest.mark.promise("P93")
async def test_a_version_that_says_nothing_is_ended(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    with trio.fail_after(SECONDS), pytest.raises(TrialFailed, match=r"said nothing for 0\.2 s"):
        await try_version(program(tmp_path, f"echo $$ > {note}.new; mv {note}.new {note}; exec sleep 600"), b"", 0.2)
    noted = note.read_text() if note.exists() else ""
    assert not noted or not psutil.pid_exists(int(noted))


async def test_what_cannot_be_executed_is_no_version(tmp_path: Path) -> None:
    with pytest.raises(TrialFailed, match="cannot be executed: No such file"):
        await try_version(Program(str(tmp_path / "gone"), ()), b"", SECONDS)


def test_a_virtual_environment_is_named_by_its_folder_or_by_a_program_in_it(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    python = programs / "python"
    python.touch(0o755)
    for place in (tmp_path, programs / "agent-worker", programs / "awk", python):
        assert interpreter_at(str(place)) == str(python)
    for name in ("venv", str(tmp_path / "nowhere"), str(programs / "bash"), str(programs)):
        with pytest.raises(Refused, match=r"absolute path|neither a virtual environment"):
            interpreter_at(name)
    with pytest.raises(Refused, match=r"nowhere is neither .*: it is not there"):
        interpreter_at(str(tmp_path / "nowhere"))
    os.chmod(python, 0o644)
    if os.geteuid():
        with pytest.raises(Refused, match="neither a virtual environment"):
            interpreter_at(str(tmp_path))
