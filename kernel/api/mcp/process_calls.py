"""POST /call: a tool of agents without MCP and without a token, for whatever an attempt runs.

The caller is the attempt in whose process tree the other end of the connection is, as the system says, if the request
shows the attempt's cookie as well: a server among its processes may fetch what strangers name. The tools, their scopes
and what they answer are those of Daemon MCP.
"""

from typing import Annotated, Any, Final

import msgspec
import trio

from kernel.api.connection import RECEIVE_QUEUE, ReceiveQueue
from kernel.api.dispatch import check_json, takes
from kernel.api.mcp.calls import KEY_LIMIT, Failure, ToolDispatcher
from kernel.api.mcp.tools import TOOLS
from kernel.api.requests import Fields, Scope, Send
from kernel.api.responses import PROBLEM, problem_of, problem_reply, refusal_of, send_reply
from kernel.operations.answer import Response
from kernel.operations.operation import Actor
from kernel.store.attempts import Identity
from protocol.discovery import COOKIE_FIELD
from protocol.errors import Refused
from protocol.ndjson import reject_duplicate_keys
from protocol.text import encode_json


class CallRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body."""

    tool: Annotated[str, msgspec.Meta(max_length=200)]
    arguments: dict[str, Any] = {}


def by_nobody() -> Refused:
    """The refusal of a call that is no attempt's."""
    text = f"this was asked by no process of an attempt that runs, or without {COOKIE_FIELD}: $AGENT_WORKER_COOKIE"
    return Refused("unauthorized", text, "it is for what an agent starts; others need a token: awk token create")


_decode: Final = msgspec.json.Decoder(CallRequest).decode
_failure: Final = msgspec.json.Decoder(Failure).decode


async def answer_call(
    calls: ToolDispatcher, identity: Identity, fields: Fields, body: bytes, scope: Scope, send: Send
) -> None:
    """Answer one call of ``identity``; not, where its client leaves before."""
    queue: ReceiveQueue = scope[RECEIVE_QUEUE]
    reply: Response | None = None
    with trio.CancelScope() as staying, queue.leaving(staying.cancel):
        try:
            check_json(fields.get(b"content-type", b""))
            key = fields.get(b"idempotency-key")
            if key is not None and not (0 < len(key) <= KEY_LIMIT and key.isascii()):
                raise Refused("bad_request", f"Idempotency-Key must be 1 to {KEY_LIMIT} ASCII characters")
            try:
                asked = _decode(body)
            except msgspec.ValidationError as error:
                text = f"the body does not fit: {error}"
                raise Refused("bad_request", text, takes(CallRequest, str(error))) from error
            reject_duplicate_keys(body)
            tool = TOOLS.get(asked.tool)
            if tool is None:
                known = sorted(name for name, one in TOOLS.items() if one.scope in calls.opened(identity))
                raise Refused("not_found", f"there is no tool {asked.tool[:60]!r}", f"yours are {', '.join(known)}")
            caller = Actor(identity=identity, call_key=None if key is None else key.decode())
            answer = await calls.call(tool, caller, asked.arguments)
            reply = Response(200, answer.body)
            if answer.is_error:
                failure = _failure(answer.body)
                problem = problem_of(Refused(failure.code, failure.detail, failure.hint))
                problem = msgspec.structs.replace(problem, conflict=failure.conflict)
                reply = Response(problem.status, encode_json(problem), PROBLEM)
        except Exception as error:  # noqa: BLE001 - the boundary: a call that fails is answered
            reply = problem_reply(refusal_of(error))
    if reply is not None:
        await send_reply(reply, send)
