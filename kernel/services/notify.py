"""Telling the service manager (systemd) how the kernel is, as sd_notify(3) does: one datagram each, no library."""

import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

_MICROSECONDS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Notifier:
    """Where states go; without an ``address`` nowhere.

    ``watchdog_seconds``: so often ``WATCHDOG=1`` is expected; without it the kernel would be killed.
    """

    address: str | None = None
    watchdog_seconds: float | None = None

    def tell(self, state: str) -> None:
        """Say ``state``, such as ``READY=1``. Never blocks, never fails: a manager that does not listen is not told."""
        if self.address is None:
            return
        address = f"\0{self.address[1:]}" if self.address.startswith("@") else self.address
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
            end.setblocking(False)
            end.sendto(state.encode(), address)


def notifier_of(environ: Mapping[str, str], pid: int) -> Notifier:
    """What the environment of process ``pid`` asks for: NOTIFY_SOCKET, and WATCHDOG_USEC if it is meant for it."""
    address = environ.get("NOTIFY_SOCKET", "")
    microseconds = environ.get("WATCHDOG_USEC", "")
    if not address.startswith(("/", "@")):
        return Notifier()
    if environ.get("WATCHDOG_PID", str(pid)) != str(pid) or not microseconds.isdecimal() or not int(microseconds):
        return Notifier(address)
    return Notifier(address, int(microseconds) / _MICROSECONDS)
