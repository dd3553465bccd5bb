"""What the contract suite is run against: one backend each, and how its model is made to do things."""

import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from tests.worker.scripted_api import Call, Fail, Say, Silence

CLIS = os.environ.get("AGENT_WORKER_TEST_CLIS")
"""A folder that holds ``<name>/node_modules/.bin/<binary>`` of the real programs."""
RECORDED = Path(__file__).parent / "recorded"


@dataclass(frozen=True)
class Reply:
    text: str = "done"
    input_tokens: int = 10
    output_tokens: int = 5
    cached_tokens: int = 0


@dataclass(frozen=True)
class Tell:
    """The model calls ``channel_send`` of Daemon MCP."""

    message: str
    text: str = ""
    input_tokens: int = 10
    output_tokens: int = 5
    cached_tokens: int = 0


@dataclass(frozen=True)
class Shell:
    command: str


@dataclass(frozen=True)
class Use:
    """The model calls a tool of the MCP server ``own``, which is the agent's."""

    tool: str
    args: str = "{}"


@dataclass(frozen=True)
class Refuse:
    """The provider refuses, in the words of its API."""

    status: int
    kind: str
    message: str = "not today"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Quiet:
    """The provider takes the request, and says nothing until the end of the test."""


Move = Reply | Tell | Shell | Use | Refuse | Quiet


class Subject(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    @property
    def program(self) -> bool:
        """Whether another program does the work, which has a process, a session and a format of its own."""
        ...

    @property
    def weaker(self) -> Mapping[str, str]:
        """Scenarios of which it does less, each with a word for people: documents are made of it."""
        ...

    @property
    def lacks(self) -> Mapping[str, str]: ...

    def start(self, moves: tuple[Move, ...], url: str) -> dict[str, Any]:
        """Fields of a start frame for a model that makes ``moves``, at the provider at ``url``."""
        ...

    def daemon_tool(self, name: str) -> str: ...

    def own_tool(self, name: str) -> str:
        """How its model calls a tool of the agent's own MCP server ``own``."""
        ...

    def shell(self, command: str) -> Call:
        """The call by which its model runs a command."""
        ...


Where = Literal["real", "faked", "recorded", "within"]


@dataclass(frozen=True, kw_only=True)
class ProgramSubject:
    name: str
    version: str
    binary: str
    daemon_prefix: str
    fields: Callable[[str], dict[str, Any]]
    """Fields of its start frame (model and provider), given where the scripted provider listens."""
    shell_tool: str = "shell"
    shell_word: str = "command"
    described: bool = False
    """A call of ``shell_tool`` needs a description beside ``shell_word``."""
    real: str | None = None
    """The real program below CLIS; None: ``node_modules/.bin/<binary>``."""
    fake: Path | None = None
    """A Python program that stands for one that cannot be had; then nothing is recorded."""
    weaker: Mapping[str, str] = field(default_factory=dict)
    lacks: Mapping[str, str] = field(default_factory=dict)
    keeps: Mapping[str, str] = field(default_factory=dict)
    """Files of its that are part of a recording, for what it says there alone: pattern -> a word in the lines kept."""
    arguments: tuple[str, ...] = ()
    """Arguments that its agent's file has."""
    folder: str = ""
    """Where it is below CLIS; empty: where its name says."""
    package: str = ""
    """Its package, where the table of backends has none."""
    talks: bool = False
    """It is spoken to while it works, so that nothing of it can be recorded."""
    unrecorded: frozenset[str] = frozenset()
    """Scenarios that no recording can play: what its requests cost is counted on their way."""
    program: bool = True

    def start(self, moves: tuple[Move, ...], url: str) -> dict[str, Any]:
        """Fields of a start frame; its model is the scripted provider."""
        return {"backend": self.name, **self.fields(url)}

    def daemon_tool(self, name: str) -> str:
        return f"{self.daemon_prefix}{name}"

    def own_tool(self, name: str) -> str:
        """How its model calls a tool of the agent's own MCP server ``own``."""
        return f"{self.daemon_prefix.replace('daemon', 'own')}{name}"

    def shell(self, command: str) -> Call:
        """The call by which its model runs a command."""
        words = {self.shell_word: command} | ({"description": "a test"} if self.described else {})
        return Call(self.shell_tool, json.dumps(words), id="call_shell")

    def installed(self) -> list[str] | None:
        """The command that is the real program, where it is installed for tests, or what stands for it."""
        if self.fake is not None:
            return [sys.executable, "-IS", str(self.fake)]
        if CLIS is None:
            return None
        path = Path(CLIS) / (self.folder or self.name) / (self.real or f"node_modules/.bin/{self.binary}")
        return [str(path.resolve())] if path.exists() else None

    @property
    def recordings(self) -> Path:
        return RECORDED / f"{self.name}-{self.version}"


def api_move(subject: Subject, move: Move, quiet: Silence) -> Say | Fail | Silence:
    """``move`` as the scripted provider plays it."""
    match move:
        case Reply(text=text):
            return Say(text, (), None, move.input_tokens, move.output_tokens, move.cached_tokens, chunk=40)
        case Tell(message=message, text=text):
            call = Call(subject.daemon_tool("channel_send"), f'{{"message": "{message}"}}', id=f"call_{message}")
            return Say(text, (call,), None, move.input_tokens, move.output_tokens, move.cached_tokens, chunk=40)
        case Shell(command=command):
            return Say(calls=(subject.shell(command),))
        case Use(tool=tool, args=args):
            return Say(calls=(Call(subject.own_tool(tool), args, id="call_own"),))
        case Refuse():
            error = {"type": move.kind, "message": move.message, "code": move.kind}
            return Fail(move.status, {"type": "error", "error": error}, move.headers)
        case Quiet():
            return quiet
