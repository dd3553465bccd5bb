"""One-time keys of the page (promise P80): who has one is given a token for it, once and soon.

They live in memory and as digests: a kernel that ends takes them along. All is decided between two awaits, so of two
who bring the same key at the same time one is too late.
"""

import hashlib
from collections import deque
from typing import Final, NamedTuple

from protocol.errors import Refused

KEY_SECONDS: Final = 60.0
"""From the key's making to its use; a browser that starts cold takes ten."""
OPEN_KEYS: Final = 16
"""Unused ones at a time: one more takes the place of the oldest."""
WRONG_KEYS: Final = 30
"""Answered as wrong in WRONG_SECONDS; those beyond are refused unheard. A key has 256 bits, so nobody guesses one: this
bounds what a stranger has us do. A right key is taken all the same, so no stranger can keep the owner out."""
WRONG_SECONDS: Final = 60.0


class _Offered(NamedTuple):
    read_only: bool
    until: float


class PageKeys:
    """The keys that are out. Times are seconds of one clock that never goes back."""

    def __init__(self) -> None:
        self._offered: dict[bytes, _Offered] = {}
        """By digest, oldest first."""
        self._wrong: deque[float] = deque()

    def offer(self, key: str, now: float, *, read_only: bool) -> None:
        """Have ``key`` stand for a token, until KEY_SECONDS from now."""
        self._forget_old(now)
        while len(self._offered) >= OPEN_KEYS:
            del self._offered[next(iter(self._offered))]
        self._offered[hashlib.sha256(key.encode()).digest()] = _Offered(read_only, now + KEY_SECONDS)

    def take(self, key: str, now: float) -> bool:
        """Return whether the token that ``key`` stands for only reads. Raises as ``check``."""
        self.check(key, now)
        return self._offered.pop(hashlib.sha256(key.encode()).digest()).read_only

    def check(self, key: str, now: float) -> None:
        """Leave ``key`` as it is, if it is one that is out. Raises Refused (unauthorized, busy)."""
        self._forget_old(now)
        if hashlib.sha256(key.encode()).digest() in self._offered:
            return
        if len(self._wrong) >= WRONG_KEYS:
            raise Refused("busy", "too many wrong keys were brought in this minute", "open the page again: awk open")
        self._wrong.append(now)
        raise Refused(
            "unauthorized",
            f"this key is not known: it was used, or is older than {KEY_SECONDS:.0f} s",
            "open the page again: awk open",
        )

    def _forget_old(self, now: float) -> None:
        for digest in [digest for digest, one in self._offered.items() if one.until <= now]:
            del self._offered[digest]
        while self._wrong and self._wrong[0] <= now - WRONG_SECONDS:
            self._wrong.popleft()
