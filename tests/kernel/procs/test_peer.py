"""Whose connection it is: of a process below ours, or of anybody else's."""

import os
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from kernel.procs.procfs import AcceptedConnection, ProcessId, caller, identify, is_own_child

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/net/tcp"), reason="needs /proc")

CONNECT = """
import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as wire:
    wire.sendall(b"x")
    sys.stdin.read()
"""


@contextmanager
def connection(*, nested: bool) -> Generator[tuple[int, int, int]]:
    """A child's, or a grandchild's, connection to us: its port, ours, and the child's pid."""
    argv = [sys.executable, "-c", CONNECT]
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        wrapped = ["/bin/sh", "-c", '"$@"; exit', "sh", *argv] if nested else argv
        with subprocess.Popen([*wrapped, str(port)], stdin=subprocess.PIPE) as child:
            wire, (_, client_port) = server.accept()
            with wire:
                assert wire.recv(1) == b"x"
                yield client_port, port, child.pid
                child.communicate(b"", timeout=10)


@pytest.mark.promise("P6", "XF19")
@pytest.mark.parametrize("nested", [False, True])
def test_a_connection_of_a_process_below_ours_is_known_for_one(*, nested: bool) -> None:
    with connection(nested=nested) as (client_port, port, child):
        assert is_own_child(client_port, port, os.getpid())
        assert is_own_child(client_port, port, child)


def test_a_connection_of_anybody_else_is_not() -> None:
    with connection(nested=False) as (client_port, port, child), socket.create_connection(("127.0.0.1", port)) as mine:
        assert not is_own_child(mine.getsockname()[1], port, child)
        assert not is_own_child(client_port, port, 2**22 + 1)
        assert not is_own_child(client_port, client_port, child)


@pytest.mark.promise("XF19")
def test_who_asks_and_lets_go_at_once_may_be_ours() -> None:
    with connection(nested=False) as (_, port, child):
        with socket.create_connection(("127.0.0.1", port)) as gone:
            gone.sendall(b"x")
            gone_port = gone.getsockname()[1]
        assert is_own_child(gone_port, port, child)
        assert is_own_child(1, port, child)


@pytest.mark.promise("XF19")
def test_a_process_that_hides_what_it_has_open_may_have_it() -> None:
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    hide = "import ctypes, sys; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0); print(flush=True); sys.stdin.read()"
    with connection(nested=False) as (_, port, _child), socket.create_connection(("127.0.0.1", port)) as mine:
        hidden = [sys.executable, "-c", hide]
        with subprocess.Popen(hidden, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            child.stdout.readline()
            assert is_own_child(mine.getsockname()[1], port, child.pid)
            child.communicate(b"", timeout=10)


# -- whose process tree it is ----------------------------------------------------------------------------


class Caller:
    """A child that connects, by ``code`` with ``port`` in it, and stays until the block ends."""

    def __init__(self, server: socket.socket, code: str, port: int = 0) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", CALLER + code, str(server.getsockname()[1]), str(port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        root = identify(self.process.pid)
        assert root is not None
        self.root = root
        self.socket, client = server.accept()
        self.wire = AcceptedConnection(client, self.socket.getsockname(), os.fstat(self.socket.fileno()).st_ino)
        assert self.socket.recv(1) == b"x"

    def __enter__(self) -> "Caller":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate(b"", timeout=10)
        self.socket.close()

    def of(self, *roots: ProcessId) -> ProcessId | None:
        """Whose it is, of these."""
        return caller(self.wire, roots, os.getpid())


CALLER: Final = """
import os, socket, struct, sys
wire = socket.socket()
wire.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
wire.bind(("127.0.0.1", int(sys.argv[2])))
wire.connect(("127.0.0.1", int(sys.argv[1])))
def stay():
    wire.sendall(b"x")
    sys.stdin.read()
"""
STAYS: Final = "stay()"
SETSID: Final = "if os.fork() == 0:\n    os.setsid()\n    stay()\nelse:\n    wire.close(); os.wait()"
LEAVES: Final = """
if os.fork() == 0:
    middle = os.getpid()
    if os.fork() == 0:
        while os.getppid() == middle:
            pass
        stay()
    os._exit(0)
os.wait()
wire.close()
sys.stdin.read()
"""


@pytest.fixture
def server() -> Generator[socket.socket]:
    """Where they connect to."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


@pytest.mark.promise("P56")
@pytest.mark.parametrize("code", [STAYS, SETSID])
def test_the_caller_is_the_tree_that_has_the_connection(server: socket.socket, code: str) -> None:
    with Caller(server, code) as one, Caller(server, code) as two:
        assert one.of(one.root, two.root) == one.root
        assert two.of(one.root, two.root) == two.root
        assert one.of(two.root) is None, "of no tree that is asked about"
        assert one.of() is None


@pytest.mark.promise("P56")
def test_a_process_that_left_the_tree_is_nobodys(server: socket.socket) -> None:
    with Caller(server, LEAVES) as left:
        assert left.of(left.root) is None


@pytest.mark.promise("P56")
def test_a_pid_that_was_given_to_another_is_not_the_root(server: socket.socket) -> None:
    with Caller(server, STAYS) as one:
        assert one.of(ProcessId(one.root.pid, one.root.start_time + 1)) is None
        assert one.of(ProcessId(one.root.pid, one.root.start_time - 1)) is None


@pytest.mark.promise("P56")
def test_a_connection_that_two_trees_have_is_nobodys(server: socket.socket, tmp_path: Path) -> None:
    place = str(tmp_path / "s")
    gives = (
        f"local = socket.socket(socket.AF_UNIX); local.connect({place!r}); "
        "socket.send_fds(local, [b'x'], [wire.fileno()]); local.close(); stay()"
    )
    with socket.socket(socket.AF_UNIX) as local:
        local.bind(place)
        local.listen()
        with Caller(server, gives) as one:
            assert one.of(one.root) == one.root
            taker, _ = local.accept()
            with taker:
                _, (fd,), _, _ = socket.recv_fds(taker, 1, 1)
            assert one.of(one.root) is None
            os.close(fd)
            assert one.of(one.root) == one.root


@pytest.mark.promise("P56")
@pytest.mark.parametrize("let_go", ["wire.shutdown(1)", "wire.close()"])
def test_who_lets_go_of_the_connection_is_nobody(server: socket.socket, let_go: str) -> None:
    with Caller(server, f"wire.sendall(b'x'); {let_go}; sys.stdin.read()") as one:
        assert one.socket.recv(1) == b""
        assert one.of(one.root) is None


@pytest.mark.promise("P56")
def test_whoever_gets_the_port_of_a_connection_does_not_answer_for_it(server: socket.socket) -> None:
    resets = (
        "wire.sendall(b'x'); sys.stdin.read(1); wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, "
        "struct.pack('ii', 1, 0)); wire.close(); print(flush=True); sys.stdin.read()"
    )
    with Caller(server, resets) as one:
        assert one.process.stdin is not None and one.process.stdout is not None
        one.process.stdin.write(b"x")
        one.process.stdin.flush()
        one.process.stdout.readline()
        with Caller(server, STAYS, one.wire.client[1]) as two:
            assert two.wire.client == one.wire.client
            assert two.of(one.root, two.root) == two.root
            assert one.of(one.root, two.root) is None
