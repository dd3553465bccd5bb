"""Starting the kernel: once, detached, and with a clear message where it does not come up. Real processes."""

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from interface import autostart
from interface.autostart import Starter
from interface.clock import Clock
from interface.discovery import Project, find_project
from interface.failure import Failure, Unreachable
from protocol.api.processes import Ps
from tests.interface.conftest import Cli
from tests.interface.kernel_double import KernelDouble

FAKE = Path(__file__).with_name("fake_kernel.py")
CLOCK = Clock(time.monotonic, time.time, time.sleep)


@pytest.fixture
def project(cli: Cli) -> Project:
    return find_project(cli.environ, str(cli.root), None)


@pytest.fixture
def behave(monkeypatch: pytest.MonkeyPatch, project: Project) -> Iterator[Callable[[str], None]]:
    """Say what a process does that is started as a kernel; those that live are ended afterwards."""

    def choose(behaviour: str) -> None:
        def command(project: Project, *flags: str) -> list[str]:
            return [sys.executable, "-I", "-S", str(FAKE), project.state, behaviour]

        monkeypatch.setattr(autostart, "command", command)

    yield choose
    for pid in _started(project):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for child in psutil.Process().children():
        if child.status() == psutil.STATUS_ZOMBIE or child.pid in _started(project):
            os.waitpid(child.pid, 0)


def _started(project: Project) -> list[int]:
    return [int(path.suffix[1:]) for path in Path(project.state).glob("started.*")]


def _facts(project: Project) -> dict[str, Any]:
    (path,) = Path(project.state).glob("started.*")
    facts: dict[str, Any] = json.loads(path.read_text())
    return facts


def _starter(project: Project, environ: dict[str, str], **more: Any) -> Starter:
    said: list[str] = []
    return Starter(project, environ, CLOCK, said.append, **more)


@pytest.mark.promise("PF19")
def test_a_kernel_is_started_detached(cli: Cli, project: Project, behave: Callable[[str], None]) -> None:
    """Own session, project as directory, umask 077, an environment that steers nothing."""
    behave("serve")
    hostile = {
        "PYTHONPATH": "/evil",
        "LD_PRELOAD": "/evil.so",
        "GIT_DIR": "/evil",
        "ANTHROPIC_API_KEY": "k",
        "LANG": "C",
    }
    starter = _starter(project, {**cli.environ, **hostile})
    starter.client().close()
    facts = _facts(project)
    assert (facts["session"], facts["cwd"], facts["umask"]) == (True, str(cli.root), 0o077)
    environ = {name: value for name, value in facts["environ"].items() if name != "LC_CTYPE"}
    assert environ == {**cli.environ, "ANTHROPIC_API_KEY": "k", "LANG": "C"}


def test_its_state_is_closed_to_others(cli: Cli, project: Project, behave: Callable[[str], None]) -> None:
    behave("serve")
    cli.home.rmdir()
    starter = _starter(project, cli.environ)
    starter.client().close()
    for directory in (cli.home, cli.home / "projects", project.state):
        assert os.stat(directory).st_mode & 0o777 == 0o700
    assert os.stat(Path(project.state) / "kernel.log").st_mode & 0o777 == 0o600


@pytest.mark.promise("PF13")
@pytest.mark.long("the other tests of this file")
def test_fifty_at_once_start_exactly_one(cli: Cli, project: Project, behave: Callable[[str], None]) -> None:
    behave("serve")
    starters = [_starter(project, cli.environ) for _ in range(50)]
    with ThreadPoolExecutor(50) as pool:
        clients = list(pool.map(Starter.client, starters))
    for client in clients:
        client.close()
    started = _started(project)
    left = [child.pid for child in psutil.Process().children() if child.status() != psutil.STATUS_ZOMBIE]
    assert left == started
    assert len(started) == 1
    assert {client.endpoint.pid for client in clients} == set(started)


def test_a_kernel_that_runs_is_used(
    cli: Cli, project: Project, kernel: KernelDouble, behave: Callable[[str], None]
) -> None:
    behave("fail")
    _starter(project, cli.environ).client().close()
    assert not (Path(project.state) / "kernel.log").exists()


@pytest.mark.promise("HF27", "PF12")
def test_a_squatter_on_the_recorded_port_is_passed_by(
    cli: Cli, project: Project, behave: Callable[[str], None]
) -> None:
    behave("serve")
    with KernelDouble(proves=False).running() as squatter:
        squatter.publish(cli.home, cli.root)
        said: list[str] = []
        starter = Starter(project, cli.environ, CLOCK, said.append)
        client = starter.client()
        client.close()
        assert [client.endpoint.pid] == _started(project)
    assert squatter.tokens_seen == []
    assert len(said) == 1
    assert "is not the kernel" in said[0]


@pytest.mark.parametrize(
    ("behaviour", "code", "kind"), [("fail", 1, "no_kernel"), ("fail-config", 78, "kernel_configuration")]
)
def test_a_kernel_that_does_not_come_up_is_quoted(
    behaviour: str, code: int, kind: str, cli: Cli, project: Project, behave: Callable[[str], None]
) -> None:
    """Errors say what, where, what to do: the end of its log, from this start only."""
    behave(behaviour)
    Path(project.state).mkdir(parents=True)
    (Path(project.state) / "kernel.log").write_text("of another day\n")
    with pytest.raises(Failure) as caught:
        _starter(project, cli.environ).client()
    assert caught.value.code == kind
    assert (
        caught.value.text
        == f"the kernel ended with {code} before it was ready\n  | the database is newer than this program"
    )
    assert "kernel.log" in (caught.value.hint or "")


@pytest.mark.promise("CF07")
def test_a_project_file_that_keeps_the_kernel_from_starting_is_shown_with_its_places(
    cli: Cli, project: Project, behave: Callable[[str], None]
) -> None:
    behave("fail-config")
    Path(project.state).mkdir(parents=True)
    (Path(project.root) / "moniro.yaml").write_text("starvation: soon\nlimits: {workers: none}\n")
    ran = cli("start")
    assert (ran.code, ran.out) == (78, "")
    assert ran.err.splitlines()[:4] == [
        "error: starvation: needs a duration, has 'soon'",
        "  at moniro.yaml:1:13 starvation",
        "    starvation: soon",
        "                ^",
    ]
    assert "  at moniro.yaml:2:19 limits.workers: needs a whole number, has 'none'" in ran.err
    assert "kernel.log" not in ran.err
    (Path(project.root) / "moniro.yaml").write_text("starvation: 5m\n")
    assert "kernel.log" in cli("start").err


def test_a_kernel_that_hangs_is_not_waited_for_for_ever(cli: Cli, project: Project, kernel: KernelDouble) -> None:
    kernel.status = "starting"
    now = iter(range(1000))

    def pause(seconds: float) -> None:
        pass

    starter = Starter(project, cli.environ, Clock(lambda: float(next(now)), time.time, pause), lambda text: None)
    with pytest.raises(Failure, match="not ready after 30 s"):
        starter.client()


def test_who_may_only_wait_never_starts(cli: Cli, project: Project) -> None:
    """contracts 7: a command that looks finds a kernel that is just starting; if it goes away, so be it."""
    with pytest.raises(Unreachable):
        _starter(project, cli.environ, may_spawn=False).client()
    assert not Path(project.state).exists()


def test_a_command_that_looks_waits_for_a_kernel_that_starts(cli: Cli, kernel: KernelDouble) -> None:
    kernel.status = "starting"
    kernel.answers["GET /ps"] = Ps(agents=())
    calm = cli.pause

    def ready_after_three(seconds: float) -> None:
        calm(seconds)
        if len(cli.waited) == 3:
            kernel.status = "ok"

    cli.pause = ready_after_three  # type: ignore[method-assign]
    assert cli("ps", "--json").code == 0
    assert len(cli.waited) == 3


def test_state_that_cannot_be_written_is_a_configuration_error(cli: Cli) -> None:
    (cli.home / "projects").write_text("in the way")
    ran = cli("start")
    assert (ran.code, "kernel.log" in ran.err, "AGENT_WORKER_HOME" in ran.err) == (78, True, True)


def test_start_and_stop_leave_nothing(cli: Cli, project: Project, behave: Callable[[str], None]) -> None:
    behave("serve")
    started = cli("start")
    (pid,) = _started(project)
    assert (started.code, started.out.startswith(f"kernel {pid} at http://127.0.0.1:")) == (0, True)
    stopped = cli("stop")
    assert (stopped.code, stopped.out) == (0, "stopped\n")
    assert Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0] == "Z"
    again = cli("stop")
    assert (again.code, "no kernel is running" in again.err) == (0, True)


@pytest.mark.promise("PF12")
def test_a_kernel_whose_record_is_not_believed_is_told_of(
    cli: Cli, project: Project, behave: Callable[[str], None], kernel: KernelDouble
) -> None:
    behave("gives-way")
    record = kernel.publish(cli.home, cli.root)
    record.chmod(0o644)
    began = time.monotonic()
    with pytest.raises(Failure, match="mode 0644"):
        _starter(project, cli.environ).client()
    assert time.monotonic() - began < 10


def test_trust_for_a_kernel_that_runs_already_is_not_swallowed(cli: Cli, kernel: KernelDouble) -> None:
    ran = cli("start", "--trust")
    assert (ran.code, "--trust has no effect" in ran.err) == (0, True)
    assert cli("start").err == ""


def test_a_workflow_is_started_and_named(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["POST /workflows"] = {"name": "review", "tag": "pr-1", "members": ["reviewer", "coder"]}
    ran = cli("start", "review", "--tag", "pr-1", "--trust", "--", "-d", "3")
    assert ran.out.splitlines()[1] == "review:pr-1 runs: reviewer, coder"
    (asked,) = kernel.of("POST", "/workflows")
    assert asked.body == {"workflow": "review", "tag": "pr-1", "params": ["-d", "3"], "trust": True}


def test_a_second_kernel_in_the_foreground_is_refused(cli: Cli, kernel: KernelDouble) -> None:
    ran = cli("start", "--foreground")
    assert (ran.code, "already runs" in ran.err) == (2, True)


def test_in_the_foreground_it_ends_as_its_kernel_ends(
    cli: Cli, project: Project, behave: Callable[[str], None]
) -> None:
    behave("brief")
    Path(project.state).mkdir(parents=True)
    handlers = {
        number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
    }
    try:
        ran = cli("start", "--foreground")
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert (ran.code, len(_started(project))) == (5, 1)
