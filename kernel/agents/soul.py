"""The managed soul of an agent: ``soul.yaml`` in its context folder.

The first approved suggestion creates this file, which overrides the soul in the agent's file.
People may edit ``soul.yaml``; errors are reported with their location.
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
    """The content of the managed soul file."""

    path: str
    body: str
    traits: dict[str, Any]


def soul_path(definition: AgentDefinition) -> str:
    """Return the path of the managed soul file, relative to the project root."""
    return f"{context_dir(definition)}/{SOUL_FILE}"


def read_soul(root: Path, definition: AgentDefinition) -> SoulFile | None:
    """Return the managed soul of an agent, or None. Raises BadDefinition with the location."""
    path = soul_path(definition)
    if not os.path.lexists(f"{root}/{path}"):  # the usual case; resolving links is much slower
        return None
    try:
        data = read_bytes(inside(root, path, path), path, SOUL_BYTES, links=False)
    except FileMissing:
        return None
    if not data.strip():
        return SoulFile(path, "", {})
    traits = traits_of(data, path)  # reports invalid text
    return SoulFile(path, data.decode(), traits)


def traits_of(data: bytes, path: str) -> dict[str, Any]:
    """Return the traits in ``data``, the content of the file ``path``. Raises BadDefinition."""
    node, problems = tree_of(data, path)
    whole = MapNode(((ScalarNode("soul", True, node.place), node),), node.place)
    found = Converter(problems, TypeRules()).struct(whole, _Soul, "")
    problems.check()
    assert found is not None, "errors were raised before"
    return found.soul


def soul_text(traits: Mapping[str, Any]) -> str:
    """Return the text of a soul file with ``traits``."""
    return document(cast("Mapping[str, Value]", traits))
