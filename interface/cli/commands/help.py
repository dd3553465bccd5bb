"""``awk help`` and ``awk version``: the overview, a command's own help or a topic, and the version of this command.

That of the kernel is in ``awk status``.
"""

import argparse
import json

from interface.cli.command_parser import parser_for
from interface.cli.command_table import BY_WORD, COMMANDS, meant_command
from interface.cli.context import Context
from interface.cli.help import TOPICS, overview
from interface.cli.parsing import json_flag
from interface.failure import Failure
from protocol.version import VERSION


def configure_help(parser: argparse.ArgumentParser) -> None:
    """[COMMAND|TOPIC]."""
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


def configure_version(parser: argparse.ArgumentParser) -> None:
    """No arguments of its own."""
    json_flag(parser)


def run_version(context: Context) -> int:
    """Print it."""
    if context.args.json:
        context.out.document(json.dumps({"schema": "awk/version/1", "version": VERSION}))
    else:
        context.out.lines([f"agent-worker {VERSION}"])
    return 0
