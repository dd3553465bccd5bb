"""What opencode is told, what its lines mean, and which projects it is not let into."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from protocol.agent import Approval, McpServer
from protocol.backends import OWN_SKILLS
from protocol.errors import Cause
from protocol.instruction import Usage
from protocol.text import decoded
from protocol.tools import Skill
from tests.worker.backends.backend_jobs import KEY, PROVIDER, TOKEN, WELL, make_job, written
from tests.worker.backends.scenario import made
from tests.worker.backends.subject import Refuse
from tests.worker.backends.subjects_programs import OPENCODE
from tests.worker.conftest import fails
from worker.backends import backend, opencode_stream
from worker.backends.opencode import executable_config
from worker.backends.opencode import open as opencode
from worker.backends.opencode_stream import LOG, OpencodeLine, OpencodeReplies, failed
from worker.mcp_bridge import BridgeConfig
from worker.models.model import Failed


def settings(job: backend.BackendJob) -> dict[str, Any]:
    config: dict[str, Any] = json.loads(Path(opencode(job).launch().env["OPENCODE_CONFIG"]).read_text("utf-8"))
    return config


def line(kind: str, session: str = "ses_1", **fields: Any) -> bytes:
    return json.dumps({"type": kind, "sessionID": session, **fields}).encode()


def finish(reason: str, **tokens: Any) -> bytes:
    counts = {"input": 10, "output": 5, "reasoning": 2, "cache": {"read": 4, "write": 1}, **tokens}
    return line("step_finish", part={"reason": reason, "tokens": counts, "cost": 0})


CALL = line(
    "tool_use",
    part={"tool": "bash", "callID": "c1", "state": {"status": "error", "input": {"command": "x"}, "error": "refused"}},
)


def heard(*lines: bytes) -> list[backend.Event]:
    replies = OpencodeReplies()
    return [
        event for one in lines if (parsed := decoded(one, OpencodeLine)) is not None for event in replies.take(parsed)
    ]


@pytest.mark.promise("P18")
def test_token_and_placeholder_are_in_files_of_the_attempt_and_nothing_else_has_them(tmp_path: Path) -> None:
    job = make_job("opencode", tmp_path)
    launch = opencode(job).launch()
    seen = repr(launch.argv) + repr(dict(launch.env)) + repr(written(job.home))
    assert KEY not in seen
    assert TOKEN not in seen
    modes = {path.stat().st_mode & 0o777 for path in job.place.rglob("*")}
    assert modes == {0o600}
    told = msgspec.json.decode((job.place / "daemon.json").read_bytes(), type=BridgeConfig)
    assert (told.token, told.url) == (TOKEN, job.start.mcp.url)
    assert settings(job)["provider"]["agent-worker"]["options"]["apiKey"] == KEY


def test_it_lives_in_a_home_of_its_own_and_its_shells_in_the_users(tmp_path: Path) -> None:
    job = make_job("opencode", tmp_path)
    env = opencode(job).launch().env
    assert env["HOME"] == "/home/user"
    assert all(env[f"XDG_{name}_HOME"].startswith(str(job.home)) for name in ("DATA", "CONFIG", "STATE", "CACHE"))
    assert env["OPENCODE_DISABLE_PROJECT_CONFIG"] == env["OPENCODE_PURE"] == "1"


@pytest.mark.promise("P15")
def test_a_link_in_its_home_leads_us_nowhere(tmp_path: Path) -> None:
    job = make_job("opencode", tmp_path)
    theirs = tmp_path / "theirs/opencode"
    theirs.mkdir(parents=True)
    (theirs / "package-lock.json").write_text("mine", "utf-8")
    (job.home / "config").symlink_to(theirs.parent)
    opencode(job).launch()
    assert written(theirs) == {Path("package-lock.json"): "mine"}
    assert (job.home / "config/opencode/package-lock.json").is_file()


def test_a_session_is_gone_on_with_under_its_id(tmp_path: Path) -> None:
    launch: backend.Launch = opencode(make_job("opencode", tmp_path, session="ses_1")).launch()
    assert launch.argv[-1] == "--session=ses_1"
    assert launch.stdin == b"do it"


@pytest.mark.parametrize(
    ("approval", "allowed"),
    [
        ("auto", {"bash", "read", "daemon_channel_send"}),
        ("ask", {"read", "daemon_channel_send"}),
        ("all", {"daemon_channel_send"}),
        ("deny", {"read", "daemon_channel_send"}),
    ],
)
def test_what_would_be_asked_about_is_not_offered(tmp_path: Path, approval: Approval, allowed: set[str]) -> None:
    """Nobody can be asked; helpers of its own, whose tokens nobody counts, are never there."""
    rules: Mapping[str, str] = settings(make_job("opencode", tmp_path, approval=approval))["permission"]
    tools = ("bash", "read", "task", "daemon_channel_send")
    verdicts = {tool: rules.get(tool, rules["*"]) for tool in tools} | {"daemon_channel_send": rules["daemon_*"]}
    assert {tool for tool, verdict in verdicts.items() if verdict == "allow"} == allowed
    assert "ask" not in rules.values()


@pytest.mark.parametrize(("approval", "reads"), [("ask", True), ("deny", True), ("all", False)])
def test_copies_of_its_owners_skills_are_all_that_is_read_outside(
    tmp_path: Path, approval: Approval, reads: bool
) -> None:
    copies = tmp_path / "home" / OWN_SKILLS
    skill = Skill(name="deploy", description="d", folder=str(copies / "deploy"))
    given: dict[str, Any] = {"session_dir": str(tmp_path / "home"), "approval": approval}
    rules = settings(make_job("opencode", tmp_path, skills=(skill,), **given))["permission"]
    outside = [("*", "deny"), (f"{copies}/**", "allow")]
    assert list(rules.get("external_directory", {}).items()) == (outside if reads else [])
    assert "external_directory" not in settings(make_job("opencode", tmp_path, **given))["permission"]


@pytest.mark.parametrize(
    ("dialect", "base_url", "client", "address"),
    [
        ("openai", "http://127.0.0.1:9/v1", "@ai-sdk/openai-compatible", "http://127.0.0.1:9/v1"),
        ("openai", None, "@ai-sdk/openai", "https://api.openai.com/v1"),
        ("anthropic", "http://127.0.0.1:9/", "@ai-sdk/anthropic", "http://127.0.0.1:9/v1"),
        ("anthropic", None, "@ai-sdk/anthropic", "https://api.anthropic.com/v1"),
    ],
)
def test_each_dialect_has_its_client(
    tmp_path: Path, dialect: str, base_url: str | None, client: str, address: str
) -> None:
    provider = msgspec.structs.replace(PROVIDER, dialect=dialect, base_url=base_url, compatible=base_url is not None)
    (told,) = settings(make_job("opencode", tmp_path, provider=provider))["provider"].values()
    assert (told["npm"], told["options"]["baseURL"]) == (client, address)


def test_a_reply_is_whole_at_its_end_with_its_calls_and_what_came_of_them() -> None:
    events = heard(line("text", part={"text": "Let me."}), CALL, finish("tool-calls"), finish("stop"))
    session, said, turn, ended, last, over = events
    assert (session, said) == (backend.SessionStarted("ses_1"), backend.ReplyText("Let me."))
    assert isinstance(turn, backend.ReplyEnded)
    assert (turn.text, [call.id for call in turn.calls]) == ("Let me.", ["c1"])
    assert turn.usage == Usage(input_tokens=10, output_tokens=7, cache_read_tokens=4, cache_write_tokens=1)
    assert ended == backend.ToolEnded(call_id="c1", name="bash", text="refused", is_error=True)
    assert isinstance(last, backend.ReplyEnded)
    assert over == backend.LastEvent()


@pytest.mark.parametrize(
    ("lines", "ended", "status"),
    [
        ([finish("stop")], WELL, "done"),
        ([finish("length")], WELL, "incomplete"),
        ([finish("stop")], backend.ProgramExit(code=None, signal=15, stderr="", pushed=True), "done"),
        ([finish("stop")], backend.ProgramExit(code=1, signal=None, stderr=""), None),
        ([CALL, finish("tool-calls")], WELL, None),
        ([], WELL, None),
    ],
)
def test_the_reason_of_the_last_reply_and_the_exit_have_to_agree(
    tmp_path: Path, lines: list[bytes], ended: backend.ProgramExit, status: str | None
) -> None:
    """It also leaves with 0 after a refused tool, with nothing said."""
    program = opencode(make_job("opencode", tmp_path))
    for one in lines:
        list(program.read(one))
    if status is None:
        with pytest.raises(Failed):
            program.conclude(ended)
    else:
        assert program.conclude(ended).status == status


@pytest.mark.parametrize(
    ("name", "data", "cause", "status"),
    [
        ("APIError", {"statusCode": 401, "responseBody": '{"error": {"code": "invalid_api_key"}}'}, "auth", 401),
        ("APIError", {"statusCode": 404, "responseBody": "no JSON"}, "invalid", 404),
        ("APIError", {"statusCode": 429, "responseHeaders": {"retry-after": "7"}}, "rate_limited", 429),
        ("APIError", {"statusCode": 429, "responseBody": '{"error": {"code": "insufficient_quota"}}'}, "quota", 429),
        ("APIError", {"statusCode": 529}, "overloaded", 529),
        ("ContextOverflowError", {"message": "too long"}, "context_overflow", None),
        ("ContentFilterError", {"message": "blocked"}, "refusal", None),
        ("UnknownError", {"message": "Unexpected server error"}, "invalid", None),
        ("ErrorOfALaterVersion", {}, "overloaded", None),
    ],
)
def test_every_error_has_its_cause(name: str, data: dict[str, Any], cause: Cause, status: int | None) -> None:
    """By status and code, never by prose."""
    parsed = decoded(line("error", error={"name": name, "data": data}), OpencodeLine)
    assert parsed is not None
    assert parsed.error is not None
    found = failed(parsed.error)
    assert (found.cause, found.http_status) == (cause, status)
    assert found.retry_after_seconds == (7.0 if "responseHeaders" in data else None)


LOGGED = b"timestamp=2026-11-21T19:52:43.969Z level=%s run=71170936 message=%s"
REFUSED = b'"stream error" providerID=f session.id=ses_1 small=false error.error="AI_APICallError: not \\"today\\""'


def test_its_log_tells_that_it_asks_again(tmp_path: Path) -> None:
    """As 1.18.33 writes it: what it waits for is shown; where it does so for too long its provider has said so."""
    program = opencode(make_job("opencode", tmp_path))
    doing, pauses = program.read(LOGGED % (b"ERROR", REFUSED))
    assert doing == backend.ActivityChanged("waiting to retry the model request")
    assert isinstance(pauses, backend.BackingOff)
    assert (pauses.why.cause, "today" in str(pauses.why)) == ("rate_limited", True)
    assert list(program.read(LOGGED % (b"INFO", b'"llm runtime selected" llm.model=m'))) == [
        backend.ActivityChanged("asking the model")
    ]


@pytest.mark.parametrize(
    ("text", "log", "told"),
    [
        (LOGGED % (b"ERROR", REFUSED), True, True),
        (LOGGED % (b"INFO", b'"llm runtime selected" llm.model=m'), True, True),
        (LOGGED % (b"INFO", b'"event connected"'), True, False),
        (LOGGED % (b"ERROR", b"process error=x"), True, False),
        (b"Error: Session not found", False, False),
    ],
)
def test_log_lines_are_not_part_of_the_error_text(text: bytes, log: bool, told: bool) -> None:
    found = LOG.match(text)
    assert (found is not None) == log
    assert (found is not None and found["event"] is not None) == told


@pytest.mark.promise("P12")
@pytest.mark.skipif(OPENCODE.installed() is None, reason="opencode is not installed: AGENT_WORKER_TEST_CLIS")
async def test_the_real_one_is_not_waited_for_where_its_provider_says_an_hour(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opencode_stream, "PAUSE_SECONDS", 2.0)
    async with made(OPENCODE, "real", "hour", tmp_path) as run:
        run.script(otherwise=Refuse(429, "rate_limit_error", headers={"retry-after": "3600"}))
        attempt = await run.attempt()
        assert (attempt.error.cause, "not today" in attempt.error.text) == ("rate_limited", True)
        assert len(run.requests) == 1


def test_it_is_connected_once_the_bridge_has_listed_its_tools(tmp_path: Path) -> None:
    job = make_job("opencode", tmp_path)
    program = opencode(job)
    program.launch()
    assert backend.DaemonConnected() not in list(program.read(finish("tool-calls")))
    Path(msgspec.json.decode((job.place / "daemon.json").read_bytes(), type=BridgeConfig).mark).touch()
    assert backend.DaemonConnected() in list(program.read(finish("tool-calls")))
    assert backend.DaemonConnected() not in list(program.read(finish("stop")))


@pytest.mark.parametrize(
    "name",
    [
        ".opencode/plugin/x.js",
        ".opencode/plugins/x.ts",
        "opencode.json",
        ".opencode/opencode.jsonc",
        "../.opencode/plugin/x.js",
    ],
)
def test_a_project_whose_code_it_would_run_is_not_opened(tmp_path: Path, name: str) -> None:
    (tmp_path / ".git").mkdir()
    path = tmp_path / "project" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('{"plugin": ["./x.js"]}', "utf-8")
    with fails("untrusted", path.name):
        opencode(make_job("opencode", tmp_path))


def test_what_is_not_the_projects_or_no_code_does_not_matter(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    (tmp_path / ".opencode/plugin").mkdir(parents=True)
    (tmp_path / ".opencode/plugin/mine.js").touch()
    (project / ".opencode/agent").mkdir(parents=True)
    (project / "opencode.json").write_text('{"model": "x"}', "utf-8")
    assert executable_config(project) is None


@pytest.mark.promise("P18")
def test_its_own_servers_are_told_in_a_file_that_goes_with_the_attempt(tmp_path: Path) -> None:
    """With what was filled in for them; and only an agent that may do all is let to their tools."""
    servers = {"files": McpServer(command="serve", env={"SERVER_KEY": "canary"})}
    job = make_job("opencode", tmp_path, mcp_servers=servers)
    launch = opencode(job).launch()
    assert "canary" not in repr(launch.argv) + repr(dict(launch.env)) + repr(written(job.home))
    told = settings(job)
    assert told["mcp"]["files"]["environment"] == {"SERVER_KEY": "canary"}
    *_, (last, verdict) = told["permission"].items()
    assert (last, verdict) == ("files_*", "deny")


@pytest.mark.parametrize("linked", [False, True])
def test_what_it_leaves_in_a_repository_is_taken_away(tmp_path: Path, linked: bool) -> None:
    job = make_job("opencode", tmp_path)
    git = (tmp_path / "main" if linked else tmp_path / "project") / ".git"
    git.mkdir(parents=True)
    if linked:
        own = git / "worktrees/project"
        own.mkdir(parents=True)
        (own / "commondir").write_text("../..\n", "utf-8")
        (tmp_path / "project/.git").write_text(f"gitdir: {own}\n", "utf-8")
    program = opencode(job)
    (git / "opencode").write_text("id", "utf-8")
    list(program.read(finish("stop")))
    assert not (git / "opencode").exists()


def test_what_the_user_had_there_stays(tmp_path: Path) -> None:
    (tmp_path / "project/.git").mkdir(parents=True)
    note = tmp_path / "project/.git/opencode"
    note.write_text("mine", "utf-8")
    program = opencode(make_job("opencode", tmp_path))
    list(program.read(finish("stop")))
    assert note.read_text("utf-8") == "mine"


@pytest.mark.promise("P19")
@pytest.mark.parametrize(("approval", "verdict"), [("ask", "allow"), ("deny", "allow"), ("all", None), ("auto", None)])
def test_tools_that_the_agents_file_calls_read_only_are_offered(
    tmp_path: Path, approval: Approval, verdict: str | None
) -> None:
    files = {"files": McpServer(command="serve")}
    job = make_job("opencode", tmp_path, approval=approval, mcp_servers=files, read_only=("mcp__files__look",))
    rules: Mapping[str, str] = settings(job)["permission"]
    assert rules.get("files_look") == verdict
    assert verdict is None or list(rules).index("files_look") > list(rules).index("files_*")


@pytest.mark.promise("P18", "P35")
def test_with_a_login_opencode_works_under_its_providers_name(tmp_path: Path) -> None:
    bare = msgspec.structs.replace(PROVIDER, name="openai", base_url=None, api_key=None)
    job = make_job("opencode", tmp_path, provider=bare, login=True)
    launch, found = opencode(job).launch(), settings(job)
    assert "--model=openai/scripted" in launch.argv
    assert found["enabled_providers"] == ["openai"]
    assert not {"apiKey", "baseURL"} & found["provider"]["openai"]["options"].keys()
    assert launch.env.get("OPENCODE_DISABLE_DEFAULT_PLUGINS") is None
    assert launch.env["OPENCODE_PURE"] == "1"
