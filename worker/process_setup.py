"""Set-up of our own processes: signals, its title in ps and top, descriptors that are not inherited.

Signals are ignored by name and not by asking about each of 64: this runs in every fork. SIGUSR1 has every thread's
stack written to standard error instead: a worker that answers no ping is asked so where it stands. Its handler is
inherited, so that no worker pays for it; what a worker executes has the default again.

Descriptors come over a socket, but not by ``socket.recv_fds``: it drops its flags, and what comes would be inherited by
the next program that is run.
"""

import _signal as bare  # type: ignore[import-not-found]  # pyright: ignore[reportMissingImports]
import faulthandler
import os
import signal
import socket
from array import array
from collections.abc import Callable
from importlib.machinery import PathFinder
from typing import Any, Final

_IGNORED: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR2)
_IGNORED_BY_PYTHON: Final = (signal.SIGPIPE, signal.SIGXFSZ)
"""Python raises OSError instead. A worker wants that; a command must not inherit it."""
_OF_WORKERS: Final = tuple(map(int, (*_IGNORED, signal.SIGCHLD)))
_OF_COMMANDS: Final = tuple(map(int, (*_IGNORED, signal.SIGCHLD, *_IGNORED_BY_PYTHON)))


def ignore() -> None:
    """Let no careless tool, and no Ctrl-C meant for the kernel, end this process: its socket does that."""
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    faulthandler.register(signal.SIGUSR1, file=2, all_threads=True)


def restore(*, python: bool) -> None:
    """Give a child its defaults and an empty mask; ``python``: it stays in this interpreter.

    By ``_signal``: the wrappers in ``signal`` make each number an enum, and copy 40 pages of a fresh fork by it.
    """
    bare.set_wakeup_fd(-1)
    for number in _OF_WORKERS if python else _OF_COMMANDS:
        bare.signal(number, bare.SIG_DFL)
    bare.pthread_sigmask(bare.SIG_SETMASK, ())


def _native() -> Callable[[str], None]:
    """The extension alone: its package imports logging, and so threading, whose hook copies 110 pages at a fork."""
    package = PathFinder.find_spec("setproctitle")
    spec = PathFinder.find_spec("_setproctitle", package.submodule_search_locations) if package else None
    if spec is None or spec.loader is None:
        from setproctitle import setproctitle  # noqa: PLC0415

        return setproctitle
    module: Any = spec.loader.create_module(spec)
    spec.loader.exec_module(module)
    native: Callable[[str], None] = module.setproctitle
    return native


_set: Callable[[str], None] = _native()


def set_title(role: str, what: str = "") -> None:
    """Name this process, for example ``agent-worker: keeper i7-2``."""
    _set(f"agent-worker: {role} {what}".rstrip())


_BYTES: Final = 65536
_MOST: Final = 16
_ANCILLARY_BYTES: Final = socket.CMSG_SPACE(_MOST * array("i").itemsize)
_CLOEXEC: Final = getattr(socket, "MSG_CMSG_CLOEXEC", 0)


def receive_descriptors(connection: socket.SocketType) -> tuple[bytes, list[int], int]:
    """One read: its bytes, the descriptors that came with them, and the message's flags. Raises OSError."""
    chunk, ancillary, flags, _address = connection.recvmsg(_BYTES, _ANCILLARY_BYTES, _CLOEXEC)
    found = array("i")
    for _level, _type, data in ancillary:
        found.frombytes(data[: len(data) - len(data) % found.itemsize])
    if not _CLOEXEC:  # macOS: they have been inheritable until now
        for fd in found:
            os.set_inheritable(fd, False)
    return chunk, list(found), flags
