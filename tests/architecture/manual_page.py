"""The manual page docs/man/awk.1, from the tables of the command line: ``scripts/generate`` writes it."""

import re
import sys
from collections.abc import Iterable, Iterator
from typing import Final

from interface.cli.commands.help import TOPICS, VARIABLES, commands_page
from interface.cli.exits import MEANINGS
from protocol.discovery import VERSION

_COMMON: Final = ("-h", "-v", "--project")
"""Options that every command has."""
_ROW: Final = re.compile(r"\| `(.+?)` \| (.*) \|")
_HEAD: Final = f"""\
.\\" Written by scripts/generate.
.TH AWK 1 "" "agent-worker {VERSION}" "User Commands"
.SH NAME
awk, agent-worker \\- supervise teams of LLM agents
.SH SYNOPSIS
.B agent-worker
.I COMMAND
.RI [ ARGUMENT ...]
.br
.B awk
.I COMMAND
.RI [ ARGUMENT ...]
.br
.B awk
.I PROGRAM
.RI [ FILE ...]
.SH DESCRIPTION
agent-worker runs teams of LLM agents and supervises them like an operating system supervises processes.
Agents are described in YAML files.
A kernel for each project schedules their work, runs each piece in its own process, and stores every message and step in
one durable log.
.PP
.B awk
is the same program as
.BR agent-worker .
It runs the system's awk, with the same arguments, for words that are not commands of agent-worker.
.B man \\-a awk
also shows the manual of the system's awk.
.SH COMMANDS
All commands take \\-\\-help, \\-\\-verbose (\\-v) and \\-\\-project DIR (default: found from the current directory).
"""
_TAIL: Final = """\
.SH FILES
.TP
.I .agents/*.yaml, .workflows/*.yaml, .agents.yaml
agents, workflows and settings of a project
.TP
.I ~/.agent\\-worker
state of all projects
.TP
.I share/doc/agent\\-worker
documentation, in the directory of the installation
.SH SEE ALSO
.BR bwrap (1),
.BR git (1),
.BR mawk (1)
"""


def page() -> str:
    """Return the manual page in the format of man(7)."""
    sections = (
        (".SH TARGETS", _lines(TOPICS["targets"])),
        (".SH ENVIRONMENT", _pairs(VARIABLES.items())),
        (".SH EXIT STATUS", _pairs((str(int(code)), text) for code, text in MEANINGS.items())),
    )
    middle = "".join(f"{heading}\n{''.join(lines)}" for heading, lines in sections)
    return f"{_HEAD}{''.join(_commands(commands_page()))}{middle}{_TAIL}"


def _commands(markdown: str) -> Iterator[str]:
    """Yield the groups, commands and arguments of docs/reference/commands.md, without the options of all commands."""
    for section in re.split(r"^##+ ", markdown, flags=re.MULTILINE)[1:]:
        heading, *paragraphs = section.rstrip().split("\n")
        rows = [(row[1], row[2]) for line in paragraphs if (row := _ROW.fullmatch(line))]
        text = [_text(line) for line in paragraphs if line and not line.startswith("|")]
        if not text:
            yield f".SS {_text(heading)}\n"
            continue
        yield f".TP\n.B {_text(heading)}\n{' '.join(text)}\n"
        own = [row for row in rows if not row[0].startswith(_COMMON)]
        yield from (".RS\n", *_pairs(own), ".RE\n") if own else ()


def _pairs(rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    for name, text in rows:
        yield f".TP\n.B {_text(name)}\n{_text(text)}\n"


def _lines(lines: tuple[str, ...]) -> Iterator[str]:
    yield ".nf\n"
    yield from (f"{_text(line)}\n" for line in lines)
    yield ".fi\n"


def _text(text: str) -> str:
    """Return text as roff shows it literally."""
    escaped = (
        text.replace("\\|", "|").replace("\\", "\\e").replace("-", "\\-").replace("^", "\\(ha").replace("~", "\\(ti")
    )
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped


if __name__ == "__main__":
    sys.stdout.write(page())
