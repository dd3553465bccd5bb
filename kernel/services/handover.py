"""The table of what the next program of this kernel goes on with. Each program reads its own and the one before's."""

from collections.abc import Iterable
from typing import Final

import msgspec

from kernel.services.handed_attempt import HandedAttempt
from protocol.text import encode_json

FORMAT: Final = 1
"""Raised where what an older program wrote cannot be read any more."""
OLDEST: Final = 1


class UnreadableHandover(Exception):
    """A handover is of another kind than this program knows. The text is for people."""


class HandedUpgrade(msgspec.Struct, frozen=True, kw_only=True):
    """Facts of an upgrade that are told once it is over."""

    id: str
    before: str
    """The version that hands over."""
    to: str
    """The version that said it could take over."""
    began: float
    """When attempts stopped, in seconds of CLOCK_BOOTTIME."""


class Handover(msgspec.Struct, frozen=True, kw_only=True):
    """All of it. A field that is added has a default."""

    format: int = FORMAT
    upgrade: HandedUpgrade
    attempts: tuple[HandedAttempt, ...] = ()
    children: tuple[int, ...] = ()
    """Processes that are children of this one, and end by themselves."""
    safe_mode: bool = False
    signals: tuple[int, ...] = ()
    """Those that nobody has acted on."""

    @property
    def descriptors(self) -> tuple[int, ...]:
        """All that stay open."""
        return tuple(fd for attempt in self.attempts for fd in attempt.descriptors)


def encode(handover: Handover) -> bytes:
    """The table as bytes."""
    return encode_json(handover)


def decode(table: bytes) -> Handover:
    """Read it. Raises UnreadableHandover."""
    try:
        found = _any.decode(table).format
        if not OLDEST <= found <= FORMAT:
            raise UnreadableHandover(f"it hands over format {found}, and this version reads {OLDEST} to {FORMAT}")
        return _decoder.decode(table)
    except msgspec.MsgspecError as error:
        raise UnreadableHandover(f"what it hands over cannot be read: {error}") from error


class _Format(msgspec.Struct):
    format: int


_any: Final = msgspec.json.Decoder(_Format)
_decoder: Final = msgspec.json.Decoder(Handover)


def children_of(handed: Iterable[HandedAttempt], zygotes: Iterable[int]) -> tuple[int, ...]:
    """Return what is to be reaped: zygotes, and keepers, which are children of ours where they were executed."""
    return (*zygotes, *(attempt.handle.keeper_pid for attempt in handed))
