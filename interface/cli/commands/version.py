"""``awk version``: of this command; the kernel's is in ``awk status``."""

import argparse
import json

from interface.cli.context import Context
from interface.cli.parsing import json_flag
from protocol.version import VERSION


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
