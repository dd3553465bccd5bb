"""User service that restarts kernels: the text of its unit, and the loop for all projects.

The text is a systemd user unit, or a launchd property list. systemd reads a unit line by line. Arguments of a command
are quoted as in C, and ``%`` and ``$`` are doubled, because systemd expands specifiers and variables. A path setting is
the rest of the line, in which only ``%`` is expanded. Text that cannot be written on a line, or that systemd would
strip, is refused.

The loop inspects all projects every few seconds. It starts a kernel that died, or that stopped with the machine. It
also starts the kernel of a project with unfinished work, unless the user stopped it.
"""

import json
import os
import plistlib
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final, Literal, NamedTuple

from interface.autostart import spawn
from interface.clock import Clock
from interface.discovery import Project, lives, recorded_endpoint, reject_reason
from interface.failure import Failure
from interface.offline import shell_environment
from interface.projects import projects_of_user
from protocol.discovery import DATABASE, ENDED, LOG, SERVICE, project_slug

MARK: Final = "# Made by awk service install. Changes are lost when it is made again."
RESTARTS: Final = 5
WINDOW_SECONDS: Final = 600
"""After RESTARTS starts within this time, a kernel remains stopped."""
NOT_RESTARTED: Final = (75, 78)
"""Exit codes (sysexits.h) after which a restart would fail again: another kernel runs (EX_TEMPFAIL), or files have
mistakes (EX_CONFIG)."""
STOP_SECONDS: Final = 45
"""Time to stop: the grace period and the workers' stop ladder."""
NOTE: Final = 'umask 077; printf "%s %s %s\\n" "$SERVICE_RESULT" "$EXIT_CODE" "$EXIT_STATUS" > "$0"'
"""Shell script that systemd runs after the kernel's exit. It records the exit in the file ``$0``."""
HARDENING: Final = ("NoNewPrivileges=yes", "LockPersonality=yes", "RestrictRealtime=yes", "RestrictSUIDSGID=yes")
"""Hardening that permits forks, user namespaces (bubblewrap) and compilers that write code in memory."""


class Service(NamedTuple):
    """Settings of a service; ``argv`` is its command line, ``environ`` its environment."""

    root: str
    """Root of the project whose kernel the service runs; "" for all projects of the user."""
    state: str
    """Directory of the log."""
    argv: Sequence[str]
    environ: Mapping[str, str]
    keys_file: str
    """Optional file of ``NAME=value`` lines."""
    hardened: bool = True
    """Whether to apply HARDENING. False if bubblewrap is setuid, because it could not gain privileges."""

    @property
    def name(self) -> str:
        """Return the name of the service."""
        return f"agent-worker-{project_slug(self.root)}" if self.root else "agent-worker"

    @property
    def label(self) -> str:
        """Return the label of the service for launchd."""
        return self.name.replace("agent-worker-", "agent-worker.", 1) if self.root else "agent-worker.all"


def unit_text(service: Service) -> str:
    """Return the systemd user unit. Raises Failure (usage) for a path that a unit cannot contain."""
    log = unit_path(os.path.join(service.state, LOG))
    note = ["/bin/sh", "-c", NOTE, os.path.join(service.state, ENDED)]
    if "$" in service.argv[0]:
        hint = "install agent-worker in another directory"
        raise Failure("usage", f"{service.argv[0]} cannot be used in a unit: its path contains $", hint)
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
    """Quote ``text`` as one word of a unit. Raises Failure (usage) if it is not UTF-8."""
    _check_text(text)
    return '"' + "".join(_ESCAPES.get(c, f"\\x{ord(c):02x}" if ord(c) < 32 or ord(c) == 127 else c) for c in text) + '"'


def word(text: str) -> str:
    """Quote ``text`` as an argument of a command in a unit."""
    return quoted(text.replace("%", "%%").replace("$", "$$"))


def unit_path(path: str) -> str:
    """Return ``path`` as the value of a path setting of a unit. Raises Failure (usage) if systemd would change it."""
    _check_text(path)
    if path != path.strip() or not path.isprintable() or path.endswith("\\"):
        text = (
            f"{path!r} cannot be used in a unit: it has a line break or control characters, or a blank or \\ at its end"
        )
        raise Failure("usage", text, "set AGENT_WORKER_HOME to another directory")
    return path.replace("%", "%%")


def shown(text: str) -> str:
    """Return ``text`` for display on a line of a unit."""
    return "".join(c if c.isprintable() and c != "\\" else "?" for c in text).replace("%", "%%")


def _check_text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise Failure("usage", f"{text!a} cannot be used in a service: it is not UTF-8 text") from error


def plist_text(service: Service) -> str:
    """Return the launchd property list: restart after a non-zero exit, at most every ten seconds."""
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
        text = f"launchd service of {service.root or 'all projects'} cannot be created: {error}"
        raise Failure("usage", text) from error


LOOK_SECONDS: Final = 5.0
_ANSWER_SECONDS: Final = 60.0
FILES: Final = (".agents.yaml", "moniro.yaml", ".agents", ".workflows")
"""Files of a project whose changes invalidate the cached answer of ``_needed``."""


class Observation(NamedTuple):
    """Snapshot of a project; ``needed`` is None unless ``kernel`` is "none"."""

    kernel: Literal["runs", "died", "none", "unknown"]
    needed: bool | None = None


def to_start(look: Observation, starts: Sequence[float], now: float) -> bool:
    """Return whether to start the project's kernel. ``starts``: times of earlier starts in seconds of ``now``'s clock.

    Pure. After RESTARTS starts within WINDOW_SECONDS there is no further start until the window has passed.
    """
    lately = sum(1 for at in starts if now - at < WINDOW_SECONDS)
    return lately < RESTARTS and (look.kernel == "died" or (look.kernel == "none" and look.needed is True))


class UserService:
    """Service for all projects of the user. ``say`` writes a line of its log."""

    def __init__(self, environ: Mapping[str, str], cwd: str, clock: Clock, say: Callable[[str], None]) -> None:
        self._environ = environ
        self._cwd = cwd
        self._clock = clock
        self._say = say
        self._kernels: dict[Project, subprocess.Popen[bytes]] = {}
        self._starts: dict[Project, list[float]] = {}
        self._asked: dict[Project, tuple[object, bool]] = {}
        """Cache of ``_needed`` by project: modification times and sizes of the files, and the answer."""

    def run(self, stop: threading.Event) -> None:
        """Inspect all projects periodically until ``stop`` is set. Then end the kernels that this service started."""
        while not stop.is_set():
            self.look_at_all()
            stop.wait(LOOK_SECONDS)
        for kernel in self._kernels.values():
            kernel.terminate()
        deadline = self._clock.now() + STOP_SECONDS
        for project, kernel in self._kernels.items():
            try:
                kernel.wait(max(0.0, deadline - self._clock.now()))
            except subprocess.TimeoutExpired:
                self._say(f"{project.root}: its kernel has not ended in {STOP_SECONDS} s")

    def look_at_all(self) -> None:
        """Reap exited kernels and start needed kernels. A failure of a project is logged and affects no other."""
        for project, kernel in tuple(self._kernels.items()):
            code = kernel.poll()
            if code is None:
                continue
            del self._kernels[project]
            how = f"with {code}" if code >= 0 else f"by signal {-code}"
            if code:
                self._say(f"{project.root}: its kernel ended {how}; see {os.path.join(project.state, 'kernel.log')}")
            if code in NOT_RESTARTED:  # another start would fail again: prevent starts within this window
                self._starts[project] += [self._clock.now()] * RESTARTS
        for project in projects_of_user(self._environ, self._cwd):
            try:
                starts = self._starts.setdefault(project, [])
                if project not in self._kernels and to_start(self._look(project), starts, self._clock.now()):
                    now = self._clock.now()
                    starts[:] = [*(at for at in starts if now - at < WINDOW_SECONDS), now]
                    self._kernels[project] = spawn(project, self._environ, now).process
                    self._say(f"{project.root}: started its kernel, pid {self._kernels[project].pid}")
            except (Failure, OSError) as error:
                self._say(f"{project.root}: {error}")

    def _look(self, project: Project) -> Observation:
        given = self._environ.get("XDG_CONFIG_HOME", "")
        home = self._environ.get("HOME") or os.path.expanduser("~")
        units = os.path.join(given if os.path.isabs(given) else os.path.join(home, ".config"), "systemd", "user")
        has_own = os.path.lexists(os.path.join(units, f"agent-worker-{os.path.basename(project.state)}.service"))
        if has_own or not os.path.isdir(project.root):
            return Observation("unknown")
        endpoint = recorded_endpoint(project)
        if endpoint is not None:
            return Observation("runs" if lives(endpoint) else "died")
        if reject_reason(project) is not None:
            return Observation("unknown")
        return Observation("none", self._needed(project))

    def _needed(self, project: Project) -> bool:
        """Return whether a kernel is needed; the answer is cached until the log or a file changes."""
        places = [os.path.join(project.state, DATABASE), *(os.path.join(project.root, name) for name in FILES)]
        now_like: list[tuple[int, int]] = []
        for place in places:
            with suppress(OSError):
                facts = os.stat(place)
                now_like.append((facts.st_mtime_ns, facts.st_size))
        before = self._asked.get(project)
        if before is None or before[0] != now_like:
            words = ("--project", project.root, "--state", project.state)
            argv = [sys.executable, "-I", "-m", "kernel.inspect.needed", *words]
            env = shell_environment(self._environ)
            try:
                ran = subprocess.run(argv, env=env, capture_output=True, timeout=_ANSWER_SECONDS, check=True)
            except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
                said = (error.stderr or b"").decode("utf-8", "replace").strip().rpartition("\n")[2]
                raise Failure("failed", f"could not check whether a kernel is needed: {said or error}") from error
            before = self._asked[project] = now_like, bool(json.loads(ran.stdout)["needed"])
        return before[1]
