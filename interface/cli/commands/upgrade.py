"""``awk upgrade``: have another version of the kernel go on with all that runs. Returns once it does, or cannot."""

import argparse
import json
import os
from typing import Any, Final

from interface.cli.context import Context
from interface.cli.exits import Exit
from interface.cli.output import Screen, one_line
from interface.cli.parsing import json_flag
from interface.client import Client, new_key
from interface.discovery import given_endpoint, is_locked, recorded_endpoint
from interface.failure import Failure, Unreachable

PATIENCE_SECONDS: Final = 240.0
"""For the trial of the new version, for what runs to come to a stop, and for the way back: each is bounded."""
_PAUSE_SECONDS: Final = 0.1
_ANEW: Final = "the kernel was started anew meanwhile"
_HINT: Final = "its log says more: kernel.log"
_OVER: Final = ("done", "failed", "none")


def configure_upgrade(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--to", metavar="PATH", help="a virtual environment or its agent-worker (default: what is installed now)"
    )
    parser.add_argument("--status", action="store_true", help="only say how the last one went")
    json_flag(parser)


def run_upgrade(context: Context) -> int:
    if context.args.status and context.args.to is not None:
        raise Failure("usage", "--status is about the last upgrade", "leave out --to")
    client = context.kernel()
    if context.args.status:
        return context.answer(client.get("/upgrade"), upgrade_lines)
    to = context.args.to
    body = {} if to is None else {"to": os.path.abspath(os.path.join(context.cwd, os.path.expanduser(to)))}
    asked = json.loads(client.post("/upgrade", body, key=new_key()))
    told = _ended(context, client, asked["id"])  # port and token stay, whichever process it is
    document: dict[str, Any] = json.loads(told)
    if document["state"] == "done":
        return context.answer(told, upgrade_lines)
    if context.wants_json:
        context.out.document(told)
        return Exit.FAILED
    raise Failure("failed", str(document["reason"]), "the old version goes on; what runs was not touched")


def _ended(context: Context, client: Client, upgrade: str) -> bytes:
    """Return what is told of it once it is over. Raises Failure where nobody can tell."""
    deadline = context.clock.now() + PATIENCE_SECONDS
    while context.clock.now() < deadline:
        try:
            told = client.get("/upgrade")
        except Unreachable:  # it comes back, unless it was killed
            if not given_endpoint(context.environ):  # token and lock pass from one version to the next
                newer = recorded_endpoint(context.project)
                if newer is not None and newer.token != client.endpoint.token:
                    raise Failure("failed", _ANEW, _HINT) from None
                if not is_locked(context.project):
                    hint = f"{context.program} start; {_HINT}"
                    raise Failure("no_kernel", "the kernel ended during the upgrade", hint) from None
        else:
            found = json.loads(told)
            if found["id"] != upgrade:
                raise Failure("failed", _ANEW, _HINT)
            if found["state"] in _OVER:
                return told
        context.clock.pause(_PAUSE_SECONDS)
    raise Failure("timeout", "nobody says how it ended", f"ask again: {context.program} upgrade --status")


def upgrade_lines(told: dict[str, Any], _screen: Screen) -> list[str]:
    way = f"{told['before']} to {told['to']}"
    match told["state"]:
        case "none":
            return [one_line(f"version {told['before']}; it was not upgraded since it was started")]
        case "done":
            waited = f"nobody waited longer than {told['waited_seconds']:.2f} s"
            count = told["attempts"]
            went_on = f"{count} attempt{'' if count == 1 else 's'} went on"
            return [one_line(f"upgraded from {way}: {went_on}, {waited}")]
        case "failed":
            return [one_line(f"not upgraded from {way}: {told['reason']}")]
        case state:
            return [one_line(f"from {way}: {state}")]
