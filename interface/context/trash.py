"""Deleted agents: their file and personal context, moved to ``.agents/.trash/<name>-<stamp>/`` and back.

Nothing is copied and nothing destroyed. A directory without our mark stays where it is (fault CF12).
"""

import errno
import os
import shlex
import shutil
import time
from contextlib import suppress
from typing import Final, NamedTuple

from interface.context.agent_dir import AgentDir, is_marked
from interface.failure import Failure
from protocol.agent_layout import AGENT_SUFFIX, AGENTS, CONVERSATIONS, TRASH

_IGNORE: Final = ".gitignore"
_TRIES: Final = 100


class Trashed(NamedTuple):
    """An agent that was moved. ``folder`` and ``left`` (a directory that is not ours) are as seen from the root."""

    place: AgentDir
    folder: str
    moved_context: bool
    left: str | None

    @property
    def way_back(self) -> str:
        """The command that undoes it, run in the project's root."""
        moves = [f"mv {shlex.quote(f'{self.folder}/{self.place.name}{AGENT_SUFFIX}')} {shlex.quote(self.place.file)}"]
        if self.moved_context:
            moves.append(f"mv {shlex.quote(f'{self.folder}/{self.place.name}')} {shlex.quote(self.place.directory)}")
        return " && ".join(moves)


def move_away(place: AgentDir, wall_seconds: float) -> Trashed:
    """Move the agent's file, and its context if it is ours. Raises Failure; then all is where it was."""
    directory = os.path.join(place.root, place.directory)
    ours = is_marked(place)
    try:
        folder = _new_folder(place, wall_seconds)
        file = f"{folder}/{place.name}{AGENT_SUFFIX}"
        os.rename(os.path.join(place.root, place.file), os.path.join(place.root, file))
        if ours:
            try:
                os.rename(os.path.realpath(directory), os.path.join(place.root, folder, place.name))
            except OSError:
                os.rename(os.path.join(place.root, file), os.path.join(place.root, place.file))
                os.rmdir(os.path.join(place.root, folder))
                raise
    except OSError as error:
        raise Failure("failed", f"{place.name} cannot be moved to the trash: {error.strerror or error}") from error
    return Trashed(place, folder, ours, place.directory if not ours and os.path.lexists(directory) else None)


def put_back(trashed: Trashed) -> None:
    """Undo ``move_away``. Raises OSError."""
    place, folder = trashed.place, os.path.join(trashed.place.root, trashed.folder)
    if trashed.moved_context:
        os.rename(os.path.join(folder, place.name), os.path.join(place.root, place.directory))
    os.rename(os.path.join(folder, f"{place.name}{AGENT_SUFFIX}"), os.path.join(place.root, place.file))
    os.rmdir(folder)


def remove_conversations(trashed: Trashed) -> None:
    """Remove what was said from a context in the trash: the log it was written from has forgotten it too."""
    shutil.rmtree(
        os.path.join(trashed.place.root, trashed.folder, trashed.place.name, CONVERSATIONS), ignore_errors=True
    )


def _new_folder(place: AgentDir, wall_seconds: float) -> str:
    """Make a folder of its own in the trash, which git does not see. Raises OSError."""
    trash = os.path.join(place.root, AGENTS, TRASH)
    os.makedirs(trash, exist_ok=True)
    if os.path.realpath(trash) != os.path.join(os.path.realpath(os.path.join(place.root, AGENTS)), TRASH):
        raise OSError(errno.ELOOP, f"{AGENTS}/{TRASH} is a link")
    with suppress(FileExistsError), open(os.path.join(trash, _IGNORE), "x", encoding="utf-8") as file:
        file.write("*\n")
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(wall_seconds))
    for number in range(1, _TRIES):
        name = f"{place.name}-{stamp}" + (f"-{number}" if number > 1 else "")
        try:
            os.mkdir(os.path.join(trash, name))
        except FileExistsError:
            continue
        return f"{AGENTS}/{TRASH}/{name}"
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
