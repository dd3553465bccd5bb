"""``agent-worker call``: call an agent's tools from a process of its attempt: a shell, a script, or a CLI without MCP.

No token is used: the kernel identifies the process of the connection, which must also know the attempt's cookie. The
command works for the processes of this attempt only.
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
"""Pauses before a call is repeated with the same key, so that it has only one effect."""
CONNECT_SECONDS: Final = 10.0


def configure_call(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("tool", metavar="TOOL", help="name of the tool, such as channel_send")
    about = "JSON object; - reads standard input"
    parser.add_argument("arguments", metavar="JSON", nargs="?", default="{}", help=about)
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
        # Arguments are sent unchanged: the kernel refuses duplicate names.
        body = f'{{"tool": {json.dumps(context.args.tool)}, "arguments": {text}}}'.encode()
    except (ValueError, RecursionError) as error:
        hint = "quote the arguments for the shell: '{...}'"
        raise Failure("usage", f"the arguments are not JSON: {error}", hint) from error
    headers = {"Content-Type": "application/json", "Idempotency-Key": context.args.key or new_key()}
    headers[COOKIE_FIELD] = context.environ.get(COOKIE, "")
    for wait in (*RETRY_SECONDS, None):
        try:
            connection = Connection(address, CONNECT_SECONDS)
            connection.wait_at_most(None)  # no timeout: a person may have to approve the call
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
