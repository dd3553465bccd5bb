"""What needs a person, with a real kernel: one number everywhere, and every command settles what it is for."""

import shlex
import signal
from typing import Any

import psutil
import pytest

from tests.e2e.processes import wait_until
from tests.project import AWK, Project
from tests.terminal import Typed, on_a_terminal

BROKEN = "restart: { attempts: 1 }\nretry: { attempts: 9 }"


def team(project: Project) -> None:
    """One agent, or workflow, for each reason why work may stand still."""
    project.write(
        ".agents/coder.yaml",
        """
        model: mock/x
        prompt: { system: hi }
        tools: [bash]
        mock: [{ tool: bash, args: { command: echo coder >> coder.log } }, { text: finished }]
        """,
    )
    project.agent("failing", "error: { http_status: 400 }")
    project.agent("crashing", "exit: 3", more=BROKEN)
    project.write(".agents/keyless.yaml", "model: anthropic/claude-sonnet-4-5\nprompt: { system: hi }\n")
    project.agent("sleeper", "text: hi", more="schedule: { wakeup: 24h, prompt: look }")
    project.agent("ping", "text: '@pong go on'")
    project.agent("pong", "text: done")
    project.write(
        ".workflows/endless.yaml",
        """
        limits: { instructions: 1 }
        agents: { ping: { ref: ping }, pong: { ref: pong } }
        kickoff: "@ping begin"
        """,
    )
    ballot = "{ id: release, type: approval, binding: true, title: Release this? }"
    project.agent("caller", f"tool: team_proposal_create, args: {ballot}", "text: it is put to the vote")
    project.agent("mute", "text: I say nothing")
    project.write(
        ".workflows/release.yaml",
        """
        verdict: release
        agents: { caller: { ref: caller }, mute: { ref: mute } }
        kickoff: "@caller put it to the vote"
        """,
    )


KINDS = {"approval", "vote", "agent_error", "credentials", "limit", "dead", "trust"}


def needs(project: Project) -> list[dict[str, Any]]:
    found: dict[str, Any] = project.ask("GET", "/needs")
    assert found["total"] == len(found["items"])
    assert found["next"] is None
    items: list[dict[str, Any]] = found["items"]
    return items


@pytest.mark.promise("P34")
@pytest.mark.long("tests/kernel/policy/test_needs.py")
def test_each_need_is_counted_alike_everywhere_and_settled_by_its_commands(kernel_process: Project) -> None:
    """contracts 7: needs, ps and status; commands run as they stand, in the order of the list."""
    project = kernel_process
    empty = project.awk("needs")
    assert (empty.code, empty.out) == (0, "nothing needs you\n")
    team(project)
    for name in ("coder", "failing", "crashing", "keyless"):
        project.send(name)
    for name in ("endless", "release"):
        assert project.awk("start", name, "--trust").code == 0
    wait_until(lambda: {item["kind"] for item in needs(project)} == KINDS)
    project.until("instruction.ended", holds=lambda event: event["agent"] == "mute")
    items = needs(project)
    assert project.ask("GET", "/ps")["needs"] == project.ask("GET", "/status")["needs"] == len(items)
    assert f"{len(items)} need you" in project.awk("ps").out
    assert f"{len(items)} need you" in project.awk("status").out
    listed = project.awk("needs", "--json")
    assert (listed.code, listed.json()["items"]) == (7, items)
    for item in items:
        first = item["actions"][0]["command"]
        assert any(line.startswith(f"  {first}  #") for line in project.awk("needs").out.splitlines()), item
        ran = project.awk(*shlex.split(first)[1:])
        assert ran.code == 0, (first, ran)
        # Where the cause is still there: as a need of later.
        comes_back = item["kind"] in ("credentials", "agent_error", "dead")
        same = [one for one in needs(project) if (one["kind"], one["id"]) == (item["kind"], item["id"])]
        assert [one for one in same if not comes_back or one == item] == [], (first, ran)


HOSTILE = r"echo \u001b[2J\u001b[1;1H\rnothing to see > bad.log"


def asker(project: Project, name: str, command: str) -> None:
    """A workflow of one agent that wants to run a command of the shell."""
    project.write(
        f".agents/{name}.yaml",
        f"""
        model: mock/x
        prompt: {{ system: hi }}
        tools: [bash]
        mock: [{{ tool: bash, args: {{ command: "{command}" }} }}, {{ text: finished }}]
        """,
    )
    project.write(f".workflows/{name}.yaml", f'agents: {{ {name}: {{ ref: {name} }} }}\nkickoff: "@{name} go"\n')


@pytest.mark.promise("P16")
@pytest.mark.long("tests/interface/test_run.py")
def test_a_run_on_a_terminal_is_approved_where_it_asks(kernel_process: Project) -> None:
    asker(kernel_process, "writer", HOSTILE)
    environ = {**kernel_process.environ, "NO_COLOR": "1"}
    question = b"Approve a1? [y once, a always, n no, d all, Enter: later]"
    command = [str(AWK), "run", "writer", "--trust"]
    seen, code = on_a_terminal(command, kernel_process.root, environ, [(question, b"y\n")])
    assert code == 0, seen
    shown = seen.partition(question)[0]
    assert b"\x1b" not in shown.replace(b"\r\x1b[J", b"")  # with which our own live line is taken away
    assert rb"echo \u001b[2J\u001b[1;1H\rnothing to see > bad.log" in shown
    assert (kernel_process.root / "bad.log").exists()


@pytest.mark.promise("P16")
@pytest.mark.long("tests/interface/test_approvals.py")
def test_who_attaches_on_a_terminal_approves_what_waits_already(kernel_process: Project) -> None:
    asker(kernel_process, "drafter", HOSTILE.replace("bad.log", "draft.log"))
    kernel_process.send("drafter")
    kernel_process.until("approval.requested", holds=lambda event: event["agent"] == "drafter")
    environ = {**kernel_process.environ, "NO_COLOR": "1"}

    def interrupt(_leader: int) -> None:
        (watching,) = [child for child in psutil.Process().children() if "attach" in child.cmdline()]
        watching.send_signal(signal.SIGINT)

    question = b"Approve a1? [y once, a always, n no, d all, Enter: later]"
    script: list[tuple[bytes, Typed]] = [(question, b"y\n"), (b"a1 was granted", b""), (b"finished", interrupt)]
    seen, code = on_a_terminal([str(AWK), "attach", "drafter"], kernel_process.root, environ, script)
    assert code == 130, seen
    assert b"\x1b" not in seen
    assert rb"echo \u001b[2J\u001b[1;1H\rnothing to see > draft.log" in seen.partition(question)[0]
    assert (kernel_process.root / "draft.log").exists()


@pytest.mark.promise("P16")
@pytest.mark.long("tests/interface/test_top.py")
def test_a_call_is_approved_in_top(kernel_process: Project) -> None:
    asker(kernel_process, "typist", HOSTILE.replace("bad.log", "good.log"))
    kernel_process.send("typist")
    environ = {**kernel_process.environ, "NO_COLOR": "1"}
    script: list[tuple[bytes, Typed]] = [
        (b"1 need you", b"\r"), (b"escape: back", b"\x1b"), (b"> typist", b"l"), (b"of its log", b"\x1b"),
        (b"> typist", b"a"), (b"Approve a1? [y once", b"y"), (b"a1 was granted", b"q"),
    ]  # fmt: skip
    seen, code = on_a_terminal([str(AWK), "top"], kernel_process.root, environ, script, columns=60)
    assert code == 0, seen
    call = seen.partition(b"a1 was granted")[0]
    assert rb"echo \u001b[2J\u001b[1;1H\rnothing to see" in call
    kernel_process.until("instruction.ended", holds=lambda event: event["agent"] == "typist")
    assert (kernel_process.root / "good.log").exists()
