"""Variables in the texts of a workflow: validation with locations, and their values.

They include its parameters: the declarations in the file, and the words after ``--`` with their values.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from kernel.source.diagnostics import Diagnostics, Location, suggest
from kernel.source.scalars import Mismatch, read_bool, read_float, read_int
from kernel.source.yaml_tree import ListNode, MapNode, Node, ScalarNode
from kernel.workflows.templates import variables
from protocol.errors import Refused
from protocol.workflow import RESERVED_VARIABLES, Param, WorkflowDefinition

Value = str | int | float | bool

_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,31}", re.ASCII)
_SHORT: Final = re.compile(r"[A-Za-z]", re.ASCII)
_NOWHERE: Final = Location()
_READERS: Final = {"int": read_int, "number": read_float, "bool": read_bool}


def check_params(params: tuple[Param, ...], node: Node, problems: Diagnostics) -> None:
    """Report errors in the declared ``params``, which were converted from ``node``."""
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
    """Return the declarations with defaults of strings as text, whatever type they look like (``default: 1.10``)."""
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
    """Return values by name: ``--name value``, ``--name=value``, ``-n value``, ``--flag``; defaults for the rest.

    Parameters without a value and a default are left out. Raises Refused(bad_request) with all errors.
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
    """Return a line with the parameters, as a hint."""
    if not params:
        return "this workflow takes no parameters"
    shapes: list[str] = []
    for param in params:
        names = f"--{param.name}" if param.short is None else f"-{param.short}|--{param.name}"
        shape = names if param.type == "bool" else f"{names} <{param.type}>"
        shapes.append(shape if param.required else f"[{shape}]")
    return "parameters after --: " + " ".join(shapes)


def show_value(value: Value) -> str:
    """Return the text of a value for interpolation."""
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def _faults(param: Param, names: set[str], shorts: set[str]) -> Iterator[tuple[str, str]]:
    if not _NAME.fullmatch(param.name):
        yield ("name", f"{param.name[:60]!r} is not a name: use at most 32 lower-case letters, digits, '_' and '-'")
    if param.name in names:
        yield "name", f"{param.name!r} is declared twice"
    if param.short is not None and not _SHORT.fullmatch(param.short):
        yield "short", f"{param.short[:60]!r} is not a single letter"
    if param.short in shorts:
        yield "short", f"{param.short!r} is used by another parameter"
    if param.default is not None and param.required:
        yield "default", "a required parameter cannot have a default"
    kinds: Mapping[str, tuple[type, ...]] = {"string": (str,), "int": (int,), "number": (int, float), "bool": (bool,)}
    fits = isinstance(param.default, kinds[param.type]) and (
        param.type == "bool" or not isinstance(param.default, bool)  # bool is a subclass of int
    )
    if param.default is not None and not fits:
        yield "default", f"{str(param.default)[:60]!r} is not of type {param.type}"


def _pairs(params: tuple[Param, ...], words: Sequence[str], faults: list[str]) -> Iterator[tuple[Param, str]]:
    options = {f"--{param.name}": param for param in params} | {
        f"-{param.short}": param for param in params if param.short
    }
    rest = iter(words)
    for word in rest:
        option, equals, text = word.partition("=")
        param = options.get(option)
        if param is None:
            if not word.startswith("-"):
                stray = f"{word[:60]!r} does not belong to a parameter"
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


ENV: Final = "env."
_BIND: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", re.ASCII)
_WORKFLOW: Final = ("workflow.name", "workflow.tag", "workflow.instance")
FOLDER: Final = "workspace.dir"
_HINTS: Final[Mapping[str, str]] = {
    "message": "message.* exists only in mock scripts, at run time",
    "match": "match.* exists only in mock scripts, at run time",
    "source": "source.dir, source.url and source.ref are available only in remote workflows",
    "context": "use workspace.dir",
}


def check_texts(
    definition: WorkflowDefinition, node: MapNode, problems: Diagnostics, source: Collection[str] = ()
) -> None:
    """Report variables without a value in setup and kickoff, and names that ``as`` must not use.

    ``source`` are the variables about the origin of the file.
    """
    known = {f"params.{param.name}" for param in definition.params} | {*_WORKFLOW, *source}
    if definition.workspace is not False:
        known.add(FOLDER)
    steps = node.get("setup")
    for index, step in enumerate(definition.setup):
        item = steps.items[index] if isinstance(steps, ListNode) else node
        where = f"setup[{index}]"
        if not step.shell.strip():
            problems.add(_value_place(item, "shell"), f"{where}.shell", "the command is empty")
        _check_text(step.shell, _value_place(item, "shell"), f"{where}.shell", known, problems)
        if step.bind is not None:
            name = step.bind
            fault: str | None
            if not _BIND.fullmatch(name):
                fault = f"{name[:60]!r} is not a valid variable name: use letters, digits, '_' and '-'"
            elif name in RESERVED_VARIABLES:
                fault = f"{name!r} is reserved"
            else:
                fault = f"{name!r} is already set by an earlier step" if name in known else None
            if fault is not None:
                problems.add(_value_place(item, "as"), f"{where}.as", fault)
            else:
                known.add(step.bind)
    if definition.kickoff is not None:
        _check_text(definition.kickoff, _value_place(node, "kickoff"), "kickoff", known, problems)


def environment_names(definition: WorkflowDefinition) -> tuple[str, ...]:
    """Return the unique names of the environment variables that the workflow's texts use."""
    found = (variable.name for text in _texts(definition) for variable in variables(text))
    return tuple(dict.fromkeys(name.removeprefix(ENV) for name in found if name.startswith(ENV)))


def needs_folder(definition: WorkflowDefinition) -> bool:
    """Return whether the workflow's texts use the workspace folder, which must then exist."""
    return any(variable.name == FOLDER for text in _texts(definition) for variable in variables(text))


def start_values(
    definition: WorkflowDefinition, tag: str, params: Mapping[str, Value], environ: Mapping[str, str]
) -> dict[str, str]:
    """Return the values of variables, except for setup outputs, the workspace folder and the origin of the file.

    A missing parameter is an empty text, or ``false`` for a bool. Raises KeyError for an unset environment variable.
    """
    given = {f"params.{param.name}": "false" if param.type == "bool" else "" for param in definition.params}
    given |= {f"params.{name}": show_value(value) for name, value in params.items()}
    given |= {f"{ENV}{name}": environ[name] for name in environment_names(definition)}
    return given | {"workflow.name": definition.name, "workflow.tag": tag, "workflow.instance": tag}


def _texts(definition: WorkflowDefinition) -> Iterator[str]:
    yield from (step.shell for step in definition.setup)
    if definition.kickoff is not None:
        yield definition.kickoff


def _check_text(text: str, place: Location, where: str, known: set[str], problems: Diagnostics) -> None:
    for variable in variables(text):
        if not variable.name:
            message, hint = "'${{' is not closed, or empty", "write ${{ name }}"
        elif not variable.is_name:
            message, hint = f"{variable.name[:60]!r} is not a variable", "write a single name between the braces"
        elif variable.name in known or variable.name.startswith(ENV):
            message, hint = "", ""
        else:
            variable_fault_hint = _HINTS.get(variable.name.partition(".")[0])
            message, hint = (
                f"unknown variable {variable.name[:60]!r}",
                variable_fault_hint or suggest(variable.name, known, what="available"),
            )
        if message:
            problems.add(problems.find(variable.written, place), where, message, hint)


def _value_place(node: Node, key: str) -> Location:
    value = node.get(key) if isinstance(node, MapNode) else None
    return node.place if value is None else value.place
