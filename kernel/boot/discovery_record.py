"""The discovery record, a file by which a project's clients find its kernel (contracts 3)."""

import contextlib
import json
import os
from pathlib import Path

from kernel.boot.arguments import Boot
from kernel.fault_injection import fault_point
from protocol.discovery import RECORD


def publish(boot: Boot) -> None:
    """Write the project's record, and the one that names the newest kernel for outside programs.

    Raises OSError, with no record left half-written.
    """
    host, port = boot.listener.getsockname()[:2]
    text = json.dumps(
        {
            "pid": os.getpid(),
            "started_at": boot.started_at,
            "host": host,
            "port": port,
            "url": f"http://{host}:{port}",
            "token": boot.token,
            "version": boot.version,
            "project": boot.arguments.project,
            "start_time": process_start_time(os.getpid()),
            "boot_id": boot_id(),
        }
    ).encode()
    for directory in (boot.arguments.state, boot.arguments.home):
        # Readers see the old record or the new one, and nobody else's eyes either (0600).
        path = os.path.join(directory, RECORD)
        temporary = f"{path}.{os.getpid()}"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            fault_point("record.written")
            os.replace(temporary, path)
            fault_point("record.published")
        except OSError:
            os.unlink(temporary)
            raise


def withdraw(boot: Boot) -> None:
    """Remove the records, where they are still this kernel's."""
    for directory in (boot.arguments.state, boot.arguments.home):
        path = os.path.join(directory, RECORD)
        with contextlib.suppress(OSError, ValueError):
            if json.loads(Path(path).read_bytes()).get("token") == boot.token:
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
