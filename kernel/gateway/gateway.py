"""The gateway: attempts are admitted with a placeholder, and each of their requests is forwarded or refused."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Final

import trio

from kernel.gateway.access import Admission, Count, May, ModelAccess, Record, digest_of
from kernel.gateway.exchange import Asked, Exchange
from kernel.gateway.table import KEY_FIELDS, endpoint_of
from kernel.gateway.upstream import Upstreams
from protocol.errors import Refused

MOST_REQUESTS: Final = 128
"""Maximum number of simultaneous requests of one attempt."""
_BEARER: Final = b"bearer "
_IN_PATH: Final = b"awk-"
_POLL_SECONDS: Final = 0.02

Leaving = Callable[[Callable[[], None]], AbstractContextManager[None]]


class Gateway:
    """Gateway of one kernel at ``url``. ``environ`` names proxies; ``folder`` is for large bodies."""

    def __init__(self, url: str, environ: Mapping[str, str], folder: str) -> None:
        self.url = url
        self._folder = folder
        self._admissions: dict[bytes, Admission] = {}
        self._upstreams = Upstreams(environ)
        self._checks, self._opened = trio.Event(), trio.Event()
        self._exchanges: set[Exchange] = set()
        self.released: list[tuple[int, bytes]] = []
        """Descriptors and requests of ``release_waiting``."""
        self.release()

    def admit(
        self, access: ModelAccess, placeholder: str, may: May, count: Count, record: Record | None = None
    ) -> None:
        """Admit requests with ``placeholder`` until ``dismiss``.

        ``may`` is awaited before each request is forwarded; it returns when the request is within the allowance.
        ``count`` is called at the end of each of them, with the requested model and the usage, which is zero where the
        provider reports none. ``record`` receives each exchange after its end.
        """
        admission = Admission(access=access, may=may, count=count, record=record)
        self._admissions[digest_of(placeholder.encode())] = admission

    def dismiss(self, attempt: str) -> None:
        """Refuse further requests of ``attempt``, and close its open ones."""
        for digest, admission in list(self._admissions.items()):
            if admission.access.attempt == attempt:
                del self._admissions[digest]
                admission.dismissed = True
                for scope in list(admission.requests):
                    scope.cancel()

    def busy(self) -> tuple[str, ...]:
        """Return the attempts whose requests a provider is answering."""
        return tuple(one.access.attempt for one in self._admissions.values() if one.flying)

    async def idle(self, seconds: float, attempt: str = "") -> None:
        """Wait until no provider is answering a request (of ``attempt``), at most ``seconds``."""
        with trio.move_on_after(seconds):
            while attempt in self.busy() if attempt else self.busy():  # noqa: ASYNC110  (a moment; no event tells)
                await trio.sleep(_POLL_SECONDS)

    def hold(self, *, checks: bool = False) -> None:
        """Let new requests wait until ``release``; with ``checks``, before their placeholder is checked."""
        self._opened = trio.Event() if self._opened.is_set() else self._opened
        if checks:
            self._checks = trio.Event()

    def release(self) -> None:
        """Continue with the requests that wait since ``hold``."""
        self._checks.set()
        self._opened.set()

    def release_waiting(self) -> None:
        """Move the requests that wait since ``hold``, or for their allowance, to ``released`` for the next process."""
        self.released = [found for one in self._exchanges if (found := one.release()) is not None]

    async def aclose(self) -> None:
        """Close all connections to providers."""
        await self._upstreams.aclose()

    async def answer(self, asked: Asked, leaving: Leaving, admitted: Callable[[str], None]) -> None:
        """Answer one request. ``leaving``: see ReceiveQueue; ``admitted`` receives the holder of the connection.

        Raises Refused before the response has started, OSError.
        """
        await self._checks.wait()
        admission, path = self._admission(asked)
        admitted(f"models of {admission.access.attempt}")
        endpoint = endpoint_of(admission.access.provider.dialect, asked.method, path, asked.query)
        exchange = Exchange(admission, endpoint, asked)
        with trio.CancelScope() as scope:
            if len(admission.requests) >= MOST_REQUESTS:
                raise Refused("busy", f"attempt {admission.access.attempt} has {MOST_REQUESTS} open model requests")
            admission.requests.add(scope)
            self._exchanges.add(exchange)
            try:
                with leaving(scope.cancel):
                    opened = lambda: self._opened.wait()  # noqa: E731, PLW0108  (``hold`` replaces the event)
                    await exchange.run(opened, self._upstreams, self._folder)
            finally:
                self._exchanges.discard(exchange)
                admission.requests.discard(scope)
        if scope.cancelled_caught and admission.dismissed and not exchange.started:
            raise _unknown()

    def _admission(self, asked: Asked) -> tuple[Admission, bytes]:
        """Return the attempt, and the path that starts with a dialect. Raises Refused (unauthorized)."""
        if asked.path.startswith(_IN_PATH):  # the program sends its own credential beside it
            placeholder, _, path = asked.path.partition(b"/")
            given, login = [placeholder], True
        else:
            given, path, login = [value for name, value in asked.headers if name in KEY_FIELDS], asked.path, False
            given += [part[4:] for part in asked.query.split(b"&") if part.startswith(b"key=")]
        for value in given:
            is_bearer = value[: len(_BEARER)].lower() == _BEARER
            found = self._admissions.get(digest_of(value[len(_BEARER) :].strip() if is_bearer else value))
            if found is not None and (found.access.login, found.access.node) == (login, asked.node):
                return found, path
        raise _unknown()


def _unknown() -> Refused:
    return Refused("unauthorized", "the gateway needs the placeholder of a running attempt")
