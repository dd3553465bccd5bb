"""The kind of a definition file, by its place or else by its keys, and the name it is shown by."""

import os
from pathlib import Path
from typing import Final

from kernel.agents.catalog import AGENTS
from kernel.agents.project import PROJECT_FILES
from kernel.source.diagnostics import BadDefinition
from kernel.source.files import FileMissing, read_tree
from kernel.source.yaml_tree import ListNode, MapNode
from kernel.workflows.find import WORKFLOWS
from protocol.agent_layout import HOME, MEMORY
from protocol.inspection import Kind

SUFFIXES: Final = (".yaml", ".yml")
_FOLDERS: Final[dict[str, Kind]] = {AGENTS: "agent", WORKFLOWS: "workflow"}
_OF_PROJECT: Final = frozenset({"providers", "workflows", "starvation", "retention"})


def shown(root: Path, path: Path) -> str:
    """The name to show for ``path``: as seen from the project's root where it lies inside, else whole."""
    real_root, real = os.path.realpath(root), os.path.join(os.path.realpath(path.parent), path.name)
    return os.path.relpath(real, real_root) if real.startswith(real_root + os.sep) else str(path)


def kind_of(root: Path, name: str) -> Kind:
    """The kind of the file ``name`` (as ``shown``)."""
    by_place = place_kind(name)
    if by_place is not None:
        return by_place
    try:
        node, _ = read_tree(root / name, name)
    except (BadDefinition, FileMissing):
        return "agent"
    if not isinstance(node, MapNode):
        return "agent"
    keys = {key.text for key, _ in node.entries}
    if keys & _OF_PROJECT or isinstance(node.get("agents"), ListNode):
        return "project"
    return "workflow" if keys & {"agents", "kickoff", "setup", "params"} else "agent"


def place_kind(name: str) -> Kind | None:
    """The kind of a file at this place of a project; None where its place does not say."""
    folder, file = os.path.split(name.removeprefix(HOME))
    if not folder and file in PROJECT_FILES:
        return "project"
    if folder.startswith(f"{AGENTS}/") and folder.endswith(f"/{MEMORY}") and file.endswith(SUFFIXES):
        return "memory"
    return _FOLDERS.get(folder) if file.endswith(SUFFIXES) else None


def is_path(asked: str) -> bool:
    """Return whether ``asked`` is a path rather than a name."""
    return os.sep in asked or asked.endswith(SUFFIXES)
