"""The kickoff's text. What setup commands printed is data: it is shown in a fence that it cannot close (CF16, XF07).

A value that has a line of its own, or several lines, becomes a fenced block named after its variable. A short value
within a line stays in the line: it is part of the author's sentence. Where the author has put a fence around a
variable, that fence is made long enough.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from kernel.workflows.interpolate import Variable, expand, variables

INLINE_CHARACTERS: Final = 200
"""What is longer is fenced wherever it stands."""

_FENCE: Final = re.compile(r"(?P<indent> {0,3})(?P<marks>`{3,}|~{3,})(?P<info>.*)", re.DOTALL)


def write_kickoff(template: str, values: Mapping[str, str], outputs: Collection[str]) -> str:
    """``template`` with every variable replaced. ``outputs`` are the variables that hold what commands printed."""
    return "".join(_write(block, values, outputs) for block in _blocks(template))


@dataclass(frozen=True, slots=True)
class _Block:
    """Lines of the template: prose, or all of a fence with its marks."""

    text: str
    fenced: bool


def _blocks(template: str) -> Iterator[_Block]:
    """``template`` in pieces (CommonMark 4.5: a fence left open runs to the end)."""
    lines: list[str] = []
    marks = ""
    for line in template.splitlines(keepends=True):
        match = _FENCE.match(line)
        if not marks and match and not ("`" in match["marks"] and "`" in match["info"]):
            yield _Block("".join(lines), fenced=False)
            lines, marks = [line], match["marks"]
        elif marks and match and match["marks"].startswith(marks) and not match["info"].strip():
            yield _Block("".join([*lines, line]), fenced=True)
            lines, marks = [], ""
        else:
            lines.append(line)
    yield _Block("".join(lines), fenced=bool(marks))


def _write(block: _Block, values: Mapping[str, str], outputs: Collection[str]) -> str:
    if block.fenced:
        return _widened(block.text, values)
    parts: list[str] = []
    position = 0
    for variable in variables(block.text):
        before = block.text[position : variable.start]
        value = values[variable.name]
        if variable.name in outputs and value.strip():
            parts.append(_output(before, value, variable, block.text[variable.end :]))
        else:
            parts.append(before + value)
        position = variable.end
    return "".join([*parts, block.text[position:]])


def _output(before: str, value: str, variable: Variable, after: str) -> str:
    """``before`` and the value behind it: in the line, or as a block of its own."""
    line_start = before.rpartition("\n")[2] if variable.start else ""
    first = not line_start.strip() and ("\n" in before or len(before) == variable.start)
    last = not after.partition("\n")[0].strip()
    if not (first and last) and len(value.splitlines()) == 1 and len(value) <= INLINE_CHARACTERS:
        return before + value
    head = before if first else f"{before.rstrip(' ')}\n"
    return f"{head}{fenced(value, variable.name)}{'' if last else chr(10)}"


def fenced(text: str, name: str) -> str:
    """``text`` between marks that do not occur in it."""
    marks = "`" * (_longest(text, "`", 2) + 1)
    return f"{marks}{name}\n{text}\n{marks}"


def _widened(text: str, values: Mapping[str, str]) -> str:
    """A fence of the author's with its variables replaced, and its marks longer than any in their values."""
    lines = text.splitlines(keepends=True)
    match = _FENCE.match(lines[0])
    assert match is not None
    marks = match["marks"]
    held = [values[variable.name] for variable in variables(text)]
    length = max([len(marks), *(_longest(value, marks[0], 0) + 1 for value in held)])
    if length > len(marks):
        more = marks[0] * (length - len(marks))
        lines[0] = f"{match['indent']}{marks}{more}{match['info']}"
        closing = _FENCE.match(lines[-1]) if len(lines) > 1 else None
        if closing and closing["marks"].startswith(marks) and not closing["info"].strip():
            lines[-1] = f"{closing['indent']}{marks}{more}{closing['info']}"
    return expand("".join(lines), values)


def _longest(text: str, mark: str, least: int) -> int:
    """The longest run of ``mark`` in ``text``; at least ``least``."""
    return max([least, *map(len, re.findall(f"{re.escape(mark)}+", text))])
