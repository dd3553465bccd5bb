"""Whose connection it is: of a process below ours, or of anybody else's."""

import os
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager

import pytest

from kernel.procs.peer import is_own_child

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
    """However deep below, and the process itself too."""
    with connection(nested=nested) as (client_port, port, child):
        assert is_own_child(client_port, port, os.getpid())
        assert is_own_child(client_port, port, child)


def test_a_connection_of_anybody_else_is_not() -> None:
    """A person's command line; below a process that is gone; where no table says who listens, and so who connects."""
    with connection(nested=False) as (client_port, port, child), socket.create_connection(("127.0.0.1", port)) as mine:
        assert not is_own_child(mine.getsockname()[1], port, child)
        assert not is_own_child(client_port, port, 2**22 + 1)
        assert not is_own_child(client_port, client_port, child)


@pytest.mark.promise("XF19")
def test_who_asks_and_lets_go_at_once_may_be_ours() -> None:
    """A closed connection is nobody's any more, though what was asked by it is still there to be read."""
    with connection(nested=False) as (_, port, child):
        with socket.create_connection(("127.0.0.1", port)) as gone:
            gone.sendall(b"x")
            gone_port = gone.getsockname()[1]
        assert is_own_child(gone_port, port, child)
        assert is_own_child(1, port, child)


@pytest.mark.promise("XF19")
def test_a_process_that_hides_what_it_has_open_may_have_it() -> None:
    """What cannot be read below us counts as theirs."""
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
