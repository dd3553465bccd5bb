"""Variables that the texts of a workflow may use, checked with their places; and their values."""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from kernel.source.diagnostics import Diagnostics, Location, suggest
from kernel.source.yaml_tree import ListNode, MapNode, Node
from kernel.workflows.params import Value, show_value
from kernel.workflows.templates import variables
from protocol.workflow import RESERVED_VARIABLES, WorkflowDefinition

ENV: Final = "env."
_BIND: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", re.ASCII)
_WORKFLOW: Final = ("workflow.name", "workflow.tag", "workflow.instance")
FOLDER: Final = "workspace.dir"
_HINTS: Final[Mapping[str, str]] = {
    "message": "message.* exists only in mock scripts, at run time",
    "match": "match.* exists only in mock scripts, at run time",
    "source": "source.dir, source.url and source.ref are known only of a workflow that comes from elsewhere",
    "context": "it is called workspace: there is workspace.dir",
}


def check_texts(
    definition: WorkflowDefinition, node: MapNode, problems: Diagnostics, source: Collection[str] = ()
) -> None:
    """Note every variable in setup and kickoff that will have no value, and names that ``as`` may not take.

    ``source`` are the variables that tell where the file came from.
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
                fault = f"{name[:60]!r} is not a name for a variable: letters, digits, '_' and '-'"
            elif name in RESERVED_VARIABLES:
                fault = f"{name!r} is reserved"
            else:
                fault = f"{name!r} is taken by an earlier step" if name in known else None
            if fault is not None:
                problems.add(_value_place(item, "as"), f"{where}.as", fault)
            else:
                known.add(step.bind)
    if definition.kickoff is not None:
        _check_text(definition.kickoff, _value_place(node, "kickoff"), "kickoff", known, problems)


def environment_names(definition: WorkflowDefinition) -> tuple[str, ...]:
    """Names of the variables of the environment that its texts use, once each."""
    found = (variable.name for text in _texts(definition) for variable in variables(text))
    return tuple(dict.fromkeys(name.removeprefix(ENV) for name in found if name.startswith(ENV)))


def needs_folder(definition: WorkflowDefinition) -> bool:
    """Return whether a text of it names the workspace's folder, which then has to be there."""
    return any(variable.name == FOLDER for text in _texts(definition) for variable in variables(text))


def start_values(
    definition: WorkflowDefinition, tag: str, params: Mapping[str, Value], environ: Mapping[str, str]
) -> dict[str, str]:
    """Values of all variables but setup outputs, the workspace's folder and where the file came from.

    A parameter that was not given is empty text; a bool, which is given by its name alone, is then ``false``.

    Raises KeyError for a variable of the environment that is not set.
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
            message, hint = f"{variable.name[:60]!r} is not a variable", "between the braces stands one name"
        elif variable.name in known or variable.name.startswith(ENV):
            message, hint = "", ""
        else:
            variable_fault_hint = _HINTS.get(variable.name.partition(".")[0])
            message, hint = (
                f"unknown variable {variable.name[:60]!r}",
                variable_fault_hint or suggest(variable.name, known, what="known here"),
            )
        if message:
            problems.add(problems.find(variable.written, place), where, message, hint)


def _value_place(node: Node, key: str) -> Location:
    value = node.get(key) if isinstance(node, MapNode) else None
    return node.place if value is None else value.place
