"""Decisions on what waits for approval: the arguments that both have, and how they are made."""

import argparse
import json
import re
from collections.abc import Mapping
from typing import Any, Final

from interface.cli.context import Context
from interface.cli.exits import Exit
from interface.cli.parsing import json_flag
from interface.client import new_key, quoted
from interface.failure import Failure

_REQUEST: Final = re.compile(r"a\d+", re.ASCII)
NOTHING: Final[Mapping[str, object]] = {}


def decision_arguments(parser: argparse.ArgumentParser, ids: str) -> None:
    """APPROVAL... [--reason TEXT]."""
    parser.add_argument("ids", metavar="APPROVAL", nargs="+", help=ids)
    parser.add_argument("--reason", metavar="TEXT", default="", help="kept with the decision; who is denied reads it")
    json_flag(parser)


def checked(name: str) -> str:
    """``name`` as that of a request. Raises Failure (usage)."""
    if not _REQUEST.fullmatch(name):
        raise Failure(
            "usage", f"{name[:100]!r} is not a request for approval: ids look like a3", "awk pending lists them"
        )
    return name


def decide(context: Context, what: str, more: Mapping[str, object]) -> int:
    """``what`` (approve, deny) of each request; all are tried, the first refusal is told at the end. Raises Failure."""
    names = [checked(name) for name in dict.fromkeys(context.args.ids)]
    body = {"reason": context.args.reason, **more}
    client = context.kernel()
    decided: list[dict[str, Any]] = []
    refusals: list[Failure] = []
    for name in names:
        try:
            decided.append(json.loads(client.post(f"/approvals/{quoted(name)}/{what}", body, key=new_key())))
        except Failure as failure:
            refusals.append(failure)
    if not context.args.json or not refusals:
        document = {"schema": "awk/approvals/1", "approvals": decided}
        context.answer(json.dumps(document, ensure_ascii=False).encode(), "approvals")
    for refusal in refusals[1:]:
        context.out.error(refusal)
    if refusals:
        raise refusals[0]
    return Exit.OK
