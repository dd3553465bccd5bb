"""The discovery record, by which a project's clients find its kernel (contracts 3), and the kernel's port.

The record contains a limited token, for other programs. The administrator's token is in a separate file beside it.
"""

import contextlib
import json
import os
import socket
from pathlib import Path
from typing import Final

from kernel.boot.arguments import Boot
from kernel.fault_injection import fault_point
from osfiles.atomic_write import replacing
from protocol.discovery import ADMIN, PORT, PROJECT, RECORD, digest

_PORTS: Final = range(1024, 65536)


def listen(state: str, backlog: int) -> socket.socket:
    """Listen on the port of the previous kernel, or on any port if that is taken, and record the port.

    A stable port keeps the addresses in other programs' configurations valid; their tokens remain valid too.
    """
    path = os.path.join(state, PORT)
    port = 0
    with contextlib.suppress(OSError, ValueError):
        noted = int(Path(path).read_bytes()[:8])
        port = noted if noted in _PORTS else 0
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    # Closing connections of the previous kernel must not block the port; this does not admit a second listener.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
        listener.listen(backlog)
    except OSError:
        listener.close()
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.bind(("127.0.0.1", 0))
        listener.listen(backlog)
    with contextlib.suppress(OSError):  # a full disk must not prevent a kernel from serving
        Path(path).write_text(f"{listener.getsockname()[1]}\n")
    return listener


def publish(boot: Boot) -> None:
    """Write the administrator's token, the project's discovery record, and the record of the
    newest kernel. Raises OSError and leaves no partial record."""
    host, port = boot.listener.getsockname()[:2]
    url, of = f"http://{host}:{port}", digest(boot.record_token.encode())
    admin = json.dumps({"url": url, "token": boot.token, "record": of}).encode()
    text = json.dumps(
        {
            "pid": os.getpid(),
            "started_at": boot.started_at,
            "host": host,
            "port": port,
            "url": url,
            "token": boot.record_token,
            "version": boot.version,
            "project": boot.arguments.project,
            "start_time": process_start_time(os.getpid()),
            "boot_id": boot_id(),
        }
    ).encode()
    _write_private(os.path.join(boot.arguments.state, ADMIN), admin)
    for directory in (boot.arguments.state, boot.arguments.home):
        _write_private(os.path.join(directory, RECORD), text)
    note = os.path.join(boot.arguments.state, PROJECT)
    if not os.path.exists(note):
        # without this file, awk projects does not list the project once its kernel has stopped
        with contextlib.suppress(OSError):
            _write_private(note, json.dumps({"project": boot.arguments.project}).encode())


def _write_private(path: str, text: bytes) -> None:
    with replacing(path, beside=f"{path}.{os.getpid()}", written=lambda: fault_point("record.written")) as file:
        file.write(text)
    fault_point("record.published")


def withdraw(boot: Boot) -> None:
    """Delete the records if they still belong to this kernel."""
    state, home = boot.arguments.state, boot.arguments.home
    for path in (os.path.join(state, RECORD), os.path.join(home, RECORD), os.path.join(state, ADMIN)):
        with contextlib.suppress(OSError, ValueError):
            if json.loads(Path(path).read_bytes()).get("token") in (boot.record_token, boot.token):
                os.unlink(path)


def process_start_time(pid: int) -> int:
    """Return the clock ticks from boot to the start of ``pid`` (proc(5) stat, field 22), or 0 without /proc."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    return int(stat.rpartition(")")[2].split()[19])


def boot_id() -> str:
    """Return the id of this boot of the machine, or "" if the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
