"""What codex is told, and what its lines and its record of a thread mean."""

import json
import tomllib
from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import msgspec
import pytest

from protocol.agent import Approval, McpServer
from protocol.errors import Cause
from protocol.instruction import Usage
from protocol.ipc import Entry, Provider
from tests.worker.backends.jobs import KEY, PROVIDER, TOKEN, make_job, written
from worker.backends.codex import open as codex
from worker.backends.codex_config import KEY as KEY_VARIABLE
from worker.backends.codex_config import TOKEN as TOKEN_VARIABLE
from worker.backends.codex_record import why
from worker.backends.codex_stream import Thread, parse
from worker.backends.program import Doing, Ended, Event, Job, Over, Reached, SessionIs, ToolEnded, Turn
from worker.models.errors import Failed

WELL = Ended(code=0, signal=None, stderr="")


def settings(job: Job) -> dict[str, Any]:
    """The configuration that codex reads."""
    codex(job).launch()
    return tomllib.loads((job.home / "config.toml").read_text("utf-8"))


def heard(*lines: dict[str, Any], booked: Usage | None = None) -> list[Event]:
    """What these lines mean."""
    thread = Thread(booked or Usage())
    parsed = [line for one in lines if (line := parse(json.dumps(one).encode())) is not None]
    return [event for line in parsed for event in thread.take(line)]


def command(id_: str, done: bool) -> dict[str, Any]:
    """A command at its begin or its end."""
    item = {
        "id": id_,
        "type": "command_execution",
        "command": f"echo {id_}",
        "aggregated_output": "",
        "exit_code": None,
    }
    ended = {"aggregated_output": f"{id_}\n", "exit_code": 0, "status": "completed"}
    return {"type": "item.completed" if done else "item.started", "item": item | (ended if done else {})}


def completed(input_tokens: int, cached: int, output: int) -> dict[str, Any]:
    """The end of a turn; counts are the thread's."""
    usage = {"input_tokens": input_tokens, "cached_input_tokens": cached, "output_tokens": output}
    return {"type": "turn.completed", "usage": usage}


def turns(events: Iterable[Event]) -> list[Turn]:
    """The replies among them."""
    return [event for event in events if isinstance(event, Turn)]


def test_secrets_are_in_its_own_environment_alone_under_names_its_shells_do_not_get(tmp_path: Path) -> None:
    """P18, contracts 6: never in argv, nor in a file that outlives the attempt."""
    job = make_job("codex", tmp_path)
    launch = codex(job).launch()
    assert {launch.env[KEY_VARIABLE], launch.env[TOKEN_VARIABLE]} == {KEY, TOKEN}
    (kept,) = settings(job)["shell_environment_policy"]["exclude"]
    assert all(name.startswith(kept.removesuffix("*")) for name in (KEY_VARIABLE, TOKEN_VARIABLE))
    told = repr(launch.argv) + repr(written(tmp_path))
    assert KEY not in told
    assert TOKEN not in told


def test_the_prompt_is_input_and_the_agents_own_prompt_is_in_its_configuration(tmp_path: Path) -> None:
    """decisions: the prompt on stdin, always; a system prompt of any size, with whatever in it."""
    job = make_job("codex", tmp_path, system='You are "Alice".\n\x7f' + "x" * 200_000)
    launch = codex(job).launch()
    assert launch.stdin == b"do it"
    assert settings(job)["developer_instructions"] == job.start.system
    assert sum(map(len, launch.argv)) < 200
    assert (job.home / "config.toml").stat().st_mode & 0o777 == 0o600


def test_a_thread_is_gone_on_with_under_its_id(tmp_path: Path) -> None:
    """Issue, 2: resumed out of the same home."""
    argv = codex(make_job("codex", tmp_path, session="t-1")).launch().argv
    assert argv[1:3] == ("exec", "resume")
    assert argv[-2:] == ("t-1", "-")


@pytest.mark.parametrize(
    ("approval", "sandbox", "shell"),
    [
        ("auto", "danger-full-access", True),
        ("ask", "read-only", True),
        ("all", "read-only", False),
        ("deny", "read-only", True),
    ],
)
def test_what_would_be_asked_about_is_refused(tmp_path: Path, approval: Approval, sandbox: str, shell: bool) -> None:
    """Issue, 3: mapped to its own settings, and never to more than was allowed."""
    told = settings(make_job("codex", tmp_path, approval=approval))
    assert (told["approval_policy"], told["sandbox_mode"]) == ("never", sandbox)
    assert told["features"].get("shell_tool", True) is shell
    assert told["mcp_servers"]["daemon"]["default_tools_approval_mode"] == "approve"


def test_it_does_not_begin_without_the_kernels_tools(tmp_path: Path) -> None:
    """clis.md, trap 1: else it would go on without them and exit with 0."""
    daemon = settings(make_job("codex", tmp_path))["mcp_servers"]["daemon"]
    assert daemon["required"] is True
    assert daemon["tool_timeout_sec"] == 5.0


def test_openai_itself_is_asked_where_it_is(tmp_path: Path) -> None:
    """No base_url: the vendor's own endpoint, by our key; and no retries of its own, wherever it is."""
    provider = msgspec.structs.replace(PROVIDER, base_url=None)
    told = settings(make_job("codex", tmp_path, provider=provider))
    asked = told["model_providers"][told["model_provider"]]
    assert asked["base_url"] == "https://api.openai.com/v1"
    assert (asked["request_max_retries"], asked["stream_max_retries"]) == (0, 0)
    assert told["features"]["unbounded_connection_retries"] is False


def test_an_endpoint_without_a_key_is_asked_without(tmp_path: Path) -> None:
    """A local server: codex would refuse to begin where a variable that it was told of is not set."""
    job = make_job("codex", tmp_path, provider=Provider(name="local", dialect="openai", base_url="http://127.0.0.1:9"))
    launch = codex(job).launch()
    assert KEY_VARIABLE not in launch.env
    assert "env_key" not in next(iter(settings(job)["model_providers"].values()))


def test_a_model_of_nobody_is_an_error_with_words(tmp_path: Path) -> None:
    """A start frame without a provider is a mistake in a file, not a crash."""
    with pytest.raises(Failed, match="provider"):
        codex(make_job("codex", tmp_path, provider=None)).launch()


def test_calls_that_run_at_once_are_one_reply() -> None:
    """program.py: a step is a reply; between two of them all its calls are back."""
    events = heard(
        {"type": "item.completed", "item": {"id": "m", "type": "agent_message", "text": "Both."}},
        command("a", done=False),
        command("b", done=False),
        command("b", done=True),
        command("a", done=True),
        command("c", done=False),
        command("c", done=True),
        completed(30, 10, 5),
    )
    first, second, last = turns(events)
    assert (first.text, [call.id for call in first.calls]) == ("Both.", ["a", "b"])
    assert [call.id for call in second.calls] == ["c"]
    assert (last.calls, last.usage) == ((), Usage(input_tokens=20, output_tokens=5, cache_read_tokens=10))
    assert [event.call_id for event in events if isinstance(event, ToolEnded)] == ["b", "a", "c"]
    assert events[-1] == Over()


def test_a_tool_that_never_said_it_began_is_told_all_the_same() -> None:
    """Some kinds (a change of files) come once, when they are done."""
    change = {"id": "f", "type": "file_change", "changes": [{"path": "a", "kind": "add"}], "status": "failed"}
    events = heard({"type": "item.completed", "item": change})
    assert [type(event) for event in events] == [Turn, ToolEnded]
    assert isinstance(events[1], ToolEnded)
    assert events[1].is_error


def test_a_warning_is_no_failure_and_a_thought_no_reply() -> None:
    """clis.md, trap 15."""
    events = heard(
        {"type": "item.completed", "item": {"id": "0", "type": "error", "message": "no metadata"}},
        {"type": "item.completed", "item": {"id": "1", "type": "reasoning", "text": "hm"}},
        {"type": "error", "message": "Reconnecting... 1/5"},
        command("a", done=False),
    )
    assert events == [Doing("tool command_execution", tool=True)]


def test_a_thread_that_begins_has_its_servers() -> None:
    """Measured: with a required server that does not come no thread begins."""
    assert heard({"type": "thread.started", "thread_id": "t"}) == [SessionIs("t"), Reached()]


@pytest.mark.parametrize(
    ("booked", "expected"),
    [
        (Usage(), Usage(input_tokens=40, output_tokens=20, cache_read_tokens=4)),
        (
            Usage(input_tokens=20, output_tokens=10),
            Usage(input_tokens=20, output_tokens=10, cache_read_tokens=4),
        ),
        (Usage(input_tokens=99, output_tokens=99, cache_read_tokens=99), Usage()),
    ],
)
def test_what_was_booked_is_not_booked_again(booked: Usage, expected: Usage) -> None:
    """clis.md, trap 5: its counts are of the whole thread, over all processes that worked on it."""
    assert turns(heard(completed(44, 4, 20), booked=booked))[0].usage == expected


def test_only_entries_of_the_same_thread_were_booked_for_it(tmp_path: Path) -> None:
    """After a lost session the count begins anew."""
    usage = Usage(input_tokens=10, output_tokens=5)
    entries = (
        Entry(k=0, kind="session", session="lost"),
        Entry(k=1, kind="reply", text="x", usage=msgspec.structs.replace(usage, input_tokens=1000)),
        Entry(k=2, kind="session", session="t-1"),
        Entry(k=3, kind="reply", text="y", usage=usage),
        Entry(k=4, kind="reply", text="z"),
    )
    program = codex(make_job("codex", tmp_path, session="t-1", entries=entries))
    (turn,) = turns(program.read(json.dumps(completed(25, 0, 9)).encode()))
    assert turn.usage == Usage(input_tokens=15, output_tokens=4)


def record(home: Path, info: object, thread: str = "t-1") -> None:
    """The record of a thread whose last turn failed so."""
    folder = home / "sessions/2026/11/21"
    folder.mkdir(parents=True, exist_ok=True)
    began = {"type": "event_msg", "payload": {"type": "task_started"}}
    ended = {
        "type": "event_msg",
        "payload": {"type": "task_complete", "error": {"message": "x", "codex_error_info": info}},
    }
    lines = [json.dumps(began), "garbage, and not the last line", json.dumps(ended), '{"type": "task_complete']
    (folder / f"rollout-2026-11-21T10-00-00-{thread}.jsonl").write_text("\n".join(lines), "utf-8")


@pytest.mark.parametrize(
    ("info", "cause", "status"),
    [
        ("context_window_exceeded", "context_overflow", None),
        ("usage_limit_exceeded", "quota", None),
        ("rate_limit_exceeded", "rate_limited", None),
        ("server_overloaded", "overloaded", None),
        ("model_not_found", "invalid", None),
        ({"http_connection_failed": {"http_status_code": 401}}, "auth", 401),
        ({"http_connection_failed": {"http_status_code": 402}}, "quota", 402),
        ({"http_connection_failed": {"http_status_code": 529}}, "overloaded", 529),
        ({"http_connection_failed": {"http_status_code": None}}, "network", None),
        ({"response_too_many_failed_attempts": {"http_status_code": 429}}, "rate_limited", 429),
    ],
)
def test_a_failure_is_known_by_the_code_in_its_record(
    tmp_path: Path, info: object, cause: Cause, status: int | None
) -> None:
    """decisions, Failure: structured signals; its prose here would say something else."""
    record(tmp_path, info)
    found = why(tmp_path, "t-1", "unexpected status 418 I'm a teapot")
    assert (found.cause, found.status) == (cause, status)


@pytest.mark.parametrize(
    ("message", "cause", "status"),
    [
        ("unexpected status 401 Unauthorized: bad key, url: http://x/v1/responses", "auth", 401),
        ("exceeded retry limit, last status: 429 Too Many Requests", "rate_limited", 429),
        ("stream disconnected before completion: the words", "network", None),
        ("Incomplete response returned, reason: max_output_tokens", "max_tokens", None),
        ('{"error": {"code": "context_length_exceeded"}}', "context_overflow", 400),
        ('{"error": {"message": "what"}}', "invalid", 400),
        ("words of a later version", "overloaded", None),
    ],
)
def test_without_a_record_its_fixed_sentences_have_to_do(
    tmp_path: Path, message: str, cause: Cause, status: int | None
) -> None:
    """What nobody knows is tried again."""
    found = why(tmp_path, "t-1", message)
    assert (found.cause, found.status) == (cause, status)


def test_an_answer_that_was_cut_off_is_incomplete(tmp_path: Path) -> None:
    """promises 4.3: max_tokens is no failure; it can be gone on with."""
    program = codex(make_job("codex", tmp_path))
    message = "Incomplete response returned, reason: max_output_tokens"
    list(program.read(b'{"type":"thread.started","thread_id":"t"}'))
    list(program.read(json.dumps({"type": "turn.failed", "error": {"message": message}}).encode()))
    result = program.conclude(Ended(code=1, signal=None, stderr=""))
    assert (result.status, result.cause) == ("incomplete", "max_tokens")


def test_a_turn_that_completed_is_not_enough(tmp_path: Path) -> None:
    """program.py: the terminal event and the exit; either alone is not success."""
    program = codex(make_job("codex", tmp_path))
    list(program.read(json.dumps(completed(1, 0, 1)).encode()))
    with pytest.raises(Failed):
        program.conclude(Ended(code=1, signal=None, stderr="boom"))
    with pytest.raises(Failed):
        codex(make_job("codex", tmp_path)).conclude(WELL)
    assert program.conclude(WELL).status == "done"


def test_its_own_servers_get_their_secrets_and_nobody_else_does(tmp_path: Path) -> None:
    """P18: what was filled in for a server is in no file that stays, in no argv, and not in its shells."""
    servers = {
        "files": McpServer(command="serve", args=("--fast",), env={"SERVER_KEY": "canary-one"}),
        "web": McpServer(url="https://x.example/mcp", headers={"Authorization": "canary-two"}),
    }
    job = make_job("codex", tmp_path, mcp_servers=servers)
    launch = codex(job).launch()
    told = settings(job)
    assert "canary" not in repr(launch.argv) + repr(written(tmp_path))
    files, web = told["mcp_servers"]["files"], told["mcp_servers"]["web"]
    assert [launch.env[name] for name in files["env_vars"]] == ["canary-one"]
    assert launch.env[web["env_http_headers"]["Authorization"]] == "canary-two"
    kept = told["shell_environment_policy"]["exclude"]
    assert all(any(fnmatch(name, one) for one in kept) for name, value in launch.env.items() if "canary" in value)


@pytest.mark.parametrize(
    ("approval", "mode"), [("auto", "approve"), ("ask", "writes"), ("all", "prompt"), ("deny", "writes")]
)
def test_its_own_servers_are_bound_by_the_approval(tmp_path: Path, approval: Approval, mode: str) -> None:
    """Issue, 3: those tools ask like any other; the kernel's never do."""
    job = make_job("codex", tmp_path, approval=approval, mcp_servers={"files": McpServer(command="serve")})
    servers = settings(job)["mcp_servers"]
    modes = {name: server["default_tools_approval_mode"] for name, server in servers.items()}
    assert modes == {"files": mode, "daemon": "approve"}
