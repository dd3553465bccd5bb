"""Reference pages of files: every key with its type, default and meaning, generated from the model of Structs."""

from collections.abc import Mapping
from typing import Final

import msgspec

from kernel.inspect.schema import ROOTS, Root, default_of, fields_of, needed, texts_of
from kernel.source.convert import Anything, Entries, Field, Items, Nested, OneOf, Scalar, ValueType, Words, struct_text
from protocol.agent import Action, AgentDefinition, MockExit, Rule
from protocol.inspection import Kind
from protocol.project import ProjectDefinition, ProjectLimits
from protocol.workflow import Ref, WorkflowDefinition

_INTRODUCTIONS: Final[Mapping[Kind, tuple[str, str]]] = {
    "agent": ("The agent file", "`.agents/<name>.yaml`: one agent, identified by the file name."),
    "workflow": ("The workflow file", "`.workflows/<name>.yaml`: agents that work together, and their kickoff."),
    "project": ("The project file", "`.agents.yaml` (or `moniro.yaml`) in the project root. Optional."),
}
_COMMON: Final = (
    "An unknown or duplicate key is an error. Text is used as written, even if it looks like another type; "
    "`yes` and `no` are not truth values. Durations are `200ms`, `30s`, `10m`, `2h`, `1d`, or a number of "
    "seconds; amounts of memory `512MiB`, `4GiB`, `2GB`, or a number of bytes."
)
_CHECK: Final = (
    "`awk validate` reports errors in a file, `awk config` shows the effective values, and `awk schema {0}` prints a "
    "JSON Schema for editors."
)
_NAMES: Final[Mapping[type, str]] = {str: "text", int: "whole number", float: "number", bool: "`true` or `false`"}
_SPECIAL: Final[Mapping[tuple[type, str], str]] = {
    (AgentDefinition, "mock"): "list of [Rule](#rule), or of the [Action](#action)s of one",
    (Ref, "mock"): "list of [Rule](#rule), or of the [Action](#action)s of one",
    (Action, "exit"): "text (a signal), whole number (an exit code), or [MockExit](#mockexit)",
    (WorkflowDefinition, "agents"): "name -> [Ref](#ref), or an inline agent ([its keys](agent.md))",
    (ProjectDefinition, "agents"): "name -> path of a file, or an inline agent ([its keys](agent.md)); or a list",
    (ProjectLimits, "memory_reserve"): "`10%`, or a number from 0 to 0.9",
}
_NAMED_STRUCTS: Final[Mapping[tuple[type, str], tuple[type[msgspec.Struct], ...]]] = {
    (AgentDefinition, "mock"): (Rule, Action),
    (Ref, "mock"): (Rule, Action),
    (Action, "exit"): (MockExit,),
    (WorkflowDefinition, "agents"): (Ref,),
}
"""Structs that the texts of _SPECIAL name, so that the page describes them."""
_ELSEWHERE: Final[Mapping[type, Kind]] = {AgentDefinition: "agent"}
"""Structs that another page describes, by the kind of that page."""


def reference_page(kind: Kind) -> str:
    """Return the page about files of this ``kind``."""
    title, about = _INTRODUCTIONS[kind]
    page = _Page(ROOTS[kind])
    return "\n".join([f"# {title}", "", about, "", _COMMON, "", _CHECK.format(kind), "", *page.sections()])


class _Page:
    def __init__(self, root: Root) -> None:
        self._root = root
        self._met: list[type[msgspec.Struct]] = [root.struct]

    def sections(self) -> list[str]:
        lines: list[str] = []
        for struct in self._met:  # grows: a row may refer to further Structs
            texts = texts_of(struct)
            is_root = struct is self._root.struct
            head = [] if is_root else [f"## {struct.__name__}", ""]
            about = [] if is_root else [line for paragraph in struct_text(struct) for line in (paragraph, "")]
            rows = [self.row(struct, one, texts.get(one.name, "")) for one in fields_of(struct, self._root.rules)]
            lines += [*head, *about, "| key | shape | default | meaning |", "|---|---|---|---|", *rows, ""]
        return lines

    def row(self, struct: type[msgspec.Struct], one: Field, text: str) -> str:
        shape = _SPECIAL.get((struct, one.name))
        if shape is None:
            shape = self._shape(one.type)
        else:
            # A fixed text may refer to Structs, too.
            for named in _NAMED_STRUCTS.get((struct, one.name), ()):
                self._link(named)
        default = default_of(one)
        told = "required" if needed(struct, one) else "" if default is None else f"`{_plain(default)}`"
        return f"| `{one.key}` | {_cell(shape)} | {told} | {_cell(text)} |"

    def _shape(self, kind: ValueType) -> str:  # noqa: PLR0911  (one for each type)
        match kind:
            case Scalar():
                show = _plain if kind.quantity is None else kind.quantity.show
                shape = _NAMES[kind.kind] if kind.quantity is None else kind.quantity.noun
                low = None if kind.low is None else show(kind.low)
                high = None if kind.high is None else show(kind.high)
                if low is not None and high is not None:
                    return f"{shape}, {low} to {high}"
                if low is not None or high is not None:
                    return f"{shape}, {f'at least {low}' if high is None else f'at most {high}'}"
                return shape
            case Words(words):
                return ", ".join(f"`{value}`" for value in words)
            case OneOf(options):
                return " or ".join(self._shape(option) for option in options)
            case Items(item):
                return f"list of {self._shape(item)}"
            case Entries(value):
                return f"name -> {self._shape(value)}"
            case Nested(struct):
                return self._link(struct)
            case Anything():
                return "anything"

    def _link(self, struct: type[msgspec.Struct]) -> str:
        if struct in _ELSEWHERE and struct is not self._root.struct:
            return f"[{struct.__name__}]({_ELSEWHERE[struct]}.md)"
        if struct not in self._met:
            self._met.append(struct)
        return f"[{struct.__name__}](#{struct.__name__.lower()})"


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.6f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
