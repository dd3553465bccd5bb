"""The kernel's program is replaced while agents work, and none of them notices."""

import sys
from pathlib import Path
from typing import Any, Final

import pytest

from kernel.boot.replacement import PATIENCE
from protocol.version import VERSION
from tests.e2e.processes import wait_until
from tests.e2e.versions import make_version
from tests.project import Project

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="an exec keeps what a file in memory holds")

HOLD = "sh -c 'while [ ! -e go ]; do sleep 0.02; done'"
"""A shell action that the worker waits for until the file is there."""


def upgrade(project: Project, to: str | None = None) -> dict[str, Any]:
    """Ask for an upgrade, and return how it ended."""
    asked = project.ask("POST", "/upgrade", {} if to is None else {"to": to})
    told: list[dict[str, Any]] = []

    def over() -> bool:
        told.append(project.ask("GET", "/upgrade"))
        return told[-1]["id"] == asked["id"] and told[-1]["state"] in ("done", "failed")

    wait_until(over, seconds=90)
    return told[-1]


def attempts_of(project: Project, instruction: str) -> list[tuple[int, str]]:
    """The attempts of an instruction at its end: the number of each among those that are charged, and how it ended."""
    project.ended(instruction)
    project.until("attempt.ended", holds=lambda event: bool(event["instruction"] == instruction))
    return [(one["n"], one["outcome"]) for one in project.ask("GET", f"/instructions/{instruction}")["attempts"]]


@pytest.mark.promise("P92")
def test_an_agent_at_work_goes_on_where_it_was(project: Project) -> None:
    """The same process, port and token; one attempt, whose tool ran while the kernel was replaced."""
    project.agent("alice", "text: first", f'shell: "{HOLD}"', "text: finished")
    assert project.awk("start", "--trust").code == 0
    before = project.record()
    instruction = project.send("alice")
    project.until("attempt.started")
    told = upgrade(project)
    assert (told["state"], told["attempts"], told["reason"]) == ("done", 1, None)
    after = project.record()
    assert [after[name] for name in ("pid", "port", "token")] == [before[name] for name in ("pid", "port", "token")]
    (project.root / "go").touch()
    assert attempts_of(project, instruction) == [(1, "done")]
    assert project.ended(instruction)["text"] == "finished"


@pytest.mark.promise("P92")
def test_another_version_takes_over_and_starts_new_workers_itself(project: Project, tmp_path: Path) -> None:
    """Who works finishes on the old code; who begins afterwards is a worker of the new version."""
    other = make_version(tmp_path / "other", "9.9.9")
    project.agent("alice", f'shell: "{HOLD}"', "text: finished")
    project.agent("bob", "text: of the new")
    assert project.awk("start", "--trust").code == 0
    before = project.record()
    old = project.send("alice")
    project.until("attempt.started")
    ran = project.awk("upgrade", "--to", str(other))
    assert (ran.code, ran.out.split(": ")[0]) == (0, f"upgraded from {VERSION} to 9.9.9")
    assert project.record()["version"] == "9.9.9"
    assert project.record()["pid"] == before["pid"]
    assert project.ended(project.send("bob"))["text"] == "of the new"
    (project.root / "go").touch()
    assert attempts_of(project, old) == [(1, "done")]
    told = project.until("kernel.upgraded")["data"]
    assert (told["from"], told["to"], told["attempts"]) == (VERSION, "9.9.9", 1)
    back = upgrade(project, str(Path(sys.executable).parent.parent))
    assert (back["before"], back["to"], back["state"]) == ("9.9.9", VERSION, "done")


BROKEN: Final = {
    "cannot be imported": ({"kernel__app": "import nothing_of_that_name"}, "nothing_of_that_name"),
    "ends at once": ({"kernel__boot__arguments": "raise SystemExit(3)"}, "exit code 3"),
    "says nothing": ({"kernel__boot__arguments": "import time; time.sleep(600)"}, "said nothing for"),
    "has no workers": ({"worker__zygote": "import nothing_for_workers"}, "nothing_for_workers"),
    "cannot read the table": ({"kernel__services__handover": "OLDEST = FORMAT = 2"}, "it hands over format 1"),
    "raises when it takes over": (
        {"kernel__adoption": "def _get_ready(*_): raise RuntimeError('not me')"},
        "could not take over: RuntimeError: not me",
    ),
    "dies when it takes over": (
        {"kernel__adoption": "def _get_ready(boot, *_):\n    boot.token and os._exit(9)"},
        "ended before it was ready",
    ),
    "hangs when it takes over": (
        {"kernel__adoption": "import time\ndef _get_ready(*_): time.sleep(600)"},
        "said nothing for",
    ),
}


@pytest.mark.promise("P93")
@pytest.mark.parametrize("kind", BROKEN)
def test_a_version_that_cannot_take_over_leaves_the_old_one_at_work(
    project: Project, tmp_path: Path, kind: str
) -> None:
    """Whatever it breaks at, the work that was under way goes on in its one attempt."""
    broken, said = BROKEN[kind]
    other = make_version(tmp_path / "other", "9.9.9", **broken)
    project.agent("alice", f'shell: "{HOLD}"', "text: finished")
    project.agent("bob", "text: still here")
    assert project.awk("start", "--trust", env={PATIENCE: "4"}).code == 0
    instruction = project.send("alice")
    project.until("attempt.started")
    ran = project.awk("upgrade", "--to", str(other / "bin" / "python"))
    assert (ran.code, said in ran.err) == (1, True), ran
    assert project.record()["version"] == VERSION
    assert project.ended(project.send("bob"))["text"] == "still here"
    (project.root / "go").touch()
    assert attempts_of(project, instruction) == [(1, "done")]
    assert said in project.until("kernel.upgrade_failed")["data"]["reason"]
