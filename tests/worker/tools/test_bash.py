"""bash: bounded in time and output, killed with its group, and told how it ended."""

import os
from pathlib import Path

import msgspec
import pytest
import trio

from tests.kernel.procs.trees import gone
from tests.worker.tools.conftest import use
from worker.subprocesses import Subprocesses
from worker.tool import BuiltinTool
from worker.tools.commands import HEAD_BYTES, TAIL_BYTES, Excerpt, bash


@pytest.fixture
def shell(programs: Subprocesses) -> BuiltinTool:
    """The tool, for calls of at most five seconds."""
    return bash(programs, idempotency_key="i7", longest_seconds=5.0)


@pytest.mark.promise("P4")
async def test_a_command_runs_where_the_agent_works_and_can_tell_a_repetition(
    shell: BuiltinTool, tmp_path: Path
) -> None:
    outcome = await use(shell, command="pwd; echo $AGENT_IDEMPOTENCY_KEY >&2; cat; env | grep -c .")
    where, key, count = outcome.text.splitlines()
    assert (where, key, outcome.is_error) == (str(tmp_path), "i7:k", False)
    assert int(count) <= 6, "nothing of the worker's own environment"


@pytest.mark.parametrize(
    ("command", "end"),
    [
        ("echo x; exit 3", "x\n[exit 3]"),
        ("kill -9 $$", "[killed by SIGKILL]"),
        ("nosuchthing 2>/dev/null", "[exit 127]"),
    ],
)
async def test_a_command_that_fails_is_a_result(shell: BuiltinTool, command: str, end: str) -> None:
    outcome = await use(shell, command=command)
    assert (outcome.text, outcome.is_error) == (end, True)


@pytest.mark.promise("CF15")
async def test_of_a_flood_the_beginning_and_the_end_are_kept(shell: BuiltinTool) -> None:
    outcome = await use(shell, command="echo first; yes | head -c 3000000; echo last")
    assert outcome.text.startswith("first\ny\n") and outcome.text.endswith("y\nlast\n")
    assert f"[... {3000011 - HEAD_BYTES - TAIL_BYTES} bytes left out ...]" in outcome.text


def test_an_excerpt_says_nothing_was_left_out_where_nothing_was() -> None:
    said = Excerpt(4, 4)
    for piece in (b"ab", b"cdef", b"gh"):
        said.add(piece)
    assert said.text() == "abcdefgh"
    said.add(b"i")
    assert said.text() == "abcd\n[... 1 bytes left out ...]\nfghi"


TREE = "sleep 3600 & echo $$ $! > pids; trap '' TERM; wait"


async def test_one_that_takes_too_long_is_killed_with_its_group(shell: BuiltinTool, tmp_path: Path) -> None:
    outcome = await use(shell, command=f"echo begun; {TREE}", timeout_seconds=0.3)
    assert outcome.text.startswith("begun\n[stopped after 0.3 s") and outcome.is_error
    await gone([int(pid) for pid in (tmp_path / "pids").read_text().split()])


@pytest.mark.promise("P8")
async def test_cancellation_kills_the_group(shell: BuiltinTool, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pids")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: use(shell, command=TREE))
        pids = await trio.to_thread.run_sync((tmp_path / "pids").read_text)
        nursery.cancel_scope.cancel()
    await gone([int(pid) for pid in pids.split()])


async def test_what_is_left_in_the_background_ends_with_the_call(shell: BuiltinTool) -> None:
    outcome = await use(shell, command="sleep 3600 & echo $!")
    await gone([int(outcome.text)])


async def test_what_is_to_stay_in_the_background_does(
    shell: BuiltinTool, programs: Subprocesses, tmp_path: Path
) -> None:
    """``background: true`` returns while the command runs; it leads a group of its own, so that it can be ended."""
    os.mkfifo(tmp_path / "go")
    outcome = await use(
        shell, command="echo $$ > pid; read word < go; echo $word > heard; exec sleep 3600", background=True
    )
    group = int(outcome.text.partition("process group ")[2].partition(",")[0])
    try:
        assert (outcome.is_error, os.getpgid(group)) == (False, group)
        await trio.to_thread.run_sync((tmp_path / "go").write_text, "on\n")
        assert (
            await use(shell, command="until [ -s heard ]; do sleep 0.01; done; cat pid heard")
        ).text == f"{group}\non\n"
    finally:
        await programs.end_left()
    await gone([group])


@pytest.mark.promise("PF16")
async def test_what_cannot_be_started_in_the_background_is_a_result(programs: Subprocesses, tmp_path: Path) -> None:
    programs.cwd = str(tmp_path / "gone")
    outcome = await use(bash(programs, idempotency_key="i", longest_seconds=5), command="true", background=True)
    assert outcome.is_error and "gone" in outcome.text


async def test_no_call_may_take_longer_than_the_agent_s_limit(programs: Subprocesses) -> None:
    short = bash(programs, idempotency_key="i", longest_seconds=0.2)
    assert "[stopped after 0.2 s" in (await use(short, command="sleep 60", timeout_seconds=3600)).text


@pytest.mark.promise("HF18")
async def test_arguments_that_do_not_fit_are_told(shell: BuiltinTool) -> None:
    assert (await use(shell, comand="ls")).text.startswith("invalid arguments of bash: ")
    assert (await use(shell, command=7)).is_error


@pytest.mark.promise("PF16")
async def test_a_folder_that_is_gone_is_a_result(programs: Subprocesses, tmp_path: Path) -> None:
    programs.cwd = str(tmp_path / "gone")
    outcome = await use(bash(programs, idempotency_key="i", longest_seconds=5), command="true")
    assert outcome.is_error and "gone" in outcome.text


def test_the_schema_is_what_the_check_takes(shell: BuiltinTool) -> None:
    """contracts 5: JSON Schema in."""
    assert shell.spec is not None
    schema = msgspec.json.decode(shell.spec.input_schema)
    assert (schema["required"], schema["additionalProperties"]) == (["command"], False)
    assert shell.read_only is False
