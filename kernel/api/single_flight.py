"""Single flight of requests by their Idempotency-Key: a repeat waits for the one that is under way.

Setup of a workflow runs before its first commit, so no transaction can keep the key meanwhile. It is kept here; once
the workflow has begun, the key is in the transaction that began it.
"""

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import msgspec
import trio

from kernel.store.idempotency import RequestKey
from protocol.errors import Refused

T = TypeVar("T")


class _Launch(msgspec.Struct):
    """One request that has not been answered yet."""

    body_hash: bytes
    over: trio.Event = msgspec.field(default_factory=trio.Event)
    failed: Exception | None = None


class SingleFlight(Generic[T]):
    """Requests under way, by their Idempotency-Key."""

    def __init__(self) -> None:
        self._flights: dict[tuple[str, str], _Launch] = {}

    async def once(
        self, key: RequestKey | None, before: Callable[[RequestKey], T | None], launch: Callable[[], Awaitable[T]]
    ) -> T:
        """The result of ``launch``; or the one of ``before``; or the result of the same request that is under way.

        A failure is told to all who wait for it and then forgotten: the next repeat tries again. Raises what
        ``launch`` raises, and Refused (key_reused). Cancelled, it leaves the work to whoever waits for the same.
        """
        if key is None:
            return await launch()
        place = (key.principal, key.key)
        while (given := before(key)) is None:
            other = self._flights.get(place)
            if other is None:
                flight = self._flights[place] = _Launch(key.body_hash)
                try:
                    return await launch()
                except Exception as error:
                    flight.failed = error
                    raise
                finally:
                    del self._flights[place]
                    flight.over.set()
            if other.body_hash != key.body_hash:
                raise Refused("key_reused", "this Idempotency-Key is used by another request", "use a new key")
            await other.over.wait()
            if other.failed is not None:
                raise other.failed
        return given
