"""A collector of OpenTelemetry on loopback: what it takes is read by the library of the protocol itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

import trio
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

Value = str | int | float | bool | tuple[str, ...]


def plain(value: AnyValue) -> Value:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return tuple(one.string_value for one in value.array_value.values)
    found: Value = getattr(value, str(kind))
    return found


def attributes(span: Span) -> dict[str, Value]:
    return {one.key: plain(one.value) for one in span.attributes}


@dataclass
class Collector:
    """Answers with ``status``, and keeps what it took: every span as it first came, and whatever came otherwise."""

    port: int = 0
    status: int = 200
    spans: dict[bytes, Span] = field(default_factory=dict)
    requests: int = 0
    fields: Mapping[str, str] = field(default_factory=dict)
    """Header fields of the last request."""
    path: str = ""
    largest: int | None = None
    """Spans in one request that it takes at most; None: any number."""
    differing: list[bytes] = field(default_factory=list)
    """Spans that were told twice, and not alike."""
    arrived: trio.Event = field(default_factory=trio.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self, nursery: trio.Nursery) -> "Collector":
        (listener,) = await nursery.start(partial(trio.serve_tcp, self.serve, self.port, host="127.0.0.1"))
        self.port = int(listener.socket.getsockname()[1])
        return self

    async def serve(self, stream: trio.SocketStream) -> None:
        """Take one request; one that breaks off (its sender was killed) is nothing."""
        data = b""
        while b"\r\n\r\n" not in data:
            piece = await stream.receive_some(65536)
            if not piece:
                return
            data += piece
        head, _, body = data.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        fields = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        while len(body) < int(fields["content-length"]):
            piece = await stream.receive_some(65536)
            if not piece:
                return
            body += piece
        self.path, self.fields, self.requests = first.split(" ")[1], fields, self.requests + 1
        status = self.take(body) if self.status == 200 else self.status
        self.arrived.set()
        try:
            await stream.send_all(f"HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n".encode())
        except trio.BrokenResourceError:
            return

    def take(self, body: bytes) -> int:
        """Keep the spans of a request. Returns the status of its answer."""
        request = ExportTraceServiceRequest.FromString(body)
        size = request.ByteSize()
        request.DiscardUnknownFields()  # type: ignore[no-untyped-call,unused-ignore]
        assert request.ByteSize() == size, "the library knows all of it"
        found = [span for one in request.resource_spans for scope in one.scope_spans for span in scope.spans]
        if self.largest is not None and len(found) > self.largest:
            return 413
        for span in found:
            key = span.trace_id + span.span_id
            before = self.spans.setdefault(key, span)
            if before != span:
                self.differing.append(key)
        return 200
