"""GET /ws: the events of GET /events over a WebSocket, and messages the other way.

A frame to the client is an event in JSON, like ``data`` of the stream. A frame from the client is
``{"type": "send", ...}`` with the body, checks, scope and keys of POST /messages. Frames are
answered in order with ``sent`` or ``refused``; clients that send faster are slowed down.
"""

from contextlib import aclosing
from typing import Any, Final

import msgspec
import trio

from kernel.api.dispatch import RawRequest, decode, dispatch
from kernel.api.requests import Fields, Receive, Scope, Send
from kernel.api.responses import head_of, problem_reply, refusal_of
from kernel.operations import events
from kernel.operations.answers import Response
from kernel.operations.context import Services
from kernel.operations.messages import SEND
from kernel.policy.access import Access
from kernel.store import tokens
from kernel.store.feed import EventFilter
from protocol.errors import Refused
from protocol.ndjson import reject_duplicate_keys
from protocol.text import encode_json

PROTOCOL: Final = "agent-worker"
TOKEN_PROTOCOL: Final = "agent-worker.token."
"""Prefix of the subprotocol that carries the token, because pages cannot set header fields of a WebSocket."""
GOING_AWAY: Final = 1001
REVOKED: Final = 4401
"""Private close code that corresponds to HTTP's 401."""
_OWN: Final = ("type", "id", "key")


_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode


def with_token(fields: Fields) -> Fields:
    """Return ``fields`` with the token as ``Authorization`` if it was sent as a subprotocol. Raises Refused."""
    offered = _offered(fields)
    given = [name.removeprefix(TOKEN_PROTOCOL) for name in offered if name.startswith(TOKEN_PROTOCOL)]
    if not given or b"authorization" in fields:
        return fields
    if len(given) > 1 or PROTOCOL not in offered:
        raise Refused("bad_request", f"offer two subprotocols: {PROTOCOL}, and {TOKEN_PROTOCOL} followed by the token")
    return {**fields, b"authorization": b"Bearer " + given[0].encode("latin-1")}


def _offered(fields: Fields) -> list[str]:
    return [name.strip() for name in fields.get(b"sec-websocket-protocol", b"").decode("latin-1").split(",")]


async def refuse(refused: Refused, send: Send) -> None:
    """Refuse a handshake like any other request."""
    reply = problem_reply(refused)
    await send({"type": "websocket.http.response.start", "status": reply.status, "headers": head_of(reply)})
    await send({"type": "websocket.http.response.body", "body": reply.body})


class EventSocket:
    """WebSocket of one client, from its acceptance to its end."""

    def __init__(self, services: Services, access: Access, scope: Scope, send: Send) -> None:
        self._services = services
        self._access = access
        self._client_port = (scope.get("client") or ("", 0))[1]
        self._send = send

    async def serve(self, fields: Fields, query_string: bytes, receive: Receive) -> None:
        """Serve until the client disconnects, its token is revoked, or the kernel stops."""
        try:
            events.STREAM.check(self._access)
            actor, asked = decode(events.STREAM, RawRequest(fields, query_string, b"", access=self._access))
            assert isinstance(asked, events.StreamRequest), "the route's own"
            after, wanted = events.start_of(asked, actor, self._services.store), events.wanted_of(asked)
        except Exception as error:  # noqa: BLE001 - the boundary: a failing handshake is answered
            await refuse(refusal_of(error), self._send)
            return
        chosen = PROTOCOL if PROTOCOL in _offered(fields) else None
        await self._send({"type": "websocket.accept", "subprotocol": chosen})
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._hear, receive, nursery.cancel_scope)
            await self._show(after, wanted)
            nursery.cancel_scope.cancel()

    async def _show(self, after: int, wanted: EventFilter) -> None:
        code = GOING_AWAY
        async with aclosing(events.follow(self._services.store, self._services.kernel, after, wanted)) as ticks:
            async for event in ticks:
                if not self._is_valid():
                    code = REVOKED
                    break
                if event is None:
                    await self._send({"type": "websocket.ping"})
                else:
                    await self._send({"type": "websocket.send", "text": encode_json(event).decode()})
        await self._send({"type": "websocket.close", "code": code})

    async def _hear(self, receive: Receive, leaving: trio.CancelScope) -> None:
        while True:
            message = await receive()
            if message["type"] == "websocket.disconnect":
                leaving.cancel()
                return
            if self._is_valid():
                answer = await self._do(message["text"])
                await self._send({"type": "websocket.send", "text": encode_json(answer).decode()})

    async def _do(self, text: str) -> dict[str, Any]:
        name: Any = None
        try:
            said = _decode(text)
            name = said.get("id")
            if not isinstance(name, str | int | None) or isinstance(name, bool):
                name = None
                raise Refused("bad_request", "id must be a string or a number")
            reject_duplicate_keys(text.encode())
            reply = await self._dispatch(said)
        except Exception as error:  # noqa: BLE001 - the boundary: a failing frame is answered
            reply = problem_reply(refusal_of(error))
        kind = "sent" if reply.status < 400 else "refused"
        return {"type": kind, "id": name, "status": reply.status, "data": msgspec.Raw(reply.body)}

    async def _dispatch(self, said: dict[str, Any]) -> Response:
        if said.get("type") != "send":
            raise Refused("bad_request", "the type of a frame must be send", "use HTTP for other requests")
        key = said.get("key")
        if not isinstance(key, str | None):
            raise Refused("bad_request", "key must be a string")
        fields = {b"content-type": b"application/json"}
        if key is not None:
            fields[b"idempotency-key"] = key.encode()
        body = encode_json({name: value for name, value in said.items() if name not in _OWN})
        asked = RawRequest(fields, b"", body, client_port=self._client_port, access=self._access)
        reply = await dispatch(self._services, SEND, asked)
        assert isinstance(reply, Response), "the route answers in one piece"
        return reply

    def _is_valid(self) -> bool:
        number, store = self._access.number, self._services.store
        return number is None or store.reader.now(tokens.digest_of, number, store.now_ms()) is not None
