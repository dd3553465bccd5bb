"""Tools of the project: a command that reads JSON, or a canned answer."""

import hashlib
import os
from pathlib import Path

import msgspec
import pytest

from protocol.agent import McpServer
from protocol.tools import ProjectTool, filled, input_schema, placeholders
from tests.worker.tools.conftest import use
from worker import mcp_servers
from worker.models.model import BLANK
from worker.subprocesses import Subprocesses
from worker.tool import BuiltinTool
from worker.tools.commands import argument_fault, project_tool

SCHEMA = {"path": "string", "limit": "integer?"}


def tool(programs: Subprocesses, **fields: object) -> BuiltinTool:
    made = ProjectTool(description="Count", input=SCHEMA, **fields)  # type: ignore[arg-type]
    return project_tool("count", made, programs, idempotency_key="i7", longest_seconds=5.0)


async def test_a_command_reads_its_arguments_and_its_words_hold_them(programs: Subprocesses) -> None:
    echo = tool(
        programs, command=("sh", "-c", 'cat; echo "$1|$2"; echo $AGENT_IDEMPOTENCY_KEY', "sh", "${path}", "${limit}")
    )
    outcome = await use(echo, path="a; rm -rf $HOME", limit=3)
    assert outcome.text == '{"path":"a; rm -rf $HOME","limit":3}\na; rm -rf $HOME|3\ni7:k\n'
    assert (await use(echo, path="x")).text.splitlines()[1] == "x|"


async def test_a_mock_runs_nothing(programs: Subprocesses) -> None:
    canned = tool(programs, mock="42", command=("false",))
    assert (await use(canned, path="x")).text == "42"
    assert (await use(canned)).text == "invalid arguments of count: path is missing"


@pytest.mark.promise("P19")
async def test_a_script_that_is_not_what_was_trusted_is_not_run(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text("echo mine\n")
    trusted = hashlib.sha256(b"echo mine\n").hexdigest()
    start = msgspec.structs.replace(BLANK, cwd=str(tmp_path), pinned={"run.sh": trusted})
    programs = Subprocesses(start, {"PATH": "/usr/bin:/bin"})
    script = tool(programs, command=("sh", "run.sh"))
    assert (await use(script, path="x")).text == "mine\n"
    (tmp_path / "run.sh").write_text("touch owned\n")
    outcome = await use(script, path="x")
    assert outcome.is_error and "run.sh has changed since it was trusted" in outcome.text
    async with mcp_servers.running({"s": McpServer(command="sh", args=("run.sh",))}, programs) as (server,):
        assert server.fault == "run.sh has changed since it was trusted"
    assert not (tmp_path / "owned").exists()


@pytest.mark.promise("PF16")
async def test_one_that_cannot_be_started_is_a_result(programs: Subprocesses) -> None:
    outcome = await use(tool(programs, command=("/no/such/program",)), path="x")
    assert outcome.is_error and "/no/such/program" in outcome.text


@pytest.mark.promise("HF18")
@pytest.mark.parametrize(
    ("args", "fault"),
    [
        ({"path": "x", "limit": 1}, None),
        ({"path": "x", "more": 1}, "more is unknown"),
        ({"path": 1}, "path must be of type string"),
        ({"path": "x", "limit": True}, "limit must be of type integer"),
        ({"path": "x", "limit": 1.5}, "limit must be of type integer"),
    ],
)
def test_arguments_are_checked_as_far_as_a_command_would_trip(args: dict[str, object], fault: str | None) -> None:
    assert argument_fault(input_schema(SCHEMA), args) == fault


def test_short_and_full_forms_of_its_input() -> None:
    full = {"type": "object", "properties": {"a": {"type": "string", "enum": ["x"]}}}
    assert input_schema(full) == full
    assert input_schema(SCHEMA)["required"] == ["path"]
    with pytest.raises(ValueError, match="no type"):
        input_schema({"a": "text"})


def test_only_a_whole_word_is_replaced() -> None:
    """So that no value becomes a part of an option."""
    command = ("x", "${a}", "--b=${a}", "${c}")
    assert placeholders(command) == ("a", "c")
    assert filled(command, {"a": [1]}) == ["x", "[1]", "--b=${a}"]


@pytest.mark.promise("P19")
async def test_a_value_is_no_option(programs: Subprocesses) -> None:
    """Nobody is asked before a read-only tool; a model must not reach options that nobody agreed to."""
    outcome = await use(tool(programs, command=("echo", "${path}")), path="--output=/etc/passwd")
    assert outcome.is_error and "path starts with -" in outcome.text and "--" in outcome.text
    assert (await use(tool(programs, command=("printf", "%s", "--", "${path}")), path="-n")).text.endswith("-n")
    assert (await use(tool(programs, command=("cat",)), path="-n")).text == '{"path":"-n"}\n'


@pytest.mark.promise("P19")
async def test_a_script_that_was_not_there_when_it_was_trusted_is_not_run(tmp_path: Path) -> None:
    start = msgspec.structs.replace(BLANK, cwd=str(tmp_path), pinned={"run.sh": "", "out": "", "was.sh": "0" * 64})
    programs = Subprocesses(start, {"PATH": "/usr/bin:/bin"})
    (tmp_path / "out").mkdir()
    assert programs.changed(("sh", "run.sh", "out")) is None
    (tmp_path / "run.sh").write_text("touch owned\n")
    outcome = await use(tool(programs, command=("sh", "run.sh")), path="x")
    assert outcome.is_error and "run.sh has changed since it was trusted" in outcome.text
    assert not (tmp_path / "owned").exists()
    os.mkfifo(tmp_path / "was.sh")
    assert (await use(tool(programs, command=("sh", "was.sh")), path="x")).is_error
