"""Where one scenario is played: a provider, Daemon MCP, folders, and a kernel that remembers entries over attempts."""

import os
import signal
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from protocol.ipc import Entry, Limits, McpAddress
from tests.worker.backends.fake_cli_install import Place, Word
from tests.worker.backends.subject import Move, ProgramSubject, Reply, Subject, Where, api_move
from tests.worker.fake_daemon import FakeDaemon, fake_daemon
from tests.worker.fake_kernel import Answer, Attempt, go, make_start, worker
from tests.worker.scripted_api import Fail, Request, ScriptedApi, Silence

SECONDS = 60
REAL_SECONDS = 120
"""For a real program on a busy machine: opencode starts for half a minute there."""
RECORD = bool(os.environ.get("AGENT_WORKER_TEST_RECORD"))
"""Set: the real programs' streams are written over the recordings."""


@dataclass
class ScenarioRun:
    """One scenario of one subject. ``entries`` are what is durable so far."""

    subject: Subject
    where: Where
    scenario: str
    folder: Path
    daemon: FakeDaemon
    api: ScriptedApi | None = None
    tamper: str | None = None
    entries: list[Entry] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    _moves: tuple[Move, ...] = ()
    _recorded: str = ""
    _quiet: threading.Event = field(default_factory=threading.Event)
    _stack: ExitStack = field(default_factory=ExitStack)

    @property
    def live(self) -> bool:
        """Whether a model is asked and tools are called; in a recording all of that has been."""
        return self.where != "recorded"

    @property
    def requests(self) -> list[Request]:
        assert self.api is not None
        return self.api.requests

    @property
    def cwd(self) -> Path:
        return self.folder / "project"

    def script(
        self, *moves: Move, otherwise: Move | None = None, tamper: str | None = None, recorded: str | None = None
    ) -> None:
        """Have the model do this, and ``otherwise`` ever after; ``tamper`` with what a program says.

        ``recorded``: the scenario whose recording is the same, where that is not this one.
        """
        self.tamper = tamper
        self._recorded = recorded or self.scenario
        self._moves = (
            moves if otherwise is None else (*moves, *[otherwise] * (1 if isinstance(otherwise, Reply) else 6))
        )
        silence = Silence(self._quiet)
        played = [api_move(self.subject, move, silence) for move in moves]
        after = Fail(500) if otherwise is None else api_move(self.subject, otherwise, silence)
        self.api = self._stack.enter_context(ScriptedApi(played, after))

    async def attempt(self, answer: Answer = go, **changes: Any) -> Attempt:
        """One attempt, which goes on from the entries of those before."""
        assert self.api is not None, "script it first"
        place = self.folder / f"run-{len(self.entries)}-{len(list(self.folder.glob('run-*')))}"
        place.mkdir(mode=0o700)
        fields: dict[str, Any] = {
            "message": "do it",
            "system": "You are Alice, the canary.",
            "entries": tuple(self.entries),
            "mcp": McpAddress(url=self.daemon.url),
            "token": self.daemon.token,
            "cwd": str(self.cwd),
            "attempt_dir": str(place),
            "session_dir": str(self.folder / "session"),
            "limits": Limits(tool_seconds=20.0, idle_seconds=20.0),
            "env": {"PATH": f"{self.folder / 'bin'}:{os.defpath}:/usr/bin", "HOME": str(self.folder / "home")},
            "mock_counts": dict(self.counts),
            "approval": "auto",
        }
        started = self.subject.start(self._moves, self.api.url)
        fields["env"] |= started.pop("env", {})
        for variable, text in started.pop("files", {}).items():  # of its user's, each by the variable that names it
            path = self.folder / "home" / f"{variable}.json"
            path.write_text(text, "utf-8")
            fields["env"][variable] = str(path)
        fields |= started
        fields["command"] = self._placed()
        async with worker(answer, REAL_SECONDS if self.where == "real" else SECONDS) as kernel:
            await kernel.greet(make_start(**{**fields, **changes}))
            ended = await kernel.serve()
        self.entries += kernel.entries
        return Attempt(ended, kernel.entries, kernel.frames)

    def words(self) -> list[Word]:
        return Place(self.folder).words()

    def kill_program(self) -> None:
        os.kill(self.words()[-1].pid, signal.SIGKILL)

    def close(self) -> None:
        self._quiet.set()
        self._stack.close()

    def _placed(self) -> tuple[str, ...]:
        subject = self.subject
        if not isinstance(subject, ProgramSubject):
            return ()
        Place(self.folder).put(
            subject.binary,
            recorded=subject.recordings / self._recorded,
            real=None if self.where == "recorded" else subject.installed(),
            tamper=self.tamper,
            record=RECORD and self.where == "real" and self.tamper is None,
            keeps=subject.keeps,
            talks=subject.talks,
        )
        return (str(Place(self.folder).bin / subject.binary), *subject.arguments)


@asynccontextmanager
async def made(subject: Subject, where: Where, scenario: str, folder: Path) -> AsyncGenerator[ScenarioRun]:
    for name in ("project", "session", "home"):
        (folder / name).mkdir(mode=0o700)
    async with fake_daemon() as daemon:
        run = ScenarioRun(subject, where, scenario, folder, daemon)
        try:
            yield run
        finally:
            run.close()


def when(kind: str, then: Callable[[Entry], Any]) -> Answer:
    """Answer ``go``, until an entry of this ``kind``: that is answered by ``then``."""

    def answer(entry: Entry) -> Any:
        return then(entry) if entry.kind == kind else go(entry)

    return answer
