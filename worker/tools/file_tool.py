"""A tool over the files of the working directory: a blocking function in a thread, whose refusals are results."""

import errno
import os
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar

import msgspec
import trio

from protocol.tools import BUILT_IN
from worker.tool import BuiltinTool, Outcome
from worker.tools.arguments import Arguments, BadArguments, read, spec
from worker.tools.confined_files import ConfinedDir, NotAllowed
from worker.tools.patterns import BadPattern


class FileArguments(Arguments, frozen=True, kw_only=True):
    """Arguments of a file tool. ``path`` is as seen from the working directory."""

    path: str


A = TypeVar("A", bound=FileArguments)


class FileTool(msgspec.Struct, Generic[A], frozen=True, kw_only=True):
    """One of them. ``act`` may raise NotAllowed, BadPattern and OSError, which the model is told."""

    name: str
    about: str
    asks: type[A]
    act: Callable[[ConfinedDir, A], str]

    def on(self, place: ConfinedDir) -> BuiltinTool:
        """The tool, for the files of ``place``."""
        read_only = BUILT_IN[self.name].read_only
        hand = _FileToolRunner(self, place, leaves=read_only)
        return BuiltinTool(hand=hand, spec=spec(self.name, self.about, self.asks), read_only=read_only)


class _FileToolRunner(msgspec.Struct, Generic[A], frozen=True):
    tool: FileTool[A]
    place: ConfinedDir
    leaves: bool
    """Whether a call that is not waited for any more may be left to itself."""

    async def run(self, name: str, args: dict[str, Any], key: str) -> Outcome:
        """Run one call. Cancellation waits for one that writes, which takes no time, and for no other."""
        try:
            asked = read(self.tool.asks, name, args)
        except BadArguments as error:
            return error.outcome
        try:
            act = partial(self.tool.act, self.place, asked)
            return Outcome(await trio.to_thread.run_sync(act, abandon_on_cancel=self.leaves))
        except BadPattern as error:
            return Outcome(str(error), True)
        except NotAllowed as error:
            return Outcome(f"{asked.path}: {error}", True)
        except OSError as error:
            return Outcome(f"{asked.path}: {os.strerror(error.errno or errno.EIO)}", True)
        except (MemoryError, RecursionError, UnicodeError) as error:
            return Outcome(f"{self.tool.name} cannot do that: {str(error) or type(error).__name__}", True)
