"""stop: what it ends, and what it asks first."""

import pytest

from protocol.api.agents import AgentList, AgentRow
from protocol.api.processes import Ps
from tests.interface.conftest import Cli
from tests.interface.kernel_double import KernelDouble
from tests.interface.samples import ps_row


def _stopping(kernel: KernelDouble) -> None:
    def stop(asked: object) -> dict[str, str]:
        kernel.proves = False
        return {"status": "stopping", "version": "0"}

    kernel.answers["POST /shutdown"] = stop


@pytest.mark.parametrize(("words", "grace"), [([], 10.0), (["--grace", "1m"], 60.0), (["--now"], 0.0)])
def test_without_a_target_the_kernel_is_stopped(words: list[str], grace: float, cli: Cli, kernel: KernelDouble) -> None:
    """contracts 7: everything, and the kernel; returns when it answers no more."""
    _stopping(kernel)
    ran = cli("stop", *words)
    assert (ran.code, ran.out) == (0, "stopped\n")
    assert kernel.of("POST", "/shutdown")[0].body == {"grace": grace}


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("yes\n", 0), ("\n", 1), ("", 1), ("no\n", 1)])
def test_a_person_is_asked_while_work_runs(answer: str, code: int, cli: Cli, kernel: KernelDouble) -> None:
    """contracts 7: questions on a TTY only; the default is the safe one."""
    _stopping(kernel)
    kernel.answers["GET /ps"] = Ps(agents=(ps_row(),))
    ran = cli("stop", terminal=True, stdin=answer)
    assert (ran.code, "alice running; stop anyway?" in ran.err) == (code, True)
    assert len(kernel.of("POST", "/shutdown")) == (code == 0)


@pytest.mark.parametrize(
    ("words", "terminal", "state", "environ"),
    [
        (["--yes"], True, "running", {}),
        ([], False, "running", {}),
        ([], True, "idle", {}),
        ([], True, "running", {"CI": "1"}),
    ],
    ids=["--yes", "pipe", "nothing runs", "CI"],
)
def test_nobody_is_asked_where_nobody_answers_or_nothing_runs(
    words: list[str], terminal: bool, state: str, environ: dict[str, str], cli: Cli, kernel: KernelDouble
) -> None:
    """contracts 7: --yes answers; a script never hangs on a question."""
    cli.environ |= environ
    _stopping(kernel)
    kernel.answers["GET /ps"] = Ps(agents=(ps_row(state=state),))
    ran = cli("stop", *words, terminal=terminal)
    assert (ran.code, ran.err) == (0, "")


def test_workflows_are_stopped_by_name(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers |= {"DELETE /workflows/review/main": {}, "DELETE /workflows/review/pr-1": {}}
    assert cli("stop", "@review", "@review:pr-1").out == "stopped @review\nstopped @review:pr-1\n"
    assert cli("stop", "@nightly").code == 5
    assert kernel.of("POST", "/shutdown") == []


def test_an_agent_made_with_new_is_gone_and_one_with_a_file_does_no_work(cli: Cli, kernel: KernelDouble) -> None:
    rows = [("eve", None, True), ("alice", ".agents/alice.yaml", False)]
    agents = tuple(AgentRow(name=n, model="", backend="sdk", file=f, ephemeral=e, state="idle") for n, f, e in rows)
    kernel.answers |= {"GET /agents": AgentList(agents=agents), "DELETE /agents/eve": {}, "POST /agents/alice/stop": {}}
    ran = cli("stop", "eve", "alice")
    assert (ran.code, ran.out) == (0, "stopped eve\nstopped alice\n")
    ran = cli("stop", "bob")
    assert (ran.code, "agents here: eve, alice" in ran.err) == (5, True)
    changed = [(asked.method, asked.path) for asked in kernel.asked if asked.method != "GET"]
    assert changed == [("DELETE", "/agents/eve"), ("POST", "/agents/alice/stop")]
    members = {"members": [{"name": "carl", "agent": "carl@review:main"}]}
    kernel.answers |= {"GET /spaces/review:main/members": members, "POST /agents/carl@review:main/stop": {}}
    assert cli("stop", "carl@review").out == "stopped carl@review\n"


def test_stop_waits_for_all_at_once_and_with_no_wait_for_none(cli: Cli, kernel: KernelDouble) -> None:
    rows = tuple(
        AgentRow(name=name, model="", backend="sdk", file="f", ephemeral=False, state="idle")
        for name in ("alice", "bob")
    )
    kernel.answers |= {
        "GET /agents": AgentList(agents=rows),
        "POST /agents/alice/stop": {},
        "POST /agents/bob/stop": {},
    }
    assert cli("stop", "alice", "bob").out == "stopped alice\nstopped bob\n"
    asked = [(one.path, one.query) for one in kernel.asked if one.method == "POST"]
    alice, bob = "/agents/alice/stop", "/agents/bob/stop"
    assert asked == [(alice, {"wait": "false"}), (bob, {"wait": "false"}), (alice, {}), (bob, {})]
    kernel.asked.clear()
    kernel.answers["DELETE /workflows/review/main"] = {}
    assert cli("stop", "alice", "@review", "--no-wait").out == "stopping alice\nstopping @review\n"
    assert [one.query for one in kernel.asked if one.method != "GET"] == [{"wait": "false"}] * 2
    kernel.answers["POST /shutdown"] = {"status": "stopping", "version": "0"}
    assert cli("stop", "--no-wait").out == "stopping\n"
