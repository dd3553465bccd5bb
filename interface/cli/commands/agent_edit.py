"""``awk agent edit`` and ``delete``: change the file of an agent, or move it and its context to the trash.

Invalid changes are rejected. A running kernel deletes the direct messages of a deleted agent; an agent with unfinished
work cannot be deleted. The trash is ``.agents/.trash/<name>-<stamp>/``. Files are moved there and back, but never
copied or destroyed. A directory that this program did not create remains in place (fault CF12).
"""

import argparse
import errno
import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from interface import offline
from interface.agent_dir import AgentDir, agent_name, is_marked
from interface.cli.command_parser import name_argument
from interface.cli.commands.agent import agent_file_lines, agent_file_location, running_kernel
from interface.cli.context import Context
from interface.cli.output import one_line
from interface.cli.parsing import flag
from interface.cli.prompts import can_ask, confirm
from interface.client import Client, quoted
from interface.failure import Failure, Unreachable
from interface.safe_dir import LIMIT_BYTES, SafeDir
from protocol.agent_files import AgentDeleted, AgentWritten
from protocol.agent_layout import AGENT_SUFFIX, AGENTS, CONVERSATIONS, HOME, TRASH, agent_file, default_dir
from protocol.yaml_edit import New, NotYaml, Raw, Uneditable, composed, with_value, without_value

_IGNORE: Final = ".gitignore"
_TRIES: Final = 100


class Trashed(NamedTuple):
    """Deleted agent. Relative to the root: ``folder`` in the trash, ``left`` (unmarked context that stays)."""

    place: AgentDir
    folder: str
    moved_context: bool
    left: str | None
    is_users: bool = False
    """Whether the agent is shared by all projects; ``place`` is then in the home directory."""

    @property
    def way_back(self) -> str:
        """Return the command that restores the agent, run in the project's root (anywhere for a shared agent)."""
        away = [f"cd {shlex.quote(self.place.root)}"] if self.is_users else []
        moves = [
            *away,
            f"mv {shlex.quote(f'{self.folder}/{self.place.name}{AGENT_SUFFIX}')} {shlex.quote(self.place.file)}",
        ]
        if self.moved_context:
            moves.append(f"mv {shlex.quote(f'{self.folder}/{self.place.name}')} {shlex.quote(self.place.directory)}")
        return " && ".join(moves)


def move_away(place: AgentDir, wall_seconds: float) -> Trashed:
    """Move the agent file and its marked context to the trash. Rolls back and raises Failure if a move fails."""
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
    """Move an agent back from the trash. Raises OSError."""
    place, folder = trashed.place, os.path.join(trashed.place.root, trashed.folder)
    if trashed.moved_context:
        os.rename(os.path.join(folder, place.name), os.path.join(place.root, place.directory))
    os.rename(os.path.join(folder, f"{place.name}{AGENT_SUFFIX}"), os.path.join(place.root, place.file))
    os.rmdir(folder)


def _new_folder(place: AgentDir, wall_seconds: float) -> str:
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


_NOT_KNOWN: Final = frozenset({"unknown_agent", "not_found"})
_BARE: Final = re.compile(r"true|false|[-+]?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,17})?", re.ASCII)
"""Value that is written without quotes: a number or a boolean, which the loader accepts or rejects for the key."""
_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*(?:\.[A-Za-z_][A-Za-z0-9_-]*)*", re.ASCII)
_MARK: Final = "\ufeff"


def configure_agent_edit(parser: argparse.ArgumentParser) -> None:
    name_argument(parser)
    about = "key to set (model=provider/name, 'soul.expertise=[a, b]') or remove (KEY=) (default: open $EDITOR)"
    parser.add_argument("changes", metavar="KEY=VALUE", nargs="*", help=about)


def run_agent_edit(context: Context) -> int:
    changes = [parse_change(word) for word in context.args.changes]
    place = agent_file_location(context, context.args.name)
    if os.path.basename(place.file) != f"{place.name}{AGENT_SUFFIX}":
        raise Failure("usage", f"{place.name} is defined in {place.file} with other definitions", "edit that file")
    changed = edit_by_words(place, changes) if changes else edit_by_hand(context, place)
    if not changed:
        context.out.note("note: nothing changed")
    document = AgentWritten(agent=place.name, file=place.file, changed=changed)
    return context.answer(document, agent_file_lines)


def parse_change(word: str) -> Callable[[str], str]:
    """Return a function that applies ``KEY=VALUE`` to a text. Raises Failure (usage)."""
    key, sign, value = word.partition("=")
    if not sign or not _KEY.fullmatch(key):
        raise Failure("usage", f"{word[:60]!r} is not KEY=VALUE", "for example: timeouts.idle=5m")
    path = key.split(".")
    if not value:
        return lambda text: without_value(text, path)
    new: New
    if _BARE.fullmatch(value):
        new = Raw(value)
    elif value[0] not in "[{\"'":
        new = value
    else:
        try:
            node = composed(value)
        except NotYaml as error:
            hint = "quote the value for the shell as well"
            raise Failure("usage", f"{value[:60]!r} is not a valid value: {error}", hint) from error
        if node is None or "\n" in value or node.end_mark.index != len(value):
            raise Failure("usage", f"{value[:60]!r} is not a single value")
        new = Raw(value)
    return lambda text: with_value(text, path, new)


def edit_by_words(place: AgentDir, changes: Sequence[Callable[[str], str]]) -> bool:
    """Apply the changes in order and return whether the file changed. Raises Failure without writing."""
    with _folder(place) as folder, folder.locked():
        before = _read(folder, place)
        mark = _MARK if before.startswith(_MARK) else ""
        text = before.removeprefix(_MARK)
        for change in changes:
            try:
                text = change(text)
            except KeyError as error:
                raise Failure("usage", f"{place.file} does not set {error.args[0]}") from error
            except (NotYaml, Uneditable) as error:
                hint = f"edit the file: awk agent edit {place.name}"
                raise Failure("failed", f"{place.file}: {error}", hint) from error
        return _put(folder, place, before, mark + text)


def edit_by_hand(context: Context, place: AgentDir) -> bool:
    """Edit a copy of the agent file in an editor. Returns whether the file changed. A Failure keeps the copy."""
    if not can_ask(context):
        raise Failure("usage", "no terminal for the editor", "name the changes: awk agent edit NAME KEY=VALUE")
    with _folder(place) as folder:
        before = _read(folder, place)
        copy = os.path.join(tempfile.mkdtemp(prefix="agent-edit-"), f"{place.name}{AGENT_SUFFIX}")
        with open(copy, "x", encoding="utf-8", newline="") as write_copy_file:
            write_copy_file.write(before)
        while True:
            editor = context.environ.get("VISUAL") or context.environ.get("EDITOR") or "vi"
            try:
                code = subprocess.run([*shlex.split(editor), copy], check=False).returncode
            except (OSError, ValueError) as error:
                hint = "set EDITOR to another editor"
                raise Failure("failed", f"the editor {editor!r} cannot be started: {error}", hint) from error
            if code != 0:
                hint = f"your text is in {copy}"
                raise Failure("failed", f"the editor exited with code {code}; nothing changed", hint)
            try:
                with open(copy, encoding="utf-8", newline="") as file:
                    after = file.read(LIMIT_BYTES + 1)  # the loader refuses longer files
            except (OSError, ValueError) as error:
                raise Failure("failed", f"{copy} cannot be read: {error}") from error
            try:
                with folder.locked():
                    if _read(folder, place) != before:
                        raise Failure("conflict", f"{place.file} was changed by another program")
                    changed = _put(folder, place, before, after)
            except Failure as failure:
                again = False
                if failure.places:
                    context.out.error(failure)
                    context.out.ask("edit again? [Y/n] ")
                    answer = context.stdin.readline()
                    again = bool(answer) and answer.strip().lower() in {"", "y", "yes"}
                if not again:
                    kept = f"the file was not changed; your text is in {copy}"
                    raise Failure(failure.code, failure.text, kept, places=failure.places) from failure
                continue
            shutil.rmtree(os.path.dirname(copy), ignore_errors=True)
            return changed


def _folder(place: AgentDir) -> SafeDir:
    directory = os.path.dirname(place.file)
    # A catalog path with this prefix is relative to the home directory: the agent is shared by all projects.
    inside = os.path.expanduser(directory) if directory.startswith(HOME) else directory
    try:
        return SafeDir.open(os.path.join(place.root, inside), directory)
    except OSError as error:
        raise Failure("failed", f"{directory} cannot be opened: {error.strerror}") from error


def _read(folder: SafeDir, place: AgentDir) -> str:
    try:
        return folder.read(os.path.basename(place.file))
    except OSError as error:
        raise Failure("failed", str(error)) from error


def _put(folder: SafeDir, place: AgentDir, before: str, after: str) -> bool:
    if after == before:
        return False
    faults = offline.places_of(offline.agents.check_agent_text(Path(place.root), place.name, after, new=False).errors)
    if faults:
        raise Failure("bad_definition", f"{faults[0].message}; the file was not changed", faults[0].hint, places=faults)
    try:
        folder.write(os.path.basename(place.file), after)
    except OSError as error:
        raise Failure("failed", f"{place.file} cannot be written: {error.strerror or error}") from error
    return True


def configure_agent_delete(parser: argparse.ArgumentParser) -> None:
    name_argument(parser)
    flag(parser, "--yes", about="delete without confirmation")


def run_agent_delete(context: Context) -> int:
    name = agent_name(context.args.name)
    client = running_kernel(context)
    if client is not None and is_ephemeral(client, name):
        confirm(context, f"delete ephemeral agent {name} and its conversation permanently?", "nothing was deleted")
        client.delete(f"/agents/{quoted(name)}")  # Raises Failure (conflict) if the agent has work.
        gone = AgentDeleted(agent=name, trash=None, restore=None)
        return context.answer(gone, agent_file_lines)
    place = agent_file_location(context, name)
    is_users = place.file == f"{HOME}{agent_file(name)}"
    if place.file != agent_file(name) and not is_users:
        raise Failure("usage", f"{name} is defined in {place.file}", "remove it from the project file")
    if client is not None:
        check_idle(client, name)
    try:
        files = offline.agents.workflows_using(Path(place.root), place.name)
    except Failure:
        files = ()  # the uses are information only: delete without them
    uses = [f"{file} refers to {place.name} and does not start without it" for file in files]
    asks = can_ask(context)
    for use in uses if asks else ():
        context.out.note(f"note: {use}")
    removed = ", and delete its conversation permanently" if client is not None else ""
    what = f"{name}, which all your projects share," if is_users else f"{name} and its context"
    home = HOME if is_users else ""
    confirm(context, f"move {what} to {home}{AGENTS}/{TRASH}{removed}?", "nothing was deleted")
    source = AgentDir(os.path.expanduser("~"), name, agent_file(name), default_dir(name)) if is_users else place
    trashed = move_away(source, context.clock.wall())._replace(is_users=is_users)
    if is_users and os.path.lexists(os.path.join(place.root, place.directory)):
        uses.append(f"the context of {name} in this project remains in {place.directory}")
    remarks = [f"{trashed.left} was not created for {name} and remains in place"] if trashed.left else []
    remarks += [*uses, *forget(client, trashed)]
    for remark in remarks:
        if not (asks and remark in uses):  # these were printed before the question
            context.out.note(f"note: {one_line(remark)}")
    document = AgentDeleted(
        agent=name, trash=f"{home}{trashed.folder}", restore=trashed.way_back, remarks=tuple(remarks)
    )
    return context.answer(document, agent_file_lines)


def is_ephemeral(client: Client, name: str) -> bool:
    try:
        info: dict[str, Any] = json.loads(client.get(f"/agents/{quoted(name)}"))
    except Failure:
        return False  # an invalid agent file, perhaps the reason to delete it
    return bool(info["ephemeral"])


def check_idle(client: Client, name: str) -> None:
    """Raise Failure (conflict) if the agent has unfinished work."""
    try:
        queue: list[dict[str, Any]] = json.loads(client.get(f"/agents/{quoted(name)}/queue"))["instructions"]
    except Failure:
        return  # unknown to the kernel, or its file is invalid
    if queue:
        some = ", ".join(f"{row['id']} ({row['status']})" for row in queue[:5])
        text = f"{name} has unfinished work: {some}" + (" and more" if len(queue) > 5 else "")
        hint = f"wait, or cancel it: awk cancel {queue[0]['id']}"
        raise Failure("conflict", text, hint)


def forget(client: Client | None, trashed: Trashed) -> list[str]:
    """Delete the agent in the kernel and return remarks. If the kernel refuses, restore the files and raise Failure."""
    place: AgentDir = trashed.place
    if client is None:
        return [f"no kernel is running: the conversation of {place.name} remains in the log"]
    try:
        client.delete(f"/agents/{quoted(place.name)}")
    except Unreachable as error:
        return [f"the conversation of {place.name} may remain in the log: {error}"]
    except Failure as failure:
        if failure.code not in _NOT_KNOWN:
            with suppress(OSError):
                put_back(trashed)
            raise
    # The kernel has deleted the conversations from its log.
    place = trashed.place
    shutil.rmtree(os.path.join(place.root, trashed.folder, place.name, CONVERSATIONS), ignore_errors=True)
    return []
