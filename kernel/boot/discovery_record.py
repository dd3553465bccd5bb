"""The discovery record, by which a project's clients find its kernel (contracts 3), and the port it listens on.

The record has a limited token, for programs of others. The administrator's is in a file of its own beside it.
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
    """Listen on the port that the kernel before had, if nobody else has it now, else on any; and note which it is.

    So what outside programs know of a kernel holds for the next one too, as the tokens do that were made for them.
    """
    path = os.path.join(state, PORT)
    port = 0
    with contextlib.suppress(OSError, ValueError):
        noted = int(Path(path).read_bytes()[:8])
        port = noted if noted in _PORTS else 0
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    # Connections of the kernel before may still be on their way out; no other listener is let in by this.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
        listener.listen(backlog)
    except OSError:
        listener.close()
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.bind(("127.0.0.1", 0))
        listener.listen(backlog)
    with contextlib.suppress(OSError):  # a disk that is full keeps no kernel from serving
        Path(path).write_text(f"{listener.getsockname()[1]}\n")
    return listener


def publish(boot: Boot) -> None:
    """Write the administrator's token, the project's record, and the one that names the newest kernel.

    Raises OSError, with no record left half-written.
    """
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
        with contextlib.suppress(OSError):  # without it awk projects does not know the project once it is stopped
            _write_private(note, json.dumps({"project": boot.arguments.project}).encode())


def _write_private(path: str, text: bytes) -> None:
    with replacing(path, beside=f"{path}.{os.getpid()}", written=lambda: fault_point("record.written")) as file:
        file.write(text)
    fault_point("record.published")


def withdraw(boot: Boot) -> None:
    """Remove the records, where they are still this kernel's."""
    state, home = boot.arguments.state, boot.arguments.home
    for path in (os.path.join(state, RECORD), os.path.join(home, RECORD), os.path.join(state, ADMIN)):
        with contextlib.suppress(OSError, ValueError):
            if json.loads(Path(path).read_bytes()).get("token") in (boot.record_token, boot.token):
                os.unlink(path)


def process_start_time(pid: int) -> int:
    """Clock ticks from boot to the start of ``pid`` (proc(5) stat, field 22); 0 where there is no /proc."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    return int(stat.rpartition(")")[2].split()[19])


def boot_id() -> str:
    """The id of this boot of the machine; empty where the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
