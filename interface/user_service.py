"""The service of a user that starts the kernels of all projects that need one, and ends them with itself.

It looks again and again. A kernel that died, or was cut off with the machine, is started; so is that of a project with
something left to do, unless somebody had stopped it. What is not needed is started by the next command, as ever.
"""

import json
import os
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
from interface.service import NOT_RESTARTED, RESTARTS, STOP_SECONDS, WINDOW_SECONDS
from protocol.discovery import DATABASE

LOOK_SECONDS: Final = 5.0
_ANSWER_SECONDS: Final = 60.0
FILES: Final = (".agents.yaml", "moniro.yaml", ".agents", ".workflows")
"""Of a project: where one of them changes, what is said of it may be no longer true."""


class Observation(NamedTuple):
    """One look at a project. ``needed`` is None where it was not asked, since a kernel runs or the record tells."""

    kernel: Literal["runs", "died", "none", "unknown"]
    needed: bool | None = None


def to_start(look: Observation, starts: Sequence[float], now: float) -> bool:
    """Return whether its kernel is to be started. ``starts``: when that was done before, in seconds of ``now``'s clock.

    Pure. RESTARTS starts within WINDOW_SECONDS are enough, until the window has passed.
    """
    lately = sum(1 for at in starts if now - at < WINDOW_SECONDS)
    return lately < RESTARTS and (look.kernel == "died" or (look.kernel == "none" and look.needed is True))


class UserService:
    """The service. ``say`` writes a line of its log."""

    def __init__(self, environ: Mapping[str, str], cwd: str, clock: Clock, say: Callable[[str], None]) -> None:
        self._environ = environ
        self._cwd = cwd
        self._clock = clock
        self._say = say
        self._kernels: dict[Project, subprocess.Popen[bytes]] = {}
        self._starts: dict[Project, list[float]] = {}
        self._asked: dict[Project, tuple[object, bool]] = {}
        """What a project's log and files were like when it was asked whether a kernel is needed, and the answer."""

    def run(self, stop: threading.Event) -> None:
        """Look until ``stop`` is set; then have the kernels that were started here end, and wait for them."""
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
        """Note which kernels have ended, and start what is to be started. What goes wrong with one is said."""
        for project, kernel in tuple(self._kernels.items()):
            code = kernel.poll()
            if code is None:
                continue
            del self._kernels[project]
            how = f"with {code}" if code >= 0 else f"by signal {-code}"
            if code:
                self._say(f"{project.root}: its kernel ended {how}; see {os.path.join(project.state, 'kernel.log')}")
            if code in NOT_RESTARTED:  # another start would meet the same: no more of them in this window
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
        """Return whether a kernel is needed; asked anew once the log or a file of the project is another."""
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
                raise Failure("failed", f"no answer whether a kernel is needed: {said or error}") from error
            before = self._asked[project] = now_like, bool(json.loads(ran.stdout)["needed"])
        return before[1]
