"""Discovery of our kernel, and of nobody else who may see its token."""

import os
import pwd
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from interface.cli.context import Streams
from interface.cli.main import run
from interface.cli.output import Output
from interface.clock import Clock
from interface.discovery import find_project, nearest_root
from kernel.boot.arguments import parse_arguments
from protocol.api.processes import Ps
from tests.interface.conftest import Cli, Terminal
from tests.interface.kernel_double import Asked, KernelDouble


def test_the_token_is_shown_after_the_proof_and_on_the_same_connection(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["GET /ps"] = Ps(agents=())
    assert cli("ps", "--json").code == 0
    health, ps = kernel.asked
    assert (health.path, "authorization" in health.headers, len(health.query["nonce"])) == ("/health", False, 32)
    assert (ps.path, ps.headers["authorization"]) == ("/ps", f"Bearer {kernel.token}")


def test_each_proof_is_for_a_nonce_of_its_own(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["GET /ps"] = Ps(agents=())
    for _ in range(2):
        cli("ps", "--json")
    assert len({asked.query["nonce"] for asked in kernel.of("GET", "/health")}) == 2


@pytest.mark.promise("HF27")
@pytest.mark.parametrize("squatter", ["no proof", "wrong token"])
def test_a_squatter_never_sees_the_token(cli: Cli, kernel: KernelDouble, squatter: str) -> None:
    kernel.publish(cli.home, cli.root, token="another")
    kernel.proves = squatter == "wrong token"
    ran = cli("ps")
    assert ran.code == 69
    assert "is not the kernel" in ran.err
    assert "the token was not sent" in ran.err
    assert kernel.tokens_seen == []


class Succession(list[Asked]):
    """A kernel that died is followed by one on its port, whose record is written as the first is asked there."""

    def __init__(self, publish: Callable[[], object]) -> None:
        super().__init__()
        self._publish = publish

    def append(self, asked: Asked) -> None:
        """Note it; the new record is there before the answer is."""
        super().append(asked)
        self._publish()


@pytest.mark.parametrize("word", ["ps", "start"])
def test_the_next_kernel_on_the_port_of_one_that_died_is_found_and_not_called_another(
    word: str, cli: Cli, kernel: KernelDouble
) -> None:
    kernel.publish(cli.home, cli.root, token="of-the-dead")
    kernel.asked = Succession(lambda: kernel.publish(cli.home, cli.root))
    kernel.answers["GET /ps"] = Ps(agents=())
    ran = cli(word)
    assert (ran.code, "is not the kernel" in ran.err + ran.out) == (0, False)


@pytest.mark.promise("HF27")
def test_a_record_whose_port_is_dead_means_no_kernel(cli: Cli) -> None:
    with KernelDouble().running() as gone:
        gone.publish(cli.home, cli.root)
    ran = cli("ps")
    assert ran.code == 69
    assert "no server responds" in ran.err
    assert "hint: start it with: awk start" in ran.err


@pytest.mark.parametrize("mode", [0o644, 0o660, 0o602])
def test_a_record_that_others_can_touch_is_not_believed(cli: Cli, kernel: KernelDouble, mode: int) -> None:
    """contracts 3: 0600 and ours; otherwise somebody else could name the server that gets the token."""
    kernel.publish(cli.home, cli.root).chmod(mode)
    for word, code in (("ps", 69), ("status", 3), ("stop", 0)):
        ran = cli(word)
        assert (ran.code, f"mode {mode:04o}" in ran.err, "daemon.json" in ran.err) == (code, True, True)
    assert kernel.asked == []


def test_a_record_behind_a_link_is_not_believed(cli: Cli, kernel: KernelDouble) -> None:
    record = kernel.publish(cli.home, cli.root)
    record.rename(record.with_name("elsewhere"))
    record.symlink_to(record.with_name("elsewhere"))
    assert cli("ps").code == 69
    assert kernel.asked == []


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b'{"url": 3, "token": 4, "pid": []}', b"\xff"])
def test_a_record_that_is_none_means_no_kernel(cli: Cli, kernel: KernelDouble, content: bytes) -> None:
    kernel.publish(cli.home, cli.root).write_bytes(content)
    ran = cli("ps")
    assert (ran.code, "Traceback" in ran.err) == (69, False)


def test_the_environment_names_a_kernel_of_its_own(cli: Cli, kernel: KernelDouble, tmp_path: Path) -> None:
    elsewhere = Cli(root=tmp_path, home=tmp_path / "nothing")
    elsewhere.environ |= {"AGENT_WORKER_URL": kernel.url, "AGENT_WORKER_TOKEN": kernel.token}
    kernel.answers["GET /ps"] = Ps(agents=())
    assert elsewhere("ps", "--json").code == 0


def test_half_an_environment_is_an_error(cli: Cli, kernel: KernelDouble) -> None:
    cli.environ["AGENT_WORKER_URL"] = kernel.url
    ran = cli("ps")
    assert ran.code == 4
    assert "AGENT_WORKER_TOKEN is missing" in ran.err
    assert "the kernel of this machine needs neither" in ran.err
    assert kernel.asked == []


def test_a_kernel_that_the_environment_names_is_never_started(cli: Cli) -> None:
    with KernelDouble().running() as gone:
        pass
    cli.environ |= {"AGENT_WORKER_URL": f"http://127.0.0.1:{gone.server.server_address[1]}", "AGENT_WORKER_TOKEN": "t"}  # type: ignore[union-attr]
    assert cli("send", "alice", "hi").code == 69
    assert not list(cli.home.rglob("kernel.log"))


@pytest.mark.parametrize("mark", [".agents", ".workflows", "moniro.yaml", ".agents.yaml", ".git"])
def test_the_nearest_parent_with_a_mark_is_the_root(tmp_path: Path, mark: str) -> None:
    below = tmp_path / "project" / "a" / "b"
    below.mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    (tmp_path / "project" / mark).touch()
    assert nearest_root(str(below)) == str(tmp_path / "project")


def test_without_a_mark_the_working_directory_is_the_root() -> None:
    """contracts 1: else the working directory. (Nothing above / has one.)"""
    assert nearest_root("/proc/self") == "/proc/self"


def test_one_project_has_one_state_however_it_is_reached(tmp_path: Path) -> None:
    root = tmp_path / "project"
    (root / ".agents").mkdir(parents=True)
    (tmp_path / "link").symlink_to(root)
    environ = {"AGENT_WORKER_HOME": str(tmp_path / "home")}
    ways = [
        find_project(environ, str(root), None),
        find_project(environ, str(tmp_path / "link"), None),
        find_project(environ, str(tmp_path), "project"),
        find_project(environ, str(root / ".agents"), None),
        find_project({"AGENT_WORKER_HOME": "../home"}, str(root), None),
    ]
    assert set(ways) == {ways[0]}
    assert ways[0].root == str(root)
    assert os.path.dirname(ways[0].state) == str(tmp_path / "home" / "projects")


def test_a_kernel_that_the_environment_names_is_named_where_it_is_down(cli: Cli) -> None:
    cli.environ |= {"AGENT_WORKER_URL": "http://127.0.0.1:1", "AGENT_WORKER_TOKEN": "t"}
    assert "to use the kernel of this project" in cli("ps").err
    assert "127.0.0.1:1" in cli("status").err
    assert "127.0.0.1:1" in cli("stop").err


def test_a_project_whose_path_is_no_text_is_refused(cli: Cli) -> None:
    cli.root = Path(os.fsdecode(bytes(cli.root) + b"/caf\xe9/.git"))
    cli.root.mkdir(parents=True)
    cli.root = cli.root.parent
    ran = cli("start")
    assert (ran.code, "is not UTF-8 text" in ran.err) == (2, True)
    assert list(cli.home.iterdir()) == []


def test_a_deleted_working_directory_is_no_project(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone() -> str:
        raise FileNotFoundError

    monkeypatch.setattr("interface.cli.main.os.getcwd", gone)
    assert [run(["send", "alice", "x"], _world(cli)), run(["version"], _world(cli))] == [2, 0]
    assert run(["status", "--project", str(cli.root)], _world(cli)) == 3
    assert list(cli.home.iterdir()) == []


def _world(cli: Cli) -> Streams:
    out = Output(Terminal(), Terminal(), cli.environ)
    return Streams("awk", Terminal(), out, cli.environ, Clock(time.monotonic, time.time, cli.pause))


@pytest.mark.parametrize("own_state", [True, False])
def test_a_home_that_is_relative_is_refused(cli: Cli, monkeypatch: pytest.MonkeyPatch, own_state: bool) -> None:
    """Fault F10: HOME=rel wrote to ./rel/.agent-worker of whichever directory the command ran in."""
    monkeypatch.setenv("HOME", "rel")
    if not own_state:
        del cli.environ["AGENT_WORKER_HOME"]
    for words in ("status", "projects", "start", "agent list"):
        ran = cli(*words.split())
        assert (ran.code, "HOME='rel' is not an absolute path" in ran.err) == (2, True), ran
    with pytest.raises(SystemExit) as refused:
        parse_arguments(["--project", str(cli.root)])
    assert refused.value.code == 2
    assert not (cli.root / "rel").exists()


def test_a_home_that_is_empty_counts_as_none(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault F10: HOME="" wrote to /.agent-worker."""
    ours = pwd.getpwuid(os.getuid()).pw_dir
    monkeypatch.delenv("AGENT_WORKER_HOME", raising=False)
    monkeypatch.setenv("HOME", "")
    assert parse_arguments(["--project", str(cli.root)]).home == f"{ours}/.agent-worker"
    code = """
import os
from interface.cli.main import main
from interface.discovery import state_folder
main("awk", ["version"], "")
print(state_folder({}, "/"))
"""
    ran = subprocess.run([sys.executable, "-c", code], env={"HOME": ""}, capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == f"{ours}/.agent-worker"
