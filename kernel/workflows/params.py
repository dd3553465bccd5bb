"""Parameters of a workflow: what its file declares, and the words after ``--`` that give their values."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from kernel.source.diagnostics import Diagnostics, Location, suggest
from kernel.source.scalars import Mismatch, read_bool, read_float, read_int
from kernel.source.yaml_tree import ListNode, MapNode, Node, ScalarNode
from protocol.errors import Refused
from protocol.workflow import Param

Value = str | int | float | bool

_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,31}", re.ASCII)
_SHORT: Final = re.compile(r"[A-Za-z]", re.ASCII)
_NOWHERE: Final = Location()
_READERS: Final = {"int": read_int, "number": read_float, "bool": read_bool}


def check_params(params: tuple[Param, ...], node: Node, problems: Diagnostics) -> None:
    """Note what is wrong between the declared ``params``, which were converted from ``node``."""
    names: set[str] = set()
    shorts: set[str] = set()
    for index, param in enumerate(params):
        item = node.items[index] if isinstance(node, ListNode) else node
        for key, message in _faults(param, names, shorts):
            place = item.place_of(key) if isinstance(item, MapNode) else item.place
            problems.add(place, f"params[{index}].{key}", message)
        names.add(param.name)
        shorts |= {param.short} if param.short else set()


def text_defaults(node: Node) -> Node:
    """The declarations with the default of a string read as text, whatever it looks like (``default: 1.10``)."""
    if not isinstance(node, ListNode):
        return node
    items: list[Node] = []
    for item in node.items:
        kind = item.get("type") if isinstance(item, MapNode) else None
        if not isinstance(item, MapNode) or (isinstance(kind, ScalarNode) and kind.text != "string"):
            items.append(item)
            continue
        entries = [
            (key, ScalarNode(value.text, plain=False, place=value.place))
            if key.text == "default" and isinstance(value, ScalarNode) and not value.is_null
            else (key, value)
            for key, value in item.entries
        ]
        items.append(MapNode(tuple(entries), item.place))
    return ListNode(tuple(items), node.place)


def parse_params(params: tuple[Param, ...], words: Sequence[str]) -> dict[str, Value]:
    """Values by name: ``--name value``, ``--name=value``, ``-n value``, ``--flag``; defaults for the rest.

    One that was not given and has no default is left out. Raises Refused(bad_request) with all that is wrong.
    """
    faults: list[str] = []
    values: dict[str, Value] = {}
    for param, text in _pairs(params, words, faults):
        if param.name in values:
            faults.append(f"--{param.name} is given twice")
        try:
            reader = _READERS.get(param.type)
            values[param.name] = text if reader is None else reader(ScalarNode(text, plain=True, place=_NOWHERE))
        except Mismatch as error:
            faults.append(f"--{param.name} {error.message}")
    missing = [f"--{param.name}" for param in params if param.required and param.name not in values]
    if missing and not faults:
        faults.append(f"missing: {', '.join(missing)}")
    if faults:
        raise Refused("bad_request", "; ".join(dict.fromkeys(faults)), usage(params))
    return {param.name: param.default for param in params if param.default is not None} | values


def usage(params: tuple[Param, ...]) -> str:
    """The parameters in one line, as a hint."""
    if not params:
        return "this workflow takes no parameters"
    shapes: list[str] = []
    for param in params:
        names = f"--{param.name}" if param.short is None else f"-{param.short}|--{param.name}"
        shape = names if param.type == "bool" else f"{names} <{param.type}>"
        shapes.append(shape if param.required else f"[{shape}]")
    return "parameters after --: " + " ".join(shapes)


def show_value(value: Value) -> str:
    """A value as interpolation writes it."""
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def _faults(param: Param, names: set[str], shorts: set[str]) -> Iterator[tuple[str, str]]:
    if not _NAME.fullmatch(param.name):
        yield "name", f"{param.name[:60]!r} is not a name: lower-case letters, digits, '_' and '-', at most 32"
    if param.name in names:
        yield "name", f"{param.name!r} is declared twice"
    if param.short is not None and not _SHORT.fullmatch(param.short):
        yield "short", f"{param.short[:60]!r} is not one letter"
    if param.short in shorts:
        yield "short", f"{param.short!r} is taken by another parameter"
    if param.default is not None and param.required:
        yield "default", "a required parameter has no default"
    kinds: Mapping[str, tuple[type, ...]] = {"string": (str,), "int": (int,), "number": (int, float), "bool": (bool,)}
    fits = isinstance(param.default, kinds[param.type]) and (
        param.type == "bool" or not isinstance(param.default, bool)  # which Python counts among the numbers
    )
    if param.default is not None and not fits:
        yield "default", f"{str(param.default)[:60]!r} is not of type {param.type}"


def _pairs(params: tuple[Param, ...], words: Sequence[str], faults: list[str]) -> Iterator[tuple[Param, str]]:
    """Each parameter that was given with its text. What is none is added to ``faults``."""
    options = {f"--{param.name}": param for param in params} | {
        f"-{param.short}": param for param in params if param.short
    }
    rest = iter(words)
    for word in rest:
        option, equals, text = word.partition("=")
        param = options.get(option)
        if param is None:
            if not word.startswith("-"):
                stray = f"{word[:60]!r} belongs to no parameter"
            else:
                stray = f"unknown parameter {option[:60]} ({suggest(option, options)})"
            faults.append(stray)
        elif equals:
            yield param, text
        elif param.type == "bool":
            yield param, "true"
        else:
            value = next(rest, None)
            if value is None:
                faults.append(f"{option} needs a value")
            else:
                yield param, value
