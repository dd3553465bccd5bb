"""``agent-worker call``: the tools of agents, for what an attempt runs: a shell, a script, a CLI that lost its MCP.

There is no token: the kernel sees whose process has the connection, and that it knows the attempt's cookie. So it is
for one attempt what MCP is, and of no use to anybody else.
"""

import argparse
import json
from typing import Final

from interface.cli.context import Context
from interface.client import new_key, raise_for_refusal
from interface.failure import Failure, Unreachable
from interface.http_client import Connection, parse_address
from protocol.discovery import CALL_URL, COOKIE, COOKIE_FIELD

RETRY_SECONDS: Final = (0.1, 0.5, 2.0)
"""Waits before a call is sent again, under the same key: it takes effect once."""
CONNECT_SECONDS: Final = 10.0


def configure_call(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("tool", metavar="TOOL", help="name of the tool, such as channel_send")
    parser.add_argument(
        "arguments", metavar="JSON", nargs="?", default="{}", help="JSON object; - reads standard input"
    )
    parser.add_argument("--key", metavar="KEY", help="idempotency key: calls with the same key take effect once")


def run_call(context: Context) -> int:
    address = parse_address(context.environ.get(CALL_URL, ""))
    if address is None:
        hint = f"only programs that an agent starts can call tools; {CALL_URL} is set for them"
        raise Failure("usage", "this process does not belong to an attempt", hint)
    try:
        text = context.stdin.read() if context.args.arguments == "-" else context.args.arguments
        if not isinstance(json.loads(text), dict):
            raise Failure("usage", "the arguments are not a JSON object", """for example '{"message": "hello"}'""")
        # They go as they were written: the kernel refuses a name that is there twice.
        body = f'{{"tool": {json.dumps(context.args.tool)}, "arguments": {text}}}'.encode()
    except (ValueError, RecursionError) as error:
        raise Failure(
            "usage", f"the arguments are not JSON: {error}", "quote the arguments for the shell: '{...}'"
        ) from error
    headers = {"Content-Type": "application/json", "Idempotency-Key": context.args.key or new_key()}
    headers[COOKIE_FIELD] = context.environ.get(COOKIE, "")
    for wait in (*RETRY_SECONDS, None):
        try:
            connection = Connection(address, CONNECT_SECONDS)
            connection.wait_at_most(None)  # a person may be asked
            answer = connection.request("POST", "/call", headers, body)
            content = answer.body()
            raise_for_refusal(answer, content)
            context.out.document(content)
            return 0
        except Unreachable:
            if wait is None:
                raise
            context.clock.pause(wait)
    raise AssertionError("the last round returns or raises")
