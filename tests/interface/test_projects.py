"""All projects of a user: each is asked by itself, side by side, and one that does not answer hides none."""

import os
import shlex
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interface import projects
from interface.discovery import URL
from protocol.api.approvals import Need, NeedAction, NeedList
from protocol.discovery import project_state
from tests.interface.conftest import Cli
from tests.interface.kernel_double import KernelDouble, problem

pytestmark = pytest.mark.promise("P71")

STATUS: dict[str, Any] = {"schema": "awk/status/1", "state": "up", "needs": 2, "agents": {"running": 1, "idle": 3}}
PS: dict[str, Any] = {
    "schema": "awk/ps/1", "needs": 1, "notice": None, "agents": [{"name": "alice", "space": None, "state": "running"}],
}  # fmt: skip
APPROVE = NeedAction(label="approve", command="awk approve a3")
NEED = Need(kind="approval", id="a3", text="coder wants to call bash", actions=(APPROVE,))


def _noted(home: Path, root: Path, text: str | None = None, mode: int = 0o600) -> Path:
    state = Path(project_state(str(home), str(root)))
    state.mkdir(parents=True, exist_ok=True)
    note = state / "project.json"
    note.touch(mode)
    note.write_text(text if text is not None else '{"project": "' + str(root) + '"}')
    return state


@pytest.fixture
def others(cli: Cli) -> Iterator[dict[str, KernelDouble]]:
    """Kernels of projects with names that a shell would take apart; one of them is dead, one does not answer."""
    roots = [cli.root.parent / name for name in ("a b'c", "dead", "deaf")]
    for root in roots:
        root.mkdir()
    with KernelDouble().running() as good, KernelDouble().running() as dead, socket.socket() as deaf:
        good.publish(cli.home, roots[0])
        dead.proves = False
        dead.publish(cli.home, roots[1])
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(16)
        KernelDouble().publish(cli.home, roots[2], url=f"http://127.0.0.1:{deaf.getsockname()[1]}", pid=os.getpid())
        for double in (good, dead):
            double.answers |= {
                "GET /status": STATUS, "GET /ps": PS, "GET /needs": NeedList(items=(NEED,), total=1),
                "POST /shutdown": {"status": "stopping", "version": "0"},
            }  # fmt: skip
        yield {"good": good, "dead": dead}


def test_each_project_is_listed_with_how_it_is_and_a_way_out(
    cli: Cli, kernel: KernelDouble, others: dict[str, KernelDouble], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Alive, idle, dead, silent, stopped and removed ones; what is hostile is no project; 69 for the silent one."""
    monkeypatch.setattr(projects, "ANSWER_SECONDS", 0.5)
    kernel.answers["GET /status"] = {**STATUS, "needs": 0, "agents": {"idle": 1}}
    there, gone = cli.root.parent / "stopped", cli.root.parent / "gone"
    there.mkdir()
    _noted(cli.home, there)
    state = _noted(cli.home, gone)
    for number, (text, mode) in enumerate(
        [("{", 0o600), ("[" * 5000, 0o600), ('{"project": "/x"}', 0o600), ("", 0o644)]
    ):
        _noted(cli.home, cli.root.parent / f"hostile{number}", text, mode)
    (cli.home / "projects" / "link-0123456789").symlink_to(state)
    ran = cli("projects", "--json")
    rows = {Path(row["project"]).name: row for row in ran.json()["projects"]}
    assert {name: row["state"] for name, row in rows.items()} == {
        cli.root.name: "idle", "a b'c": "up", "dead": "dead", "deaf": "silent", "stopped": "stopped", "gone": "removed",
    }  # fmt: skip
    assert (rows["a b'c"]["needs"], rows["a b'c"]["running"], ran.code) == (2, 1, 69)
    commands = {name: row["command"] for name, row in rows.items() if row["command"]}
    assert shlex.split(commands["dead"]) == ["awk", "start", "--project", str(cli.root.parent / "dead")]
    assert (commands["deaf"], commands["gone"]) == (f"kill {os.getpid()}", f"rm -r {state}")
    lines = cli("projects").out.splitlines()
    assert lines[0].split() == ["PROJECT", "STATE", "PID", "NEEDS", "RUNNING"]
    assert f"  rm -r {state}" in lines
    assert all(not double.tokens_seen for name, double in others.items() if name == "dead"), "no proof, no token"


def test_one_that_does_not_answer_hides_no_other(
    cli: Cli, kernel: KernelDouble, others: dict[str, KernelDouble], monkeypatch: pytest.MonkeyPatch
) -> None:
    """ps -A and needs -A: the others are shown, it is named, and the exit code says that it is not known (or that
    something needs you)."""
    monkeypatch.setattr(projects, "ANSWER_SECONDS", 0.5)
    kernel.answers |= {"GET /ps": problem(500, "internal", "a bug"), "GET /needs": NeedList(items=(), total=0)}
    odd = str(cli.root.parent / "a b'c")
    ran = cli("ps", "-A", "--json")
    assert ([(row["project"], row["name"]) for row in ran.json()["agents"]], ran.code) == ([(odd, "alice")], 69)
    assert (f"{cli.root}: a bug" in ran.err, "deaf" in ran.err, "dead: its kernel has exited" in ran.err) == (True,) * 3
    for named in ((), ("alice", "nobody")):
        assert shlex.split(cli("ps", "-A", "-q", *named).out) == ["alice", "--project", odd]
    needs = cli("needs", "-A", "--json")
    (command,) = (action["command"] for item in needs.json()["items"] for action in item["actions"])
    assert (shlex.split(command), needs.code) == (["awk", "approve", "a3", "--project", odd], 7)
    others["good"].answers["GET /needs"] = NeedList(items=(), total=0)
    assert cli("needs", "-A").code == 69
    assert cli("ps", "-A", "nobody").code == 69
    cli.environ[URL] = kernel.url
    assert [cli(*words).code for words in (["ps", "-A"], ["stop", "-A"], ["projects"])] == [2, 2, 2]


def test_all_kernels_are_stopped(
    cli: Cli, kernel: KernelDouble, others: dict[str, KernelDouble], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(projects, "ANSWER_SECONDS", 0.5)
    kernel.answers |= {"GET /ps": {**PS, "agents": []}, "POST /shutdown": {"status": "stopping", "version": "0"}}
    no = cli("stop", "-A", "--no-wait", stdin="n\n", terminal=True)
    assert (no.code, "alice of" in no.err) == (1, True)
    assert [double.of("POST", "/shutdown") for double in (kernel, others["good"])] == [[], []]
    ran = cli("stop", "-A", "--now", "--no-wait")
    odd = str(cli.root.parent / "a b'c")
    assert (ran.code, set(ran.out.splitlines())) == (69, {f"stopping {cli.root}", f"stopping {odd}"})
    asked = [one.body for double in (kernel, others["good"]) for one in double.of("POST", "/shutdown")]
    assert asked == [{"grace": 0.0}] * 2
