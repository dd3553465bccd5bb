"""The Agent Client Protocol, frame by frame; and an agent that does with its pipes what nobody should."""

import json
import stat
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from protocol.agent import Approval, McpServer
from protocol.instruction import LARGEST, Usage
from protocol.ipc import Entry, Json, ToolCall
from tests.worker.backends import fake_acp
from tests.worker.backends.backend_jobs import TOKEN, WELL, make_job, written
from tests.worker.backends.scenario import made
from tests.worker.backends.subject import Reply, Shell, Tell
from tests.worker.backends.subjects_programs import ACP
from tests.worker.conftest import fails
from tests.worker.fake_kernel import make_start
from worker.backends import backend
from worker.backends.acp import ASKS, Acp
from worker.backends.acp import open as acp_program
from worker.backends.acp_replies import OPEN_CALLS
from worker.backends.process import HEAD_BYTES, LineSplitter
from worker.conversation import Conversation
from worker.models.model import Failed

SESSION = "s1"
OPTIONS = fake_acp.OPTIONS
SHELL = {"toolCallId": "c1", "title": "rm x", "kind": "execute", "rawInput": {"command": "rm x"}}


def agent_job(
    folder: Path, *, session: str | None = None, program: str = "agent", job: dict[str, Any] | None = None, **start: Any
) -> backend.BackendJob:
    """Return the job of one attempt. ``job``: its other fields than those of the start frame."""
    fields: dict[str, Any] = {
        "provider": None,
        "model": "acp",
        "command": (f"/bin/{program}", "--acp"),
        "approval": "auto",
    } | start
    plain = make_job("acp", folder, session=session, **fields)
    return msgspec.structs.replace(plain, binary=f"/bin/{program}", **(job or {}))


def agent(folder: Path, **fields: Any) -> Acp:
    return Acp(agent_job(folder, **fields))


def heard(program: Acp, *frames: dict[str, Any]) -> list[backend.Event]:
    return [event for frame in frames for event in program.read(json.dumps({"jsonrpc": "2.0", **frame}).encode())]


def said(events: list[backend.Event]) -> list[dict[str, Any]]:
    return [json.loads(line) for one in events if isinstance(one, backend.InputReady) for line in one.data.splitlines()]


def greeted(**able: Any) -> dict[str, Any]:
    return {"id": 1, "result": {"protocolVersion": 1, "agentCapabilities": able}}


def update(what: str, **fields: Any) -> dict[str, Any]:
    told = {"sessionId": SESSION, "update": {"sessionUpdate": what, **fields}}
    return {"method": "session/update", "params": told}


def words(text: str) -> dict[str, Any]:
    return update("agent_message_chunk", content={"type": "text", "text": text})


def asks(call: dict[str, Any], id_: Any = "a1", options: Any = OPTIONS) -> dict[str, Any]:
    params = {"sessionId": SESSION, "toolCall": call, "options": options}
    return {"id": id_, "method": "session/request_permission", "params": params}


OF_MODES = {"id": "m", "category": "mode"}


def modes(*ids: str) -> dict[str, Any]:
    """What a session offers in which each of ``ids`` can be chosen."""
    return {"modes": {"availableModes": [{"id": id_} for id_ in ids]}}


MODES = {"currentModeId": "auto", **modes("auto", "ask", "default")["modes"]}


def prompted(folder: Path, **start: Any) -> Acp:
    """One that has been told its work: its next answer has the id 3, or 4 where its mode was chosen before."""
    program = agent(folder, **start)
    program.launch()
    opened = {"id": 2, "result": {"sessionId": SESSION, "modes": MODES}}
    events = heard(program, greeted(mcpCapabilities={"http": True}), opened)
    while said(events)[-1]["method"] != "session/prompt":
        events = heard(program, {"id": said(events)[-1]["id"], "result": {}})
    return program


def answers(events: list[backend.Event]) -> list[Any]:
    """How requests for leave were answered: the option, or that the turn is over."""
    outcomes = [one["result"]["outcome"] for one in said(events) if "result" in one]
    return [one.get("optionId", one["outcome"]) for one in outcomes]


def needed(events: list[backend.Event]) -> backend.PermissionNeeded:
    """The one leave that somebody is asked for."""
    (ask,) = (one for one in events if isinstance(one, backend.PermissionNeeded))
    return ask


def opened(folder: Path, able: dict[str, Any] | None = None, **start: Any) -> tuple[Acp, list[dict[str, Any]]]:
    """One that was greeted, and what it was told then."""
    program = agent(folder, **start)
    program.launch()
    return program, said(heard(program, greeted(**(able or {}))))


def test_it_is_greeted_told_its_servers_and_then_its_work(tmp_path: Path) -> None:
    own = {"docs": McpServer(url="http://docs", headers={"K": "v"}), "box": McpServer(command="box", env={"A": "b"})}
    program = agent(tmp_path, mcp_servers=own, system="You are Alice.")
    launch = program.launch()
    assert (launch.argv, launch.talks) == (("/bin/agent", "--acp"), True)
    hello = json.loads(launch.stdin)["params"]
    assert hello["protocolVersion"] == 1
    assert hello["clientCapabilities"] == {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}
    (new,) = said(heard(program, greeted(mcpCapabilities={"http": True})))
    daemon, docs, box = new["params"]["mcpServers"]
    assert (new["method"], daemon["name"], daemon["type"]) == ("session/new", "daemon", "http")
    assert {"name": "Authorization", "value": f"Bearer {TOKEN}"} in daemon["headers"]
    assert docs == {"name": "docs", "type": "http", "url": "http://docs", "headers": [{"name": "K", "value": "v"}]}
    assert box == {"name": "box", "command": "box", "args": [], "env": [{"name": "A", "value": "b"}]}
    assert TOKEN not in repr((launch.argv, launch.env, written(tmp_path)))
    events = heard(program, {"id": 2, "result": {"sessionId": SESSION}})
    assert backend.SessionStarted(SESSION) in events and any(isinstance(one, backend.FarewellInput) for one in events)
    (prompt,) = said(events)
    assert prompt["params"] == {"sessionId": SESSION, "prompt": [{"type": "text", "text": "You are Alice.\n\ndo it"}]}


def test_one_that_reaches_no_server_over_http_gets_the_bridge(tmp_path: Path) -> None:
    _, (new,) = opened(tmp_path)
    (daemon,) = new["params"]["mcpServers"]
    file = Path(daemon["args"][-1])
    assert (daemon["command"], stat.S_IMODE(file.stat().st_mode)) == (sys.executable, 0o600)
    assert TOKEN in file.read_text() and TOKEN not in json.dumps(new)
    other = agent(tmp_path, mcp_servers={"docs": McpServer(url="http://docs")})
    other.launch()
    with fails("network", "could not use the MCP server docs"):
        heard(other, greeted())


def test_a_message_is_never_taken_for_a_command_of_the_program(tmp_path: Path) -> None:
    program, _ = opened(tmp_path, system="", job={"message": " /quit"})
    (prompt,) = said(heard(program, {"id": 2, "result": {"sessionId": SESSION}}))
    assert prompt["params"]["prompt"][0]["text"] == "What you are asked to do:\n\n /quit"


def test_its_model_is_chosen_by_what_it_offers(tmp_path: Path) -> None:
    def offers(**result: Any) -> tuple[Acp, list[dict[str, Any]]]:
        program, _ = opened(tmp_path, model="m/1")
        return program, said(heard(program, {"id": 2, "result": {"sessionId": SESSION, **result}}))

    options = [{"id": "mode", "category": "mode"}, {"id": "llm", "category": "model", "options": [{"what": 1}]}]
    (chosen,) = offers(configOptions=options)[1]
    assert (chosen["method"], chosen["params"]["configId"], chosen["params"]["value"]) == (
        "session/set_config_option",
        "llm",
        "m/1",
    )
    program, (older,) = offers(models={"availableModels": []})
    assert (older["method"], older["params"]["modelId"]) == ("session/set_model", "m/1")
    assert said(heard(program, {"id": 3, "result": {}}))[0]["method"] == "session/prompt"
    program, _older = offers(models={})
    for fault, made_ in (
        (
            "does not support the model m/1: none",
            lambda: heard(program, {"id": 3, "error": {"code": 1, "message": "none"}}),
        ),
        ("does not support model selection", offers),
    ):
        with fails("invalid", fault):
            made_()


@pytest.mark.parametrize(
    ("able", "method"),
    [
        ({"loadSession": True, "sessionCapabilities": {"resume": {}}}, "session/resume"),
        ({"loadSession": True, "sessionCapabilities": {"resume": None}}, "session/load"),
    ],
)
def test_a_session_is_taken_up_and_what_it_tells_of_old_is_not_told_again(
    tmp_path: Path, able: dict[str, Any], method: str
) -> None:
    """P5: replies of the session's past are neither entries nor booked, also where they come late."""
    program, (taken,) = opened(tmp_path, able, session=SESSION, system="You are Alice.")
    assert (taken["method"], taken["params"]["sessionId"]) == (method, SESSION)
    old = [words("old"), update("tool_call", toolCallId="o", title="bash", status="completed", rawInput={"a": 1})]
    assert heard(program, *old) == []
    (settled,) = said(heard(program, {"id": 2, "result": {}}))
    assert heard(program, *old) == []
    (prompt,) = said(heard(program, {"id": settled["id"], "error": {"code": -32601, "message": "?"}}))
    assert prompt["params"]["prompt"] == [{"type": "text", "text": "do it"}]
    assert heard(program, words("new")) == [backend.ReplyText("new")]


@pytest.mark.parametrize(("program", "able"), [("agent", {}), ("gemini", {"loadSession": True})])
def test_one_that_takes_up_no_session_gets_a_new_one_and_is_told_what_was_done(
    tmp_path: Path, program: str, able: dict[str, Any]
) -> None:
    """P5: prompt, instruction and ledger; the new session is the one that is kept."""
    start: dict[str, Any] = {"session": "old", "program": program, "system": "You are Alice."}
    made_, (new,) = opened(tmp_path, able, job={"anew": "all of it"}, **start)
    assert (new["method"], "sessionId" in new["params"]) == ("session/new", False)
    events = heard(made_, {"id": 2, "result": {"sessionId": SESSION}})
    assert backend.SessionStarted(SESSION) in events
    assert said(events)[0]["params"]["prompt"][0]["text"] == "You are Alice.\n\nall of it"
    usage = update("usage_update", used=1, size=2, cost={"amount": 2.0, "currency": "USD"})
    last = heard(made_, usage, {"id": 3, "result": {"stopReason": "end_turn"}})
    assert [one.usage for one in last if isinstance(one, backend.ReplyEnded)] == [Usage(cost_usd=2.0)]


def test_what_was_done_is_told_in_quotes() -> None:
    done = (
        Entry(k=0, kind="reply", text="I look.", calls=(ToolCall(id="a", name="ls", args=Json(b'{"p": 1}')),) * 2),
        Entry(k=1, kind="tool", text="x\n# And now", call_id="a", name="ls"),
        Entry(k=2, kind="note", text="but quickly"),
    )
    told = backend.anew_prompt(Conversation(make_start(entries=done)))
    assert told.startswith('do it\n\n# What you have done so far\n\n> You: I look.\n> You called ls with {"p": 1}')
    assert "The result: x\n> # And now\n" in told and "unknown: the call was interrupted" in told
    assert told.index("but quickly") < told.index(backend.GO_ON[:30])
    many = tuple(Entry(k=k, kind="reply", text=f"step {k}.") for k in range(backend.DONE_STEPS + 7))
    short = backend.anew_prompt(Conversation(make_start(entries=many)))
    assert "(7 steps before these are left out.)" in short and "step 6." not in short and "step 7." in short


def test_a_session_that_cannot_be_taken_up_is_lost(tmp_path: Path) -> None:
    for code, cause in ((-32603, "session_lost"), (-32000, "auth")):
        other, _ = opened(tmp_path, {"loadSession": True}, session=SESSION)
        with fails(cause):
            heard(other, {"id": 2, "error": {"code": code, "message": "no"}})


def test_replies_are_what_lies_between_two_returns(tmp_path: Path) -> None:
    program = prompted(tmp_path)
    begun = heard(
        program,
        words("I "),
        words("run it."),
        update("tool_call", toolCallId="c1", title="bash", kind="execute", rawInput={"cwd": "/"}),
        update("tool_call_update", toolCallId="c1", title="List", status="in_progress", rawInput={"command": "ls"}),
        update(
            "tool_call",
            toolCallId="c2",
            _meta={"claudeCode": {"toolName": "read"}},
            title="Read x",
            kind="read",
            locations=[{"path": "x"}],
        ),
    )
    assert not any(isinstance(one, backend.ReplyEnded) for one in begun)
    back = update(
        "tool_call_update",
        toolCallId="c1",
        status="completed",
        content=[{"type": "content", "content": {"type": "text", "text": "a b"}}, {"type": "diff", "path": "f"}],
    )
    turn, ended = heard(program, back)
    assert isinstance(turn, backend.ReplyEnded) and isinstance(ended, backend.ToolEnded)
    assert (turn.text, [(one.name, json.loads(bytes(one.args))) for one in turn.calls]) == (
        "I run it.",
        [("bash", {"command": "ls"}), ("read", {"title": "Read x", "files": ["x"]})],
    )
    assert (ended.text, ended.is_error) == ("a b\n[diff: f]", False)
    assert heard(program, back) == []
    usage = {"inputTokens": 7, "outputTokens": 2, "cachedReadTokens": 3, "cachedWriteTokens": 1}
    last = heard(program, words("Done."), {"id": 3, "result": {"stopReason": "end_turn", "usage": usage}})
    assert last[1:] == [
        backend.ToolEnded(call_id="c2", name="read", text="The result of this call is unknown.", is_error=True),
        backend.ReplyEnded(
            text="Done.", usage=Usage(input_tokens=7, output_tokens=2, cache_read_tokens=3, cache_write_tokens=1)
        ),
        backend.LastEvent(),
    ]
    assert program.conclude(WELL).text == "Done."


def test_the_final_answer_is_the_result_although_a_call_never_came_back(tmp_path: Path) -> None:
    program = prompted(tmp_path)
    heard(program, update("tool_call", toolCallId="c1", title="bash", kind="execute"), words("Done."))
    events = heard(program, {"id": 3, "result": {"stopReason": "end_turn"}})
    assert [one.text for one in events if isinstance(one, backend.ReplyEnded)] == ["", "Done."]
    assert program.conclude(WELL).text == "Done."


def test_what_it_cost_is_bounded_and_in_dollars(tmp_path: Path) -> None:
    program = prompted(tmp_path)
    quota = {"quota": {"token_count": {"input_tokens": 2**60, "output_tokens": -5}}}
    prices = [(1.5, "USD"), (2.0, "EUR"), (-3, "USD")]
    heard(program, *(update("usage_update", used=1, size=2, cost={"amount": a, "currency": c}) for a, c in prices[:2]))
    (turn,) = (
        one
        for one in heard(program, {"id": 3, "result": {"stopReason": "end_turn", "_meta": quota}})
        if isinstance(one, backend.ReplyEnded)
    )
    assert turn.usage == Usage(input_tokens=LARGEST, cost_usd=1.5)
    resumed, _ = opened(tmp_path, {"loadSession": True}, session=SESSION)
    heard(resumed, {"id": 2, "result": {}}, {"id": 3, "error": {}})
    told = [update("usage_update", used=1, size=2, cost={"amount": a, "currency": "USD"}) for a in (5.0, 5.25)]
    events = heard(resumed, *told, {"id": 4, "result": {"stopReason": "end_turn"}})
    assert [one.usage for one in events if isinstance(one, backend.ReplyEnded)] == [Usage(cost_usd=0.25)]


TITLED = {"toolCallId": "c1", "title": "daemon_channel_send", "kind": "other", "rawInput": {"message": "hi"}}
GEMINI = {"toolCallId": "c1", "title": "channel_send (daemon MCP Server)", "kind": "other"}


def named(tool: str) -> dict[str, Any]:
    """A call whose tool the program itself names, in a field for that."""
    return {"toolCallId": "c1", "title": "Look", "_meta": {"claudeCode": {"toolName": tool}}, "rawInput": {"q": "x"}}


@pytest.mark.promise("P63")
@pytest.mark.parametrize(
    ("approval", "call", "announced", "expected"),
    [
        ("auto", SHELL, False, "yes"),
        ("ask", SHELL, False, "asked"),
        ("all", SHELL, True, "asked"),
        ("deny", SHELL, True, "no"),
        ("deny", named("mcp__daemon__channel_send"), False, "yes"),
        ("all", named("mcp__daemon__channel_send"), True, "yes"),
        ("ask", named("mcp__daemon__rm"), True, "asked"),
        ("ask", named("Bash"), True, "asked"),
        ("ask", TITLED, True, "asked"),
        ("ask", {**TITLED, "title": "daemon/channel_send"}, False, "asked"),
        ("ask", {**TITLED, "title": "daemon/channel_send", "kind": None}, True, "asked"),
        ("ask", {**TITLED, "name": "daemon_channel_send"}, True, "asked"),
        ("all", GEMINI, True, "asked"),
        ("deny", GEMINI, False, "no"),
        ("deny", TITLED, True, "no"),
        ("ask", named("mcp__docs__search"), True, "yes"),
        ("ask", named("mcp__docs__write"), True, "asked"),
        ("ask", named("mcp__other__search"), True, "asked"),
        ("ask", {**TITLED, "title": "docs_search"}, True, "asked"),
    ],
)
def test_what_it_asks_leave_for_is_granted_refused_or_asked(
    tmp_path: Path, approval: Approval, call: dict[str, Any], announced: bool, expected: str
) -> None:
    """P63: as the agent's file says, also of what only reads; no title passes for a tool that is let (N10)."""
    own: dict[str, Any] = {"mcp_servers": {"docs": McpServer(command="d")}}
    own["read_only"] = ("mcp__docs__search", "mcp__other__search")
    program = prompted(tmp_path, approval=approval, program="claude-agent-acp", **own)
    if announced:
        heard(program, update("tool_call", **call))
    events = heard(program, asks(call))
    asked = any(isinstance(one, backend.PermissionNeeded) for one in events)
    assert ("asked" if asked else answers(events)[0]) == expected


def test_a_person_is_shown_the_whole_call_and_gives_leave_once(tmp_path: Path) -> None:
    """P63: command, changes and words; never for good, unless nobody is asked at all; a refused call came back."""
    program = prompted(tmp_path, approval="ask")
    diff = {"type": "diff", "path": "f", "oldText": None, "newText": "new"}
    ask = needed(heard(program, asks({**SHELL, "content": [diff]})))
    changes = [{"file": "f", "old": None, "new": "new"}]
    assert ask.input == {"title": "rm x", "input": {"command": "rm x"}, "changes": changes}
    assert answers(list(ask.then(True, ""))) == ["yes"]
    assert list(ask.then(True, "")) == []
    ask = needed(heard(program, asks(SHELL, "a2")))
    refused = list(ask.then(False, "not today"))
    assert answers(refused) == ["no"]
    ended = [(one.is_error, one.text) for one in refused if isinstance(one, backend.ToolEnded)]
    assert ended == [(True, "execute was not run: not today")]
    ask = needed(heard(program, asks(SHELL, "a3", OPTIONS[1:2])))
    assert answers(list(ask.then(True, ""))) == ["cancelled"]
    assert answers(heard(prompted(tmp_path, approval="auto"), asks(SHELL, "a4", OPTIONS[1:2]))) == ["always"]
    own = {"_meta": {"claudeCode": {"toolName": "mcp__daemon__ask_agent"}}}
    heard(program, update("tool_call", toolCallId="c1", **own), update("tool_call", **SHELL))  # a repeated id
    ask = needed(heard(program, asks({**SHELL, "rawInput": "rm y"}, "a6")))
    assert ask.input == {"title": "rm x", "input": "rm y"}
    large = {**SHELL, "rawInput": {"command": "x" * 100_000}}
    assert answers(heard(program, asks(large, "a5"))) == ["no"]


def test_one_that_is_to_end_is_told_to_stop_and_may_say_what_it_spent(tmp_path: Path) -> None:
    """P8: session/cancel, and no leave any more; what it answers is booked, and nothing else of it told."""
    program = prompted(tmp_path, approval="ask")
    heard(program, asks(SHELL))
    told = [json.loads(line) for line in program.farewell().splitlines()]
    assert [one.get("method") or one["result"]["outcome"]["outcome"] for one in told] == ["session/cancel", "cancelled"]
    assert answers(heard(program, asks(SHELL, "a2"))) == ["cancelled"]
    usage = {"inputTokens": 4}
    events = heard(program, words("late"), {"id": 4, "result": {"stopReason": "cancelled", "usage": usage}})
    assert events == [backend.SubagentUsage(Usage(input_tokens=4)), backend.LastEvent()]
    assert program.farewell() == b""


@pytest.mark.parametrize(
    ("result", "status", "cause"),
    [
        ({"stopReason": "end_turn"}, "done", None),
        ({"stopReason": "max_tokens"}, "incomplete", "max_tokens"),
        ({"stopReason": "max_turn_requests"}, "incomplete", "max_steps"),
        ({"stopReason": "refusal"}, "failed", "refusal"),
        ({"stopReason": "cancelled"}, "failed", "protocol"),
        ({"stopReason": 7}, "failed", "protocol"),
        (None, "failed", "protocol"),
    ],
)
def test_why_it_stops_says_how_the_work_ended(
    tmp_path: Path, result: dict[str, Any] | None, status: str, cause: str | None
) -> None:
    program = prompted(tmp_path)
    if result is not None:
        assert heard(program, {"id": 3, "result": result})[-1] == backend.LastEvent()
    if status == "failed":
        with fails(cause):
            program.conclude(WELL)
    else:
        ended = program.conclude(backend.ProgramExit(code=1, signal=None, stderr="", pushed=False))
        assert (ended.status, ended.cause) == (status, cause)


@pytest.mark.parametrize(
    ("error", "cause", "status"),
    [
        ({"code": 429, "message": "slow"}, "rate_limited", 429),
        ({"code": -32603, "data": {"error": {"statusCode": 401}}}, "auth", 401),
        ({"code": -32603, "data": {"code": "insufficient_quota"}}, "quota", None),
        ({"code": -32000, "message": "log in"}, "auth", None),
        ({"code": -32602, "message": "what?"}, "invalid", None),
        ({"code": -32603, "message": "hm"}, "overloaded", None),
        ({"code": -32603, "data": [[[[1]]]]}, "overloaded", None),
    ],
)
def test_an_error_is_told_by_its_cause(tmp_path: Path, error: dict[str, Any], cause: str, status: int | None) -> None:
    """By codes and statuses, wherever a program puts them; never by its prose."""
    program = prompted(tmp_path)
    assert heard(program, {"id": 3, "error": error})[-1] == backend.LastEvent()
    with pytest.raises(Failed) as failed:
        program.conclude(WELL)
    assert (failed.value.cause, failed.value.http_status) == (cause, status)


def test_known_programs_are_told_to_ask_and_kept_from_what_is_not_theirs(tmp_path: Path) -> None:
    gemini = agent(tmp_path, program="gemini", approval="all").launch().env
    home = tmp_path / "home"
    assert (gemini["HOME"], gemini["XDG_CONFIG_HOME"]) == (str(home), str(home / "config"))
    settings = json.loads((home / ".gemini/settings.json").read_text())
    assert settings["privacy"] == {"usageStatisticsEnabled": False} and settings["advanced"]["ignoreLocalEnv"]
    policy = (home / ".gemini/policies/agent-worker.toml").read_text()
    assert 'mcpName = "daemon"' in policy and 'decision = "ask_user"' in policy
    assert (
        'decision = "ask_user"'
        not in str(agent(tmp_path, program="gemini").launch())
        + (home / ".gemini/policies/agent-worker.toml").read_text()
    )
    for approval, verdict in (("auto", "allow"), ("ask", "ask"), ("deny", "ask"), ("all", "ask")):
        env = agent(tmp_path, program="opencode", approval=approval).launch().env
        asked = json.loads(env["OPENCODE_CONFIG_CONTENT"])["permission"]
        assert (asked["*"], asked["daemon_*"], asked["task"]) == (verdict, "allow", "deny")


@pytest.mark.parametrize(("program", "name"), [("gemini", ".gemini"), ("agent", ".claude"), ("agent", ".mcp.json")])
def test_settings_above_the_project_are_trusted_by_nobody(tmp_path: Path, program: str, name: str) -> None:
    (tmp_path / ".git").mkdir()
    agent(tmp_path, program=program).launch()
    (tmp_path / ".cursor").mkdir()
    agent(tmp_path, program="gemini").launch()
    (tmp_path / ".cursor").rmdir()
    (tmp_path / name).mkdir()
    with pytest.raises(Failed, match="outside the project") as failed:
        agent(tmp_path, program=program).launch()
    assert failed.value.cause == "untrusted"


@pytest.mark.promise("P63")
@pytest.mark.parametrize(
    ("program", "approval", "offered", "sent"),
    [
        ("claude-agent-acp", "ask", modes("default"), ("session/set_mode", "default")),
        ("claude-agent-acp", "auto", modes("default"), ("session/set_mode", "default")),
        ("gemini", "deny", modes("default"), ("session/set_mode", "default")),
        ("gemini", "all", {"configOptions": [OF_MODES]}, ("session/set_config_option", "default")),
        ("agent", "ask", {"modes": MODES}, ("session/set_mode", "ask")),
        ("agent", "auto", {"modes": MODES}, ("session/prompt", None)),
        ("opencode", "all", modes("build"), ("session/prompt", None)),
        ("agent", "ask", {}, "no session mode 'ask'"),
        ("agent", "deny", modes("default", "yolo"), "no session mode 'ask'"),
        ("agent", "all", {"modes": MODES}, "approval: all cannot hold"),
        ("gemini", "ask", modes("yolo"), "no session mode 'default'"),
    ],
)
def test_the_session_mode_is_one_in_which_the_program_asks(
    tmp_path: Path, program: str, approval: Approval, offered: dict[str, Any], sent: Any
) -> None:
    made_, _ = opened(tmp_path, program=program, approval=approval)
    session = {"id": 2, "result": {"sessionId": SESSION, **offered}}
    if isinstance(sent, str):
        with fails("invalid", sent):
            heard(made_, session)
        return
    (told,) = said(heard(made_, session))
    assert (told["method"], told["params"].get("modeId") or told["params"].get("value")) == sent
    if told["method"] != "session/prompt":
        with pytest.raises(Failed, match="cannot be required to ask"):
            heard(made_, {"id": 3, "error": {"code": -32602, "message": "no"}})


@pytest.mark.promise("P63")
@pytest.mark.parametrize(
    "left",
    [
        update("current_mode_update", currentModeId="bypassPermissions"),
        update("config_option_update", configOptions=[{"id": "mode", "category": "mode", "currentValue": "auto"}]),
    ],
)
def test_a_program_that_leaves_the_mode_in_which_it_asks_is_ended(tmp_path: Path, left: dict[str, Any]) -> None:
    for approval in ("ask", "auto"):
        program, _ = opened(tmp_path, program="claude-agent-acp", approval=approval)
        heard(program, {"id": 2, "result": {"sessionId": SESSION, **modes("default")}}, {"id": 3, "result": {}})
        heard(program, update("current_mode_update", currentModeId="plan"))
        if approval == "auto":
            heard(program, left)
            continue
        with fails("invalid", "switched to the session mode"):
            heard(program, left)


def test_claude_is_told_to_leave_the_settings_of_the_project_alone(tmp_path: Path) -> None:
    own = {"docs": McpServer(command="d")}
    _, (new,) = opened(tmp_path, program="claude-agent-acp", approval="all", mcp_servers=own)
    options = new["params"]["_meta"]["claudeCode"]["options"]
    assert (options["settingSources"], options["allowedTools"]) == ([], ["mcp__daemon"])
    assert options["extraArgs"]["strict-mcp-config"] is None
    assert {"Bash", "Read", "mcp__docs"} <= {*json.loads(options["extraArgs"]["settings"])["permissions"]["ask"]}


@pytest.mark.parametrize(
    ("model", "env", "url"),
    [
        ("anthropic/x", {"ANTHROPIC_BASE_URL": "http://g/gateway/anthropic"}, "http://g/gateway/anthropic/v1"),
        ("google/x", {"GOOGLE_GEMINI_BASE_URL": "http://g/gateway/gemini"}, "http://g/gateway/gemini/v1beta"),
        ("openrouter/x", {"OPENROUTER_BASE_URL": "http://g/gateway/openai/v1"}, "http://g/gateway/openai/v1"),
        ("own/x", {"ANTHROPIC_BASE_URL": "http://g/gateway/anthropic"}, None),
    ],
)
def test_opencode_asks_the_gateway(tmp_path: Path, model: str, env: dict[str, str], url: str | None) -> None:
    fields = {"env": {"HOME": "/home/user", **env}}
    made = Acp(agent_job(tmp_path, program="opencode", model=model, job=fields)).launch().env
    options = json.loads(made["OPENCODE_CONFIG_CONTENT"]).get("provider", {})
    assert options == ({} if url is None else {model.partition("/")[0]: {"options": {"baseURL": url}}})


def test_with_a_login_its_home_is_its_users(tmp_path: Path) -> None:
    env = agent(tmp_path, program="gemini", login=True).launch().env
    assert env["HOME"] == "/home/user" and "XDG_DATA_HOME" not in env
    assert written(tmp_path / "home") == {}


def test_of_a_frame_that_is_too_large_the_beginning_is_left(tmp_path: Path) -> None:
    lines = LineSplitter(5000, heads=True)
    big = b'{"jsonrpc":"2.0","method":"session/update","params":{"x":"' + b"y" * 9000
    head, after = [*lines.feed(big), *lines.feed(b'"}}\nnext\n')]
    assert (len(head), after, lines.dropped) == (HEAD_BYTES, b"next", 1)
    program = prompted(tmp_path)
    assert list(program.read(head)) == []
    with fails("protocol", "incomplete or oversized frame"):
        list(program.read(head.replace(b"session/update", b"session/other!")))


def test_calls_and_requests_without_end_are_bounded(tmp_path: Path) -> None:
    """Of requests for leave a few wait, and the rest is refused; of calls that never come back there is a limit."""
    program = prompted(tmp_path, approval="ask")
    events = [
        event
        for number in range(ASKS + 30)
        for event in heard(program, asks({**SHELL, "toolCallId": str(number)}, number))
    ]
    assert sum(isinstance(one, backend.PermissionNeeded) for one in events) == ASKS
    assert answers(events) == ["cancelled"] * 30
    other = prompted(tmp_path)
    with pytest.raises(Failed, match="open calls without a result"):
        heard(other, *(update("tool_call", toolCallId=f"c{number}", title="x") for number in range(OPEN_CALLS + 1)))


DONE = {"wrong-ids", "unknown", "after-end", "giant-update", "flood", "leave-for-good"}
CAUSES = {"version": "spawn_permanent", "other-mode": "invalid"}
SHORT = {"half", "unknown", "wrong-ids"}


@pytest.mark.promise("P10", "P63")
@pytest.mark.parametrize(
    "hostile",
    [
        pytest.param(word, marks=() if word in SHORT else pytest.mark.long("the other tests of this file"))
        for word in (*fake_acp.HOSTILE, "version")
    ],
)
async def test_nothing_that_it_sends_hangs_or_breaks_a_worker(tmp_path: Path, hostile: str) -> None:
    async with made(ACP, "faked", "success", tmp_path) as run:
        run.script(Reply("All is said."))
        run.daemon.grants = False
        command = (sys.executable, "-IS", str(fake_acp.__file__), f"--hostile={hostile}")
        attempt = await run.attempt(approval="ask", command=command)
    if hostile in DONE:
        assert attempt.result.text.endswith("All is said."), attempt.ended
    else:
        assert attempt.error.cause == CAUSES.get(hostile, "protocol"), attempt.ended


@pytest.mark.promise("P63")
@pytest.mark.parametrize("grants", [True, False])
async def test_a_command_runs_when_somebody_gave_leave(tmp_path: Path, grants: bool) -> None:
    """The kernel is asked about the command as it stands; the kernel's own tools are never asked about."""
    async with made(ACP, "faked", "refused_permission", tmp_path) as run:
        run.script(Tell("hello"), Shell("touch asked-for"), Reply("So be it."))
        run.daemon.grants = grants
        attempt = await run.attempt(approval="ask")
        assert attempt.result.text == "So be it."
        (asked,) = run.daemon.asked
        assert (asked["tool"], asked["input"]["input"]) == ("shell", {"command": "touch asked-for"})
        assert (run.cwd / "asked-for").exists() == grants
        assert run.daemon.said == ["hello"]


def test_every_attempt_is_one_of_its_own(tmp_path: Path) -> None:
    assert isinstance(acp_program(make_job("acp", tmp_path, model="acp", command=("/bin/agent",))), Acp)
