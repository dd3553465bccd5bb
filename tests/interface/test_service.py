"""service: a unit that says what it means whatever the paths are; service run starts kernels that are needed."""

import json
import os
import plistlib
import random
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from interface.clock import Clock
from interface.discovery import Project as Found
from interface.discovery import lives, recorded_endpoint
from interface.failure import Failure
from interface.service import (
    RESTARTS,
    WINDOW_SECONDS,
    Observation,
    Service,
    UserService,
    plist_text,
    to_start,
    unit_path,
    unit_text,
)
from protocol.discovery import project_slug
from tests.e2e.processes import wait_until
from tests.interface.conftest import Cli
from tests.interface.kernel_double import KernelDouble
from tests.project import Project
from tests.service_manager import settings, words

pytestmark = pytest.mark.promise("P72")

LETTERS = "ab %$\"'\\é漢\n\t;#=@-:&*~`{}"


def _service(root: str, state: str = "/home/u/.agent-worker/projects/p-0", **more: Any) -> Service:
    environ = {"PATH": "/usr/bin:/opt/a b%/bin", **more.pop("environ", {})}
    argv = ["/opt/py 100%/bin/python", "-I", "-m", "kernel", "--project", root]
    return Service(root=root, state=state, argv=argv, environ=environ, keys_file="/home/u/.config/k.env", **more)


def test_whatever_the_paths_are_the_unit_runs_what_was_meant() -> None:
    """Five hundred odd names, read again as systemd reads them; what it cannot say is refused, and never said wrong."""
    chance = random.Random(17)
    refused = 0
    for _ in range(500):
        root = "/" + "".join(chance.choices(LETTERS, k=chance.randrange(1, 12)))
        state = "/" + "".join(chance.choices(LETTERS, k=chance.randrange(1, 6)))
        service = _service(root, state, environ={"AGENT_WORKER_HOME": root})
        try:
            unit = unit_text(service)
        except Failure:
            refused += 1
            with pytest.raises(Failure):
                unit_path(state + "/kernel.log")
            continue
        found = settings(unit)
        assert words(found["ExecStart"][0], variables=True) == list(service.argv)
        values = [words(line, variables=False) for line in found["Environment"]]
        assert [f"AGENT_WORKER_HOME={root}"] in values and ["PATH=/usr/bin:/opt/a b%/bin"] in values
        assert [f"AGENT_WORKER_SERVICE=agent-worker-{project_slug(root)}.service"] in values
        assert found["StandardError"] == [f"append:{state}/kernel.log".replace("%", "%%")]
        assert words(found["ExecStopPost"][0].removeprefix("-"), variables=True)[-1] == f"{state}/ended"
        assert len(unit.splitlines()) == len(unit_text(_service("/p")).splitlines()) + 1, "no line of somebody else's"
    assert 0 < refused < 500


@pytest.mark.parametrize("words_", [("signal", "killed", "KILL"), ("success", "exited", "0")])
def test_the_shell_behind_it_notes_how_the_kernel_ended(words_: tuple[str, str, str], tmp_path: Path) -> None:
    state = tmp_path / "it's $HOME %h"
    state.mkdir()
    argv = words(settings(unit_text(_service("/p", str(state))))["ExecStopPost"][0].removeprefix("-"), variables=True)
    told: dict[str, str] = dict(zip(("SERVICE_RESULT", "EXIT_CODE", "EXIT_STATUS"), words_, strict=True))
    subprocess.run(argv, env=told, check=True, timeout=30)
    assert (state / "ended").read_text() == " ".join(words_) + "\n"
    assert stat.S_IMODE((state / "ended").stat().st_mode) == 0o600


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_finds_nothing_wrong_with_it(tmp_path: Path) -> None:
    root = tmp_path / "a 100% b'c\"é"
    root.mkdir()
    service = _service(str(root), str(tmp_path))._replace(argv=[shutil.which("true") or "", "--project", str(root)])
    unit = tmp_path / f"{service.name}.service"
    unit.write_text(unit_text(service))
    environ = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path), "HOME": str(tmp_path)}
    ran = subprocess.run(
        ["systemd-analyze", "--user", "verify", str(unit)], env=environ, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, [line for line in ran.stderr.splitlines() if unit.name in line]) == (0, [])


def test_a_property_list_says_the_same() -> None:
    service = _service("/p & <q>\"'é", environ={"AGENT_WORKER_HOME": "/h"})
    found = plistlib.loads(plist_text(service).encode())
    assert found["ProgramArguments"] == list(service.argv)
    assert (found["KeepAlive"], found["WorkingDirectory"]) == ({"SuccessfulExit": False}, service.root)
    assert found["EnvironmentVariables"]["AGENT_WORKER_SERVICE"] == found["Label"]
    with pytest.raises(Failure):
        plist_text(_service("/p\x01"))


@pytest.fixture
def systemctl(cli: Cli, tmp_path: Path) -> Path:
    """A systemctl that writes down what it was asked; its exit code is in a file."""
    folder = tmp_path / "bin"
    folder.mkdir()
    asked = tmp_path / "asked"
    asked.touch()
    (tmp_path / "code").write_text("0")
    program = folder / "systemctl"
    program.write_text(f'#!/bin/sh\necho "$*" >> "{asked}"\nexit "$(cat "{tmp_path}/code")"\n')
    program.chmod(0o755)
    cli.environ |= {"PATH": f"{folder}:{os.environ['PATH']}", "HOME": str(tmp_path / "h"), "XDG_CONFIG_HOME": ""}
    return asked


def test_it_is_installed_and_removed_again(cli: Cli, systemctl: Path, tmp_path: Path) -> None:
    printed = cli("service", "print")
    told = cli("service", "install", "--json").json()
    path = Path(told["path"])
    assert (told["started"], told["commands"], path.read_text()) == (True, [], printed.out)
    unit = path.name
    assert path.parent == tmp_path / "h/.config/systemd/user"
    asked = systemctl.read_text().splitlines()
    assert asked[1:] == ["--user daemon-reload", f"--user enable {unit}", f"--user start {unit}"]
    (tmp_path / "code").write_text("1")
    told = cli("service", "install", "--json").json()
    assert told["commands"] == [f"systemctl {line}" for line in asked[1:]]
    wants = path.parent / "default.target.wants"
    wants.mkdir()
    (wants / unit).symlink_to(path)
    told = cli("service", "uninstall", "--json").json()
    assert told["commands"] == [f"systemctl --user stop {unit}", "systemctl --user daemon-reload"]
    assert (path.exists(), os.listdir(wants)) == (False, [])
    again = cli("service", "uninstall")
    assert (again.code, again.out) == (0, f"{unit} is not installed\n")


def test_what_is_not_ours_is_left_alone(cli: Cli, systemctl: Path) -> None:
    path = Path(cli("service", "print", "--json").json()["path"])
    path.parent.mkdir(parents=True)
    path.write_text("[Service]\nExecStart=/bin/true\n")
    assert [cli("service", verb).code for verb in ("install", "uninstall")] == [1, 1]
    assert path.read_text() == "[Service]\nExecStart=/bin/true\n"
    path.unlink()
    path.symlink_to("/etc/passwd")
    assert [cli("service", verb).code for verb in ("install", "uninstall")] == [1, 1]
    assert systemctl.read_text() == ""


def test_a_kernel_that_runs_is_not_taken_over_unasked(cli: Cli, kernel: KernelDouble, systemctl: Path) -> None:
    told = cli("service", "install", "--json").json()
    assert told["started"] is False
    stop, start = told["commands"]
    assert (stop.startswith("awk stop --project "), start) == (True, f"systemctl --user start {told['unit']}")
    assert "start" not in systemctl.read_text()


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


@pytest.fixture
def worked(project: Project) -> Project:
    """A kernel whose alice has done her work."""
    project.agent("alice", "text: done")
    assert project.awk("start").code == 0
    assert project.ended(project.send("alice"))["status"] == "done"
    return project


def ended_by(project: Project, number: signal.Signals) -> None:
    """Have the kernel end by a signal, and wait until it has."""
    os.kill(int(project.record()["pid"]), number)
    wait_until(lambda: not project.alive())


def test_a_killed_kernel_is_there_again_and_ends_with_the_service(worked: Project) -> None:
    """kill -9, then the service: another process, the same work; at its end the kernel is stopped in order."""
    project = worked
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
    assert _needed(project) == (False, "no log of this version found")
    project.agent("alice", "text: done")
    assert project.awk("start").code == 0
    assert project.ended(project.send("alice"))["status"] == "done"
    ended_by(project, signal.SIGTERM)
    assert _needed(project) == (False, "no work is left")
    assert project.awk("start").code == 0
    assert project.awk("pause", "alice").code == 0
    assert project.awk("send", "alice", "later").code == 0
    ended_by(project, signal.SIGTERM)
    assert _needed(project) == (True, "work that has not ended")
    assert project.awk("start").code == 0
    assert project.awk("stop", "--now").code == 0
    assert _needed(project) == (False, "a user stopped it")


def test_a_project_with_a_service_of_its_own_is_left_to_that(worked: Project, tmp_path: Path) -> None:
    project = worked
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
    assert said == [f"{project.root}: could not check whether a kernel is needed: No module named kernel"]
