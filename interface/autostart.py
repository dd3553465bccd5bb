"""Start of a project's kernel, at most once even if many commands need it at the same time (fault PF13).

Starters use no lock: each spawns a kernel, and only the kernel that gets the flock continues. All starters connect to
the kernel that proves its identity. A kernel inherits nothing from its starter but environment variables.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from interface.client import Client
from interface.clock import Clock
from interface.discovery import (
    HOME,
    IDLE,
    Hanging,
    KernelEndpoint,
    NotOurKernel,
    Project,
    Proof,
    is_locked,
    prove,
    recorded_endpoint,
    reject_reason,
)
from interface.failure import Failure, Unreachable
from protocol.discovery import LOG

START_SECONDS: Final = 30.0
_FIRST_PAUSE_SECONDS: Final = 0.005
_LONGEST_PAUSE_SECONDS: Final = 0.05
_AGAIN_SECONDS: Final = 1.0
_PROOF_SECONDS: Final = 1.0
"""Timeout of a proof. Short, because a kernel that is started needlessly exits when it finds the lock taken."""
_TAIL_BYTES: Final = 4096
_TAIL_LINES: Final = 15
_NOT_INHERITED: Final = (
    *("PYTHON", "LD_", "DYLD_", "GIT_"),
    *("ACTIONS_", "GITHUB_ENV", "GITHUB_OUTPUT", "GITHUB_PATH", "GITHUB_STATE", "GITHUB_STEP_SUMMARY"),
)
"""Prefixes of variables that would affect the kernel's interpreter, its libraries or its git, and of the tokens and
files of a GitHub runner, with which processes of the kernel could act in the name of the job."""
_EX_CONFIG: Final = 78


class Spawned(NamedTuple):
    """Kernel process that is starting, with the position in the log at which its output starts."""

    process: "subprocess.Popen[bytes]"
    log: str
    log_start: int
    at: float


def command(project: Project, *flags: str) -> list[str]:
    """Return the command line of a kernel. ``-I``: folders of the project or PYTHONPATH must not shadow packages."""
    return [sys.executable, "-I", "-m", "kernel", "--project", project.root, *flags]


def kernel_environment(environ: Mapping[str, str], project: Project) -> dict[str, str]:
    """Return ``environ`` for a kernel, without the variables of _NOT_INHERITED."""
    kept = {name: value for name, value in environ.items() if not name.startswith(_NOT_INHERITED)}
    if environ.get(HOME):
        kept[HOME] = os.path.dirname(os.path.dirname(project.state))  # the given value may be relative
    return kept


def spawn(project: Project, environ: Mapping[str, str], now: float, *flags: str) -> Spawned:
    """Start a kernel in a new session, with the project as its directory and kernel.log as its output."""
    path = os.path.join(project.state, LOG)
    try:
        make_private(project.state)
        log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        hint = f"set {HOME} to a directory that you own"
        raise Failure("kernel_configuration", f"cannot write {path}: {error.strerror}", hint) from error
    try:
        start = os.fstat(log).st_size
        process = subprocess.Popen(
            command(project, *flags),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=project.root,
            env=kernel_environment(environ, project),
            start_new_session=True,
            umask=0o077,
        )
    finally:
        os.close(log)
    return Spawned(process, path, start, now)


def make_private(directory: str) -> None:
    """Create ``directory`` and its missing parents with mode 0700 (``makedirs`` sets the mode of the last one only)."""
    before = os.umask(0o077)
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
    finally:
        os.umask(before)


class Starter:
    """Starter of the kernel of a project.

    Args:
        say: receives notes for the user.
        flags: additional arguments of a started kernel.
        may_spawn: whether to start a kernel, or only to wait for one that is starting.
        child: kernel that the caller has started; its exit ends the wait.
    """

    def __init__(
        self,
        project: Project,
        environ: Mapping[str, str],
        clock: Clock,
        say: Callable[[str], None],
        *flags: str,
        may_spawn: bool = True,
        child: "subprocess.Popen[bytes] | None" = None,
    ) -> None:
        self._project = project
        self._environ = environ
        self._clock = clock
        self._say = say
        self._flags = flags
        self._may_spawn = may_spawn
        self._child = child
        self._spawned = Spawned(child, "", 0, clock.now()) if child else None
        self._endpoint: KernelEndpoint | None = None
        self._warned = False
        self.started_pid = 0
        """Process id of the kernel that this starter spawned; 0 until that kernel responds."""

    @property
    def unproved(self) -> "subprocess.Popen[bytes] | None":
        """Return the process of a spawned kernel that runs but does not respond yet; None if there is none."""
        process = None if self._spawned is None or self._child else self._spawned.process
        return process if process is not None and process.poll() is None else None

    def client(self) -> Client:
        """Return a client when the kernel is ready. Raises Failure if it fails to start.

        Without ``may_spawn``, raises Unreachable as soon as no kernel responds.
        """
        deadline = self._clock.now() + START_SECONDS
        pause = _FIRST_PAUSE_SECONDS
        while True:
            exited = self._spawned.process.poll() if self._spawned else None
            proof = self._proof()
            if proof is not None and proof.status == "ok":
                assert self._endpoint is not None
                if proof.idle:
                    self._say(IDLE)
                if self._spawned is not None and self._child is None:
                    # Release the spawned kernel. If another kernel was faster, kill the spawned one.
                    process = self._spawned.process
                    if process.pid == self._endpoint.pid:
                        process.returncode = 0  # the kernel outlives this process: no ResourceWarning of Popen
                        self.started_pid = process.pid
                    else:
                        process.kill()
                        process.wait()
                return Client(self._endpoint, proof.connection)
            if proof is None and not self._may_spawn:
                raise Unreachable("the kernel exited during startup")
            if proof is None:
                now = self._clock.now()
                if exited or (exited is not None and self._child):
                    how = f"with {exited}" if exited >= 0 else f"by signal {-exited}"
                    configured = exited != _EX_CONFIG
                    failure = None if configured else self._misconfigured()
                    kind = "no_kernel" if configured else "kernel_configuration"
                    raise failure or self._gave_up(f"the kernel ended {how} before it was ready", kind)
                came_second = exited == 0 and self._spawned is not None and now - self._spawned.at > _AGAIN_SECONDS
                if came_second and (reason := reject_reason(self._project)):
                    raise Failure("no_kernel", f"a kernel is running but cannot be reached: {reason}")
                if self._spawned is None or came_second:
                    self._spawned = spawn(self._project, self._environ, now, *self._flags)
            if self._clock.now() > deadline:
                raise self._silent() or self._gave_up(
                    f"the kernel is not ready after {START_SECONDS:.0f} s", "no_kernel"
                )
            self._clock.pause(pause)
            pause = min(pause * 1.5, _LONGEST_PAUSE_SECONDS)

    def _proof(self) -> Proof | None:
        self._endpoint = recorded_endpoint(self._project)
        if self._endpoint is None:
            return None
        try:
            proof = prove(self._endpoint, _PROOF_SECONDS)
        except NotOurKernel as error:
            # Otherwise the record has changed meanwhile.
            if not self._warned and recorded_endpoint(self._project) == self._endpoint:
                self._say(f"{error}; starting a kernel")
                self._warned = True
            return None
        except Unreachable:
            return None
        if proof.status != "ok":
            proof.connection.close()
        return proof

    def _silent(self) -> Failure | None:
        hanging = Hanging(self._project, Unreachable(f"no response within {START_SECONDS:.0f} s"))
        ours = self._spawned.process if self._spawned else None
        if hanging.endpoint is None or not is_locked(self._project) or (ours and ours.pid == hanging.endpoint.pid):
            return None
        if ours:  # another kernel was faster
            ours.kill()
            ours.wait()
        return hanging

    def _misconfigured(self) -> Failure | None:
        from interface.agent_dir import NAMES  # noqa: PLC0415  (as above)
        from interface.offline import mistakes  # noqa: PLC0415  (only for mistakes)

        there = [name for name in NAMES if os.path.exists(os.path.join(self._project.root, name))]
        places = mistakes(self._project.root, there) if there else ()
        if not places:
            return None
        first = places[0]
        return Failure("bad_definition", f"{first.where}: {first.message}".removeprefix(": "), places=places)

    def _gave_up(self, text: str, kind: str) -> Failure:
        lines: list[str] = []
        if self._spawned is not None and self._spawned.log:
            with open(self._spawned.log, "rb") as log:
                end = log.seek(0, os.SEEK_END)
                # The kernel has rotated the log.
                start = self._spawned.log_start if self._spawned.log_start <= end else 0
                log.seek(max(start, end - _TAIL_BYTES))
                lines = log.read().decode("utf-8", "replace").strip().splitlines()
        tail = "".join(f"\n  | {line}" for line in lines[-_TAIL_LINES:])
        return Failure(kind, text + tail, f"see {os.path.join(self._project.state, LOG)}")
