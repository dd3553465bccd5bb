"""The process at the far end of a transport's command: carries bytes between its standard streams and the node process.

It starts the node process where there is none, detached: a transport that is cut takes this process with it, and
nothing else. Imports little, for it is started with each transport.
"""

import os
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from kernel.procs.node.folder import LOG, SOCKET

START_SECONDS: Final = 60.0
LOG_BYTES: Final = 1024 * 1024
"""A log that is longer is begun anew with the next node process."""
_PAUSE_SECONDS: Final = 0.02
_AGAIN_SECONDS: Final = 5.0
_CHUNK_BYTES: Final = 128 * 1024


class NoNode(Exception):
    """No node process answers in the folder, and none could be started."""


def relay(state: Path, options: list[str]) -> int:
    """Carry bytes until one side closes. ``options`` are those of the node process. Raises NoNode."""
    os.chdir(state)  # a socket's path is short: it is named from here
    peer = _reach(options)
    os.chdir("/")
    threading.Thread(target=_carry_in, args=(peer,), daemon=True).start()
    with suppress(OSError), open(1, "wb", buffering=0, closefd=False) as out:
        while chunk := peer.recv(_CHUNK_BYTES):
            rest = memoryview(chunk)
            while rest:
                rest = rest[out.write(rest) or 0 :]
    return 0


def _carry_in(peer: socket.socket) -> None:
    """Carry standard input to the node; its end ends the process, for there is nobody to hear the rest."""
    with suppress(OSError):
        while chunk := os.read(0, _CHUNK_BYTES):
            peer.sendall(chunk)
    os._exit(0)


def _reach(options: list[str]) -> socket.socket:
    deadline = time.monotonic() + START_SECONDS
    start_at = 0.0
    started: subprocess.Popen[bytes] | None = None
    while time.monotonic() < deadline:
        peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            peer.connect(SOCKET)
        except OSError:
            peer.close()
        else:
            return peer
        if (started is None or started.poll() is not None) and time.monotonic() >= start_at:
            start_at = time.monotonic() + _AGAIN_SECONDS
            started = _start(options)
        time.sleep(_PAUSE_SECONDS)  # noqa: TID251  (there is no loop here)
    raise NoNode(f"the node process did not start in {START_SECONDS:.0f} s; see {Path.cwd() / LOG}")


def _start(options: list[str]) -> "subprocess.Popen[bytes]":
    log = os.open(LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    if os.fstat(log).st_size > LOG_BYTES:
        os.ftruncate(log, 0)
    try:
        return subprocess.Popen(
            [sys.executable, "-I", "-m", "kernel.procs.node", "--serve", *options],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    finally:
        os.close(log)
