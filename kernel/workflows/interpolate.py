"""``${{ name }}``: known names only, each replaced once. What a value says is never looked into again (CF14)."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

_OPEN: Final = "${{"
_VARIABLE: Final = re.compile(r"\$\{\{(.*?)\}\}", re.DOTALL)
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z_][A-Za-z0-9_-]*)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Variable:
    """One use of a variable: its ``name``, and how it is ``written`` with its braces."""

    name: str
    written: str
    start: int
    end: int

    @property
    def is_name(self) -> bool:
        """Whether what stands in the braces could be a name at all."""
        return _NAME.fullmatch(self.name) is not None


def variables(text: str) -> tuple[Variable, ...]:
    """Every use of a variable in ``text``, in order. One whose braces never close is there with an empty name."""
    found = [Variable(match[1].strip(), match[0], *match.span()) for match in _VARIABLE.finditer(text)]
    rest = found[-1].end if found else 0
    unclosed = text.find(_OPEN, rest)
    if unclosed >= 0:
        found.append(Variable("", _OPEN, unclosed, unclosed + len(_OPEN)))
    return tuple(found)


def expand(text: str, values: Mapping[str, str]) -> str:
    """``text`` with every variable replaced. Raises KeyError for an unknown one: callers checked the names before."""
    return _replace(text, lambda variable: values[variable.name])


@dataclass(frozen=True, slots=True)
class ShellText:
    """A command whose variables became shell variables, and the environment that holds their values."""

    command: str
    environment: dict[str, str]


def expand_shell(command: str, values: Mapping[str, str]) -> ShellText:
    """``command`` with every variable as ``${AWK_VALUE_n}``: a value is a word of data there, never shell code.

    It works unquoted and inside double quotes as ``$name`` would, and inside single quotes it leaves them for the
    moment. Raises KeyError for an unknown name.
    """
    environment: dict[str, str] = {}
    quoted = _single_quoted(command)

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


def _single_quoted(command: str) -> frozenset[int]:
    """Where a variable opens inside single quotes. A wrong guess changes what is printed, never what is run."""
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
    return frozenset(inside)
