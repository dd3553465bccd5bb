"""pending, approve, deny: what waits for a person, and what that person says."""

import json
import shlex
from typing import Any, get_args

import msgspec
import pytest

from interface.cli.commands.run import APPROVALS
from interface.cli.output import width, wrapped
from protocol.agent import Approval
from protocol.api.approvals import ApprovalInfo, ApprovalRow, ApprovalRuleRow, ApprovalRules, Pending
from protocol.api.runs import Accepted
from tests.interface.conftest import Cli
from tests.interface.hostile import HOSTILE, obeyed
from tests.interface.kernel_double import KernelDouble, Stream, problem, sse
from tests.interface.samples import AT, event, instruction, report

ROW: dict[str, Any] = {
    "id": "a3", "agent": "coder", "space": "review:main", "tool": "bash", "requested_at": AT, "expires_at": AT,
    "instruction_id": "i7",
}  # fmt: skip
PUSH = {"command": "git push", "and": [1, None]}
OPEN = ApprovalInfo(**ROW, input=PUSH, reason="to publish", state="open")
GRANTED = ApprovalInfo(**ROW, input=PUSH, state="granted", decided_at=AT, decided_by="user", decision_reason="fine")
RULE = ApprovalRuleRow(id="r2", agent=None, tool="bash", pattern='{"command":"git *"}', created_at=AT)


def test_what_waits_is_listed_as_patterns_are_compared_with_it(cli: Cli, kernel: KernelDouble) -> None:
    """contracts 7 and 9: pending; the input is its canonical JSON, keys sorted."""
    kernel.answers["GET /approvals"] = Pending(approvals=(ApprovalRow(**ROW, input=PUSH),))
    ran = cli("pending")
    assert ran.out.splitlines()[2] == '  {"and":[1,null],"command":"git push"}'
    (row,) = cli("pending", "--json").json()["approvals"]
    assert (row["id"], row["input"]) == ("a3", PUSH)
    kernel.answers["GET /approvals"] = Pending(approvals=())
    assert cli("pending").out == "no pending approvals\n"


def test_one_request_is_shown_with_all_of_its_input(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["GET /approvals/a3"] = OPEN
    lines = cli("pending", "a3").out.splitlines()
    assert lines[0] == f"a3: coder in review:main asks for bash (open, until {AT})"
    assert lines[1] == "reason: to publish"
    assert '  "command": "git push"' in lines


def test_an_input_is_shown_as_always_wants_it(cli: Cli, kernel: KernelDouble) -> None:
    """Each blank counts, and no window cuts it."""
    given = {"command": "printf  'a   b' " + "x" * 200}
    exact = json.dumps(given, separators=(",", ":"))
    kernel.answers |= {
        "GET /approvals": Pending(approvals=(ApprovalRow(**ROW, input=given),)),
        "GET /approvals/a3": msgspec.structs.replace(OPEN, input=given),
    }
    assert cli("pending", terminal=True).out.splitlines()[2] == f"  {exact}"
    (command,) = (line for line in cli("needs", "a3").out.splitlines() if line.startswith("awk approve"))
    assert shlex.split(command) == ["awk", "approve", "a3", "--always", exact]
    kernel.answers["GET /approvals/a3"] = msgspec.structs.replace(OPEN, input={"command": "rm *"})
    assert "--always" not in cli("needs", "a3").out


def test_requests_are_decided_with_a_reason(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["POST /approvals/a3/approve"] = GRANTED
    kernel.answers["POST /approvals/a3/deny"] = problem(409, "conflict", "a3 is granted already by user")
    ran = cli("approve", "a3", "--reason", "fine")
    assert (ran.code, ran.out) == (0, f"a3 was granted by user at {AT}: fine\n")
    assert cli("approve", "a3", "--json").json()["approvals"][0]["state"] == "granted"
    denied = cli("deny", "a3")
    assert (denied.code, denied.err) == (1, "error: a3 is granted already by user\n")
    assert [asked.body for asked in kernel.of("POST", "/approvals/a3/approve")] == [{"reason": "fine"}, {"reason": ""}]


def test_what_is_approved_once_for_all_is_listed_and_taken_back(cli: Cli, kernel: KernelDouble) -> None:
    """approve --always PATTERN, pending --rules, deny r2."""
    kernel.answers["POST /approvals/a3/approve"] = GRANTED
    assert cli("approve", "a3", "--always", RULE.pattern, "--all-agents").code == 0
    (asked,) = kernel.of("POST", "/approvals/a3/approve")
    assert asked.body == {"reason": "", "always": RULE.pattern, "all_agents": True}
    kernel.answers["GET /approvals/rules"] = ApprovalRules(rules=(RULE,))
    assert cli("pending", "--rules").out.splitlines()[1].split() == ["r2", "(all)", "bash", AT, *RULE.pattern.split()]
    kernel.answers["DELETE /approvals/rules/r2"] = ApprovalRules(rules=())
    assert cli("deny", "r2").out.splitlines() == ["r2 deleted", "no approval rules"]


def test_a_run_says_what_it_waits_for_and_how_to_grant_it(cli: Cli, kernel: KernelDouble) -> None:
    wanted = event("approval.requested", 5, agent="coder", data={"id": "a3", "tool": "bash", "expires_at": AT})
    accepted = sse("accepted", Accepted(run="review:main", seq=4))
    result = sse("result", report(status="incomplete", exit_code=7))
    kernel.answers["POST /run"] = Stream([accepted, sse("approval.requested", wanted, 5), result])
    ran = cli("run", "review", "--approve", "all")
    assert ran.code == 7
    assert ("note: coder needs an approval to call bash\n" in ran.err, "awk approve" in ran.err) == (True, False)
    kernel.answers["GET /approvals/a3"] = OPEN
    watched = cli("run", "review", terminal=True)
    assert "coder in review:main wants to call bash (a3)\n" in watched.err
    assert "a3 remains open: awk approve a3" in watched.err
    cli("run", "review", "--detach")
    bodies = [asked.body for asked in kernel.of("POST", "/run")]
    assert [(body["approve"], body["attended"]) for body in bodies] == [("all", False), (None, True), (None, True)]


def test_what_a_pattern_granted_with_it_is_said(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["POST /approvals/a3/approve"] = msgspec.structs.replace(GRANTED, also_granted=("a4", "a9"))
    ran = cli("approve", "a3", "--always", "*")
    assert ran.out.splitlines()[1:] == ["also approved: a4, a9"]


def test_a_request_that_nobody_decided_is_not_said_to_be_decided(cli: Cli, kernel: KernelDouble) -> None:
    gone = ApprovalInfo(**ROW, input=PUSH, state="expired", decided_at=AT, decision_reason="i7 ended cancelled")
    kernel.answers["GET /approvals/a3"] = gone
    assert cli("pending", "a3").out.endswith(f"a3 expired at {AT}: i7 ended cancelled\n")


def test_an_instruction_says_which_approval_it_waits_for(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["GET /instructions/i7"] = instruction(
        status="waiting", standing="person", waits_for="approval", approval="a3", approval_expires=AT
    )
    assert f"  waits     approval a3 until {AT}: awk needs a3, awk approve a3\n" in cli("show", "i7").out


def test_the_words_of_run_are_the_protocols() -> None:
    assert get_args(Approval) == APPROVALS


RUN, ATTACH = ("run", "review"), ("attach", "coder")
WANTED = event(
    "approval.requested", 5, agent="coder", space="review:main", data={"id": "a3", "tool": "bash", "expires_at": AT}
)


def in_place(
    cli: Cli, kernel: KernelDouble, given: object, typed: str, words: tuple[str, ...] = RUN, **more: str
) -> str:
    """What a command on a terminal shows, where an agent asks for an approval and a person types."""
    row: dict[str, Any] = {**ROW, **more}
    open_one = ApprovalInfo(**row, input=given, reason=more.get("tool", "to publish"), state="open")
    kernel.answers["GET /approvals/a3"] = open_one
    for what, state in (("approve", "granted"), ("deny", "denied")):
        decided = msgspec.structs.replace(GRANTED, state=state)
        kernel.answers[f"POST /approvals/a3/{what}"] = decided
    accepted = sse("accepted", Accepted(run="review:main", seq=4))
    kernel.answers["POST /run"] = Stream([accepted, sse("approval.requested", WANTED, 5), sse("result", report())])
    attachable(kernel)
    cli.environ |= {"NO_COLOR": "1", "COLUMNS": "60"}
    return cli(*words, terminal=True, stdin=typed).err


def attachable(kernel: KernelDouble, *waiting: ApprovalRow) -> None:
    """A kernel where ``waiting`` are open: whoever attaches is told of WANTED, and is refused by the next one."""
    streams = iter([Stream([b": ping\n\n", sse("approval.requested", WANTED, 5), sse("bye", event("bye"))])])
    kernel.answers |= {
        "GET /agents/coder": {},
        "GET /spaces/review:main/members": {"members": []},
        "GET /approvals": Pending(approvals=waiting, total=len(waiting)),
        "GET /events": lambda asked: next(streams, (404, {"code": "not_found", "title": "gone"})),
    }


def decisions(kernel: KernelDouble) -> list[tuple[str, object]]:
    return [
        (asked.path.rpartition("/")[2], asked.body) for asked in kernel.asked if asked.path.startswith("/approvals/a3/")
    ]


@pytest.mark.parametrize(
    ("typed", "sent"),
    [
        ("y\n", [("approve", {})]),
        ("n\n", [("deny", {})]),
        ("a\n", [("approve", {"always": '{"and":[1,null],"command":"git push"}'})]),
        ("d\ny\n", [("approve", {})]),
        ("\n", []),
        ("maybe\n", []),
        ("", []),
    ],
)
@pytest.mark.parametrize("words", [RUN, ATTACH])
def test_on_a_terminal_it_is_asked_in_place(
    words: tuple[str, ...], typed: str, sent: list[object], cli: Cli, kernel: KernelDouble
) -> None:
    shown = in_place(cli, kernel, PUSH, typed, words)
    assert decisions(kernel) == sent
    assert '  |   "command": "git push"\n' in shown
    assert ("a3 remains open: awk approve a3" in shown) is (not sent)


@pytest.mark.parametrize("watched", ["coder", "@review", "coder@review"])
def test_who_attaches_is_asked_once_about_what_waits_already(watched: str, cli: Cli, kernel: KernelDouble) -> None:
    other: dict[str, Any] = {**ROW, "id": "a1", "agent": "tester", "space": "other:main"}
    attachable(kernel, ApprovalRow(**other, input={}), ApprovalRow(**ROW, input=PUSH))
    kernel.answers["GET /approvals/a3"] = OPEN
    kernel.answers["GET /approvals/a1"] = OPEN
    shown = cli("attach", watched, terminal=True, stdin="\n").err
    assert shown.count("coder in review:main wants to call bash (a3)\n") == 1
    assert [asked.path for asked in kernel.asked if asked.path.startswith("/approvals/")] == ["/approvals/a3"]
    assert shown.index("attached to") < shown.index("wants to call")


@pytest.mark.parametrize(("flags", "terminal"), [((), False), (("--jsonl",), True)])
def test_who_attaches_where_nobody_answers_is_only_told(
    flags: tuple[str, ...], terminal: bool, cli: Cli, kernel: KernelDouble
) -> None:
    attachable(kernel, ApprovalRow(**ROW, input=PUSH))
    ran = cli("attach", "coder", *flags, terminal=terminal, stdin="y\n")
    assert [asked.path for asked in kernel.asked if asked.path.startswith("/approvals")] == []
    assert "Approve" not in ran.err
    told = "coder waits for your approval to call bash: awk needs a3, awk approve a3" in ran.err
    assert told is not bool(flags)
    assert "approval.requested" in ran.out


def test_no_question_stands_behind_words_of_an_agent_that_is_writing(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers |= {"GET /approvals/a3": OPEN, "POST /approvals/a3/approve": GRANTED}
    words = [sse("delta", event("delta", data={"instruction": "i7", "text": text})) for text in ("no one: ", "and now")]
    accepted = sse("accepted", {"message_id": "m1", "instruction_ids": ["i7"], "seq": 4})
    outcome = {"id": "i7", "agent": "coder", "status": "done", "text": "and now"}
    answer = sse("result", {"message_id": "m1", "exit_code": 0, "results": [outcome]})
    kernel.answers["POST /run"] = Stream([accepted, words[0], sse("approval.requested", WANTED, 5), words[1], answer])
    cli.environ["NO_COLOR"] = "1"
    lines = cli("ask", "coder", "hi", terminal=True, stdin="y\n", mixed=True).out.splitlines()
    assert lines[:2] == ["no one: ", "coder in review:main wants to call bash (a3)"]
    assert [line for line in lines if "and now" in line] == ["and now"]


def test_a_long_call_is_granted_only_once_all_of_it_was_shown(cli: Cli, kernel: KernelDouble) -> None:
    command = " ".join(f"word{number}" for number in range(2000))
    shown = in_place(cli, kernel, {"command": f"{command} rm -rf ~"}, "y\n")
    assert decisions(kernel) == []
    assert "more rows: d shows all" in shown
    assert "rm -rf ~" in shown
    shown = in_place(cli, kernel, {"command": f"{command} rm -rf ~"}, "y\ny\n")
    assert decisions(kernel) == [("approve", {})]


def test_an_edit_is_shown_as_the_change_it_makes(cli: Cli, kernel: KernelDouble) -> None:
    shown = in_place(cli, kernel, {"path": "a.py", "old": "x = 1\ny = 2", "new": "x = 1\ny = 3"}, "d\nn\n")
    rows = [line for line in shown.splitlines() if line.startswith("  | ")]
    assert rows[-3:] == ["  |  x = 1", "  | -y = 2", "  | +y = 3"]
    assert decisions(kernel) == [("deny", {})]


@pytest.mark.promise("P16")
def test_a_tab_of_an_edit_is_seen_and_leads_no_row_beyond_the_window(cli: Cli, kernel: KernelDouble) -> None:
    forged = "\t" * 12 + "xApprove a9? [y once]"
    shown = in_place(cli, kernel, {"path": "a", "old": "    one", "new": f"\tone\n{forged}"}, "d\nn\n")
    rows = [line for line in shown.splitlines() if line.startswith("  | ")]
    assert "\t" not in shown
    assert "  | +\\tone" in rows
    assert max(map(width, rows)) <= 60
    assert wrapped("\tone\ttwo", 10) == ["        on", "e     two"]


def test_a_star_in_a_call_is_not_agreed_to_once_for_all_by_one_key(cli: Cli, kernel: KernelDouble) -> None:
    shown = in_place(cli, kernel, {"command": "ls *"}, "a\ny\n")
    assert "its input contains *" in shown
    assert decisions(kernel) == [("approve", {})]


@pytest.mark.promise("P16")
@pytest.mark.parametrize("words", [RUN, ATTACH])
@pytest.mark.parametrize("text", HOSTILE)
def test_no_word_of_an_agent_hides_or_forges_a_part_of_the_question(
    text: str, words: tuple[str, ...], cli: Cli, kernel: KernelDouble
) -> None:
    """Also where it is long: a row of it never begins where one of ours does."""
    safe = text.encode("utf-8", "replace").decode()
    forged = f"{safe}\n{'x' * 56}Approve a3? [y once] {safe}\r\x1b[2K"
    for given in ({"old": forged, "new": forged + "z"}, {forged: [forged]}):
        shown = in_place(cli, kernel, given, "d\nd\nn\n", words, tool=forged)
        assert obeyed(shown) == []
        questions = [line for line in shown.splitlines() if line.startswith("Approve")]
        assert all(line.startswith("Approve a3? [y once, a always, n no, d") for line in questions)
        rows = [line for line in shown.splitlines() if line.startswith("  | ")]
        assert rows
        assert max(map(width, rows)) <= 60
