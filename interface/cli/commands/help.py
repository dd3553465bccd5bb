"""``awk help`` and ``awk version``: the overview, a command's own help or a topic, and the version of this command.

All of it, and the page docs/reference/commands.md, is made from the table of commands. ``awk status`` has the version
of the kernel.
"""

import argparse
import json
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, cast

from interface.cli.command_parser import parser_for
from interface.cli.command_table import BY_WORD, COMMANDS, Command, meant_command
from interface.cli.context import Context
from interface.cli.exits import MEANINGS
from interface.failure import Failure
from protocol.discovery import VERSION

TARGETS: Final = "alice (direct message)   @review[:tag] (a workflow's channel)   alice@review[:tag] (alice in it)"

VARIABLES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "AGENT_WORKER_HOME": "directory of the state of all projects (default: ~/.agent-worker)",
        "AGENT_WORKER_URL": "address of a kernel that runs elsewhere",
        "AGENT_WORKER_TOKEN": "token for the kernel of AGENT_WORKER_URL",
        "AGENT_WORKER_TRUST": "1: allow what the project's files run, as --trust does; the consent is not stored",
        "AGENT_WORKER_LOG": "json: write the kernel's log as JSON",
        "AGENT_WORKER_BWRAP": "path of bubblewrap, the sandbox program",
        "AGENT_WORKER_GITHUB_URL": "HTTPS host of github: references (default: https://github.com)",
        "AGENT_WORKER_CALL": "address of the kernel for agent-worker call; set for processes of an attempt",
        "AGENT_WORKER_COOKIE": "identifies the attempt to the kernel; set for processes of an attempt",
        "AGENT_NAME": "name of the agent; set for setup and teardown of a working tree, and for checks of tasks",
        "AGENT_NUMBER": "1 for the first agent of the workflow file; set for setup and teardown of a working tree",
        "AGENT_WORKFLOW": "name of the workflow; set for setup, teardown and checks",
        "AGENT_TAG": "tag of the workflow; set for setup, teardown and checks",
        "AGENT_PROJECT": "root of the project; set for setup, teardown and checks",
        "AGENT_RUN": "id of the run; set for checks of runs and merges",
        "AGENT_TASK": "id of the task; set for its check",
        "AGENT_IDEMPOTENCY_KEY": "key of the call, equal on every attempt; set for tools",
        "NO_COLOR": "no colours, if set",
        "COLUMNS": "width of tables in characters",
        "CI": "ask no questions, and escape commands to the CI runner in the output, if set",
        "GITHUB_ACTIONS": "escape commands to the CI runner, if set; also TF_BUILD and TEAMCITY_VERSION",
        "GITHUB_OUTPUT": "file for the outputs of run --report github; the kernel does not inherit this variable",
        "GITHUB_STEP_SUMMARY": "file for the summary of run --report github; the kernel does not inherit this variable",
    }
)
"""Environment variables that users may set or read."""

TOPICS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "targets": (
            "What a message or a command is for:",
            "  alice               the agent alice, in a direct message; she keeps that conversation",
            "  @review             the channel of the workflow review, instance main",
            "  @review:pr-7        the channel of its instance pr-7 (run and start: --tag pr-7)",
            "  alice@review:pr-7   the agent alice as a member of it",
            "Within a text, @alice gives the message to her as work.",
        ),
        "exit-codes": (
            "What a command's exit code says:",
            *(f"  {int(code):<5} {text}" for code, text in MEANINGS.items()),
        ),
        "environment": (
            "Environment variables:",
            *(f"  {name:<24} {text}" for name, text in VARIABLES.items()),
            "awk providers lists the variables of provider keys.",
        ),
    }
)
"""What ``help`` explains besides commands."""


def overview(commands: Iterable[Command], program: str, system_awk: str) -> list[str]:
    """The text of ``--help``: the commands by group, the targets, and, under the name awk, where the system's is."""
    lines = [f"usage: {program} COMMAND [ARGUMENT...] [FLAG...]", ""]
    group = ""
    for command in commands:
        if command.group != group:
            lines += [""] * bool(group) + [f"{command.group}:"]
            group = command.group
        lines.append(f"  {command.word:<10} {command.help}")
    lines += ["", f"Targets: {TARGETS}", f"More: {program} help COMMAND, {program} help {'|'.join(TOPICS)}"]
    if program == "awk":
        which = system_awk or "and there is none on PATH"
        lines.append(f"Anything else goes to the system awk ({which}).")
    return lines


def commands_page(program: str = "agent-worker") -> str:
    """docs/reference/commands.md: every command with its usage and arguments, from the table and the parsers."""
    parts = ["# Commands", "", f"`awk` is the same program as `{program}`. Targets: {TARGETS}", ""]
    for command in COMMANDS:
        configure, _ = command.load()
        parser = parser_for(command, program, configure)
        parts += [f"## {command.word}", "", str(parser.description), *_arguments(parser), ""]
        # The second words of a command that has some, each with its parser.
        choices = (action.choices for action in parser._actions)  # noqa: SLF001  (as below)
        for word, verb in next(
            (cast("Mapping[str, argparse.ArgumentParser]", one) for one in choices if isinstance(one, Mapping)), {}
        ).items():
            parts += [f"### {command.word} {word}", "", str(verb.description), *_arguments(verb), ""]
    return "\n".join(parts)


def _arguments(parser: argparse.ArgumentParser) -> Sequence[str]:
    """Return a table of what the command takes; argparse's own layout differs between Python versions."""
    lines = ["", "| argument | |", "|---|---|"]
    for action in parser._actions:  # noqa: SLF001  (argparse has no public way to list arguments)
        if action.help is not argparse.SUPPRESS:
            words = ", ".join(action.option_strings) or str(action.metavar or action.dest)
            name = words.replace("|", "\\|")  # a bar would end the cell
            lines.append(f"| `{name}` | {(action.help or '') % {'default': ''}} |")
    return lines


def configure_help(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words", nargs="*", metavar="COMMAND|TOPIC", help="a command, or a topic that the overview names"
    )


def run_help(context: Context) -> int:
    """Print it. Raises Failure (usage) where nothing is known of it."""
    words: list[str] = context.args.words
    if not words:
        context.out.lines(overview(COMMANDS, context.program, context.system_awk))
    elif words[0] in TOPICS:
        context.out.lines(TOPICS[words[0]])
    elif command := BY_WORD.get(words[0]):
        parser = parser_for(command, context.program, command.load()[0])
        try:
            parser.parse_args([*words[1:], "--help"])  # that of a verb (help agent create) where there is one
        except SystemExit:
            return 0
    else:
        meant = meant_command(words[0])
        topics = f"{context.program} help lists the commands; topics: {', '.join(TOPICS)}"
        advice = f"did you mean {context.program} help {meant}?" if meant else topics
        raise Failure("usage", f"there is no command or topic {words[0][:100]!r}", advice)
    return 0


def run_version(context: Context) -> int:
    if context.args.json:
        context.out.document(json.dumps({"schema": "awk/version/1", "version": VERSION}))
    else:
        context.out.lines([f"agent-worker {VERSION}"])
    return 0
