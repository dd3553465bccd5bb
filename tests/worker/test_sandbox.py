"""The sandbox: what bubblewrap is told, and what a program then sees. The real one runs where it is installed."""

import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from protocol.ipc import Sandbox, Start
from worker.models.model import BLANK
from worker.sandbox import EMPTY, READ, WRITE, mounts, wrap

BWRAP = os.environ.get("AGENT_WORKER_TEST_BWRAP") or shutil.which("bwrap")
real = pytest.mark.skipif(BWRAP is None, reason="bubblewrap is not installed (AGENT_WORKER_TEST_BWRAP names one)")


class Place:
    """A user's home with a project, secrets and the state of the kernel in it."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.project = self.home / "project"
        self.state = self.home / ".agent-worker"
        self.attempt = self.state / "run/i1-1"
        self.tools = self.home / ".tools/bin"
        for made in (self.project / ".git/hooks", self.project / ".agents", self.attempt, self.tools):
            made.mkdir(parents=True)
        (self.home / "secret").write_text("canary")
        (self.state / "daemon.json").write_text("canary")
        (self.attempt / "alive").write_text("lock")
        (self.project / ".git/config").write_text("")
        tool = self.tools / "tool"
        tool.write_text("#!/bin/sh\necho tool\n")
        tool.chmod(0o700)

    @property
    def box(self) -> Sandbox:
        readable = (".agents", ".workflows", ".git")
        return Sandbox(
            program=BWRAP or "/usr/bin/bwrap",
            writable=(str(self.project), str(self.attempt)),
            readable=(*(str(self.project / name) for name in readable), str(self.attempt / "alive")),
            hidden=(str(self.state),),
            private_bytes=1 << 20,
        )

    @property
    def start(self) -> Start:
        env = {"PATH": f"{self.tools}:{os.environ['PATH']}", "HOME": str(self.home)}
        return msgspec.structs.replace(BLANK, cwd=str(self.project), env=env, sandbox=self.box)

    def run(self, text: str, see: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
        argv = wrap(("/bin/sh", "-c", text), self.start, see)
        return subprocess.run(
            argv, env=self.start.env, cwd="/", capture_output=True, text=True, timeout=20, check=False
        )


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_without_a_sandbox_a_program_is_started_as_it_is() -> None:
    assert wrap(("tool", "-x"), BLANK) == ("tool", "-x")


@pytest.mark.promise("P6", "XF19")
def test_what_is_deeper_counts_and_is_mounted_after_what_is_above_it(place: Place) -> None:
    found = mounts("/bin/sh", place.start.env, place.box)
    kinds = dict(found)
    assert kinds[str(place.home)] == EMPTY
    assert kinds[str(place.state)] == EMPTY
    assert kinds[str(place.project)] == WRITE
    assert kinds[str(place.attempt)] == WRITE
    assert kinds[str(place.attempt / "alive")] == READ
    assert kinds[str(place.project / ".agents")] == READ
    assert kinds[str(place.tools)] == READ
    depths = [path.count("/") for path, _ in found if path != "/"]
    assert depths == sorted(depths)


@pytest.mark.promise("XF19")
@pytest.mark.parametrize("folder", ["home", "home/.agent-worker", "home/project/bin", "."])
def test_a_folder_on_path_shows_nothing_that_is_hidden(place: Place, tmp_path: Path, folder: str) -> None:
    odd = tmp_path / folder
    odd.mkdir(exist_ok=True)
    env = {**place.start.env, "PATH": f"{odd}:/usr/bin"}
    found = dict(mounts("/bin/sh", env, place.box))
    assert found.get(str(odd)) in {None, EMPTY}


@pytest.mark.promise("P6", "P18", "XF19")
@real
def test_a_program_sees_the_project_and_nothing_else_of_the_user(place: Place) -> None:
    ran = place.run(
        f"cat {place.home}/secret; cat {place.state}/daemon.json; ls -A {place.home} {place.state}; "
        "touch /usr/x /etc/x; ls -A /tmp; tool; echo $$ > mine; ls /home /root /var/log"
    )
    assert "canary" not in ran.stdout + ran.stderr
    assert "tool\n" in ran.stdout
    assert (place.project / "mine").read_text().strip().isdecimal()
    assert not Path("/usr/x").exists()
    assert not Path("/etc/x").exists()


@real
def test_a_program_that_is_a_link_runs_as_its_installer_left_it(place: Place, tmp_path: Path) -> None:
    package = tmp_path / "prefix/node_modules/tool/lib/deep/bin"
    package.mkdir(parents=True)
    (package / "linked.sh").write_text("#!/bin/sh\ncat $(dirname $(readlink -f $0))/../word\n")
    (package / "linked.sh").chmod(0o700)
    (package.parent / "word").write_text("loaded\n")
    (place.tools / "linked").symlink_to(package / "linked.sh")
    argv = wrap(("linked",), place.start)
    ran = subprocess.run(argv, env=place.start.env, cwd="/", capture_output=True, text=True, timeout=20, check=False)
    assert (ran.stdout, ran.stderr, ran.returncode) == ("loaded\n", "", 0)


@pytest.mark.promise("P19")
@real
def test_what_decides_about_agents_and_what_git_executes_cannot_be_changed(place: Place) -> None:
    ran = place.run(
        "touch .agents/bob.yaml; echo x > .git/config; echo x > .git/hooks/post-commit; touch .git/config.worktree; "
        "echo $PWD/evil > .git/commondir; mv .git evil; rm -rf .git; ln -s evil .git/modules; "
        f"echo x > {place.attempt}/alive; echo x > {place.attempt}/own; rm -rf .agents"
    )
    assert ran.stderr.count("Read-only file system") >= 6
    assert "mv: cannot move" in ran.stderr
    assert list((place.project / ".agents").iterdir()) == []
    assert sorted(path.name for path in (place.project / ".git").iterdir()) == ["config", "hooks"]
    assert (place.project / ".git/config").read_text() == ""
    assert ((place.attempt / "alive").read_text(), (place.attempt / "own").read_text()) == ("lock", "x\n")


@pytest.mark.promise("PF14")
@real
def test_nothing_in_memory_grows_without_bound(place: Place) -> None:
    ran = place.run(
        "for at in /tmp /var/tmp /dev/shm $HOME; do head -c 4000000 /dev/zero > $at/x; stat -c %s $at/x; done; "
        "touch /x /dev/x /run/x; unshare -Ur true; echo ok > /dev/null && echo devices"
    )
    *sizes, devices = ran.stdout.split()
    assert [int(size) <= 1 << 20 for size in sizes] == [True] * 4
    assert ran.stderr.count("No space left on device") >= 4
    assert ran.stderr.count("Read-only file system") >= 2
    assert "unshare failed" in ran.stderr, "in a name space of its own it could mount more of them"
    assert devices == "devices"


@pytest.mark.promise("XF19")
@real
def test_other_processes_are_out_of_sight_and_the_network_is_not(place: Place) -> None:
    """No /proc of the kernel to read; Daemon MCP is reached over loopback."""
    ran = place.run("ls -d /proc/[0-9]* | wc -l; grep -c : /proc/net/dev")
    processes, interfaces = map(int, ran.stdout.split())
    assert processes < 8
    assert interfaces >= 1


@pytest.mark.promise("P7")
@real
def test_the_killed_group_takes_the_namespace_with_it(place: Place) -> None:
    argv = wrap(("/bin/sh", "-c", "setsid sh -c 'echo up; exec sleep 4711.25' & wait"), place.start)
    with subprocess.Popen(
        argv, env=place.start.env, stdout=subprocess.PIPE, start_new_session=True, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        os.killpg(process.pid, signal.SIGKILL)
        assert process.stdout.read() == "", "the pipe is closed once nobody holds it"


@real
def test_how_a_program_ends_is_told(place: Place) -> None:
    assert place.run("exit 3").returncode == 3
    assert place.run("kill -TERM $$").returncode == 128 + signal.SIGTERM
