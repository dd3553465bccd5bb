"""Commands that are run to their end, bounded in time and output; programs that are asked once what they are."""

import os
from pathlib import Path

import pytest
import trio

from kernel.procs import command
from kernel.procs.command import CommandResult, VersionProbes, run_command
from kernel.procs.fork import ForkLauncher
from kernel.procs.launcher import Launcher
from tests.kernel.procs.trees import ENV, NASTY, PATIENCE, alive, within


async def run(
    launcher: Launcher, script: str, timeout_seconds: float = PATIENCE, limit: int = 10_000, **more: int | None
) -> CommandResult:
    limits = {"timeout_seconds": timeout_seconds, "output_limit_bytes": limit, **more}
    return await run_command(launcher, "setup-1", ("sh", "-c", script), cwd="/", env=ENV, **limits)  # type: ignore[arg-type]


@pytest.mark.promise("CF15")
async def test_output_and_the_end_of_stderr_come_back(forking: ForkLauncher) -> None:
    result = await run(forking, "printf 'a\\0b'; echo first >&2; echo last >&2; exit 3")
    assert (result.stdout, result.stderr_tail, result.exit.code, result.ok) == (b"a\0b", b"first\nlast\n", 3, False)
    assert (await run(forking, "true")).ok


@pytest.mark.promise("CF15")
async def test_stdin_is_at_its_end(forking: ForkLauncher) -> None:
    assert (await run(forking, "cat; echo end")).stdout == b"end\n"


@pytest.mark.promise("CF15")
async def test_a_command_that_never_ends_is_killed_with_its_children(launcher: Launcher) -> None:
    result = await run(launcher, f"{NASTY} sleep 1000", timeout_seconds=0.3)
    assert (result.timed_out, result.exit.killed, result.ok) == (True, True, False)
    assert alive([int(pid) for pid in result.stdout.split()]) == []


@pytest.mark.promise("CF15")
async def test_output_without_end_is_cut_and_the_command_killed(forking: ForkLauncher) -> None:
    """1 GB of output costs its limit and no more."""
    result = await within(PATIENCE, run, forking, "yes", limit=1000)
    assert (len(result.stdout), result.truncated, result.timed_out, result.ok) == (1000, True, False, False)


@pytest.mark.promise("CF15")
async def test_a_command_that_uses_more_than_it_may_is_ended_and_says_of_what(launcher: Launcher) -> None:
    for script, memory_bytes, processes, which in (
        ("sleep 1000 & sleep 1000 & sleep 1000 & wait", None, 3, "(limits.processes)"),
        ("cat /dev/zero | tail -c 200000000", 64 * 2**20, None, "(limits.memory)"),
    ):
        with trio.fail_after(PATIENCE):
            result = await run(launcher, script, 1000, 10, memory_bytes=memory_bytes, processes=processes)
        assert (which in (result.exit.exceeded or ""), result.ok) == (True, False), result


@pytest.mark.promise("IF02")
async def test_a_flood_on_stderr_does_not_block(forking: ForkLauncher) -> None:
    result = await run(forking, "head -c 2000000 /dev/zero >&2; echo last >&2; echo out")
    assert result.stdout == b"out\n"
    assert (len(result.stderr_tail), result.stderr_tail[-5:]) == (64 * 1024, b"last\n")


@pytest.mark.promise("PF07")
async def test_what_a_command_left_in_the_background_does_not_hold_it_up(launcher: Launcher) -> None:
    result = await within(PATIENCE, run, launcher, "(setsid sleep 1000 &); echo out")
    assert (result.stdout, result.ok) == (b"out\n", True)


@pytest.mark.promise("PF16")
async def test_a_missing_program_is_a_result(forking: ForkLauncher) -> None:
    result = await run_command(
        forking, "git-1", ("no-such-git",), cwd="/", env=ENV, timeout_seconds=5, output_limit_bytes=10
    )
    assert (result.exit.failed, result.ok) == ("ENOENT: no-such-git", False)


@pytest.mark.promise("P8")
async def test_a_cancelled_command_leaves_nothing(launcher: Launcher, tmp_path: os.PathLike[str]) -> None:
    fifo = os.path.join(tmp_path, "fifo")
    os.mkfifo(fifo)
    pid = 0
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run, launcher, f"echo $$ > {fifo}; exec sleep 1000")
            pid = int(await within(PATIENCE, trio.Path(fifo).read_text))
            scope.cancel()
    assert pid
    assert alive([pid]) == []


@pytest.mark.promise("PF04")
@pytest.mark.parametrize("script", ["exit 0", "kill -9 $$"])
async def test_only_a_clean_end_is_ok(forking: ForkLauncher, script: str) -> None:
    assert (await run(forking, script)).ok is (script == "exit 0")


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
