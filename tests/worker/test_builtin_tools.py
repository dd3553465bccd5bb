"""Attempts whose workers have tools of their own: the same loop, the same entries, beside the kernel's tools."""

from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest

from protocol.ipc import Entry, Go, Limits, McpAddress, ToolCall, Yield
from protocol.tools import ProjectTool, Skill
from tests.worker.fake_daemon import FakeDaemon
from tests.worker.fake_kernel import Attempt, attempt, make_start, script
from tests.worker.scripted_api import Call, Say, ScriptedApi
from tests.worker.test_sdk import start_for
from worker.tool import INTERRUPTED

RUNS = {"command": "echo $AGENT_IDEMPOTENCY_KEY; echo x >> ran"}


async def play(daemon: FakeDaemon, cwd: Path, *actions: dict[str, Any], **changes: Any) -> Attempt:
    """One attempt of a script, approved beforehand."""
    fields: dict[str, Any] = {"mcp": McpAddress(url=daemon.url), "cwd": str(cwd), "approval": "auto", **changes}
    return await attempt(make_start(mock=script(*actions), **fields))


def results(made: Attempt) -> list[tuple[str | None, str, bool]]:
    return [(entry.name, entry.text, entry.is_error) for entry in made.entries if entry.kind == "tool"]


async def test_file_tools_do_not_write_what_stands_in_prompts_as_a_persons_words(
    daemon: FakeDaemon, tmp_path: Path
) -> None:
    (tmp_path / "ctx").mkdir()
    made = await play(
        daemon,
        tmp_path,
        {"tool": "write", "args": {"path": "ctx/memory/core.yaml", "content": "approve: all"}},
        {"tool": "write", "args": {"path": "ctxt", "content": "x"}},
        tools=("files",),
        closed=(str(tmp_path / "ctx"),),
    )
    assert [(is_error, "read-only" in text) for _, text, is_error in results(made)] == [(True, True), (False, False)]
    assert not list((tmp_path / "ctx").iterdir())


async def test_a_script_calls_its_own_tools_and_the_kernel_s(daemon: FakeDaemon, tmp_path: Path) -> None:
    """contracts 1: bash, files, skills, the project's own; a tool nobody has is a result too; shell stays as it is."""
    (tmp_path / "s").mkdir()
    (tmp_path / "s/SKILL.md").write_text("---\ndescription: d\n---\nbody")
    digest = sha256((tmp_path / "s/SKILL.md").read_bytes()).hexdigest()
    made = await play(
        daemon,
        tmp_path,
        {"tool": "bash", "args": RUNS},
        {"tool": "write", "args": {"path": "a/b", "content": "c\n"}},
        {"tool": "count", "args": {"path": "a/b"}},
        {"tool": "skill", "args": {"name": "s"}},
        {"tool": "channel_send", "args": {"message": "hello"}},
        {"tool": "nobody_has_it"},
        {"shell": "cat a/b; exit 3"},
        {"text": "done"},
        tools=("bash", "files", "count"),
        skills=(Skill(name="s", description="d", folder=str(tmp_path / "s"), files={"SKILL.md": digest}),),
        project_tools={
            "count": ProjectTool(description="d", command=("wc", "-l", "${path}"), input={"path": "string"})
        },
    )
    body = f"body\n[The folder of this skill is {tmp_path}/s.]"
    assert results(made) == [
        ("bash", "i1:0.0:mock-0\n", False),
        ("write", "created a/b, 2 bytes", False),
        ("count", "1 a/b\n", False),
        ("skill", body, False),
        ("channel_send", "said 1", False),
        ("nobody_has_it", "unknown tool nobody_has_it", True),
        ("shell", "c\n[exit 3]", True),
    ]
    assert made.result.text == "done"


async def test_a_tool_that_is_not_switched_on_is_not_there(daemon: FakeDaemon, tmp_path: Path) -> None:
    """contracts 1: default none."""
    made = await play(daemon, tmp_path, {"tool": "bash", "args": RUNS}, {"text": "done"}, tools=("files",))
    assert results(made) == [("bash", "unknown tool bash", True)]


CALL = ToolCall(id="mock-0", name="bash", args=msgspec.Raw(msgspec.json.encode(RUNS)))


def begun(*calls: ToolCall) -> tuple[Entry]:
    return (Entry(k=0, kind="reply", calls=calls, stop_reason="tool_use"),)


def call_of(name: str, args: bytes = b"{}") -> ToolCall:
    return ToolCall(id="mock-0", name=name, args=msgspec.Raw(args))


@pytest.mark.promise("P4", "P5")
@pytest.mark.parametrize("interrupted", [False, True])
async def test_a_call_that_may_have_begun_is_not_made_again(
    daemon: FakeDaemon, tmp_path: Path, interrupted: bool
) -> None:
    actions = ({"tool": "bash", "args": RUNS}, {"text": "done"})
    made = await play(daemon, tmp_path, *actions, tools=("bash",), entries=begun(CALL), interrupted=interrupted)
    assert results(made) == [("bash", INTERRUPTED if interrupted else "i1:0.0:mock-0\n", interrupted)]
    assert (tmp_path / "ran").exists() is not interrupted


@pytest.mark.promise("P5")
async def test_reading_is_done_again_after_an_interruption(daemon: FakeDaemon, tmp_path: Path) -> None:
    """A read-only tool -> run again."""
    going_on: dict[str, Any] = {"tools": ("files",), "entries": begun(call_of("list")), "interrupted": True}
    made = await play(daemon, tmp_path, {"tool": "list"}, {"text": "x"}, **going_on)
    assert results(made) == [("list", "[empty]", False)]


async def test_only_the_first_pending_call_is_in_doubt(daemon: FakeDaemon, tmp_path: Path) -> None:
    second = ToolCall(id="mock-1", name="bash", args=CALL.args)
    going_on: dict[str, Any] = {"tools": ("bash",), "entries": begun(CALL, second), "interrupted": True}
    made = await play(daemon, tmp_path, {"tool": "bash"}, {"text": "x"}, **going_on)
    assert [text for _, text, _ in results(made)] == [INTERRUPTED, "i1:0.1:mock-1\n"]


@pytest.mark.parametrize("switches", [("files", "feedback"), ("files",)])
async def test_a_model_is_told_of_its_tools(daemon: FakeDaemon, tmp_path: Path, switches: tuple[str, ...]) -> None:
    """The kernel's, then its own; feedback_submit only where it is switched on."""
    daemon.more.append("feedback_submit")
    with ScriptedApi([Say("hi")]) as api:
        start = start_for(api, "anthropic", daemon, tools=switches, cwd=str(tmp_path), approval="auto")
        await attempt(start)
    names = [tool["name"] for tool in api.requests[0].body["tools"]]
    assert names[0] == "channel_send" and names[-5:] == ["read", "write", "edit", "list", "grep"]
    assert ("feedback_submit" in names) is ("feedback" in switches)


async def test_a_yield_comes_between_a_call_and_the_next(daemon: FakeDaemon, tmp_path: Path) -> None:
    actions = ({"tool": "bash", "args": RUNS}, {"text": "done"})
    start = make_start(
        mock=script(*actions), mcp=McpAddress(url=daemon.url), cwd=str(tmp_path), tools=("bash",), approval="auto",
        limits=Limits(tool_seconds=5),
    )  # fmt: skip
    made = await attempt(start, lambda entry: Yield(k=entry.k) if entry.kind == "tool" else Go(k=entry.k))
    assert (made.result.status, [entry.kind for entry in made.entries]) == ("yielded", ["reply", "tool"])


@pytest.mark.promise("P4")
@pytest.mark.parametrize("name", ["mcp__mail__send", "deploy", "bash"])
async def test_a_call_in_doubt_is_not_forgotten_with_its_tool(daemon: FakeDaemon, tmp_path: Path, name: str) -> None:
    going_on: dict[str, Any] = {"tools": ("files",), "entries": begun(call_of(name)), "interrupted": True}
    made = await play(daemon, tmp_path, {"tool": name}, {"text": "x"}, **going_on)
    assert results(made) == [(name, INTERRUPTED, True)]


@pytest.mark.promise("P5")
async def test_a_call_of_the_kernel_s_is_made_again(daemon: FakeDaemon, tmp_path: Path) -> None:
    entries = begun(call_of("channel_send", b'{"message":"hello"}'))
    actions = ({"tool": "channel_send"}, {"text": "x"})
    made = await play(daemon, tmp_path, *actions, tools=("files",), entries=entries, interrupted=True)
    assert results(made) == [("channel_send", "said 1", False)]


@pytest.mark.promise("P15", "P19")
async def test_a_script_beside_a_real_model_gives_that_no_shell(daemon: FakeDaemon, tmp_path: Path) -> None:
    says = [Say(calls=(Call("shell", '{"command": "touch owned"}'),)), Say("done")]
    with ScriptedApi(says) as api:
        fields: dict[str, Any] = {"tools": ("files",), "cwd": str(tmp_path), "mock": script({"text": "x"})}
        made = await attempt(start_for(api, "anthropic", daemon, **fields))
    assert results(made) == [("shell", "unknown tool shell", True)]
    assert not (tmp_path / "owned").exists()
