"""The key ``tools`` of an agent: the names it may have, and the rules for a tool of the project file.

A KeyFault is a mistake in one key of an agent, before it is known where in a file that stands.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kernel.source.diagnostics import nearest
from protocol.tools import (
    BUILT_IN,
    SWITCHES,
    ProjectTool,
    input_schema,
    part_placeholders,
    placeholders,
    tool_name_fault,
)


class KeyFault(NamedTuple):
    """``key`` is a path (``mcp_servers.github.url``)."""

    key: str
    message: str
    hint: str | None = None


def name_faults(names: tuple[str, ...], own: Mapping[str, ProjectTool]) -> Iterator[KeyFault]:
    """The mistakes in an agent's ``tools``. ``own`` are those of the project file."""
    for name in names:
        if name in SWITCHES or name in own:
            continue
        if name in BUILT_IN:
            switch = BUILT_IN[name].switch
            yield KeyFault("tools", f"{name} comes with {switch}", f"write {switch}")
            continue
        known = {*SWITCHES, *own}
        close = nearest(name, known)
        make = f"there are {', '.join(sorted(known))}; awk tool add {name[:40]} makes one"
        yield KeyFault("tools", f"unknown tool {name[:60]!r}", make if close is None else f"did you mean {close}?")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        yield KeyFault("tools", f"{twice} is there twice", "keep one")


def tool_faults(name: str, tool: ProjectTool) -> Iterator[KeyFault]:
    """The mistakes in the tool ``name`` of the project file."""
    at = f"tools.{name}"
    fault = tool_name_fault(name)
    if fault is not None:
        yield KeyFault(at, fault)
    if not tool.description.strip():
        yield KeyFault(f"{at}.description", "is empty", "say what it does, and when to use it")
    if tool.mock is None and not any(tool.command[:1]):
        yield KeyFault(f"{at}.command", "is missing", f"add command: [program, argument], or awk tool mock {name} TEXT")
    try:
        known: Mapping[str, object] = input_schema(tool.input)["properties"] if tool.input else {}
    except (ValueError, KeyError) as error:
        text = str(error) if isinstance(error, ValueError) else "has no properties"
        yield KeyFault(f"{at}.input", text, "write name: type for each argument, or a JSON Schema")
        return
    for word in tool.command:
        part = next(
            (name for name in part_placeholders(word) if name in known or not any(letter.isspace() for letter in word)),
            None,
        )
        if part is not None:
            message = f"{word[:60]!r} holds ${{{part}}}: an argument is a word of its own, and no part of one"
            yield KeyFault(f"{at}.command", message, f'write "${{{part}}}", or read it from standard input')
    for argument in placeholders(tool.command):
        if argument not in known:
            yield KeyFault(
                f"{at}.command", f"${{{argument}}} is no argument of it", f"add {argument}: string to input:"
            )
