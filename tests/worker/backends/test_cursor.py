"""Cursor's format, line by line as it is documented and as its users have seen it; no process is started."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from protocol.agent import Approval, McpServer
from protocol.instruction import Usage
from protocol.ipc import Json, Provider, ToolCall
from tests.worker.backends.backend_jobs import WELL, heard, make_job
from tests.worker.conftest import fails
from worker.backends import backend
from worker.backends.cursor import Cursor, brought_in
from worker.backends.cursor import open as cursor_program
from worker.models.model import Failed

INIT = {"type": "system", "subtype": "init", "session_id": "s1", "model": "Composer"}
PROVIDER = Provider(name="cursor", dialect="cursor", api_key="key_secret")


def cursor_job(folder: Path, **start: Any) -> backend.BackendJob:
    fields: dict[str, Any] = {"model": "composer-2", "system": "You are Alice.", "provider": PROVIDER, **start}
    return make_job("cursor", folder, own={"XDG_CONFIG_HOME": "/home/user/.config"}, **fields)


def cursor(folder: Path, **start: Any) -> Cursor:
    return Cursor(cursor_job(folder, **start))


def call(subtype: str, body: dict[str, Any], kind: str = "mcp", **more: Any) -> dict[str, Any]:
    return {"type": "tool_call", "subtype": subtype, "tool_call": {f"{kind}ToolCall": body}, **more}


def said(text: str) -> dict[str, Any]:
    return {"type": "assistant", "message": {"role": "assistant", "content": [{"type": "text", "text": text}]}}


def test_all_it_needs_lies_in_folders_of_ours(tmp_path: Path) -> None:
    launch = cursor(tmp_path, token="tok_secret").launch()
    config = tmp_path / "home/.cursor/mcp.json"
    assert (config.resolve(), stat.S_IMODE(config.stat().st_mode)) == (tmp_path / "place/mcp.json", 0o600)
    headers = json.loads(config.read_text())["mcpServers"]["daemon"]["headers"]
    assert headers == {"Authorization": "Bearer tok_secret", "X-Offered-To": "model"}
    assert "secret" not in " ".join(launch.argv)
    assert "tok_secret" not in str(launch.env)
    assert (launch.env["HOME"], launch.env["CURSOR_API_KEY"]) == (str(tmp_path / "home"), "key_secret")
    assert launch.env["XDG_CONFIG_HOME"].startswith(launch.env["HOME"])
    assert (launch.stdin, {"--trust", "--approve-mcps"} <= set(launch.argv)) == (b"You are Alice.\n\ndo it", True)


@pytest.mark.promise("P15")
def test_a_link_in_its_home_leads_us_nowhere(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "cli-config.json").write_text("mine", "utf-8")
    program = cursor(tmp_path)
    (tmp_path / "home/.cursor").symlink_to(theirs)
    program.launch()
    assert {path.name: path.read_text("utf-8") for path in theirs.iterdir()} == {"cli-config.json": "mine"}
    assert (tmp_path / "home/.cursor/cli-config.json").is_file()


def test_a_session_is_told_its_prompt_once(tmp_path: Path) -> None:
    launch = cursor(tmp_path, session="s1").launch()
    assert (launch.stdin, launch.argv[-1]) == (b"do it", "--resume=s1")


@pytest.mark.parametrize(
    ("approval", "force", "allow", "deny"),
    [
        ("auto", True, [], []),
        ("ask", False, ["Read(*)"], ["Shell(*)", "Write(*)", "WebFetch(*)", "Mcp(own:*)"]),
        ("deny", False, ["Read(*)"], ["Shell(*)", "Write(*)", "WebFetch(*)", "Mcp(own:*)"]),
        ("all", False, [], ["Shell(*)", "Write(*)", "WebFetch(*)", "Read(*)", "Mcp(own:*)"]),
    ],
)
def test_nobody_can_be_asked_so_it_is_refused(
    tmp_path: Path, approval: Approval, force: bool, allow: list[str], deny: list[str]
) -> None:
    program = cursor(tmp_path, approval=approval, mcp_servers={"own": McpServer(command="mine")})
    assert ("--force" in program.launch().argv) is force
    rules = json.loads((tmp_path / "home/.cursor/cli-config.json").read_text())["permissions"]
    assert (rules["allow"], rules["deny"]) == (["Mcp(daemon:*)", *allow], deny)


def test_a_run_is_replies_and_what_came_back(tmp_path: Path) -> None:
    program = cursor(tmp_path)
    args = {"name": "daemon-channel_send", "providerIdentifier": "daemon", "toolName": "channel_send", "args": {"m": 1}}
    success = {"success": {"content": [{"text": {"text": "said"}}], "isError": False}}
    shell = {"args": {"command": "ls"}}
    usage = {"inputTokens": 100, "outputTokens": 20, "cacheReadTokens": 5, "cacheWriteTokens": 7}
    events = heard(
        program,
        INIT,
        {"type": "thinking", "subtype": "delta", "text": "hm"},
        said("I look."),
        call("started", {"args": args}, call_id="c1"),
        call("started", shell, "shell", call_id="c2"),
        call("completed", {"args": args, "result": success}, call_id="c1"),
        call("completed", {**shell, "result": {"rejected": {"reason": "no"}}}, "shell", call_id="c2"),
        said("Done."),
        {"type": "result", "subtype": "success", "is_error": False, "result": "I look.Done.", "usage": usage},
    )
    calls = (
        ToolCall(id="c1", name="daemon-channel_send", args=Json(b'{"m": 1}')),
        ToolCall(id="c2", name="shell", args=Json(b'{"command": "ls"}')),
    )
    assert events == [
        backend.SessionStarted("s1"),
        backend.ActivityChanged("thinking"),
        backend.ReplyText("I look."),
        backend.ActivityChanged("tool daemon-channel_send", tool=True),
        backend.ActivityChanged("tool shell", tool=True),
        backend.ReplyEnded(text="I look.", calls=calls),
        backend.DaemonConnected(),
        backend.ToolEnded(call_id="c1", name="daemon-channel_send", text="said"),
        backend.ToolEnded(call_id="c2", name="shell", text='{"reason": "no"}', is_error=True),
        backend.ReplyText("Done."),
        backend.ReplyEnded(
            text="Done.", usage=Usage(input_tokens=100, output_tokens=20, cache_read_tokens=5, cache_write_tokens=7)
        ),
        backend.LastEvent(),
    ]
    assert program.conclude(WELL).text == "Done."


def test_older_and_newer_spellings_are_read(tmp_path: Path) -> None:
    body = {"args": {"toolName": "ping", "serverIdentifier": "plugin:daemon"}, "result": {"success": {"content": []}}}
    named = {"tool_call": {"toolCallId": "c9", "mcpToolCall": body}}
    function = {"tool_call": {"toolCallId": "c8", "function": {"name": "grep", "arguments": '{"x":1}'}}}
    program = cursor(tmp_path)
    events = heard(
        program,
        {"type": "tool_call", "subtype": "completed", **named},
        {"type": "tool_call", "subtype": "started", **function},
        {"type": "tool_call", "subtype": "completed", **function},
        {"type": "result", "subtype": "success", "result": "ok", "inputTokens": 3, "outputTokens": 2},
    )
    assert events[0] == backend.DaemonConnected()
    assert isinstance(events[1], backend.ToolEnded) and events[1].call_id == "c9"
    assert events[2] == backend.ActivityChanged("tool grep", tool=True)
    assert events[-2:] == [
        backend.ReplyEnded(text="ok", usage=Usage(input_tokens=3, output_tokens=2)),
        backend.LastEvent(),
    ]


def test_a_session_that_it_replaced_is_lost(tmp_path: Path) -> None:
    with fails("session_lost"):
        heard(cursor(tmp_path, session="s0"), INIT)
    assert heard(cursor(tmp_path, session="s1"), INIT) == [backend.SessionStarted("s1")]


def test_a_directory_that_is_not_trusted_is_no_success(tmp_path: Path) -> None:
    """It says so in prose, and exits with 0."""
    program = cursor(tmp_path)
    assert list(program.read("⚠ Workspace Trust Required".encode())) == []
    with pytest.raises(Failed) as caught:
        program.conclude(WELL)
    assert (caught.value.cause, "Workspace Trust Required" in caught.value.text) == ("protocol", True)


@pytest.mark.parametrize(
    ("lines", "ended", "cause"),
    [
        ([], backend.ProgramExit(code=1, signal=None, stderr="Error: Authentication required."), "overloaded"),
        ([], backend.ProgramExit(code=None, signal=9, stderr=""), "crash"),
        ([{"type": "result", "subtype": "error", "is_error": True, "result": "boom"}], WELL, "overloaded"),
        ([{"type": "result", "subtype": "success"}], backend.ProgramExit(code=3, signal=None, stderr=""), "crash"),
    ],
)
def test_a_failure_is_no_success_whatever_says_so(
    tmp_path: Path, lines: list[dict[str, Any]], ended: backend.ProgramExit, cause: str
) -> None:
    program = cursor(tmp_path)
    heard(program, *lines)
    with fails(cause):
        program.conclude(ended)


def test_what_a_failed_run_cost_is_booked(tmp_path: Path) -> None:
    end = {"type": "result", "subtype": "error", "is_error": True, "usage": {"inputTokens": 4}}
    assert heard(cursor(tmp_path), end) == [backend.SubagentUsage(Usage(input_tokens=4)), backend.LastEvent()]


@pytest.mark.promise("P19")
@pytest.mark.parametrize("name", ["mcp.json", "hooks.json", "rules/always.mdc"])
@pytest.mark.parametrize("where", ["", "above/", "above/further/"])
def test_a_project_that_brings_something_for_it_is_not_opened(tmp_path: Path, where: str, name: str) -> None:
    home, cwd = tmp_path / "home", tmp_path / "home" / where / "project"
    cwd.mkdir(parents=True)
    folder = {"": cwd, "above/": cwd.parent, "above/further/": cwd.parent.parent}[where]
    assert brought_in(cwd, str(home)) is None
    (folder / ".cursor" / name).parent.mkdir(parents=True)
    (folder / ".cursor" / name).write_text("{}")
    assert brought_in(cwd, str(home)) == folder / ".cursor"
    job = cursor_job(tmp_path, cwd=str(cwd))
    with fails("untrusted", r"would load servers and hooks of .*\.cursor"):
        cursor_program(job)


@pytest.mark.promise("P9")
def test_what_is_the_users_own_or_empty_is_no_reason(tmp_path: Path) -> None:
    home, cwd = tmp_path / "home", tmp_path / "home/project"
    (home / ".cursor").mkdir(parents=True)
    (home / ".cursor/mcp.json").write_text("{}")
    (cwd / ".cursor").mkdir(parents=True)
    assert brought_in(cwd, str(home)) is None
    (cwd / ".cursor").rmdir()
    (cwd / ".cursor").symlink_to(home / "nowhere")
    assert brought_in(cwd, str(home)) == cwd / ".cursor"
