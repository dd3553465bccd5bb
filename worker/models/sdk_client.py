"""Code for both SDKs: their HTTP client, and the translation of their exceptions to failures.

Imports httpx2 and Trio, so only adapters that need them import this module.
"""

import ssl
import sys
from codecs import BOM_UTF8
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import lru_cache
from importlib import import_module
from ipaddress import ip_address
from typing import Any, Final, NamedTuple, Protocol, Self, cast
from urllib.parse import urlsplit

import httpx2
import msgspec
import trio

from protocol.ipc import Limits, Provider, Start
from protocol.redaction import Redaction
from protocol.text import decoded
from worker.conversation import Conversation, clean
from worker.models.model import (
    BLANK,
    Failed,
    ListTools,
    Model,
    StreamSink,
    cause_in,
    codes_in,
    limit_reset,
    message_in,
    retry_after,
)
from worker.tool import ToolSpec

CONNECT_SECONDS: Final = 15.0
WRITE_SECONDS: Final = 60.0
CLOSE_SECONDS: Final = 1.0
MESSAGE_LIMIT: Final = 1000
_READ_LIMIT: Final = 4 * MESSAGE_LIMIT
_FIRST_OF_EVENTS: Final = frozenset({b":", b"d", b"e", b"i", b"r"})
"""First characters of an event stream: of a comment, or of the fields data, event, id and retry."""
NO_KEY: Final = "none"
"""Key for agents without one (local servers): an SDK would otherwise use one from the environment."""

_NO_TLS: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""TLS context without certificates, for plain connections: httpx2 would otherwise build a full one."""
_OUR_FAULT: Final = (httpx2.UnsupportedProtocol, httpx2.LocalProtocolError)
"""Errors of requests that cannot be sent: an invalid header value or address."""


class Sdk(NamedTuple):
    """A vendor's SDK: its client, and its exceptions. ``answered`` are exceptions that contain an HTTP response."""

    client: Callable[..., Any]
    base_url: str
    error: type[Exception]
    answered: type[Exception]
    unreached: type[Exception]

    def connect(self, provider: Provider, limits: Limits, http: httpx2.AsyncClient | None = None) -> Any:
        """Return the client for ``provider``. Raises Failed."""
        base_url = address(provider, self.base_url)
        http = http or http_client(base_url, limits)
        client = self.client(api_key=provider.api_key or NO_KEY, base_url=base_url, max_retries=0, http_client=http)
        if sys.platform == "linux":  # the SDK would start a thread to detect the platform, which takes 3 ms
            vars(client)["_platform"] = "Linux"
        return client

    def failure(self, provider: Provider, error: Exception) -> Failed:
        """Translate an error of the SDK, or of a layer below it, to a failure."""
        if isinstance(error, self.answered) and not isinstance(error, self.unreached):
            return failed(provider, cast("SdkError", error), getattr(error, "response", None))
        return broken(provider, error)


class ReplyDraft(Protocol):
    """A partial reply."""

    def take(self, event: Mapping[str, Any], /) -> str:
        """Add the content of one stream event. Returns the text that it adds to the visible reply."""
        ...


class SdkModel:
    """An agent's model at one endpoint, called through an SDK. Does not retry: the kernel does."""

    def __init__(self, sdk: Sdk, start: Start, list_tools: ListTools, http: httpx2.AsyncClient | None = None) -> None:
        assert start.provider is not None, "checked with the dialect"
        self.start = start
        self.provider = start.provider
        self.list_tools = list_tools
        self.client = sdk.connect(start.provider, start.limits, http)
        self._sdk = sdk

    async def hear(self, asked: Awaitable[Any], draft: ReplyDraft, live: StreamSink) -> None:
        """Fill ``draft`` from the stream, and show its text on ``live``. Raises Failed for an error of the SDK."""
        try:
            async with await asked as stream:
                read_as_stream(self.provider, stream.response)
                async for event in stream:
                    if text := draft.take(event.to_dict()):
                        await live.delta(clean(text))
                    else:
                        await live.progress("answering")
        except (self._sdk.error, httpx2.HTTPError, ValueError) as error:
            raise self._sdk.failure(self.provider, error) from error

    async def aclose(self) -> None:
        """Close the client without waiting for the other side."""
        with trio.move_on_after(CLOSE_SECONDS):
            await self.client.close()


class SdkError(Protocol):
    """The attributes of both SDKs' errors that are used here."""

    message: str
    body: object | None


def address(provider: Provider, default: str) -> str:
    """Return the provider's base URL. Raises Failed if it is invalid: an SDK would use one from the environment."""
    base_url = provider.base_url or default
    parts = urlsplit(base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Failed("invalid", f"{provider.name}: base_url {base_url!r} is not an http:// or https:// address")
    return base_url


def http_client(base_url: str, limits: Limits) -> httpx2.AsyncClient:
    """Return the client for ``base_url``, without certificates for plain HTTP on this machine, which saves 40-70 ms.

    Redirects are not followed: a key is only for one host.
    """
    timeout = httpx2.Timeout(CONNECT_SECONDS, read=limits.idle_seconds, write=WRITE_SECONDS)
    parts = urlsplit(base_url)
    try:
        is_loopback = parts.scheme == "http" and ip_address(parts.hostname or "").is_loopback
    except ValueError:
        is_loopback = parts.scheme == "http" and parts.hostname == "localhost"
    if is_loopback:
        return httpx2.AsyncClient(timeout=timeout, verify=_NO_TLS, trust_env=False)
    return httpx2.AsyncClient(timeout=timeout)


def max_tokens(limits: Limits, allowance: int | None) -> int:
    """Return the token limit of a reply: the agent's limit, or ``allowance`` if that is lower."""
    return limits.max_tokens if allowance is None else max(1, min(limits.max_tokens, allowance))


def failed(provider: Provider, error: SdkError, response: httpx2.Response | None) -> Failed:
    """Translate an SDK's error to a failure. ``response`` is the provider's response with the error, or None."""
    status = response.status_code if response is not None else None
    codes = codes_in(error.body)
    text = message_in(error.body) or error.message
    cause = cause_in(status, codes, text)
    wait = retry_after(response.headers) if response is not None else None
    if response is not None and wait is None and cause == "rate_limited":
        wait = limit_reset(response.headers)
    return Failed(
        cause,
        say(provider, text),
        http_status=status if status is not None and status >= 300 else None,
        retry_after_seconds=wait,
        code=codes[0][:100] if codes else None,
    )


def broken(provider: Provider, error: BaseException) -> Failed:
    """Return the failure for a connection that could not be opened, was cut, or had no valid event stream."""
    inner = error.__cause__ or error
    return Failed(
        "invalid" if isinstance(inner, _OUR_FAULT) else "network",
        say(provider, f"{type(inner).__name__}: {inner}".rstrip(": ")),
    )


def read_as_stream(provider: Provider, response: httpx2.Response) -> None:
    """Let the SDK read the event stream in ``response`` as ``EventBytes``."""

    def begin(_chunk_size: int | None = None) -> EventBytes:
        del response.aiter_bytes  # a reference cycle would leave the connection to the garbage collector
        return EventBytes(provider, response)

    response.aiter_bytes = begin  # type: ignore[method-assign, assignment]


class EventBytes:
    """The bytes of an event stream, without a byte order mark (WHATWG HTML 9.2.5).

    Reading raises Failed if the body is not an event stream but, for example, a page or a JSON error, with any status.
    """

    def __init__(self, provider: Provider, response: httpx2.Response) -> None:
        self._provider = provider
        self._headers = response.headers
        self._pieces = response.aiter_bytes()
        self._begun = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if self._begun:
            return await anext(self._pieces)
        head = b""
        async for piece in self._pieces:
            head += piece
            if len(head) >= len(BOM_UTF8):
                head = head.removeprefix(BOM_UTF8).lstrip()
                if head[:1] in _FIRST_OF_EVENTS:
                    self._begun = True
                    return head
                if len(head) > _READ_LIMIT:
                    break
        if head:
            raise no_stream(self._provider, self._headers, head)
        raise StopAsyncIteration


def no_stream(provider: Provider, headers: httpx2.Headers, body: bytes) -> Failed:
    """Return the failure for a body that is not an event stream."""
    said = decoded(body, object)
    said = said[0] if isinstance(said, list) and said else said
    codes, text = codes_in(said), message_in(said)
    if text or (isinstance(said, dict) and said.get("error")):
        text, wait = text or "the answer is an error", retry_after(headers)
        code = codes[0][:100] if codes else None
        return Failed(cause_in(None, codes, text), say(provider, text), retry_after_seconds=wait, code=code)
    kind = headers.get("content-type") or "no content type"
    return Failed(
        "network", say(provider, f"the answer is not an event stream ({kind}): {body.decode(errors='replace')}")
    )


def unfinished(provider: Provider) -> Failed:
    """Return the failure for a stream that ended before its reply."""
    return Failed("network", say(provider, "the stream ended before the reply"))


def say(provider: Provider, text: str) -> str:
    """Return ``text`` shortened, with the provider's name, and without the key, which some providers repeat."""
    text = clean(text[:_READ_LIMIT])
    if provider.api_key:
        text = _redaction(provider.api_key).of(text)
    return f"{provider.name}: {text[:MESSAGE_LIMIT]}"


@lru_cache(maxsize=4)
def _redaction(key: str) -> Redaction:
    return Redaction({key: "[key]"})


_LATE: Final = (
    "anyio._backends._trio",
    "encodings.idna",
    "httpcore2._backends.trio",
    "httpcore2._async.http11",
    "stringprep",
)
"""Modules that the asynchronous clients import at their first real request."""

NOBODY: Final = Provider(name="warm", dialect="mock", base_url="http://127.0.0.1:9")
START: Final = msgspec.structs.replace(BLANK, backend="sdk", provider=NOBODY)


class _Discard:
    """Sink that drops all text."""

    async def delta(self, text: str) -> None:
        """Drop ``text``."""

    async def progress(self, what: str, *, tool: bool = False) -> None:
        """Drop ``what``."""


async def one_tool() -> tuple[ToolSpec, ...]:
    """Return a tool, so that the conversion of tools is warmed up as well."""
    return (ToolSpec(name="t", description="-"),)


async def ask_once(model: Model) -> None:
    """Ask ``model`` once, and close it."""
    await model.reply(Conversation(START), None, _Discard())
    await model.aclose()


def missing_client(extra: str, absent: ModuleNotFoundError) -> ModuleNotFoundError:
    """Return the error for an installation without the SDK of ``extra``, or without a package that the SDK needs."""
    text = f"Python package {absent.name!r} not installed: run pip install 'agent-worker-supervisor[{extra}]'"
    return ModuleNotFoundError(text, name=absent.name)


def transport(events: Iterable[Mapping[str, Any]], *, named: bool) -> httpx2.MockTransport:
    """Return a transport that answers every request with these events; ``named`` as Anthropic does, else as OpenAI."""
    lines = [
        (f"event: {event['type']}\n" if named else "") + f"data: {msgspec.json.encode(event).decode()}\n\n"
        for event in events
    ]
    content = "".join(lines) + ("" if named else "data: [DONE]\n\n")
    headers = {"content-type": "text/event-stream"}
    return httpx2.MockTransport(lambda _: httpx2.Response(200, headers=headers, content=content.encode()))


def import_asynchronous() -> None:
    """Import what the asynchronous clients would import in the worker."""
    for module in _LATE:
        import_module(module)
