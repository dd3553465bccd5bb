"""``awk agent edit``: an agent's file, in the user's editor or by KEY=VALUE. What is wrong is not put in place."""

import argparse
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from interface import inspecting
from interface.cli.agent_verbs.whereabouts import place_of_file
from interface.cli.agent_verbs.words import name_argument
from interface.cli.asking import can_ask
from interface.cli.context import Context
from interface.context.folder import LIMIT_BYTES, Folder
from interface.context.place import Place
from interface.failure import Failure
from interface.yaml_edit import New, Raw, Uneditable, with_value, without_value
from interface.yaml_reading import NotYaml, composed
from protocol.agent_files import AgentWritten
from protocol.personal import AGENT_SUFFIX

_BARE: Final = re.compile(r"true|false|[-+]?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,17})?", re.ASCII)
"""What is written without quotes though it looks like no text: whether the key takes it is the loader's to say."""
_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*(?:\.[A-Za-z_][A-Za-z0-9_-]*)*", re.ASCII)
_MARK: Final = "\ufeff"


def configure(parser: argparse.ArgumentParser) -> None:
    """NAME [KEY=VALUE...]."""
    name_argument(parser)
    parser.add_argument(
        "changes",
        metavar="KEY=VALUE",
        nargs="*",
        help="model=provider/name, timeouts.idle=5m, 'soul.expertise=[a, b]'; KEY= removes it; none: $EDITOR",
    )


def run(context: Context) -> int:
    """Change it, and print its path."""
    changes = [_change(word) for word in context.args.changes]
    place = place_of_file(context, context.args.name)
    if os.path.basename(place.file) != f"{place.name}{AGENT_SUFFIX}":
        raise Failure("usage", f"{place.name} is defined in {place.file}, among other things", "edit that file")
    changed = _by_words(place, changes) if changes else _by_hand(context, place)
    if not changed:
        context.out.note("note: nothing was changed")
    document = AgentWritten(agent=place.name, file=place.file, changed=changed)
    return context.answer(msgspec.json.encode(document), "agent_file")


def _change(word: str) -> Callable[[str], str]:
    """``KEY=VALUE`` as a change of a text. Raises Failure (usage)."""
    key, sign, value = word.partition("=")
    if not sign or not _KEY.fullmatch(key):
        raise Failure("usage", f"{word[:60]!r} is not KEY=VALUE", "for example timeouts.idle=5m")
    path = key.split(".")
    if not value:
        return lambda text: without_value(text, path)
    new = _value(value)
    return lambda text: with_value(text, path, new)


def _value(text: str) -> New:
    if _BARE.fullmatch(text):
        return Raw(text)
    if text[0] not in "[{\"'":
        return text
    try:
        node = composed(text)
    except NotYaml as error:
        raise Failure("usage", f"{text[:60]!r} is not a value: {error}", "quote it for the shell too") from error
    if node is None or "\n" in text or node.end_mark.index != len(text):
        raise Failure("usage", f"{text[:60]!r} is not one value")
    return Raw(text)


def _by_words(place: Place, changes: Sequence[Callable[[str], str]]) -> bool:
    with _folder(place) as folder, folder.locked():
        before = _read(folder, place)
        mark = _MARK if before.startswith(_MARK) else ""
        text = before.removeprefix(_MARK)
        for change in changes:
            text = _changed(text, change, place)
        return _put(folder, place, before, mark + text)


def _changed(text: str, change: Callable[[str], str], place: Place) -> str:
    try:
        return change(text)
    except KeyError as error:
        raise Failure("usage", f"{place.file} does not set {error.args[0]}") from error
    except (NotYaml, Uneditable) as error:
        raise Failure("failed", f"{place.file}: {error}", f"edit it by hand: agent edit {place.name}") from error


def _by_hand(context: Context, place: Place) -> bool:
    """Have the user edit a copy until it is right, or they give up. Raises Failure; their text is kept then."""
    if not can_ask(context):
        raise Failure("usage", "there is no terminal to edit in", "say what to change: agent edit NAME KEY=VALUE")
    with _folder(place) as folder:
        before = _read(folder, place)
        copy = os.path.join(tempfile.mkdtemp(prefix="agent-edit-"), f"{place.name}{AGENT_SUFFIX}")
        _write_copy(copy, before)
        while True:
            after = _edited(context, copy)
            try:
                with folder.locked():
                    if _read(folder, place) != before:
                        raise Failure("conflict", f"{place.file} was changed meanwhile")
                    changed = _put(folder, place, before, after)
            except Failure as failure:
                if not (failure.places and _again(context, failure)):
                    kept = f"the file is as it was; your text is in {copy}"
                    raise Failure(failure.code, failure.text, kept, places=failure.places) from failure
                continue
            shutil.rmtree(os.path.dirname(copy), ignore_errors=True)
            return changed


def _again(context: Context, failure: Failure) -> bool:
    context.out.error(failure)
    context.out.ask("edit it again? [Y/n] ")
    answer = context.stdin.readline()
    return bool(answer) and answer.strip().lower() in {"", "y", "yes"}


def _edited(context: Context, copy: str) -> str:
    """What the user made of the copy. Raises Failure."""
    editor = context.environ.get("VISUAL") or context.environ.get("EDITOR") or "vi"
    try:
        code = subprocess.run([*shlex.split(editor), copy], check=False).returncode
    except (OSError, ValueError) as error:
        raise Failure("failed", f"the editor {editor!r} cannot be run: {error}", "set EDITOR") from error
    if code != 0:
        raise Failure("failed", f"the editor ended with {code}; nothing was changed", f"your text is in {copy}")
    try:
        with open(copy, encoding="utf-8", newline="") as file:
            return file.read(LIMIT_BYTES + 1)  # the loader refuses what is longer
    except (OSError, ValueError) as error:
        raise Failure("failed", f"{copy} cannot be read: {error}") from error


def _write_copy(path: str, text: str) -> None:
    with open(path, "x", encoding="utf-8", newline="") as file:
        file.write(text)


def _folder(place: Place) -> Folder:
    directory = os.path.dirname(place.file)
    try:
        return Folder.open(os.path.join(place.root, directory), directory)
    except OSError as error:
        raise Failure("failed", f"{directory} cannot be opened: {error.strerror}") from error


def _read(folder: Folder, place: Place) -> str:
    try:
        return folder.read(os.path.basename(place.file))
    except OSError as error:
        raise Failure("failed", str(error)) from error


def _put(folder: Folder, place: Place, before: str, after: str) -> bool:
    """Put ``after`` in the place of ``before`` if it is an agent. Returns whether it differs. Raises Failure."""
    if after == before:
        return False
    faults = inspecting.judge(place.root, place.name, after)
    if faults:
        raise Failure("bad_definition", f"{faults[0].message}; the file is as it was", faults[0].hint, places=faults)
    try:
        folder.write(os.path.basename(place.file), after)
    except OSError as error:
        raise Failure("failed", f"{place.file} cannot be written: {error.strerror or error}") from error
    return True
