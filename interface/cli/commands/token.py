"""``awk token``: tokens for programs of your own, each for no more than it needs; ``awk mcp-serve``: such a program."""

import argparse
import json
import os
import sys
from typing import Final, NoReturn, get_args

from interface.cli.command_parser import Subcommand, Subcommands, generated
from interface.cli.context import Context
from interface.cli.output import Screen, one_line, table
from interface.client import new_key, quoted
from interface.discovery import given_endpoint
from interface.failure import Failure
from protocol.api.tokens import TokenList, TokenMade, TokenScope
from protocol.discovery import ADMIN

VERBS: Final = Subcommands(
    "token",
    (
        Subcommand("create", "make a token, and print it this once"),
        generated("token list"),
        Subcommand("revoke", "take tokens back: their next request is refused"),
    ),
)


def configure_create(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--scope",
        metavar="SCOPE",
        required=True,
        help="read: look; operate: and give work, and steer it; approve: and decide what waits for a person "
        "(approve:alice,bob: approve calls of these agents only)",
    )
    parser.add_argument("--name", metavar="NAME", default="", help="whom it is for, for the list")


def run_create(context: Context) -> int:
    if context.args.scope.partition(":")[0] not in get_args(TokenScope):
        raise Failure("usage", f"{context.args.scope!a} is no scope", "read, operate, approve or approve:AGENT,AGENT")
    body = {"scope": context.args.scope, "name": context.args.name}
    return context.answer(context.kernel().post("/tokens", body, key=new_key()), token_lines)


def token_lines(found: TokenMade, _screen: Screen) -> list[str]:
    return [found.token]


def tokens_lines(found: TokenList, screen: Screen) -> list[str]:
    rows = [[one.id, one.scope, one.created_at, one.expires_at or "", one_line(one.name)] for one in found.tokens]
    return table(["ID", "SCOPE", "SINCE", "UNTIL", "NAME"], rows, screen) if rows else ["there are no tokens"]


def configure_revoke(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", metavar="TOKEN", nargs="+", help="its id, such as k3")


def run_revoke(context: Context) -> int:
    kernel = context.kernel()
    for name in dict.fromkeys(context.args.ids):
        kernel.delete(f"/tokens/{quoted(name)}")
    return context.answer(kernel.get("/tokens"), tokens_lines)


def configure_mcp_serve(parser: argparse.ArgumentParser) -> None:
    """Add nothing."""


def run_mcp_serve(context: Context) -> NoReturn:
    """Become an MCP server on standard input and output that is the kernel's; it goes on with the next kernel.

    The token goes through a pipe, or is read from the kernel's own file: it is in no argument and no environment.
    """
    context.kernel().close()
    endpoint = given_endpoint(context.environ)
    path = os.path.join(context.project.state, ADMIN)
    if endpoint is not None:
        reading, writing = os.pipe()
        url = f"http://{endpoint.address.authority}"
        os.write(writing, json.dumps({"url": url, "token": endpoint.token}).encode())
        os.close(writing)
        os.set_inheritable(reading, True)
        path = f"/dev/fd/{reading}"
    kept = {name: value for name, value in context.environ.items() if name in ("PATH", "HOME", "LANG", "TMPDIR")}
    os.execve(sys.executable, [sys.executable, "-I", "-m", "worker.mcp_bridge", path, "--listen"], kept)
