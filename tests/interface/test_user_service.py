"""service run: the kernels that are needed are there again, and nobody else's decision is undone."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from interface.clock import Clock
from interface.discovery import Project as Found
from interface.discovery import lives, recorded_endpoint
from interface.service import RESTARTS, WINDOW_SECONDS
from interface.user_service import Observation, UserService, to_start
from tests.e2e.processes import wait_until
from tests.project import Project
from tests.service_manager import settings, words

pytestmark = pytest.mark.promise("P72")


def test_what_died_or_has_something_left_to_do_is_started_and_nothing_else() -> None:
    for kernel in ("runs", "died", "none", "unknown"):
        for needed in (None, False, True):
            for starts in range(RESTARTS + 2):
                look = Observation(kernel, needed)
                wanted = kernel == "died" or (kernel == "none" and needed is True)
                assert to_start(look, [100.0] * starts, 101.0) is (wanted and starts < RESTARTS)
                assert to_start(look, [100.0] * starts, 100.0 + WINDOW_SECONDS) is wanted, "the window has passed"


@contextmanager
def serving(project: Project) -> Generator["subprocess.Popen[bytes]"]:
    """The service as a process of its own; it is told to end, and ends what it had started."""
    argv = [sys.executable, "-I", "-m", "interface", "awk", "", "service", "run"]
    process = subprocess.Popen(argv, env=dict(project.environ), stderr=subprocess.PIPE)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert process.stderr is not None
        process.stderr.close()


def test_its_unit_is_one_for_all_projects(project: Project) -> None:
    unit = project.awk("service", "print", "--all").out
    found = settings(unit)
    argv = words(found["ExecStart"][0], variables=True)
    assert argv[1:] == ["-I", "-m", "interface", "awk", "", "service", "run"]
    assert found["Type"] == ["exec"] and "WatchdogSec" not in found and "ExecStopPost" not in found
    assert str(project.root) not in unit and f"append:{project.state_home}/kernel.log" in found["StandardError"]
    told = json.loads(project.awk("service", "print", "--all", "--json").out)
    assert told["unit"] == "agent-worker.service" and told["path"].endswith("/systemd/user/agent-worker.service")


def ended_by(project: Project, number: signal.Signals) -> None:
    """Have the kernel end by a signal, and wait until it has."""
    os.kill(int(project.record()["pid"]), number)
    wait_until(lambda: not project.alive())


def test_a_killed_kernel_is_there_again_and_ends_with_the_service(project: Project) -> None:
    """kill -9, then the service: another process, the same work; at its end the kernel is stopped in order."""
    project.agent("alice", "text: done")
    assert project.awk("start").code == 0
    assert project.ended(project.send("alice"))["status"] == "done"
    found, first = Found(str(project.root), str(project.state)), int(project.record()["pid"])
    ended_by(project, signal.SIGKILL)

    def there() -> bool:
        endpoint = recorded_endpoint(found)
        return endpoint is not None and endpoint.pid != first and lives(endpoint)

    with serving(project):
        wait_until(there)
        assert project.awk("send", "alice", "again", "--wait").code == 0
    assert recorded_endpoint(found) is None, "it withdrew its record: it ended in order"


def _needed(project: Project) -> tuple[bool, str]:
    argv = ["-I", "-m", "kernel.inspect.needed", "--project", str(project.root), "--state", str(project.state)]
    ran = subprocess.run([sys.executable, *argv], env=dict(project.environ), capture_output=True, check=True)
    answer = json.loads(ran.stdout)
    return answer["needed"], answer["why"]


def test_a_kernel_is_needed_where_work_is_left_and_nobody_stopped_it(project: Project) -> None:
    assert _needed(project) == (False, "there is no log of a kernel of this version")
    project.agent("alice", "text: done")
    assert project.awk("start").code == 0
    assert project.ended(project.send("alice"))["status"] == "done"
    ended_by(project, signal.SIGTERM)
    assert _needed(project) == (False, "nothing is left to do")
    assert project.awk("start").code == 0
    assert project.awk("pause", "alice").code == 0
    assert project.awk("send", "alice", "later").code == 0
    ended_by(project, signal.SIGTERM)
    assert _needed(project) == (True, "work that has not ended")
    assert project.awk("start").code == 0
    assert project.awk("stop", "--now").code == 0
    assert _needed(project) == (False, "somebody stopped it")


def test_a_project_with_a_service_of_its_own_is_left_to_that(project: Project, tmp_path: Path) -> None:
    project.agent("alice", "text: done")
    assert project.awk("start").code == 0
    assert project.ended(project.send("alice"))["status"] == "done"
    ended_by(project, signal.SIGKILL)
    units = tmp_path / "config" / "systemd" / "user"
    units.mkdir(parents=True)
    (units / f"agent-worker-{project.state.name}.service").touch()
    said: list[str] = []
    environ = {**project.environ, "XDG_CONFIG_HOME": str(tmp_path / "config")}
    clock = Clock(time.monotonic, time.time, time.sleep)
    UserService(environ, str(tmp_path), clock, said.append).look_at_all()
    assert said == []


def test_a_program_that_cannot_say_whether_a_kernel_is_needed_is_quoted(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.agent("alice", "text: done")
    assert project.awk("start").code == 0
    assert project.awk("stop").code == 0
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho 'No module named kernel' >&2\nexit 1\n", "utf-8")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    said: list[str] = []
    clock = Clock(time.monotonic, time.time, time.sleep)
    UserService(dict(project.environ), str(tmp_path), clock, said.append).look_at_all()
    assert said == [f"{project.root}: no answer whether a kernel is needed: No module named kernel"]
