"""JSON Schemas for editors: where they lie in a project, and the line by which a file names its own.

They are part of the project, so that they work without a network, for everybody who has the project.
"""

import json
import os
from collections.abc import Mapping
from typing import Final

from interface.context.folder import Folder, Unusable
from interface.context.place import open_agents
from interface.failure import Failure
from interface.loader import ask

KINDS: Final = ("agent", "workflow", "project")
_NAME: Final = ".schema"
FOLDER: Final = f".agents/{_NAME}"
_MODELINE: Final = "# yaml-language-server: $schema="
_KIND_OF: Final = {".agents": "agent", ".workflows": "workflow", "": "project"}


def schema(environ: Mapping[str, str], kind: str) -> bytes:
    """The schema of an ``agent``, ``workflow`` or ``project`` file. Raises Failure."""
    return ask(environ, "schema", kind)


def write_schemas(environ: Mapping[str, str], root: str) -> list[str]:
    """Write the schemas into the project, where they are not there as they are now. Returns what was written.

    No link is followed: what is checked out need not be ours. Raises Failure.
    """
    texts: dict[str, str] = json.loads(ask(environ, "schemas"))
    try:
        with open_agents(root, make=True) as agents, agents.folder(_NAME, make=True) as folder:
            written = [f"{kind}.json" for kind, text in texts.items() if _put(folder, f"{kind}.json", text)]
    except OSError as error:
        raise Failure("failed", f"{FOLDER} cannot be written: {error.strerror or error}") from error
    return [f"{FOLDER}/{name}" for name in written]


def _put(folder: Folder, name: str, text: str) -> bool:
    """Whether ``text`` had to be written."""
    try:
        if folder.read(name) == text:
            return False
    except (FileNotFoundError, Unusable):
        pass
    folder.write(name, text)
    return True


def header(path: str) -> str:
    """The first line of a new YAML file at ``path`` (from the project's root), by which editors find its schema.

    Empty for a file that has none.
    """
    folder, name = os.path.split(path)
    kind = _KIND_OF.get(folder) if name.endswith(".yaml") else None
    if kind is None:
        return ""
    return f"{_MODELINE}{os.path.relpath(f'{FOLDER}/{kind}.json', folder or '.')}\n"
