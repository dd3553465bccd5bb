"""docs/reference: every key of a file with its shape, its default and what it means, from the Structs."""

from collections.abc import Callable, Mapping
from types import MappingProxyType, NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

import msgspec

from kernel.inspect.schema import ROOTS, Root, default_of, field_texts, fields_of, needed, whole_text
from kernel.source.scalars import quantity_of
from protocol.agent import Action, AgentDefinition, Rule
from protocol.inspection import Kind
from protocol.project import ProjectDefinition, ProjectLimits
from protocol.workflow import Ref, WorkflowDefinition

_INTRODUCTIONS: Final[Mapping[Kind, tuple[str, str]]] = MappingProxyType(
    {
        "agent": ("The agent file", "`.agents/<name>.yaml`: one agent, known everywhere by the file's name."),
        "workflow": ("The workflow file", "`.workflows/<name>.yaml`: who works together, and what begins it."),
        "project": ("The project file", "`.agents.yaml` (or `moniro.yaml`), at the project's root. It is optional."),
    }
)
_COMMON: Final = (
    "A key that is not listed here is an error, and so is one given twice. Text is taken as it is written, whatever it "
    "looks like; `yes` and `no` are not truth values. Durations are `200ms`, `30s`, `10m`, `2h`, `1d`, or a number of "
    "seconds; amounts of memory `512MiB`, `4GiB`, `2GB`, or a number of bytes."
)
_CHECK: Final = (
    "`awk validate` says what is wrong with a file, `awk config` what it comes to, `awk schema {0}` is this page for "
    "editors."
)
_NAMES: Final[Mapping[object, str]] = MappingProxyType(
    {str: "text", int: "whole number", float: "number", bool: "`true` or `false`", Any: "anything"}
)
_SPECIAL: Final[Mapping[tuple[type, str], str]] = MappingProxyType(
    {
        (AgentDefinition, "mock"): "list of [Rule](#rule), or of the [Action](#action)s of one",
        (Ref, "mock"): "list of [Rule](#rule), or of the [Action](#action)s of one",
        (Action, "exit"): "text (a signal), whole number (an exit code), or [MockExit](#mockexit)",
        (WorkflowDefinition, "agents"): "name -> [Ref](#ref), or an inline agent ([its keys](agent.md))",
        (ProjectDefinition, "agents"): "name -> path of a file, or an inline agent ([its keys](agent.md)); or a list",
        (ProjectLimits, "memory_reserve"): "`10%`, or a number from 0 to 0.9",
    }
)
_ELSEWHERE: Final[Mapping[type, Kind]] = MappingProxyType({AgentDefinition: "agent"})
"""Structs that have a page of their own."""


def reference_page(kind: Kind) -> str:
    """The page about the files of this ``kind``."""
    title, about = _INTRODUCTIONS[kind]
    page = _Page(ROOTS[kind])
    return "\n".join([f"# {title}", "", about, "", _COMMON, "", _CHECK.format(kind), "", *page.sections()])


class _Page:
    """The Structs of one page, in the order in which they are first met."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._met: list[type[msgspec.Struct]] = [root.struct]

    def sections(self) -> list[str]:
        lines: list[str] = []
        for struct in self._met:  # it grows as shapes name further ones
            texts = field_texts(struct)
            is_root = struct is self._root.struct
            head = [] if is_root else [f"## {struct.__name__}", ""]
            about = [] if is_root else [line for paragraph in whole_text(struct) for line in (paragraph, "")]
            rows = [self._row(struct, info, texts.get(info.name, "")) for info in fields_of(struct, self._root.shapes)]
            lines += [*head, *about, "| key | shape | default | meaning |", "|---|---|---|---|", *rows, ""]
        return lines

    def _row(self, struct: type[msgspec.Struct], info: msgspec.structs.FieldInfo, text: str) -> str:
        shape = _SPECIAL.get((struct, info.name))
        if shape is None:
            shape = self._shape(info.type)
        else:
            # Shapes that are told in words lead to Structs all the same.
            name = info.name
            for met in {"mock": (Rule, Action), "agents": (Ref,)}.get(name, ()):
                if (struct, name) != (ProjectDefinition, "agents"):
                    self._link(met)
            if (struct, name) == (Action, "exit"):
                self._shape(
                    next(
                        meet_special_info.type
                        for meet_special_info in msgspec.structs.fields(Action)
                        if meet_special_info.name == "exit"
                    )
                )
        default = default_of(info)
        told = "required" if needed(struct, info) else "" if default is None else f"`{_plain(default)}`"
        return f"| `{info.encode_name}` | {_cell(shape)} | {told} | {_cell(text)} |"

    def _shape(self, kind: Any) -> str:
        origin = get_origin(kind)
        if origin is Annotated:
            bare, *metas = get_args(kind)
            shape = self._shape(bare)
            bounded_metas = [meta for meta in metas if isinstance(meta, msgspec.Meta)]
            for bounded_meta in bounded_metas:
                quantity = quantity_of(bounded_meta)
                shape = shape if quantity is None else quantity.noun
                show = _plain if quantity is None else quantity.show
                low = None if bounded_meta.ge is None else show(bounded_meta.ge)
                high = None if bounded_meta.le is None else show(bounded_meta.le)
                if low is not None and high is not None:
                    shape = f"{shape}, {low} to {high}"
                elif low is not None or high is not None:
                    shape = f"{shape}, {f'at least {low}' if high is None else f'at most {high}'}"
            return shape
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            return self._link(kind)
        told = _COMPOUND.get(origin)
        return _NAMES[kind] if told is None else told(self, get_args(kind))

    def union(self, options: tuple[Any, ...]) -> str:
        return " or ".join(self._shape(option) for option in options if option is not NoneType)

    def items(self, options: tuple[Any, ...]) -> str:
        return f"list of {self._shape(options[0])}"

    def entries(self, options: tuple[Any, ...]) -> str:
        return f"name -> {self._shape(options[1])}"

    def words(self, options: tuple[Any, ...]) -> str:
        return ", ".join(f"`{value}`" for value in options)

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


_COMPOUND: Final[Mapping[object, Callable[[_Page, tuple[Any, ...]], str]]] = MappingProxyType(
    {Union: _Page.union, UnionType: _Page.union, tuple: _Page.items, dict: _Page.entries, Literal: _Page.words}
)
