"""Kernels that serve a queue of landings in processes of their own, and are really killed: SIGKILL, wherever they are.

git and the checks are real, and run without keepers, which have trials of their own: what a kernel had started is
killed right after it, as its keepers would do it, and is gone before the next one begins.
"""

import ctypes
import os
import random
import select
import signal
import subprocess
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import trio

from kernel import fault_injection
from kernel.procs.spec import Pipe, Spec
from kernel.services import landings as service
from kernel.store.transitions import landings
from protocol.api.runs import MergeRequest
from protocol.ipc import Exited
from tests.kernel.git.git_project import GitProject
from tests.kernel.services.landing_project import LandingProject, stored_ground

NAMED: Final = ("begun", "kept", "checked", "locked", "staged", "aside", "file", "files", "index", "moved", "landed")
"""The points of a landing that have names of their own: most kills are to be near them."""
OF_CHECKOUTS: Final = ("locked", "staged", "aside", "file", "files", "index", "moved")
EVENTS: Final = 40
"""Of a kernel for each author, about."""
MOST_DELAY_SECONDS: Final = 0.006
"""After the event, of a kill that comes from outside: a run of git takes about as long."""
STUCK_SECONDS: Final = 300.0
BROKEN: Final = 70
_SUBREAPER: Final = 36
_BROKE: Final = b"it broke: "


@dataclass(frozen=True)
class Doom:
    """The end of one kernel: at the ``nth`` event called ``name`` ("": of all), or ``delay_seconds`` after it."""

    name: str
    nth: int
    delay_seconds: float | None

    @staticmethod
    def draw(chance: random.Random, authors: int, *, checked_out: bool) -> "Doom":
        """One of those that a kernel that has the work of so many ``authors`` may well live to see."""
        delay = chance.random() * MOST_DELAY_SECONDS if chance.random() < 0.5 else None
        if chance.random() < 0.4:
            name = chance.choice([name for name in NAMED if checked_out or name not in OF_CHECKOUTS])
            return Doom(f"landing.{name}", chance.choice((1, 1, 1, 2)), delay)
        return Doom("", chance.randint(1, EVENTS * authors), delay)


@dataclass
class Watch:
    """Sees each event of a kernel in its own process: fault points, and every start and end of a program.

    What others do meanwhile (``acts``: at the n-th event) happens where no program of the kernel runs.
    """

    doom: Doom | None
    acts: dict[int, Callable[[], None]]
    told: int
    """A pipe to the parent: what is written last says where it was killed."""
    seen: dict[str, int] = field(default_factory=dict)
    total: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    waiting: list[Callable[[], None]] = field(default_factory=list)

    def reached(self, name: str) -> None:
        """An event: of any thread."""
        with self.lock:
            self.total += 1
            self.seen[name] = self.seen.get(name, 0) + 1
            if self.total in self.acts:
                self.waiting.append(self.acts.pop(self.total))
            quiet = name.startswith("landing.") or name.endswith(" ended")
        while quiet and self.waiting:
            act = self.waiting.pop()
            if threading.current_thread() is threading.main_thread():
                act()
            else:
                trio.from_thread.run_sync(act)
        doom = self.doom
        if doom is not None and (self.seen.get(doom.name, 0) if doom.name else self.total) == doom.nth:
            self.doom = None
            os.write(self.told, f"{name}\n".encode())
            if doom.delay_seconds is None:
                os.kill(os.getpid(), signal.SIGKILL)


class PlainHandle:
    """A program that runs, with its three pipes."""

    def __init__(self, process: "subprocess.Popen[bytes]", watch: Watch, name: str) -> None:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        self._process, self._watch, self._name = process, watch, name
        self._ended = os.pidfd_open(process.pid)
        self.stdin, self.stdout, self.stderr = (
            Pipe(os.dup(one.fileno())) for one in (process.stdin, process.stdout, process.stderr)
        )
        for one in (process.stdin, process.stdout, process.stderr):
            one.close()

    async def __aenter__(self) -> "PlainHandle":
        return self

    async def __aexit__(self, *_: object) -> None:
        for stream in (self.stdin, self.stdout, self.stderr):
            stream.close()
        os.close(self._ended)
        self._watch.reached(f"{self._name} ended")

    async def wait(self) -> Exited:
        if self._process.poll() is None:
            await trio.lowlevel.wait_readable(self._ended)
        code = self._process.wait()
        return Exited(code=code) if code >= 0 else Exited(signal=-code)

    async def kill(self, after_seconds: float = 0.0) -> None:
        with suppress(ProcessLookupError):
            self._process.kill()


class PlainLauncher:
    """Starts programs as children of the kernel itself."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    async def spawn(self, spec: Spec) -> PlainHandle:
        assert spec.argv is not None
        name = " ".join(map(os.path.basename, spec.argv[:2])) if "git" in spec.argv[0] else "check"
        self._watch.reached(f"{name} starts")
        pipe = subprocess.PIPE
        process = subprocess.Popen(  # noqa: ASYNC220  (a millisecond, and no thread)
            spec.argv, cwd=spec.cwd, env=spec.env, stdin=pipe, stdout=pipe, stderr=pipe
        )
        self._watch.reached(f"{name} runs")
        return PlainHandle(process, self._watch, name)


def plain_launcher(doom: Doom | None = None) -> Any:
    """One for who asks for something in a process that nobody kills."""
    return PlainLauncher(Watch(doom, {}, -1))


@dataclass(frozen=True)
class Life:
    """One kernel's: where it was killed, if it was, and what broke it, if something did."""

    killed_at: str = ""
    broke: str = ""


@dataclass(frozen=True)
class Late:
    """What is asked for of a kernel that is at work, at the ``nth`` event; at the latest when its queue is empty."""

    nth: int
    asked: tuple[tuple[int, MergeRequest], ...]
    now: trio.Event = field(default_factory=trio.Event)
    done: trio.Event = field(default_factory=trio.Event)

    async def ask(self, place: LandingProject) -> None:
        await self.now.wait()
        for run, request in self.asked:
            await place.ask(run, request)
        self.done.set()


def live(
    git_project: GitProject, store: str, doom: Doom | None, acts: dict[int, Callable[[], None]], late: Late
) -> Life:
    """Serve the queue in a process of its own until it is empty, or that is killed. Nothing runs afterwards."""
    heard, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        _be_kernel(git_project, store, Watch(doom, {**acts, late.nth: late.now.set}, told), late)
    os.close(told)
    said, broke = b"", ""
    while True:
        ready, _, _ = select.select([heard], [], [], STUCK_SECONDS)
        piece = os.read(heard, 65536) if ready else b""
        said += piece
        if not ready:
            broke = f"it did not end within {STUCK_SECONDS:.0f} s"
        elif piece and doom is not None and doom.delay_seconds is not None:
            select.select([], [], [], doom.delay_seconds)
        if ready and not piece:
            break
        if not ready or not piece.startswith(_BROKE):
            os.kill(pid, signal.SIGKILL)
        if not ready:
            break
    os.close(heard)
    _, status = os.waitpid(pid, 0)
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    with suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)  # what it had started is ours now, and gone
    words = said.decode("utf-8", "replace")
    if os.WIFSIGNALED(status) and not broke:
        return Life(killed_at=words.strip() or "?")
    return Life(broke=broke or (words or f"it ended with {status}" if status else ""))


def _be_kernel(git_project: GitProject, store: str, watch: Watch, late: Late) -> None:
    code = BROKEN
    try:
        os.setsid()
        setattr(fault_injection, "_reached", watch.reached)  # noqa: B010  (as ``arm`` does it, with another end)
        trio.run(_serve, git_project, store, watch, late)
        code = 0
    except BaseException:  # noqa: BLE001  (nothing may get back into the parent's code)
        os.write(watch.told, _BROKE + traceback.format_exc()[-8000:].encode())
    finally:
        os._exit(code)


async def _serve(git_project: GitProject, store: str, watch: Watch, late: Late) -> None:
    launcher: Any = PlainLauncher(watch)
    async with stored_ground(git_project, launcher, store) as place, trio.open_nursery() as people:
        people.start_soon(late.ask, place)
        kernel = place.kernel()
        while await kernel.run_once() != service.FOREVER_SECONDS or not late.done.is_set():
            if not place.reader.now(landings.unfinished):
                late.now.set()
                await late.done.wait()
            await trio.lowlevel.checkpoint()


def be_subreaper() -> None:
    """Have what a killed kernel leaves become ours."""
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)


def user_git(git_project: GitProject, *words: str, given: bytes = b"") -> bytes | None:
    """What the user's own git said; None: it refused. It lives in a session of its own: no kernel's end is its own."""
    who = {f"GIT_{who}_{what}": "user@localhost" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    done = subprocess.run(
        ("git", *words), cwd=git_project.root, env={**git_project.environ, **who}, input=given, capture_output=True,
        check=False, start_new_session=True,
    )  # fmt: skip
    return done.stdout if done.returncode == 0 else None
