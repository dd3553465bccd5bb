"""pause, resume, continue, reset, restart, cancel, retry, promote: one POST each, and what it is now."""

from typing import Any

import msgspec
import pytest

from protocol.api.agents import AgentChanged
from protocol.api.instructions import QueueReport, QueueRow, Unblocked
from protocol.api.messages import InstructionResult, SendReceipt, SendReport
from protocol.api.workflows import WorkflowRow
from protocol.instruction import Lane
from tests.interface.conftest import Cli
from tests.interface.kernel_double import PING, KernelDouble, Stream, in_turn, problem, sse
from tests.interface.samples import AT, event, instruction

ROW = WorkflowRow(name="review", tag="pr-1", state="running", members=("alice",), started_at=AT)
MEMBERS = {"members": [{"name": "alice", "state": "idle", "agent": "alice@review:main"}]}


@pytest.mark.parametrize("word", ["pause", "resume", "continue", "reset", "restart"])
def test_an_agent_is_steered_by_its_key(word: str, cli: Cli, kernel: KernelDouble) -> None:
    """contracts 7: pause|resume|continue|reset|restart TARGET; an inline agent is called by its own key."""
    kernel.answers["GET /spaces/review:main/members"] = MEMBERS
    for target, key in (("alice", "alice"), ("alice@review", "alice@review:main")):
        route = f"POST /agents/{key}/{word}"
        kernel.answers[route] = AgentChanged(name="alice", space=None, state="idle", instructions=("i7",))
        ran = cli(word, target)
        assert (ran.code, ran.out) == (0, "alice is idle; resumes: i7\n")
    posts = [asked for asked in kernel.asked if asked.method == "POST"]
    assert len({asked.headers["idempotency-key"] for asked in posts}) == 2


@pytest.mark.parametrize(("word", "shown"), [("pause", "paused"), ("resume", "running"), ("continue", "running")])
def test_a_workflow_is_steered_by_name_and_tag(word: str, shown: str, cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers[f"POST /workflows/review/pr-1/{word}"] = msgspec.structs.replace(ROW, paused=shown == "paused")
    ran = cli(word, "@review:pr-1")
    assert (ran.code, ran.out) == (0, f"@review:pr-1 is {shown}\n")
    assert cli(word, "@review:pr-1", "--json").json()["name"] == "review"


@pytest.mark.parametrize("words", [["restart", "@review"], ["restart"]])
def test_what_is_for_agents_wants_an_agent(words: list[str], cli: Cli, kernel: KernelDouble) -> None:
    """contracts 7: exit 2, and nothing is changed; without a name at all, those there are are told."""
    kernel.answers["GET /agents"] = {"agents": [{"name": "alice"}, {"name": "bob"}]}
    ran = cli(*words)
    assert (ran.code, "agents here: alice, bob" in ran.err) == (2, words == ["restart"])
    assert [asked for asked in kernel.asked if asked.method != "GET"] == []


def test_unblock_says_what_it_did(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["POST /unblock"] = Unblocked(
        target="@review", action="retry", subject="@review", because="dead", instructions=("i7", "i8")
    )
    assert cli("unblock", "@review").out == "retried @review, which was blocked: dead; continues: i7, i8\n"
    assert cli("unblock", "@review", "--json").json()["action"] == "retry"
    assert [asked.body for asked in kernel.of("POST", "/unblock")] == [{"target": "@review"}] * 2


def test_instructions_are_cancelled_retried_and_promoted(cli: Cli, kernel: KernelDouble) -> None:
    """contracts 7: cancel ID, retry ID, promote ID; --fresh travels in the body."""
    kernel.answers["POST /instructions/i7/cancel"] = instruction(status="cancelled")
    kernel.answers["POST /instructions/i8/cancel"] = instruction("i8", status="cancelled")
    kernel.answers["POST /instructions/i7/retry"] = instruction(status="queued")
    kernel.answers["POST /instructions/i7/promote"] = msgspec.structs.replace(
        instruction(status="queued"), lane="immediate"
    )
    assert cli("cancel", "i7", "i8").out.splitlines() == [
        "i7 cancelled (alice, normal)",
        "i8 cancelled (alice, normal)",
    ]
    assert cli("retry", "i7").code == 0
    assert cli("retry", "i7", "--fresh", "--json").json()["instructions"][0]["id"] == "i7"
    assert cli("promote", "i7").out == "i7 queued (alice, immediate)\n"
    assert [asked.body for asked in kernel.of("POST", "/instructions/i7/retry")] == [{"fresh": False}, {"fresh": True}]


def test_what_a_person_is_asked_is_answered_for_one_or_given_to_another(cli: Cli, kernel: KernelDouble) -> None:
    """``--as`` travels only where it is given, for a kernel that does not know it is asked as before."""
    kernel.answers["POST /instructions/i7/answer"] = instruction(status="done")
    kernel.answers["POST /instructions/i7/reassign"] = instruction(status="waiting")
    assert cli("answer", "i7", "yes").code == 0
    assert cli("answer", "i7", "yes", "--as", "carol").code == 0
    assert cli("reassign", "i7", "dave").out == "i7 waiting (alice, normal)\n"
    bodies = [asked.body for asked in kernel.asked if asked.method == "POST"]
    assert bodies == [{"text": "yes"}, {"text": "yes", "as": "carol"}, {"to": "dave"}]


def test_what_is_promoted_behind_others_is_told_so(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["GET /spaces/review:main/members"] = MEMBERS
    lanes: dict[str, Lane] = {"i3": "immediate", "i5": "normal", "i7": "immediate", "i9": "immediate"}
    rows = [
        QueueRow(id=name, lane=lane, status="queued", attempt=0, step=0, preempted=0, enqueued_at=AT)
        for name, lane in lanes.items()
    ]
    for key, space in (("alice", "dm:alice"), ("alice@review:main", "review:main")):
        moved = msgspec.structs.replace(instruction(status="queued"), lane="immediate", space=space)
        kernel.answers["POST /instructions/i7/promote"] = moved
        kernel.answers[f"GET /agents/{key}/queue"] = QueueReport(agent="alice", instructions=tuple(rows))
        ran = cli("promote", "i7")
        assert (ran.code, ran.err) == (0, "note: i7 comes after i3: they are as urgent, and older\n")


def test_a_refusal_keeps_nobody_else_from_being_changed(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["POST /instructions/i7/retry"] = problem(409, "conflict", "i7 is done", hint="send it again")
    kernel.answers["POST /instructions/i8/retry"] = instruction("i8", status="queued")
    ran = cli("retry", "i7", "i8")
    assert (ran.code, ran.out) == (1, "i8 queued (alice, normal)\n")
    assert ran.err.splitlines() == ["error: i7 is done", "  hint: send it again"]
    assert cli("retry", "i7", "i8", "--json").json()["code"] == "conflict"


def test_the_prompt_is_plain_text(cli: Cli, kernel: KernelDouble) -> None:
    """contracts 9: the system prompt, then the messages; of a run there is none."""
    turns = [{"role": "user", "text": "hi"}, {"role": "assistant", "text": "ho"}, {"role": "user", "text": "look"}]
    kernel.answers["GET /instructions/i7/prompt"] = {
        "id": "i7",
        "frozen": True,
        "system": "You are.",
        "messages": turns,
    }
    out = cli("show", "i7", "--prompt").out
    assert out.splitlines() == ["You are.", "", "user:", "hi", "", "assistant:", "ho", "", "user:", "look"]


def test_work_that_waits_for_another_agent_says_so(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["GET /instructions/i7"] = instruction(status="waiting", standing="runnable", waits_for="answer")
    assert "  waits     answer\n" in cli("show", "i7").out


HELD: list[tuple[dict[str, Any], int]] = [
    ({"status": "waiting", "waits_for": "credentials"}, 4),
    ({"status": "waiting", "waits_for": "quota"}, 4),
    ({"status": "waiting", "waits_for": "approval"}, 7),
    ({"status": "waiting", "waits_for": "budget"}, 6),
    ({"status": "waiting", "waits_for": "hops"}, 6),
    ({"status": "waiting", "waits_for": "paused"}, 1),
    ({"status": "waiting", "waits_for": "error"}, 1),
    ({"status": "failed", "cause": "auth"}, 4),
    ({"status": "failed", "cause": "untrusted"}, 7),
    ({"status": "dead", "cause": "crash"}, 1),
]


@pytest.mark.promise("P26")
@pytest.mark.parametrize(("how", "code"), HELD, ids=str)
def test_what_a_person_must_end_decides_the_exit_code(
    how: dict[str, Any], code: int, cli: Cli, kernel: KernelDouble
) -> None:
    """contracts 7: serve, ask and send --wait say by their exit code what is needed."""
    result = InstructionResult(instruction_id="i7", agent="alice", text="", **how)
    kernel.answers["POST /serve"] = SendReport(message_id="m1", instruction_ids=("i7",), results=(result,))
    ran = cli("serve", "alice", "hi")
    assert ran.code == code
    assert ran.err.startswith("error: alice: i7 ")


@pytest.mark.promise("P26")
def test_waiting_ends_where_only_a_person_can_help(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers |= {
        "POST /messages": SendReceipt(message_id="m1", instruction_ids=("i7",)),
        "GET /events": Stream([PING, sse("agent.changed", event("agent.changed", 9, agent="alice"), 9)]),
    }
    stands = [instruction(status="queued", text="", standing=how, waits_for="error") for how in ("time", "person")]
    kernel.answers["GET /instructions/i7"] = in_turn(stands[0], *stands)
    ran = cli("send", "alice", "hi", "--wait", "--json")
    assert ran.code == 1
    (result,) = ran.json()["results"]
    assert (result["status"], result["waits_for"]) == ("waiting", "error")


MANY: dict[str, Any] = {
    "schema": "awk/bulk/1", "action": "cancel", "dry_run": False, "matched": 2, "changed": 2, "left": 1, "kept_by": {},
    "kept": [],
    "instructions": [{"id": n, "agent": "alice", "space": "dm:alice", "status": "cancelled"} for n in ("i7", "i8")],
}  # fmt: skip


@pytest.mark.parametrize(
    ("words", "body"),
    [
        (["--queued"], {"queued": True}),
        (["--agent", "alice"], {"agent": "alice"}),
        (["@review:pr-1", "--agent", "bob", "--queued"], {"agent": "bob", "space": "review:pr-1", "queued": True}),
        (["bob@review"], {"agent": "bob", "space": "review:main"}),
    ],
)
def test_many_are_cancelled_by_one_request(
    words: list[str], body: dict[str, object], cli: Cli, kernel: KernelDouble
) -> None:
    """awk cancel --agent A|--queued|@wf: off a terminal only --yes does it; a look asks the kernel for one."""
    kernel.answers["POST /instructions/cancel"] = MANY
    assert (cli("cancel", *words).code, kernel.of("POST", "/instructions/cancel")) == (2, [])
    ran = cli("cancel", *words, "--yes")
    head = "2 instructions cancelled; 1 running not changed"
    assert (ran.code, ran.out.splitlines()) == (0, [head, "  i7 cancelled (alice)", "  i8 cancelled (alice)"])
    assert cli("cancel", *words, "--dry-run", "--json").json()["schema"] == "awk/bulk/1"
    asked = [one.body for one in kernel.of("POST", "/instructions/cancel")]
    assert asked == [{**body, "dry_run": False}, {**body, "dry_run": True}]


def test_on_a_terminal_it_is_shown_what_would_end_before_it_does(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["POST /instructions/cancel"] = lambda asked: {**MANY, "dry_run": asked.body["dry_run"]}
    no = cli("cancel", "--queued", stdin="n\n", terminal=True)
    assert (no.code, "2 instructions would be cancelled" in no.err, "cancel 2? [y/N]" in no.err) == (1, True, True)
    assert cli("cancel", "--queued", stdin="y\n", terminal=True).code == 0
    assert [one.body["dry_run"] for one in kernel.of("POST", "/instructions/cancel")] == [True, True, False]
    kernel.answers["POST /instructions/cancel"] = {**MANY, "dry_run": True, "matched": 0, "instructions": []}
    assert cli("cancel", "--queued", terminal=True).code == 0


def test_all_that_is_dead_is_tried_again(cli: Cli, kernel: KernelDouble) -> None:
    kept = [{"id": "i8", "code": "workflow_not_running", "detail": "bob is in no workflow review now"}]
    report = {**MANY, "action": "retry", "changed": 1, "left": 0, "kept": kept, "kept_by": {"workflow_not_running": 1}}
    kernel.answers["POST /instructions/retry"] = {**report, "instructions": MANY["instructions"][:1]}
    ran = cli("retry", "--all", "--fresh")
    assert ran.code == 5
    assert ran.out.splitlines()[-1] == "  i8 not changed: bob is in no workflow review now"
    assert [one.body for one in kernel.of("POST", "/instructions/retry")] == [{"fresh": True, "dry_run": False}]
