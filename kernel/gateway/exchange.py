"""One request of an attempt to its provider: check it, forward it with the key, and stream the response back."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, NamedTuple

import trio

from kernel.gateway.access import Admission
from kernel.gateway.body import Receive, RequestBody, models_in, read_body
from kernel.gateway.counting import ResponseUsage
from kernel.gateway.table import DIALECTS, PREFIX, Endpoint, HeaderList, request_fields, response_fields
from kernel.gateway.upstream import Upstream, UpstreamFailed, Upstreams, UpstreamStale
from kernel.store.exchanges import WireRecord
from protocol.errors import Refused
from protocol.redaction import Redaction

RECORDED_BYTES: Final = 4 * 1024 * 1024
"""Length to which a recorded response is cut."""
RECORD_SECONDS: Final = 10.0
_OF_BODY: Final = frozenset({b"content-length", b"transfer-encoding", b"expect"})
ERROR_BYTES: Final = 256 * 1024
"""Length to which the body of an error is cut, from which the key has to be removed."""

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Asked(NamedTuple):
    """Request as it arrived.

    ``flush`` sends the head of the response before its body.
    """

    method: str
    path: bytes
    """Raw path below ``/gateway/``."""
    query: bytes
    headers: HeaderList
    receive: Receive
    send: Send
    flush: Callable[[], Awaitable[None]]
    release: Callable[[], int]
    """Returns a duplicate of the connection's descriptor, and closes the connection here."""
    node: str = ""


class Exchange:
    """Exchange of an admitted attempt with its provider. ``started``: whether the response has started."""

    def __init__(self, admission: Admission, endpoint: Endpoint, asked: Asked) -> None:
        self.started = False
        self.waiting: RequestBody | None = None
        """The body, while the request waits to be forwarded."""
        self._status: int | None = None
        self._seen = bytearray()
        """Start of the response, for a recording."""
        self._ended = False
        self._usage = ResponseUsage(streams=True)
        self._admission = admission
        self._endpoint = endpoint
        self._asked = asked
        self._provider = admission.access.provider
        self._key = "" if admission.access.login else self._provider.api_key or ""

    async def run(self, opened: Callable[[], Awaitable[None]], upstreams: Upstreams, folder: str) -> None:
        """Answer the request after ``opened`` returns. A response that breaks off is left without an end.

        Raises Refused before the response has started, OSError.
        """
        if any(name == b"content-encoding" and value != b"identity" for name, value in self._asked.headers):
            raise Refused("unsupported_media_type", "bodies of model requests must not be encoded")
        body, document = await read_body(self._asked.receive, folder)
        try:
            model = self._endpoint.model
            models = (model,) if model is not None else await models_in(document)
            allowed = self._admission.access.models
            if allowed and (others := [one for one in models if one not in allowed]):
                raise Refused("forbidden", f"model {others[0][:100]!a} is not a model of this agent")
            request = document if self._admission.record is not None else b""
            del document
            self.waiting = body
            await self._admission.may()
            began = 0.0
            try:
                await opened()
                self.waiting, began = None, trio.current_time()
                self._admission.flying += 1
                await self._forward(upstreams, body)
            finally:
                self._admission.count(models[0], self._usage.end())
                try:
                    if began and self._admission.record is not None:
                        ms = round((trio.current_time() - began) * 1000)
                        told = WireRecord(models[0], request, bytes(self._seen), self._status, ms, not self._ended)
                        with trio.move_on_after(RECORD_SECONDS, shield=True):
                            await self._admission.record(told)
                finally:  # the end of the attempt, or of the kernel, waits for the recording
                    self._admission.flying -= began > 0
        finally:
            body.close()

    def release(self) -> tuple[int, bytes] | None:
        """Return the descriptor of the connection and the whole request if it waits and is in memory; else None."""
        asked, data = self._asked, b"" if self.waiting is None else self.waiting.data
        if not data or asked.node:
            return None
        query = b"?" + asked.query if asked.query else b""
        lines = [b"%s: %s" % field for field in asked.headers if field[0] not in _OF_BODY]
        head = [b"POST " + PREFIX + asked.path + query + b" HTTP/1.1", *lines, b"content-length: %d" % len(data)]
        return asked.release(), b"\r\n".join(head) + b"\r\n\r\n" + data

    async def _forward(self, upstreams: Upstreams, body: RequestBody) -> None:
        rules = DIALECTS[self._provider.dialect]
        target = (self._provider.base_url or rules.official).rstrip("/").encode() + self._endpoint.path
        url = target + b"?" + self._endpoint.query if self._endpoint.query else target
        fields = request_fields(self._asked.headers, keeps_keys=self._admission.access.login)
        fields += [(b"accept-encoding", b"identity"), (b"content-length", b"%d" % body.size)]
        if self._key:
            fields.append((rules.key_field, rules.key_prefix + self._key.encode()))
            # Anthropic's clients send a key in either field, and some compatible endpoints read only one of them.
            if rules.key_field == b"x-api-key" and b"authorization" in dict(self._asked.headers):
                fields.append((b"authorization", b"Bearer " + self._key.encode()))
        for reuses in (True, False):
            try:
                async with upstreams.connected(url.decode(), reuses=reuses) as (upstream, path, host):
                    response = await upstream.send(path, [(b"host", host), *fields], body)
                    body.close()
                    self._status = response.status_code
                    headers = response_fields(list(response.headers), self._key.encode())
                    self._usage.streams = dict(headers).get(b"content-type", b"").startswith(b"text/event-stream")
                    await self._answer(upstream, headers, self._usage)
                return
            except UpstreamStale:
                continue
            except UpstreamFailed as failed:
                if not self.started:
                    text = f"provider {self._provider.name} could not be reached: {failed}"
                    raise Refused("provider_unreachable", self._without_key(text)) from failed
                return

    async def _answer(self, upstream: Upstream, headers: HeaderList, usage: ResponseUsage) -> None:
        send = self._asked.send
        status = self._status or 0
        start = {"type": "http.response.start", "status": status}
        if self._key and not 200 <= status < 300:
            told = bytearray()
            while piece := await upstream.read():
                told += piece[: ERROR_BYTES - len(told)]
            content = self._without_key(told.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
            headers = [field for field in headers if field[0] != b"content-length"]
            self.started = True
            await send({**start, "headers": [*headers, (b"content-length", b"%d" % len(content))]})
            await send({"type": "http.response.body", "body": content})
            self._seen, self._ended = bytearray(content), True
            return
        self.started = True
        await send({**start, "headers": headers})
        if usage.streams:
            await self._asked.flush()
        while piece := await upstream.read():
            usage.feed(piece)
            if self._admission.record is not None:
                self._seen += piece[: RECORDED_BYTES - len(self._seen)]
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        self._ended = True
        await send({"type": "http.response.body", "body": b""})

    def _without_key(self, text: str) -> str:
        return Redaction({self._key: "[key]"}).of(text) if self._key else text
