"""Files of a project that commands change: agent files, agent context and the project file.

The directory of the context must be inside the project (fault CF12). A change preserves every other byte of the
project file, and is rejected if the new text is invalid.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple, cast

from interface import offline
from interface.failure import Failure
from interface.safe_dir import SafeDir, Unusable
from protocol.agent_layout import (
    AGENT_SUFFIX,
    AGENTS,
    GIT_IGNORE,
    IGNORED,
    MARK,
    agent_file,
    default_dir,
    dir_fault,
    mark_text,
    marked_for,
)
from protocol.names import NameRejected, check_name
from protocol.yaml_edit import NotYaml, Uneditable, read

KEY: Final = "context.dir"


class AgentDir(NamedTuple):
    """Agent of a project: its file and context directory, relative to ``root``. The directory may not exist."""

    root: str
    name: str
    file: str
    directory: str


def agent_name(text: str) -> str:
    """Return ``text`` if it is a valid agent name. Raises Failure (usage), which explains the naming rule."""
    try:
        return check_name(text)
    except NameRejected as error:
        raise Failure("usage", str(error)) from error


def find_agent(root: str, name: str) -> AgentDir:
    """Find the agent ``name`` by its file in ``.agents/``.

    Raises Failure: usage (no name), unknown_agent, bad_definition (the file cannot be read, or its context.dir).
    """
    path = agent_file(agent_name(name))
    try:
        with open_agents(root) as folder:
            text = folder.read(f"{name}{AGENT_SUFFIX}")
    except FileNotFoundError:
        from difflib import get_close_matches  # noqa: PLC0415  (10 ms, for mistakes only)

        try:
            with open_agents(root) as folder:
                names = [found.removesuffix(AGENT_SUFFIX) for found in folder.names(AGENT_SUFFIX)]
        except OSError:
            names = []
        close = get_close_matches(name, names, n=1)
        raise Failure(
            "unknown_agent",
            f"agent {name!r} not found: {path} does not exist",
            f"did you mean {close[0]}?" if close else f"agents here: {', '.join(names[:20]) or 'none'}",
        ) from None
    except OSError as error:
        raise Failure("bad_definition", str(error)) from error
    # The file's context.dir, else the default.
    try:
        data = read(text)
    except NotYaml as error:
        hint = "check it: awk validate"
        raise Failure("bad_definition", f"{agent_file(name)} is not valid YAML: {error}", hint) from error
    context = cast("dict[str, object]", data).get("context") if isinstance(data, dict) else None
    given = cast("dict[str, object]", context).get("dir", default_dir(name)) if isinstance(context, dict) else None
    if given is None and not isinstance(context, dict):
        directory = default_dir(name)
    else:
        fault = dir_fault(given, name) if isinstance(given, str) else "is not a path"
        if fault is not None or not isinstance(given, str):
            raise Failure("bad_definition", f"{agent_file(name)}: {KEY} {str(given)[:200]!r} {fault}")
        directory = os.path.normpath(given)
    return AgentDir(root, name, path, directory)


def open_agents(root: str, *, make: bool = False) -> SafeDir:
    """Open ``.agents`` of the project. Raises OSError, or Unusable if it points outside the project."""
    path = os.path.join(root, AGENTS)
    if make:
        os.makedirs(path, exist_ok=True)
    if not _is_inside(os.path.realpath(path), root):
        raise Unusable(AGENTS, "leads outside the project")
    return SafeDir.open(path, AGENTS)


def open_context(place: AgentDir, *, make: bool = False) -> SafeDir:
    """Open the context directory; with ``make`` create it with its marker file.

    Raises FileNotFoundError if it does not exist, Failure (bad_definition) if it cannot belong to the agent.
    """
    path = os.path.join(place.root, place.directory)
    real = os.path.realpath(path)
    fault = "leads outside the project"
    if not _is_inside(real, place.root) or (fault := dir_fault(os.path.relpath(real, place.root), place.name) or ""):
        raise Failure("bad_definition", f"{place.file}: {KEY} {place.directory!r} {fault}")
    made = False
    if make:
        os.makedirs(os.path.dirname(real), exist_ok=True)
        with suppress(FileExistsError):
            os.mkdir(real)
            made = True
    folder = SafeDir.open(real, place.directory)
    if made:
        folder.write(GIT_IGNORE, IGNORED)
        folder.write(MARK, mark_text(place.name))
    owner = _owner(folder, place)
    if owner != place.name and os.path.exists(os.path.join(place.root, agent_file(owner))):
        folder.close()
        hint = "give each agent its own directory"
        raise Failure("bad_definition", f"{place.file}: {KEY} {place.directory!r} is used by agent {owner}", hint)
    return folder


def is_marked(place: AgentDir) -> bool:
    """Return whether the context directory exists and was created for this agent."""
    try:
        with open_context(place) as folder:
            folder.read(MARK)
            return _owner(folder, place) == place.name
    except (OSError, Failure):
        return False


def _owner(folder: SafeDir, place: AgentDir) -> str:
    """Return the name in the directory's marker, or ``place.name`` at its default path or without a marker."""
    if os.path.normpath(place.directory) == default_dir(place.name):
        return place.name
    try:
        return marked_for(folder.read(MARK))
    except OSError:
        return place.name


def _is_inside(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip(os.sep) + os.sep)


NAMES: Final = (".agents.yaml", "moniro.yaml")
"""Names of the project file, in the order in which the kernel looks for it. A new file gets the first name."""


def file_name(root: str) -> str:
    """Return the name of the project file in ``root``, or of the file to create."""
    return next((name for name in NAMES if os.path.lexists(os.path.join(root, name))), NAMES[0])


def read_project_file(root: str) -> str:
    """Return the text of the project file; "" if it does not exist. Raises Failure."""
    name = file_name(root)
    try:
        with SafeDir.open(root, ".") as folder:
            return folder.read(name)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise Failure("failed", str(error)) from error


def change_project_file(root: str, change: Callable[[str], str]) -> bool:
    """Replace the text of the project file by ``change(text)``. Returns whether the text changed.

    Raises Failure: bad_definition with the locations, failed, or any failure of ``change``.
    """
    name = file_name(root)
    try:
        with SafeDir.open(root, ".") as folder, folder.locked():
            try:
                before = folder.read(name)
            except FileNotFoundError:
                before = ""
            try:
                after = change(before)
            except (NotYaml, Uneditable) as error:
                raise Failure("failed", f"{name}: {error}", "edit the file manually") from error
            if after == before:
                return False
            if not after.strip():
                after = "{}\n"  # an empty file is no project file
            faults = offline.places_of(offline.agents.check_project_text(name, after))
            if faults:
                text = f"{faults[0].message}; the file was not changed"
                raise Failure("bad_definition", text, faults[0].hint, places=faults)
            folder.write(name, after)
    except OSError as error:
        raise Failure("failed", f"{name} cannot be changed: {error.strerror or error}") from error
    return True
