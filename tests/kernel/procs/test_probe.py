"""Programs are asked what they are: once each, at home nowhere, and never for long."""

import os
from pathlib import Path

import pytest
import trio

from kernel.procs import command
from kernel.procs.command import VersionProbes
from kernel.procs.fork import ForkLauncher
from tests.kernel.procs.trees import ENV, PATIENCE


def program(folder: Path, script: str) -> str:
    """An executable that is replaced as an installer replaces one."""
    new = folder / "new"
    new.write_text(f"#!/bin/sh\n{script}\n")
    new.chmod(0o755)
    return str(new.rename(folder / "tool"))


async def test_a_program_is_asked_once_and_again_when_it_was_replaced(
    forking: ForkLauncher, run_dir: Path, tmp_path: Path
) -> None:
    probes = VersionProbes(forking, run_dir)
    tool = program(tmp_path, f"echo asked >>{tmp_path}/asked; echo 1.0; echo noise >&2")
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(probes.ask, tool, "--version", ENV)
    assert (await probes.ask(tool, "--version", ENV)).text == "1.0"
    assert (tmp_path / "asked").read_text() == "asked\n"
    program(tmp_path, "echo 2.0")
    assert (await probes.ask(tool, "--version", ENV)).text == "2.0"


async def test_it_finds_an_empty_home_and_leaves_nothing(forking: ForkLauncher, run_dir: Path, tmp_path: Path) -> None:
    tool = program(tmp_path, 'ls -A "$HOME"; pwd; mkdir -p "$HOME/.cache/deep"; echo "$HOME"')
    alive, here, home = (await VersionProbes(forking, run_dir).ask(tool, "--version", ENV)).text.split()
    assert (alive, here, Path(home).parent) == ("alive", home, run_dir)
    assert os.listdir(run_dir) == []


async def test_a_program_that_fails_says_why_and_is_asked_again(
    forking: ForkLauncher, run_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is broken now may work later: only answers are remembered."""
    probes = VersionProbes(forking, run_dir)
    tool = program(tmp_path, f"[ -e {tmp_path}/mended ] && echo 3.1 || {{ echo no node here >&2; exit 3; }}")
    assert (await probes.ask(tool, "--version", ENV)).fault == "exit code 3: no node here"
    (tmp_path / "mended").touch()
    assert (await probes.ask(tool, "--version", ENV)).text == "3.1"
    assert (await probes.ask(f"{tmp_path}/none", "--version", ENV)).fault == "No such file or directory"
    monkeypatch.setattr(command, "PROBE_SECONDS", 0.2)
    with trio.fail_after(PATIENCE):
        assert (await probes.ask(program(tmp_path, "sleep 1000"), "--version", ENV)).fault == "no answer in 0 s"
