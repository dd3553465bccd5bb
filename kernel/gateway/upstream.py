"""HTTP/1.1 connections to providers: pooled, with TLS, through the proxies that the environment names.

Imports an HTTP client, which takes a tenth of a second, so the gateway imports this module at its first request.
Redirects are not followed: a key is only for one host.
"""

import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from ipaddress import ip_address
from typing import Any, Final
from urllib import request as environment
from urllib.parse import urlsplit

import httpcore2
import httpx2
import trio

from kernel.gateway.body import RequestBody
from kernel.gateway.table import HeaderList

IDLE_SECONDS: Final = 15.0
"""Time that an unused connection stays open; a provider may close it earlier."""
_TIMEOUT: Final = {"timeout": {"connect": 15.0, "read": None, "write": 60.0}}
_CLOSE_SECONDS: Final = 1.0
_ERRORS: Final = (
    httpcore2.NetworkError, httpcore2.TimeoutException, httpcore2.ProtocolError, httpcore2.ProxyError,
    httpcore2.UnsupportedProtocol, ImportError, ValueError,
)  # fmt: skip


class UpstreamFailed(Exception):
    """The provider could not be reached, or its response broke off. The text has the reason, but no header or body."""


class Upstreams:
    """Connections to all providers, by origin. ``environ`` names the proxies."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._pools: dict[str, httpcore2.AsyncConnectionPool] = {}
        self._building = trio.Lock()

    @asynccontextmanager
    async def post(self, url: str, headers: HeaderList, body: RequestBody) -> AsyncGenerator[httpcore2.Response]:
        """Send a request, and provide the response, whose body is still unread.

        Raises UpstreamFailed, also for a response that breaks off inside the block.
        """
        parts = urlsplit(url)
        fields = [(b"host", parts.netloc.encode()), *headers, (b"content-length", b"%d" % body.size)]
        target = f"{parts.path}?{parts.query}" if parts.query else parts.path
        origin = f"{parts.scheme}://{parts.netloc}"
        try:
            if origin not in self._pools:
                async with self._building:
                    if origin not in self._pools:
                        self._pools[origin] = await trio.to_thread.run_sync(new_pool, origin, self._environ)
            address = httpcore2.URL(scheme=parts.scheme, host=parts.hostname or "", port=parts.port, target=target)
            request = httpcore2.Request("POST", address, headers=fields, content=body, extensions=_TIMEOUT)
            response = await self._pools[origin].handle_async_request(request)
            try:
                yield response
            finally:
                with trio.move_on_after(_CLOSE_SECONDS, shield=True):
                    await response.aclose()
        except _ERRORS as error:
            name, told = type(error).__name__, ""
            cause: BaseException | None = error
            # Errors of invalid requests quote the request.
            while cause is not None and not told and not isinstance(error, httpcore2.ProtocolError | ValueError):
                told, cause = " ".join(str(cause).split())[:200], cause.__cause__ or cause.__context__
            raise UpstreamFailed(f"{name}: {told}" if told else name) from error

    async def aclose(self) -> None:
        """Close all connections."""
        with trio.move_on_after(_CLOSE_SECONDS, shield=True):
            for pool in self._pools.values():
                await pool.aclose()


def new_pool(origin: str, environ: Mapping[str, str]) -> httpcore2.AsyncConnectionPool:
    """Return the connections to ``origin``, with its proxy."""
    proxy = proxy_for(origin, environ)
    # A context with certificates takes 40-70 ms, and plain connections do not need it.
    plain = origin.startswith("http:") and not (proxy or "").startswith("https:")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if plain else httpx2.create_ssl_context()
    found = None
    if proxy is not None:
        parts = httpx2.Proxy(proxy)  # separates the password
        found = httpcore2.Proxy(str(parts.url), auth=parts.raw_auth, ssl_context=context)
    return httpcore2.AsyncConnectionPool(
        ssl_context=context,
        proxy=found,
        max_connections=None,
        max_keepalive_connections=64,
        keepalive_expiry=IDLE_SECONDS,
    )


def proxy_for(origin: str, environ: Mapping[str, str]) -> str | None:
    """Return the proxy for ``origin`` according to the variables that curl reads; none for this machine."""

    def value(name: str) -> str:
        return environ.get(f"{name}_proxy") or environ.get(f"{name.upper()}_PROXY") or ""

    parts = urlsplit(origin)
    host = parts.hostname or ""
    try:
        is_loopback = ip_address(host).is_loopback
    except ValueError:
        is_loopback = host == "localhost"
    bypassed: Any = environment.proxy_bypass_environment(parts.netloc, {"no": value("no")})  # type: ignore[attr-defined]
    found = value(parts.scheme) or value("all")
    if not found or is_loopback or bypassed:
        return None
    return found if "://" in found else f"http://{found}"
