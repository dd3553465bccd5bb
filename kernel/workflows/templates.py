"""Templates: replacement of ``${{ name }}`` in texts, in shell commands and in the kickoff.

Known names are replaced, and values are not expanded again (CF14). In a kickoff, the output of setup commands is data:
it is shown in a fence that it cannot close (CF16, XF07). A value on a separate line, or with several lines, becomes a
fenced block named after its variable. A short value within a line stays there, as a part of the author's sentence. A
fence that the author put around a variable is lengthened if necessary.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final

import msgspec

_OPEN: Final = "${{"
_VARIABLE: Final = re.compile(r"\$\{\{(.*?)\}\}", re.DOTALL)
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z_][A-Za-z0-9_-]*)?", re.ASCII)


class Variable(msgspec.Struct, frozen=True):
    """A use of a variable: its ``name``, and its ``written`` form with braces."""

    name: str
    written: str
    start: int
    end: int

    @property
    def is_name(self) -> bool:
        """Return whether the text in the braces is a syntactically valid name."""
        return _NAME.fullmatch(self.name) is not None


def variables(text: str) -> tuple[Variable, ...]:
    """Return the variables in ``text``, in order. One without closing braces has an empty name."""
    found = [Variable(match[1].strip(), match[0], *match.span()) for match in _VARIABLE.finditer(text)]
    rest = found[-1].end if found else 0
    unclosed = text.find(_OPEN, rest)
    if unclosed >= 0:
        found.append(Variable("", _OPEN, unclosed, unclosed + len(_OPEN)))
    return tuple(found)


def expand(text: str, values: Mapping[str, str]) -> str:
    """Return ``text`` with values for its variables.

    Raises KeyError for an unknown name: callers check names before.
    """
    return _replace(text, lambda variable: values[variable.name])


class ShellText(msgspec.Struct, frozen=True):
    """A command with shell variables, and the environment with their values."""

    command: str
    environment: dict[str, str]


def expand_shell(command: str, values: Mapping[str, str]) -> ShellText:
    """Replace variables by ``${AWK_VALUE_n}`` in ``command``: a value is data in the environment, never shell code.

    Works unquoted and inside double quotes like ``$name``; inside single quotes, the quotes are interrupted. Raises
    KeyError for an unknown name.
    """
    environment: dict[str, str] = {}
    # Positions of variables inside single quotes. A wrong guess changes the output, never the executed code.
    inside: set[int] = set()
    quote = ""
    position = 0
    while (match := _SHELL_TOKEN.search(command, position)) is not None:
        token = match[0]
        position = match.start() + 1 if quote == "'" and token[0] == "\\" else match.end()
        if token == _OPEN and quote == "'":
            inside.add(match.start())
        elif token in ("'", '"') and quote in ("", token):
            quote = "" if quote else token
    quoted = frozenset(inside)

    def reference(variable: Variable) -> str:
        name = f"AWK_VALUE_{len(environment) + 1}"
        environment[name] = values[variable.name]
        return f"'\"${{{name}}}\"'" if variable.start in quoted else f"${{{name}}}"

    return ShellText(_replace(command, reference), environment)


def _replace(text: str, value: Callable[[Variable], str]) -> str:
    parts: list[str] = []
    position = 0
    for variable in variables(text):
        parts += [text[position : variable.start], value(variable)]
        position = variable.end
    return "".join([*parts, text[position:]])


_SHELL_TOKEN: Final = re.compile(r"\\.|'|\"|\$\{\{", re.DOTALL)


INLINE_CHARACTERS: Final = 200
"""Maximum length of a value that stays within its line."""

_FENCE: Final = re.compile(r"(?P<indent> {0,3})(?P<marks>`{3,}|~{3,})(?P<info>.*)", re.DOTALL)


def write_kickoff(template: str, values: Mapping[str, str], outputs: Collection[str]) -> str:
    """Return ``template`` with values for its variables. ``outputs`` are the variables with output of commands."""
    return "".join(_write(block, values, outputs) for block in _blocks(template))


class _TemplateBlock(msgspec.Struct, frozen=True):
    """Lines of the template: prose, or a whole fence with its marks."""

    text: str
    fenced: bool


def _blocks(template: str) -> Iterator[_TemplateBlock]:
    lines: list[str] = []
    marks = ""
    for line in template.splitlines(keepends=True):
        match = _FENCE.match(line)
        if not marks and match and not ("`" in match["marks"] and "`" in match["info"]):
            yield _TemplateBlock("".join(lines), fenced=False)
            lines, marks = [line], match["marks"]
        elif marks and match and match["marks"].startswith(marks) and not match["info"].strip():
            yield _TemplateBlock("".join([*lines, line]), fenced=True)
            lines, marks = [], ""
        else:
            lines.append(line)
    yield _TemplateBlock("".join(lines), fenced=bool(marks))


def _write(block: _TemplateBlock, values: Mapping[str, str], outputs: Collection[str]) -> str:
    if block.fenced:
        # A fence of the author: lengthen its marks so that no value can close it.
        lines = block.text.splitlines(keepends=True)
        match = _FENCE.match(lines[0])
        assert match is not None
        marks = match["marks"]
        held = [values[variable.name] for variable in variables(block.text)]
        length = max([len(marks), *(_longest(value, marks[0], 0) + 1 for value in held)])
        if length > len(marks):
            more = marks[0] * (length - len(marks))
            lines[0] = f"{match['indent']}{marks}{more}{match['info']}"
            closing = _FENCE.match(lines[-1]) if len(lines) > 1 else None
            if closing and closing["marks"].startswith(marks) and not closing["info"].strip():
                lines[-1] = f"{closing['indent']}{marks}{more}{closing['info']}"
        return expand("".join(lines), values)
    parts: list[str] = []
    position = 0
    for variable in variables(block.text):
        before = block.text[position : variable.start]
        value = values[variable.name]
        if variable.name in outputs and value.strip():
            # The value stays in the line of the text before it, or becomes a separate block.
            after = block.text[variable.end :]
            line_start = before.rpartition("\n")[2] if variable.start else ""
            first = not line_start.strip() and ("\n" in before or len(before) == variable.start)
            last = not after.partition("\n")[0].strip()
            if not (first and last) and len(value.splitlines()) == 1 and len(value) <= INLINE_CHARACTERS:
                output = before + value
            else:
                head = before if first else f"{before.rstrip(' ')}\n"
                output = f"{head}{fenced(value, variable.name)}{'' if last else chr(10)}"
            parts.append(output)
        else:
            parts.append(before + value)
        position = variable.end
    return "".join([*parts, block.text[position:]])


def fenced(text: str, name: str) -> str:
    """Return ``text`` between marks that do not occur in it."""
    marks = "`" * (_longest(text, "`", 2) + 1)
    return f"{marks}{name}\n{text}\n{marks}"


def _longest(text: str, mark: str, least: int) -> int:
    return max([least, *map(len, re.findall(f"{re.escape(mark)}+", text))])
