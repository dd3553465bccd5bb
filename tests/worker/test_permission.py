"""The step before a tool of the worker's own runs: who is asked, and what becomes of the call."""

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from protocol.agent import Approval
from protocol.ipc import Json, Limits, Refusal, Result, ToolCall
from protocol.tools import AUTH_REQUEST
from tests.worker.fake_kernel import Journal, make_start, script
from worker.attempt import ToolAccess, run_loop
from worker.conversation import Conversation
from worker.io.trio_io import TrioIO
from worker.models.mock import MockModel
from worker.models.model import BLANK
from worker.tool import INTERRUPTED, BuiltinTool, Permission, ToolOutcome, ToolRunners, ToolSpec

CALL = ToolCall(id="c", name="bash", args=Json(b'{"command":"ls"}'))
KEY = "0.0:c"


@dataclass
class Kernel:
    """Daemon MCP's auth_request: answers one after the other."""

    answers: list[dict[str, Any]]
    asked: list[tuple[str, dict[str, Any], str]] = field(default_factory=list)
    refuses: bool = False

    async def run(self, name: str, args: dict[str, Any], key: str) -> ToolOutcome:
        self.asked.append((name, args, key))
        return ToolOutcome("bad_request: no", True) if self.refuses else ToolOutcome(json.dumps(self.answers.pop(0)))


@dataclass
class Bash:
    """A tool that remembers what it ran."""

    ran: list[dict[str, Any]] = field(default_factory=list)

    async def run(self, name: str, args: dict[str, Any], key: str) -> ToolOutcome:
        self.ran.append(args)
        return ToolOutcome("ok")


def hands(
    kernel: Kernel, bash: Bash, policy: Approval = "ask", *, read_only: bool = False, doubtful: str = ""
) -> ToolRunners:
    permission = Permission(policy, kernel)
    own = {"bash": BuiltinTool(hand=bash, spec=ToolSpec(name="bash"), read_only=read_only)}
    return ToolRunners(kernel=kernel, own=own, seconds=5, waits=TrioIO(), doubtful=doubtful, permits=permission)


@pytest.mark.parametrize(
    ("policy", "read_only", "asks"),
    [
        ("auto", False, False),
        ("auto", True, False),
        ("ask", False, True),
        ("ask", True, False),
        ("all", False, True),
        ("all", True, True),
        ("deny", False, True),
        ("deny", True, False),
    ],
)
async def test_the_policy_says_about_which_tools_is_asked(policy: Approval, *, read_only: bool, asks: bool) -> None:
    kernel, bash = Kernel([{"decision": "granted"}]), Bash()
    outcome = await hands(kernel, bash, policy, read_only=read_only).run(CALL, KEY)
    assert (outcome, len(bash.ran), len(kernel.asked)) == (ToolOutcome("ok"), 1, asks)


async def test_what_is_asked_is_bound_to_exactly_this_call_and_waits_for_nobody() -> None:
    kernel = Kernel([{"decision": "granted"}])
    await hands(kernel, Bash()).run(CALL, KEY)
    assert kernel.asked == [(AUTH_REQUEST, {"tool": "bash", "input": {"command": "ls"}, "wait_seconds": 0}, KEY)]


@pytest.mark.parametrize(
    ("answer", "text", "refused"),
    [
        ({"decision": "denied", "id": "a1"}, "bash was not run: it was denied", "denied"),
        ({"decision": "denied", "reason": "too risky"}, "bash was not run: it was denied: too risky", "denied"),
        ({"decision": "expired"}, "bash was not run: it was not approved", "expired"),
        ({"decision": "of another version"}, "bash was not run: of another version", None),
    ],
)
async def test_a_refusal_is_a_result_that_the_model_reads(
    answer: dict[str, Any], text: str, refused: Refusal | None
) -> None:
    bash = Bash()
    outcome = await hands(Kernel([answer]), bash).run(CALL, KEY)
    assert (outcome, bash.ran) == (ToolOutcome(text, is_error=True, refused=refused), [])


async def test_a_request_that_the_kernel_refuses_runs_nothing() -> None:
    bash = Bash()
    outcome = await hands(Kernel([], refuses=True), bash).run(CALL, KEY)
    assert (outcome.is_error, bash.ran) == (True, [])


@pytest.mark.promise("P4")
@pytest.mark.parametrize(("first", "runs"), [(True, True), (False, False)])
async def test_a_call_that_may_have_begun_runs_only_if_it_cannot_have(*, first: bool, runs: bool) -> None:
    bash = Bash()
    outcome = await hands(Kernel([{"decision": "granted", "first": first}]), bash, doubtful=KEY).run(CALL, KEY)
    assert (outcome.text, len(bash.ran)) == (("ok", 1) if runs else (INTERRUPTED, 0))


async def test_work_whose_call_waits_makes_room_and_asks_again_by_the_same_key() -> None:
    rules = script({"tool": "bash", "args": {"command": "ls"}}, {"text": "done"})
    kernel, bash, journal = Kernel([{"decision": "pending"}, {"decision": "granted"}]), Bash(), Journal()
    results = [
        await run_loop(
            conversation=Conversation(make_start(entries=tuple(journal.entries))),
            model=MockModel(rules, {}, TrioIO(), die=_never),
            hands=hands(kernel, bash),
            limits=Limits(),
            link=journal,
        )
        for _ in range(2)
    ]
    assert results == [Result(status="yielded"), Result(status="done", text="done")]
    assert [entry.kind for entry in journal.entries] == ["reply", "tool", "reply"]
    assert len({key for _, _, key in kernel.asked}) == 1
    assert all(args["wait_seconds"] == 0 for _, args, _ in kernel.asked)
    assert len(bash.ran) == 1


@pytest.mark.parametrize("words", [{"tool": "bash"}, {"tool_name": "bash", "tool_use_id": "x"}])
async def test_a_model_that_asks_by_itself_is_refused_and_nobody_is_asked(words: dict[str, str]) -> None:
    call = ToolCall(id="c", name=AUTH_REQUEST, args=Json(json.dumps({**words, "input": {"command": "ls"}}).encode()))
    reach = ToolAccess(BLANK, TrioIO(), {}, doubtful="")  # there is no kernel: to ask it would raise
    outcome = await reach.run(call, KEY)
    assert (outcome.is_error, "call the tool itself" in outcome.text) == (True, True)


def _never(_how: object) -> None:
    raise AssertionError("nothing dies here")
