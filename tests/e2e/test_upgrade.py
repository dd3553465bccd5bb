"""The kernel's program is replaced while agents work, and none of them notices."""

import http.client
import json
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from kernel.boot.replacement import PATIENCE
from kernel.fault_injection import AT
from kernel.store.schema import migrations
from protocol.discovery import VERSION
from tests.e2e.processes import wait_until
from tests.e2e.versions import append, make_version
from tests.project import TRUST, Project
from tests.worker.scripted_api import Call, Say, ScriptedApi

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="an exec keeps what a file in memory holds")

HOLD = "sh -c 'while [ ! -e go ]; do sleep 0.02; done'"
"""A shell action that the worker waits for until the file is there."""


def upgrade(project: Project, to: str | None = None) -> dict[str, Any]:
    asked = project.ask("POST", "/upgrade", {} if to is None else {"to": to})
    told: list[dict[str, Any]] = []

    def over() -> bool:
        told.append(project.ask("GET", "/upgrade"))
        return told[-1]["id"] == asked["id"] and told[-1]["state"] in ("done", "failed")

    wait_until(over, seconds=90)
    return told[-1]


def attempts_of(project: Project, instruction: str) -> tuple[int, list[str]]:
    """The attempts of an instruction at its end: how many were charged, and how each has ended."""

    def shown() -> dict[str, Any]:
        found: dict[str, Any] = project.ask("GET", f"/instructions/{instruction}")
        return found

    project.ended(instruction)
    wait_until(lambda: all(one["outcome"] for one in shown()["attempts"]))
    return shown()["tried"], [one["outcome"] for one in shown()["attempts"]]


def finishes(project: Project, instruction: str) -> None:
    """What waits for its file goes on, and ends in the attempt that it is in."""
    (project.root / "go").touch()
    assert attempts_of(project, instruction) == (1, ["done"])


def at_work(project: Project, **env: str) -> str:
    """Start a kernel, and an agent whose second step waits for a file. Returns its instruction."""
    project.agent("alice", "text: first", f'shell: "{HOLD}"', "text: finished")
    assert project.awk("start", "--trust", env=env).code == 0
    instruction = project.send("alice")
    project.until("instruction.step")
    return instruction


@pytest.mark.promise("P92")
def test_an_agent_at_work_goes_on_where_it_was(project: Project) -> None:
    instruction = at_work(project)
    before = project.record()
    told = upgrade(project)
    assert (told["state"], told["attempts"], told["reason"]) == ("done", 1, None)
    after = project.record()
    assert [after[name] for name in ("pid", "port", "token")] == [before[name] for name in ("pid", "port", "token")]
    finishes(project, instruction)
    assert project.ended(instruction)["text"] == "finished"


@pytest.mark.promise("P92")
def test_a_model_request_is_finished_before_and_a_new_one_is_answered_after(project: Project) -> None:
    """alice's answer is on its way, so the upgrade waits; bob asks meanwhile, and the next kernel has his request."""
    hold = threading.Event()
    command = json.dumps({"command": "touch began; while [ ! -e go ]; do sleep 0.02; done"})
    with ScriptedApi([Say(calls=(Call("bash", command),))], Say(text="fine", hold=hold)) as api:
        for name in ("alice", "bob"):
            where = {"name": "scripted", "base_url": api.anthropic_url, "dialect": "anthropic", "api_key": "$A_KEY"}
            keys = "prompt: {system: hi}\ntools: [bash]\napproval: auto\n"
            project.write(f".agents/{name}.yaml", f"model: scripted/m\nprovider: {json.dumps(where)}\n{keys}")
        assert project.awk("start", "--trust", env={"A_KEY": "sk-canary"}).code == 0
        bob = project.send("bob")
        wait_until((project.root / "began").exists)
        alice = project.send("alice")
        wait_until(lambda: len(api.requests) == 2)
        project.ask("POST", "/upgrade", {})
        wait_until(lambda: project.ask("GET", "/upgrade")["state"] == "waiting")
        (project.root / "go").touch()
        wait_until(lambda: "tool" in str(project.ask("GET", f"/instructions/{bob}/entries")))
        assert len(api.requests) == 2
        hold.set()
        wait_until(lambda: project.ask("GET", "/upgrade")["state"] in ("done", "failed"), seconds=90)
        assert project.ask("GET", "/upgrade")["state"] == "done"
        assert [attempts_of(project, one) for one in (alice, bob)] == [(1, ["done"])] * 2
    assert len(api.requests) == 3


@pytest.mark.long("tests/kernel/services/test_handover.py, tests/kernel/procs/test_handed_over.py")
@pytest.mark.promise("P92")
def test_another_version_takes_over_and_starts_new_workers_itself(project: Project, tmp_path: Path) -> None:
    other = make_version(tmp_path / "other", "9.9.9")
    project.agent("bob", "text: of the new")
    old = at_work(project)
    before = project.record()
    ran = project.awk("upgrade", "--to", str(other))
    assert (ran.code, ran.out.split(": ")[0]) == (0, f"upgraded from {VERSION} to 9.9.9")
    assert project.record()["version"] == "9.9.9"
    assert project.record()["pid"] == before["pid"]
    assert project.ended(project.send("bob"))["text"] == "of the new"
    finishes(project, old)
    told = project.until("kernel.upgraded")["data"]
    assert (told["from"], told["to"], told["attempts"]) == (VERSION, "9.9.9", 1)
    back = upgrade(project, str(Path(sys.executable).parent.parent))
    assert (back["before"], back["to"], back["state"]) == ("9.9.9", VERSION, "done")


BROKEN: Final = {
    "cannot be imported": ({"kernel__app": "import nothing_of_that_name"}, "nothing_of_that_name"),
    "ends at once": ({"kernel__boot__arguments": "raise SystemExit(3)"}, "exit code 3"),
    "says nothing": ({"kernel__boot__arguments": "import time; time.sleep(600)"}, "did not answer within"),
    "has no workers": ({"worker__fork__preload": "import nothing_for_workers"}, "nothing_for_workers"),
    "cannot read the table": ({"kernel__services__handover": "OLDEST = FORMAT = 2"}, "handover has format 1"),
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
        "did not respond for",
    ),
}


SHORT: Final = "raises when it takes over"
LONG: Final = pytest.mark.long("tests/kernel/boot/test_replacement.py, tests/kernel/services/test_handover.py")


@pytest.mark.promise("P93")
@pytest.mark.parametrize("kind", [pytest.param(kind, marks=() if kind == SHORT else LONG) for kind in BROKEN])
def test_a_version_that_cannot_take_over_leaves_the_old_one_at_work(
    project: Project, tmp_path: Path, kind: str
) -> None:
    broken, said = BROKEN[kind]
    other = make_version(tmp_path / "other", "9.9.9", **broken)
    project.agent("bob", "text: still here")
    instruction = at_work(
        project, **{PATIENCE: {"says nothing": "3", "hangs when it takes over": "15"}.get(kind, "60")}
    )
    ran = project.awk("upgrade", "--to", str(other / "bin" / "python"))
    assert (ran.code, said in ran.err) == (1, True), ran
    assert project.record()["version"] == VERSION
    assert project.ended(project.send("bob"))["text"] == "still here"
    finishes(project, instruction)
    assert said in project.until("kernel.upgrade_failed")["data"]["reason"]


@pytest.mark.long("tests/kernel/store/test_upgrade.py")
@pytest.mark.promise("P92")
@pytest.mark.parametrize(
    "point",
    ["upgrade.tried", "upgrade.stopped", "upgrade.packed", "upgrade.decoded", "upgrade.opened", "upgrade.ready"],
)
def test_a_kernel_killed_in_an_upgrade_is_recovered_like_any_other(project: Project, point: str) -> None:
    instruction = at_work(project, **{AT: f"{point}:1"})
    project.ask("POST", "/upgrade", {})
    wait_until(lambda: not project.alive())
    (project.root / "go").touch()
    assert project.awk("start", "--trust").code == 0
    assert attempts_of(project, instruction) == (1, ["kernel_restart", "done"])
    assert project.ended(instruction)["text"] == "finished"


@pytest.mark.long("tests/kernel/boot/test_replacement.py, tests/kernel/services/test_handover.py")
@pytest.mark.promise("P93")
def test_a_program_killed_in_the_moment_of_its_exec_is_followed_by_its_guardian(project: Project) -> None:
    instruction = at_work(project, **{AT: "upgrade.exec:1"})
    before = project.record()
    project.ask("POST", "/upgrade", {})
    wait_until(lambda: project.record()["pid"] != before["pid"])
    assert [project.record()[name] for name in ("port", "token")] == [before[name] for name in ("port", "token")]
    finishes(project, instruction)
    assert project.ask("GET", "/upgrade")["reason"] == "the new version ended before it was ready"


@pytest.mark.long("tests/kernel/boot/test_replacement.py, tests/kernel/services/test_handover.py")
def test_a_guardian_that_is_killed_is_missed_by_nobody(project: Project) -> None:
    instruction = at_work(project, **{AT: "upgrade.dismissed:1"})
    assert upgrade(project)["state"] == "done"
    finishes(project, instruction)


@pytest.mark.long("tests/kernel/boot/test_replacement.py, tests/kernel/services/test_handover.py")
@pytest.mark.promise("P93")
def test_a_version_installed_over_the_one_that_runs_need_not_work_either(project: Project, tmp_path: Path) -> None:
    other = make_version(tmp_path / "other", "9.9.9")
    instruction = at_work(project)
    assert upgrade(project, str(other))["state"] == "done"
    append(other, "protocol__discovery", 'VERSION = "10.0.0"')
    append(other, "kernel__adoption", "def _get_ready(*_): raise RuntimeError('not me')")
    told = upgrade(project)
    assert (told["before"], told["to"], told["state"]) == ("9.9.9", "10.0.0", "failed")
    assert told["reason"] == "version 10.0.0 could not take over: RuntimeError: not me"
    assert project.record()["version"] == "9.9.9"
    finishes(project, instruction)


@pytest.mark.long("tests/kernel/services/test_handover.py, tests/kernel/procs/test_handed_over.py")
@pytest.mark.promise("P92")
def test_a_call_that_waits_for_a_person_is_made_again_and_asks_once(project: Project) -> None:
    asks = 'agent-worker call auth_request \'{\\"tool\\": \\"deploy\\", \\"input\\": {}}\' > said'
    project.agent("alice", f'shell: "{asks}"', "text: finished")
    assert project.awk("start", "--trust").code == 0
    instruction = project.send("alice")
    asked = str(project.until("approval.requested")["data"]["id"])
    for _ in range(2):
        assert upgrade(project)["state"] == "done"
    rows = project.awk("pending", "--json").json()["approvals"]
    assert [row["id"] for row in rows] == [asked]
    assert project.awk("approve", asked).code == 0
    assert attempts_of(project, instruction) == (1, ["done"])
    assert json.loads((project.root / "said").read_text())["decision"] == "granted"


@pytest.mark.long("tests/kernel/services/test_handover.py, tests/kernel/procs/test_handed_over.py")
@pytest.mark.promise("P92")
def test_who_follows_the_work_and_who_speaks_meanwhile_notices_nothing(project: Project) -> None:
    project.agent("alice", f'shell: "{HOLD}"', "text: finished")
    project.agent("bob", "text: heard")
    assert project.awk("start", "--trust").code == 0
    with project.spawn("send", "alice", "go", "--wait", env=TRUST) as following:
        project.until("attempt.started")
        asked = project.ask("POST", "/upgrade", {})
        said = [project.send("bob", f"{n}") for n in range(20)]
        wait_until(lambda: project.ask("GET", "/upgrade")["state"] == "done", seconds=60)
        assert project.ask("GET", "/upgrade")["id"] == asked["id"]
        (project.root / "go").touch()
        out, err = following.communicate(timeout=60)
    assert (following.returncode, out.strip().splitlines()[-1]) == (0, "finished"), err
    assert [project.ended(one)["text"] for one in said] == ["heard"] * 20


@pytest.mark.long("tests/kernel/services/test_handover.py, tests/kernel/procs/test_handed_over.py")
@pytest.mark.promise("P92")
def test_workers_of_the_exec_launcher_go_on_too(project: Project) -> None:
    instruction = at_work(project, AGENT_WORKER_LAUNCHER="exec")
    assert upgrade(project)["attempts"] == 1
    finishes(project, instruction)
    kernel = project.kernel()
    wait_until(lambda: not kernel.children())


@pytest.mark.long("tests/kernel/services/test_handover.py, tests/kernel/procs/test_handed_over.py")
@pytest.mark.parametrize("point", ["stopped", "handed_over", "packed", "decoded", "migrated"])
def test_a_kernel_that_is_told_to_stop_in_an_upgrade_stops(project: Project, point: str) -> None:
    instruction = at_work(project, **{AT: f"upgrade.{point}:1/SIGTERM"})
    project.ask("POST", "/upgrade", {})
    wait_until(lambda: not project.alive())
    assert "kernel.stopped" in (project.state / "kernel.log").read_text()
    (project.root / "go").touch()
    assert project.awk("start", "--trust").code == 0
    assert attempts_of(project, instruction)[0] == 1


@pytest.mark.parametrize(
    ("to", "said"), [("relative", "is not absolute"), ("/nowhere/at/all", "neither a virtual environment nor")]
)
def test_what_is_no_version_is_refused_before_anything_happens(shared_kernel: Project, to: str, said: str) -> None:
    record = shared_kernel.record()
    connection = http.client.HTTPConnection(record["host"], record["port"], timeout=20)
    with closing(connection):
        headers = {"Authorization": f"Bearer {record['token']}", "Content-Type": "application/json"}
        connection.request("POST", "/upgrade", json.dumps({"to": to}), headers)
        answer = connection.getresponse()
        assert (answer.status, said in json.loads(answer.read())["detail"]) == (400, True)
    assert shared_kernel.ask("GET", "/upgrade")["state"] == "none"


@pytest.mark.long("tests/kernel/store/test_upgrade.py")
@pytest.mark.promise("P93")
def test_the_schema_is_brought_up_to_date_once_there_is_no_way_back(project: Project, tmp_path: Path) -> None:
    number = max(migrations()) + 1
    for name, script in (("bad", "SELECT a FROM nowhere;"), ("good", "CREATE TABLE upgraded_to (a) STRICT;")):
        other = make_version(tmp_path / name, "9.9.9")
        file = other / "tree" / "kernel" / "store" / f"{number:04}_next.sql"
        file.write_text(f"{script.replace('(a)', '(a TEXT)')}\nPRAGMA user_version = {number};\n")
    instruction = at_work(project)
    bad = upgrade(project, str(tmp_path / "bad"))
    assert (bad["state"], "no such table: nowhere" in bad["reason"]) == ("failed", True)
    assert upgrade(project, str(tmp_path / "good"))["state"] == "done"
    back = upgrade(project, str(Path(sys.executable).parent.parent))
    assert (back["state"], f"has schema {number}, newer than" in back["reason"]) == ("failed", True)
    finishes(project, instruction)
