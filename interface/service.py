"""The text of a service that keeps a kernel, or those of all projects: a systemd user unit, or a launchd property list.

systemd reads a unit line by line. A word of a command is quoted here in C's manner, with ``%`` and ``$`` doubled, since
it puts specifiers and variables in their places; of a setting that takes a path the rest of the line is the path, as it
is, but for ``%``. What cannot be written in a line, or is dropped at its ends, is refused. Pure.
"""

import os
import plistlib
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from interface.failure import Failure
from protocol.discovery import ENDED, LOG, SERVICE, project_slug

MARK: Final = "# Made by awk service install. Changes are lost when it is made again."
RESTARTS: Final = 5
WINDOW_SECONDS: Final = 600
"""So many starts within that time are enough: then it stays down, and says so."""
NOT_RESTARTED: Final = (75, 78)
"""sysexits.h: another kernel runs (EX_TEMPFAIL); files have mistakes (EX_CONFIG). A new start would meet the same."""
STOP_SECONDS: Final = 45
"""Grace, the workers' stop ladder, and some."""
NOTE: Final = 'umask 077; printf "%s %s %s\\n" "$SERVICE_RESULT" "$EXIT_CODE" "$EXIT_STATUS" > "$0"'
"""Of the shell that systemd runs once the kernel has ended: the next kernel reads how. ``$0`` is the file."""
HARDENING: Final = ("NoNewPrivileges=yes", "LockPersonality=yes", "RestrictRealtime=yes", "RestrictSUIDSGID=yes")
"""What leaves forks, user namespaces (bubblewrap) and compilers that write code in memory as they are."""


class Service(NamedTuple):
    """All that a service needs to know. ``argv`` is its command line; ``environ`` is set for it."""

    root: str
    """The project whose kernel it keeps; "" for the service that sees to all projects of its user."""
    state: str
    """The directory of its log."""
    argv: Sequence[str]
    environ: Mapping[str, str]
    keys_file: str
    """A file of ``NAME=value`` lines, which need not be there."""
    hardened: bool = True
    """False where bubblewrap is setuid: it could not gain what it needs."""

    @property
    def name(self) -> str:
        """The name that it has among the services of its user."""
        return f"agent-worker-{project_slug(self.root)}" if self.root else "agent-worker"

    @property
    def label(self) -> str:
        """The name that launchd has for it."""
        return self.name.replace("agent-worker-", "agent-worker.", 1) if self.root else "agent-worker.all"


def unit_text(service: Service) -> str:
    """The systemd user unit. Raises Failure (usage) for a path that no unit can have."""
    log = unit_path(os.path.join(service.state, LOG))
    note = ["/bin/sh", "-c", NOTE, os.path.join(service.state, ENDED)]
    if "$" in service.argv[0]:
        raise Failure("usage", f"a unit cannot run {service.argv[0]}: it has a $", "install agent-worker elsewhere")
    program = service.argv[0].replace("%", "%%")
    named = {SERVICE: f"{service.name}.service"} if service.root else {}
    environ = {**service.environ, **named}
    lines = [
        MARK,
        "[Unit]",
        f"Description=agent-worker {f'kernel of {shown(service.root)}' if service.root else 'kernels that are needed'}",
        f"StartLimitIntervalSec={WINDOW_SECONDS}",
        f"StartLimitBurst={RESTARTS}",
        "",
        "[Service]",
        *(("Type=notify", "NotifyAccess=main") if service.root else ("Type=exec",)),
        f"ExecStart={quoted(program)} {' '.join(word(one) for one in service.argv[1:])}",
        *([f"ExecStopPost=-{' '.join(word(one) for one in note)}"] if service.root else ()),
        *(f"Environment={quoted(f'{name}={value}'.replace('%', '%%'))}" for name, value in sorted(environ.items())),
        f"EnvironmentFile=-{unit_path(service.keys_file)}",
        f"StandardOutput=append:{log}",
        f"StandardError=append:{log}",
        "Restart=on-failure",
        "RestartSec=1",
        f"RestartPreventExitStatus={' '.join(map(str, NOT_RESTARTED))}",
        "TimeoutStartSec=120",
        f"TimeoutStopSec={STOP_SECONDS}",
        *(("WatchdogSec=60",) if service.root else ()),
        "KillMode=mixed",
        "OOMPolicy=continue",
        "UMask=0077",
        *(HARDENING if service.hardened else ()),
        "",
        "[Install]",
        "WantedBy=default.target",
    ]
    return "\n".join(lines) + "\n"


_ESCAPES: Final = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t"}


def quoted(text: str) -> str:
    """``text`` as one word of a unit. Raises Failure (usage) for what is no text."""
    _check_text(text)
    return '"' + "".join(_ESCAPES.get(c, f"\\x{ord(c):02x}" if ord(c) < 32 or ord(c) == 127 else c) for c in text) + '"'


def word(text: str) -> str:
    """``text`` as one argument of a command of a unit."""
    return quoted(text.replace("%", "%%").replace("$", "$$"))


def unit_path(path: str) -> str:
    """``path`` as the rest of a line. Raises Failure (usage) where that would be another path."""
    _check_text(path)
    if path != path.strip() or not path.isprintable() or path.endswith("\\"):
        text = (
            f"{path!r} cannot stand in a unit: it has a line break or control characters, or a blank or \\ at its end"
        )
        raise Failure("usage", text, "set AGENT_WORKER_HOME to another directory")
    return path.replace("%", "%%")


def shown(text: str) -> str:
    """``text`` for people, on a line of its own."""
    return "".join(c if c.isprintable() and c != "\\" else "?" for c in text).replace("%", "%%")


def _check_text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise Failure("usage", f"a service cannot have {text!a}: it is not UTF-8 text") from error


def plist_text(service: Service) -> str:
    """The launchd property list: started again where it did not end with 0, at most every ten seconds."""
    _check_text(service.root)
    log = os.path.join(service.state, LOG)
    label = service.label
    document = {
        "Label": label,
        "ProgramArguments": list(service.argv),
        "EnvironmentVariables": {**service.environ, **({SERVICE: label} if service.root else {})},
        "WorkingDirectory": service.root or "/",
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": 10,
        "ExitTimeOut": STOP_SECONDS,
        "ProcessType": "Interactive",
        "Umask": 0o077,
        "StandardOutPath": log,
        "StandardErrorPath": log,
    }
    try:
        return plistlib.dumps(document).decode()
    except ValueError as error:
        raise Failure("usage", f"a property list cannot have the paths of {service.root!r}: {error}") from error
