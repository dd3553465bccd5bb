"""``output_schema``: the shape that the final answer of a run must have, as its file says it.

Whether an answer fits is found out in a process of its own (kernel.workflows.schema_check): the patterns in a schema
are regular expressions of whoever wrote the file, and one of them can take for ever.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from kernel.agents.definition import place_at
from kernel.source.diagnostics import Diagnostics, Location
from kernel.source.yaml_tree import ListNode, MapNode, Node
from protocol.workflow import WorkflowDefinition

SCHEMA_BYTES: Final = 64 * 1024
_WHERE: Final = "output_schema"


def check_output(definition: WorkflowDefinition, node: Node, problems: Diagnostics) -> None:
    """Note in ``problems`` what is wrong with the schema itself."""
    schema = definition.output_schema
    if schema is None:
        return
    place = place_at(node, _WHERE)
    if len(msgspec.json.encode(schema)) > SCHEMA_BYTES:
        problems.add(place, _WHERE, f"is larger than {SCHEMA_BYTES // 1024} KiB")
        return
    for path, reference in _references(schema, ()):
        if not reference.startswith("#"):
            hint = "put it under $defs here: nothing is fetched"
            message = f"{reference[:60]!r} leads out of the schema"
            problems.add(_place(node, path), _joined(path), message, hint)
    from kernel.workflows.schema_check import faults  # noqa: PLC0415  (imports for 0.2 s what few files need)

    for path, message in faults(schema):
        problems.add(_place(node, path), _joined(path), message[:300], "it has to be JSON Schema, revision 2020-12")


def _references(value: object, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    if isinstance(value, dict):
        for key, child in value.items():
            if key in ("$ref", "$dynamicRef") and isinstance(child, str):
                yield (*path, key), child
            else:
                yield from _references(child, (*path, str(key)))
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _references(child, (*path, index))


def _place(node: Node, path: tuple[str | int, ...]) -> Location:
    """The place in the file of the end of ``path`` below the schema stands, or the nearest key above it."""
    place = place_at(node, _WHERE)
    current = node.get(_WHERE) if isinstance(node, MapNode) else None
    for key in path:
        if isinstance(current, MapNode) and (child := current.get(str(key))) is not None:
            place, current = current.place_of(str(key)), child
        elif isinstance(current, ListNode) and isinstance(key, int) and key < len(current.items):
            current = current.items[key]
            place = current.place
        else:
            break
    return place


def _joined(path: tuple[str | int, ...]) -> str:
    return _WHERE + "".join(f"[{key}]" if isinstance(key, int) else f".{key[:60]}" for key in path)[:200]
