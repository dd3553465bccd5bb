"""RECORDINGS: all files of ``recorded``, and how each is made."""

import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import pytest
import trio

from interface.cli.commands.completion import SHELLS
from tests.wire import process, surface
from tests.wire.story import STORIES, tell

FOLDER: Final = Path(__file__).parent / "recorded"


def _told(story: str, root: Path) -> str:
    return trio.run(tell, story, root)


def _shown(*words: str) -> Callable[[Path], str]:
    return lambda root: surface.command(*words, root=root)


RECORDINGS: Final[dict[str, Callable[[Path], str]]] = {
    **{f"{story}.txt": partial(_told, story) for story in STORIES},
    **{f"completion.{shell}": _shown("completion", shell) for shell in SHELLS},
    "commands.txt": lambda _root: surface.commands(),
    "help.txt": surface.topics,
    "process.txt": process.told,
    "openapi.json": surface.openapi,
    "refusals.txt": surface.refusals,
}


def _unchanged(_number: int, _handler: object) -> object:
    return signal.SIG_DFL


@contextmanager
def steady() -> Generator[None]:
    """Keep the machine and the user who records out of the recordings."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", "/nonexistent")
        patch.setattr(signal, "signal", _unchanged)
        yield


def make(name: str, root: Path) -> str:
    """Return a recording, made in ``root``, an empty folder."""
    with steady():
        return RECORDINGS[name](root)
