"""``awk help`` and ``awk version``: overview, groups, commands and topics, and the version of this program.

The texts and docs/reference/commands.md are generated from the table of commands. ``awk status`` prints the version
of the kernel.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Final, cast

from interface.cli.command_parser import parser_for
from interface.cli.command_table import BY_WORD, GROUPS, Command, meant_command, without_alias
from interface.cli.context import Context
from interface.cli.exits import MEANINGS
from interface.failure import Failure
from protocol.discovery import VERSION

TARGETS: Final = "alice (direct message)   @review[:tag] (channel of a workflow)   alice@review[:tag] (member alice)"

VARIABLES: Final[Mapping[str, str]] = {
    "AGENT_WORKER_HOME": "directory of the state of all projects (default: ~/.agent-worker)",
    "AGENT_WORKER_URL": "address of a kernel that runs elsewhere",
    "AGENT_WORKER_TOKEN": "token for the kernel of AGENT_WORKER_URL",
    "AGENT_WORKER_TRUST": "1: allow what the project's files run, as --trust does; the consent is not stored",
    "AGENT_WORKER_LOG": "json: write the kernel's log as JSON",
    "AGENT_WORKER_BWRAP": "path of bubblewrap, the sandbox program",
    "AGENT_WORKER_GITHUB_URL": "HTTPS host of github: references (default: https://github.com)",
    "AGENT_WORKER_CALL": "address of the kernel for agent-worker call; set for processes of an attempt",
    "AGENT_WORKER_COOKIE": "identifies the attempt to the kernel; set for processes of an attempt",
    "ANTHROPIC_BASE_URL": "address of Anthropic's API; for programs of an attempt, the address of the gateway",
    "OPENAI_BASE_URL": "address of OpenAI's API; for programs of an attempt, the address of the gateway",
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
"""Environment variables that users may set or read."""

TOPICS: Final[Mapping[str, tuple[str, ...]]] = {
    "targets": (
        "A target names the recipient of a message or command:",
        "  alice               the agent alice, in her direct conversation",
        "  @review             the channel of the workflow review, instance main",
        "  @review:pr-7        the channel of the instance pr-7 (run and start: --tag pr-7)",
        "  alice@review:pr-7   the agent alice as a member of that instance",
        "In the text of a message, @alice assigns the message to alice.",
    ),
    "exit-codes": ("Exit codes of commands:", *(f"  {int(code):<5} {text}" for code, text in MEANINGS.items())),
    "environment": (
        "Environment variables:",
        *(f"  {name:<24} {text}" for name, text in VARIABLES.items()),
        "awk providers lists the variables of provider keys.",
    ),
}
"""Topics of ``help`` besides commands."""


FIRST: Final = ("init", "validate", "run", "start", "send", "ps", "show", "needs", "approve", "stop")
"""Commands that the overview explains to newcomers."""


def overview(program: str, system_awk: str) -> list[str]:
    """Return the text of ``--help``: commands for newcomers, the commands of each group, and further help."""
    lines = [f"usage: {program} COMMAND [ARGUMENT...] [FLAG...]", "", "Common commands:"]
    lines += [_summary(BY_WORD[word]) for word in FIRST]
    lines += ["", "All commands by group:"]
    for group, commands in GROUPS.items():
        words = " ".join(command.word for command in commands)
        lines += wrap(words, 100, initial_indent=f"  {group:<9}", subsequent_indent=" " * 11, break_on_hyphens=False)
    lines += ["", f"Targets: {TARGETS}", f"Help: {program} help GROUP|COMMAND|TOPIC; topics: {', '.join(TOPICS)}"]
    if program == "awk":
        lines.append(f"Other words run the system awk ({system_awk or 'none on PATH'}).")
    return lines


def _summary(command: Command) -> str:
    return f"  {command.word:<11}{command.help}"


def commands_page(program: str = "agent-worker") -> str:
    """Return docs/reference/commands.md: each command with its arguments, by group."""
    parts = ["# Commands", "", f"`awk` is the same program as `{program}`. Targets: {TARGETS}", ""]
    for group, commands in GROUPS.items():
        parts += [f"## {group}", ""]
        for command in commands:
            parser = parser_for(command, program, command.load()[0])
            parts += [f"### {command.word}", "", str(parser.description), *_arguments(parser), ""]
            choices = (action.choices for action in parser._actions)  # noqa: SLF001  (as below)
            verbs = next((one for one in choices if isinstance(one, Mapping)), {})
            for word, verb in cast("Mapping[str, argparse.ArgumentParser]", verbs).items():
                parts += [f"#### {command.word} {word}", "", str(verb.description), *_arguments(verb), ""]
    return "\n".join(parts)


def _arguments(parser: argparse.ArgumentParser) -> Sequence[str]:
    """Return a Markdown table of the arguments. The help of argparse differs between Python versions."""
    lines = ["", "| argument | |", "|---|---|"]
    for action in parser._actions:  # noqa: SLF001  (argparse has no public way to list arguments)
        if action.help is not argparse.SUPPRESS:
            words = ", ".join(action.option_strings) or str(action.metavar or action.dest)
            name = words.replace("|", "\\|")  # a bar would end the table cell
            lines.append(f"| `{name}` | {(action.help or '') % {'default': ''}} |")
    return lines


def configure_help(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="*", metavar="GROUP|COMMAND|TOPIC", help="group, command or topic")


def run_help(context: Context) -> int:
    """Print help for a group, command or topic. Raises Failure (usage) for other words."""
    words: list[str] = context.args.words
    if not words:
        context.out.lines(overview(context.program, context.system_awk))
        return 0
    group = " ".join(words).replace("-", " ").capitalize()
    if group in GROUPS:
        context.out.lines([f"{group}:", *map(_summary, GROUPS[group])])
    elif words[0] in TOPICS:
        context.out.lines(TOPICS[words[0]])
    elif command := BY_WORD.get((words := without_alias(words))[0]):
        parser = parser_for(command, context.program, command.load()[0])
        try:
            parser.parse_args([*words[1:], "--help"])  # a subcommand (help agent create) prints its own help
        except SystemExit:
            return 0
    else:
        meant = meant_command(words[0])
        topics = f"{context.program} help lists the commands; topics: {', '.join(TOPICS)}"
        advice = f"did you mean {context.program} help {meant}?" if meant else topics
        raise Failure("usage", f"no help for {words[0][:100]!r}", advice)
    return 0


def run_version(context: Context) -> int:
    if context.args.json:
        context.out.document(json.dumps({"schema": "awk/version/1", "version": VERSION}))
    else:
        context.out.lines([f"agent-worker {VERSION}"])
    return 0
