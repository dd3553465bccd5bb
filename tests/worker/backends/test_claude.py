"""What is special about Claude Code: secrets, permissions, tokens beside its turns, what its errors mean."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from protocol.agent import Approval, McpServer
from protocol.backends import OWN_SKILLS
from protocol.errors import Cause
from protocol.instruction import Usage
from protocol.ipc import Json, Limits, Provider
from protocol.tools import Skill
from tests.worker.backends.backend_jobs import WELL, heard, make_job
from tests.worker.backends.scenario import made
from tests.worker.backends.subject import CLIS, Reply, Shell, Tell
from tests.worker.backends.subjects_programs import CLAUDE
from tests.worker.conftest import fails
from worker.backends.backend import (
    ActivityChanged,
    BackendJob,
    EndEarly,
    ProgramExit,
    ReplyEnded,
    SessionStarted,
    SubagentUsage,
    ToolEnded,
)
from worker.backends.claude import Claude
from worker.models.model import Failed

KEY = "sk-canary-4713"
BADLY = ProgramExit(code=1, signal=None, stderr="")
INIT = {
    "type": "system",
    "subtype": "init",
    "session_id": "s",
    "mcp_servers": [{"name": "daemon", "status": "connected"}],
}


PROVIDER = Provider(name="p", dialect="anthropic", base_url="http://127.0.0.1:9", api_key=KEY)


def job(folder: Path, **changes: Any) -> BackendJob:
    fields: dict[str, Any] = {"model": "claude-sonnet-4-5", "provider": PROVIDER, "token": "token-canary", **changes}
    return make_job("claude", folder, own={"XDG_CACHE_HOME": "/home/user/my cache"}, **fields)


def flag(argv: tuple[str, ...], name: str) -> str:
    return argv[argv.index(name) + 1]


def raw(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": "stream_event", "event": {"type": kind, **fields}}


def message(role: str, *blocks: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"type": role, "message": {"role": role, "content": list(blocks)}, **fields}


def result(**fields: Any) -> dict[str, Any]:
    return {"type": "result", "subtype": "success", "is_error": False, "result": "fine", **fields}


@pytest.mark.promise("P18")
def test_its_commands_do_not_see_its_placeholder_and_no_argument_has_its_token(tmp_path: Path) -> None:
    launch = Claude(job(tmp_path)).launch()
    assert launch.env["ANTHROPIC_API_KEY"] == KEY and "token-canary" not in repr(launch)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert [path.name for path in files if KEY in path.read_text()] == []
    assert "unset ANTHROPIC_API_KEY\n" in (tmp_path / "place/environment.sh").read_text()


def test_subagents_and_background_work_use_its_own_model(tmp_path: Path) -> None:
    env = Claude(job(tmp_path)).launch().env
    chosen = {value for name, value in env.items() if name.endswith("_MODEL")}
    assert chosen == {"claude-sonnet-4-5"}


@pytest.mark.promise("P27")
@pytest.mark.parametrize(
    ("model", "left", "given"),
    [
        ("claude-sonnet-4-5", 0.25, ("0.250000",)),
        ("claude-sonnet-4-5", -0.01, ("0.000001",)),
        ("claude-sonnet-4-5", None, ()),
        ("glm-4.7", 0.25, ()),
    ],
)
def test_what_may_be_spent_is_its_own_limit_too(
    tmp_path: Path, model: str, left: float | None, given: tuple[str, ...]
) -> None:
    argv = Claude(job(tmp_path, model=model, budget_usd=left)).launch().argv
    assert tuple(argv[at + 1] for at, word in enumerate(argv) if word == "--max-budget-usd") == given


def test_its_tools_see_the_environment_of_the_agent(tmp_path: Path) -> None:
    launch = Claude(job(tmp_path)).launch()
    assert launch.env["CLAUDE_CONFIG_DIR"] == str(tmp_path / "home")
    restored = Path(launch.env["CLAUDE_ENV_FILE"]).read_text().splitlines()
    assert "export XDG_CACHE_HOME='/home/user/my cache'" in restored
    assert {"unset ANTHROPIC_BASE_URL", "unset CLAUDE_CONFIG_DIR", "unset CLAUDE_CODE_MAX_RETRIES"} <= {*restored}
    assert launch.env["HOME"] == "/home/user"


@pytest.mark.parametrize(
    ("approval", "mode", "asks", "runs"),
    [
        ("auto", "dontAsk", False, True),
        ("ask", "default", True, False),
        ("all", "default", True, False),
        ("deny", "dontAsk", False, False),
    ],
)
def test_its_permissions_follow_the_agents(
    tmp_path: Path, approval: Approval, mode: str, asks: bool, runs: bool
) -> None:
    own = {"mine": McpServer(command="serve")}
    argv = Claude(job(tmp_path, approval=approval, mcp_servers=own)).launch().argv
    assert flag(argv, "--permission-mode") == mode
    assert ("--permission-prompt-tool" in argv) == asks
    allowed = flag(argv, "--allowedTools").split(",")
    assert ("Bash" in allowed, "mcp__mine" in allowed, "mcp__daemon" in allowed) == (runs, runs, True)
    settings = json.loads(Path(flag(argv, "--settings")).read_text())
    assert ("Read" in settings.get("permissions", {}).get("ask", ())) == (approval == "all")


def test_a_tool_that_is_faster_than_its_reply_comes_after_it(tmp_path: Path) -> None:
    call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}
    back = {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "a.txt"}]}
    events = heard(
        Claude(job(tmp_path)),
        raw("message_start", message={"usage": {"input_tokens": 10, "cache_read_input_tokens": 3}}),
        message("assistant", call),
        message("user", back),
        raw("message_delta", usage={"output_tokens": 5}),
        raw("message_stop"),
    )
    turn, ended = events
    assert isinstance(turn, ReplyEnded) and isinstance(ended, ToolEnded)
    assert turn.usage == Usage(input_tokens=10, output_tokens=5, cache_read_tokens=3)
    assert (turn.calls[0].name, ended.name, ended.text) == ("Bash", "Bash", "a.txt")


def test_what_agents_below_it_spend_is_booked_and_no_step_of_its(tmp_path: Path) -> None:
    program = Claude(job(tmp_path))
    events = heard(
        program,
        INIT,
        raw("message_start", message={"usage": {"input_tokens": 10}}),
        message("assistant", {"type": "text", "text": "theirs"}, parent_tool_use_id="t1"),
        raw("message_delta", usage={"output_tokens": 5}),
        result(model_usage_since_last_result={"m": {"inputTokens": 17, "outputTokens": 9, "cacheReadInputTokens": 1}}),
    )
    assert SubagentUsage(Usage(input_tokens=7, output_tokens=4, cache_read_tokens=1)) in events
    assert [event.text for event in events if isinstance(event, ReplyEnded)] == [""]
    assert [event.tool for event in events if isinstance(event, ActivityChanged)] == [True]


COMPLAINT = {"type": "assistant", "message": {"content": []}}


@pytest.mark.parametrize(
    ("complaint", "last", "cause"),
    [
        ({"error": "authentication_failed", "api_error_status": 401}, {"api_error_status": 401}, "auth"),
        ({"error": "billing_error", "api_error_status": 400}, {"api_error_status": 400}, "quota"),
        ({"error": "rate_limit", "api_error_status": 429}, {"api_error_status": 429}, "rate_limited"),
        ({"error": "server_error", "api_error_status": 529}, {"api_error_status": 529}, "overloaded"),
        ({"error": "model_not_found", "api_error_status": 404}, {"api_error_status": 404}, "invalid"),
        ({"error": "server_error", "api_error": "connection_failed"}, {"terminal_reason": "api_error"}, "network"),
        ({"api_error_status": 400}, {"terminal_reason": "prompt_too_long"}, "context_overflow"),
        ({}, {"subtype": "error_during_execution"}, "crash"),
    ],
)  # fmt: skip
def test_what_went_wrong_is_told_by_structure_alone(
    tmp_path: Path, complaint: dict[str, Any], last: dict[str, Any], cause: Cause
) -> None:
    program = Claude(job(tmp_path))
    heard(program, INIT, COMPLAINT | complaint, result(is_error=True) | last)
    with fails(cause):
        program.conclude(BADLY)


def test_neither_the_result_nor_the_exit_is_success_alone(tmp_path: Path) -> None:
    program = Claude(job(tmp_path))
    with pytest.raises(Failed, match="before it finished"):
        program.conclude(WELL)
    heard(program, INIT, result())
    with pytest.raises(Failed, match="exit code 1"):
        program.conclude(BADLY)
    assert program.conclude(WELL).text == "fine"
    assert program.conclude(ProgramExit(code=143, signal=None, stderr="", pushed=True)).text == "fine"


def test_a_key_that_is_refused_is_not_tried_for_minutes(tmp_path: Path) -> None:
    refused = {"type": "system", "subtype": "api_retry", "error_status": 401, "error": "authentication_failed"}
    (event,) = heard(Claude(job(tmp_path)), refused)
    assert isinstance(event, EndEarly) and event.why.cause == "auth"


@pytest.mark.promise("P14", "P18")
@pytest.mark.skipif(CLIS is None, reason="AGENT_WORKER_TEST_CLIS")
async def test_the_real_one_leaves_no_trace_outside(tmp_path: Path) -> None:
    look = f"env > seen; grep -rl 'sk-se[c]ret' {tmp_path}/run* {tmp_path}/session > found; true"
    async with made(CLAUDE, "real", "trace", tmp_path) as run:
        run.script(Shell(look), Tell("hello"), Reply("done"))
        assert (await run.attempt()).result.text == "done"
        assert run.requests[-1].headers["x-api-key"] == "sk-secret"
    seen = (run.cwd / "seen").read_text()
    assert "sk-secret" not in seen and "ANTHROPIC" not in seen and "XDG_" not in seen
    assert (run.cwd / "found").read_text() == ""
    assert sorted(path.name for path in run.cwd.iterdir()) == ["found", "seen"]
    assert list((tmp_path / "home").iterdir()) == []


@pytest.mark.promise("P27")
@pytest.mark.skipif(CLIS is None, reason="AGENT_WORKER_TEST_CLIS")
async def test_the_real_one_stops_at_its_own_count_of_this_run_alone(tmp_path: Path) -> None:
    """What its session cost before counts for nothing; of 0.0001 USD a call, two are too much."""
    async with made(CLAUDE, "real", "fence", tmp_path) as run:
        run.script(otherwise=Tell("again"))
        before = await run.attempt(limits=Limits(max_steps=2, tool_seconds=20.0, idle_seconds=20.0))
        assert (before.result.status, before.result.cause) == ("incomplete", "max_steps")
        attempt = await run.attempt(budget_usd=0.00015)
        assert (attempt.result.status, attempt.result.cause) == ("incomplete", "budget")
        assert len([entry for entry in attempt.entries if entry.kind == "reply"]) == 2


@pytest.mark.skipif(CLIS is None, reason="AGENT_WORKER_TEST_CLIS")
@pytest.mark.parametrize("granted", [True, False])
async def test_the_real_one_asks_through_daemon_mcp(tmp_path: Path, granted: bool) -> None:
    async with made(CLAUDE, "real", "asks", tmp_path) as run:
        run.daemon.grants = granted
        run.script(Shell("touch asked"), Reply("done"))
        attempt = await run.attempt(approval="ask", limits=Limits(tool_seconds=20.0, idle_seconds=20.0))
        assert attempt.result.text == "done"
        assert [one["tool_name"] for one in run.daemon.asked] == ["Bash"]
        offered = {tool["name"] for request in run.requests for tool in request.body.get("tools", ())}
        assert "mcp__daemon__channel_send" in offered
        assert "mcp__daemon__auth_request" not in offered
    assert (run.cwd / "asked").exists() == granted


@pytest.mark.promise("P19")
@pytest.mark.parametrize(("approval", "allowed"), [("ask", True), ("deny", True), ("all", False)])
def test_tools_that_the_agents_file_calls_read_only_are_allowed(
    tmp_path: Path, approval: Approval, allowed: bool
) -> None:
    own = {"mine": McpServer(command="serve")}
    made = job(tmp_path, approval=approval, mcp_servers=own, read_only=("mcp__mine__look",))
    found = flag(Claude(made).launch().argv, "--allowedTools").split(",")
    assert ("mcp__mine__look" in found, "mcp__mine" in found) == (allowed, False)


@pytest.mark.promise("P18", "P35")
def test_with_a_login_there_is_no_key(tmp_path: Path) -> None:
    made = job(tmp_path, login=True)
    launch = Claude(made).launch()
    settings = json.loads(Path(flag(launch.argv, "--settings")).read_text())
    assert "apiKeyHelper" not in settings
    assert [path.name for path in tmp_path.rglob("*") if path.is_file() and KEY in path.read_text()] == []
    assert not {"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"} & launch.env.keys()


@pytest.mark.parametrize(("approval", "reads"), [("auto", True), ("ask", True), ("deny", True), ("all", False)])
def test_hooks_and_skills_of_its_owner_are_where_it_finds_them(tmp_path: Path, approval: Approval, reads: bool) -> None:
    """Hooks in its settings, word for word; copies of skills may be read unasked, unless it is asked before all."""
    hooks = {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]}
    copies = tmp_path / "home" / OWN_SKILLS
    skill = Skill(name="deploy", description="d", folder=str(copies / "deploy"))
    given: dict[str, Any] = {"session_dir": str(tmp_path / "home"), "skills": (skill,), "approval": approval}
    launch = Claude(job(tmp_path, hooks=Json(json.dumps(hooks).encode()), **given)).launch()
    assert json.loads(Path(flag(launch.argv, "--settings")).read_text())["hooks"] == hooks
    assert (f"Read(/{copies}/**)" in flag(launch.argv, "--allowedTools").split(",")) is reads
    given["skills"] = ()
    without = Claude(job(tmp_path, **given)).launch()
    assert "hooks" not in json.loads(Path(flag(without.argv, "--settings")).read_text())
    assert OWN_SKILLS not in repr(without.argv)


@pytest.mark.parametrize(("status", "fault"), [("pending", None), ("connected", None), ("failed", "is failed")])
def test_a_server_that_still_connects_is_waited_for(tmp_path: Path, status: str, fault: str | None) -> None:
    """D20: 2.1.197 on a busy machine; its model is asked when all are connected, and the kernel sees who came."""
    program = Claude(job(tmp_path, mcp_servers={"own": McpServer(command="x")}))
    assert program.launch().env["MCP_CONNECTION_NONBLOCKING"] == "false"
    servers = [{"name": name, "status": status} for name in ("daemon", "own")]
    line = json.dumps({**INIT, "mcp_servers": servers}).encode()
    if fault is None:
        assert SessionStarted("s") in list(program.read(line))
    else:
        with pytest.raises(Failed, match=fault):
            list(program.read(line))
