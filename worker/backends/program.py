"""What a program in a worker's place has to offer: how it is started, and what it says means.

One instance serves one attempt. It starts nothing and waits for nothing: ``worker.backends.attempt`` runs the process,
feeds it and ends it. So each program's file is a translation, tested on recorded streams.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from protocol.instruction import Usage
from protocol.ipc import Result, Start, ToolCall
from worker.models.errors import Failed


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What there is to do.

    ``message`` is what the program reads: the instruction with its thread, or, where ``session`` is resumed, what was
    added since and the word to go on. ``place`` goes with the attempt, ``home`` outlives it (both 0700).
    """

    start: Start
    binary: str
    message: str
    session: str | None
    place: Path
    home: Path
    env: Mapping[str, str]
    """The environment that the attempt's programs have; the provider's key is not in it."""
    max_turns: int
    """Replies left of max_steps."""
    endpoint: str | None = None
    """Where its requests to its provider go; None: where the provider is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A process to run in ``start.cwd``. ``env`` is all of its environment; ``stdin`` is written, then closed.

    ``see``: absolute paths, beside the project and the two folders, that it has to read where it runs in a sandbox.
    ``litter``: files that it leaves outside of our folders when it is killed (``{pid}`` is its own); removed then.
    ``log``: what begins so on its standard error are lines of its log, and none of its last words; ``read`` is given
    those in which the group ``told`` took part.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    stdin: bytes
    see: tuple[str, ...] = ()
    litter: tuple[str, ...] = ()
    log: re.Pattern[bytes] | None = None


@dataclass(frozen=True, slots=True)
class SessionIs:
    """The id under which it can be resumed; made durable before anything else."""

    id: str


@dataclass(frozen=True, slots=True)
class Said:
    """Text as it comes. Shown, not kept."""

    text: str


@dataclass(frozen=True, slots=True)
class Doing:
    """What it does now. ``tool``: a tool runs until the next event."""

    what: str
    tool: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One reply of its model, whole: a step. ``usage`` is of this reply alone, never counted before or again.

    Each of ``calls`` is followed by a ``ToolEnded`` in time; one without calls is its last, as a rule.
    """

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    usage: Usage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolEnded:
    """A tool came back: kept, so that a fresh start can be told what was done. Between two turns, it may be stopped."""

    call_id: str
    name: str
    text: str
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Spent:
    """Model calls that were no turn of its own (agents below it): what they cost, and no turn told."""

    usage: Usage


@dataclass(frozen=True, slots=True)
class Reached:
    """It is connected to Daemon MCP."""


@dataclass(frozen=True, slots=True)
class Hopeless:
    """It would not end by itself for long (a wrong key is retried for minutes): it is to be ended, for this reason."""

    why: Failed


@dataclass(frozen=True, slots=True)
class Pauses:
    """It waits of its own accord; where nothing more is heard of it for so long, it is to be ended for this reason."""

    seconds: float
    why: Failed


@dataclass(frozen=True, slots=True)
class Over:
    """Its last event: it should leave now, and is made to where it does not."""


Event = SessionIs | Said | Doing | Turn | ToolEnded | Spent | Reached | Hopeless | Pauses | Over


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How the process ended: one of ``code`` and ``signal``. ``stderr`` is the end of what it said there.

    ``pushed``: it had said its last and stayed, so it was made to leave, and how it left says nothing.
    """

    code: int | None
    signal: int | None
    stderr: str
    pushed: bool = False

    @property
    def well(self) -> bool:
        """Whether the exit says that all went well, or says nothing."""
        return self.code == 0 or self.pushed


class Program(Protocol):
    """One attempt of one program. Its file makes it with a function ``open(job: Job) -> Program`` (raises Failed)."""

    def launch(self) -> Launch:
        """How to start it; writes its private configuration (0600) first. Raises Failed."""
        ...

    def read(self, line: bytes) -> Iterable[Event]:
        """What one line of its output (or log) means. A line that is no event means nothing. Raises Failed."""
        ...

    def conclude(self, ended: Ended) -> Result:
        """What came of it, from its terminal event *and* its exit: either alone is not success. Raises Failed.

        Not asked where the attempt was stopped: for a limit, for something more urgent, by a person.
        """
        ...
