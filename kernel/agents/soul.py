"""The managed soul of an agent: ``soul.yaml`` in the folder of its context, which wins over what its own file says.

There is none until somebody approved a change. People may edit it; what is wrong in it is told with its place.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import msgspec

from kernel.agents.catalog import context_dir
from kernel.source.convert import Converter, TypeRules
from kernel.source.files import FileMissing, inside, read_bytes, tree_of
from kernel.source.yaml_tree import MapNode, ScalarNode
from protocol.agent import AgentDefinition
from protocol.agent_layout import SOUL_FILE
from protocol.yaml_writer import Value, document

SOUL_BYTES: Final = 64 * 1024


class _Soul(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    soul: dict[str, Any]


class SoulFile(NamedTuple):
    """The managed soul as its file has it."""

    path: str
    body: str
    traits: dict[str, Any]


def soul_path(definition: AgentDefinition) -> str:
    """The file, as seen from the project's root."""
    return f"{context_dir(definition)}/{SOUL_FILE}"


def read_soul(root: Path, definition: AgentDefinition) -> SoulFile | None:
    """The managed soul of an agent; None where there is none. Raises BadDefinition, with the place."""
    path = soul_path(definition)
    if not os.path.lexists(root / path):  # the usual case; resolving links takes many times as long
        return None
    try:
        data = read_bytes(inside(root, path, path), path, SOUL_BYTES, links=False)
    except FileMissing:
        return None
    if not data.strip():
        return SoulFile(path, "", {})
    traits = traits_of(data, path)  # which says where it is no text
    return SoulFile(path, data.decode(), traits)


def traits_of(data: bytes, path: str) -> dict[str, Any]:
    """The traits in ``data``, which is what the file ``path`` says. Raises BadDefinition."""
    node, problems = tree_of(data, path)
    whole = MapNode(((ScalarNode("soul", True, node.place), node),), node.place)
    found = Converter(problems, TypeRules()).struct(whole, _Soul, "")
    problems.check()
    assert found is not None, "what is no soul has a problem"
    return found.soul


def soul_text(traits: Mapping[str, Any]) -> str:
    """Return what a file with these ``traits`` says."""
    return document(cast("Mapping[str, Value]", traits))
