"""A command line in a world of its own: streams in memory, a project in a temporary folder, a scripted kernel."""

import io
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from interface.cli.context import Streams
from interface.cli.main import run
from interface.cli.output import Output
from interface.clock import Clock
from tests.interface.kernel_double import KernelDouble

AWK: Final = [sys.executable, "-m", "interface", "awk", ""]
"""``awk`` as a process of its own."""


class Terminal(io.TextIOWrapper):
    """Text in memory that says whether it is a terminal."""

    def __init__(self, content: bytes = b"", *, terminal: bool = False) -> None:
        super().__init__(io.BytesIO(content), "utf-8", write_through=True)
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal

    @property
    def written(self) -> str:
        buffer = self.buffer
        assert isinstance(buffer, io.BytesIO)
        return buffer.getvalue().decode()


@dataclass(frozen=True)
class Ran:
    """The exit code and output of a command."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)

    def jsonl(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


@dataclass
class Cli:
    """Runs commands in one project."""

    root: Path
    home: Path
    environ: dict[str, str] = field(default_factory=dict)
    waited: list[float] = field(default_factory=list)
    patience: int = sys.maxsize
    """After so many pauses somebody presses Ctrl-C."""
    wall: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        self.environ = {"AGENT_WORKER_HOME": str(self.home), "PATH": os.environ["PATH"], **self.environ}

    def __call__(
        self, *words: str, stdin: str = "", terminal: bool = False, program: str = "awk", mixed: bool = False
    ) -> Ran:
        """``mixed``: what is said on standard error stands among the rest of the output, as a person sees it."""
        out = Terminal(terminal=terminal)
        err = out if mixed else Terminal()
        world = Streams(
            program=program,
            stdin=Terminal(stdin.encode("utf-8", "surrogateescape"), terminal=terminal),
            out=Output(out, err, self.environ),
            environ=self.environ,
            clock=Clock(time.monotonic, self.wall, self.pause),
            system_awk="/usr/bin/awk",
        )
        before = os.getcwd()
        os.chdir(self.root)
        try:
            code = run(words, world)
        finally:
            os.chdir(before)
        return Ran(int(code), out.written, err.written)

    def pause(self, seconds: float) -> None:
        self.waited.append(seconds)
        if len(self.waited) >= self.patience:
            raise KeyboardInterrupt


@pytest.fixture(autouse=True)
def nobodys_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """The agents of whoever runs the tests are not there."""
    monkeypatch.setenv("HOME", "/nonexistent")


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    (tmp_path / "project" / ".agents").mkdir(parents=True)
    (tmp_path / "home").mkdir()
    return Cli(root=(tmp_path / "project").resolve(), home=tmp_path / "home")


@pytest.fixture
def kernel(cli: Cli) -> Iterator[KernelDouble]:
    """A kernel of that project, which answers what the test puts into ``answers``."""
    with KernelDouble().running() as double:
        double.publish(cli.home, cli.root)
        yield double
