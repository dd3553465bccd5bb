"""Standard Webhooks: what a signature is made of and when one counts; where a delivery may go, and when again. Pure.

The signed content is ``id.timestamp.body``; a signature is ``v1,`` and the base64 of its HMAC-SHA256. The secret is
base64 too, perhaps behind ``whsec_``. Several signatures, with spaces between them, let a sender change its secret.
"""

import base64
import binascii
import hashlib
import hmac
import ipaddress
import re
from typing import Any, Final, Literal

import msgspec

from protocol.message import Event
from protocol.names import message_id

TOLERANCE_SECONDS: Final = 300
"""A request that was signed longer ago, or so far ahead, does not count: who recorded it cannot send it again."""
SECRET_PREFIX: Final = "whsec_"
LEAST_KEY_BYTES: Final = 24
"""As Standard Webhooks has it: a shorter one could be guessed from one request that somebody recorded."""
_VERSION: Final = "v1,"
_MOST_SIGNATURES: Final = 16
_ID: Final = re.compile(r"[\x21-\x7e]{1,200}", re.ASCII)
_SECONDS: Final = re.compile(r"[0-9]{1,12}", re.ASCII)


class Signed(msgspec.Struct, frozen=True):
    """A request with the header fields that sign it, as they came."""

    id: str
    timestamp: str
    signatures: str
    body: bytes


def key_of(secret: str) -> bytes | None:
    """The key that ``secret`` stands for; None: it is no secret of Standard Webhooks."""
    try:
        key = base64.b64decode(secret.strip().removeprefix(SECRET_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        return None
    return key if len(key) >= LEAST_KEY_BYTES else None


def signature_of(key: bytes, id: str, timestamp: str, body: bytes) -> str:
    """The signature of a request."""
    content = b"%s.%s.%s" % (id.encode(), timestamp.encode(), body)
    return _VERSION + base64.b64encode(hmac.digest(key, content, hashlib.sha256)).decode()


def is_genuine(key: bytes, asked: Signed, now_seconds: int) -> bool:
    """Return whether ``asked`` was signed with ``key``, and not long ago. The time it takes does not tell why not."""
    signatures = asked.signatures.encode("utf-8", "replace").split(b" ")[:_MOST_SIGNATURES]
    expected = signature_of(key, asked.id, asked.timestamp, asked.body).encode()
    signed = sum(hmac.compare_digest(one, expected) for one in signatures) > 0
    named = _ID.fullmatch(asked.id) is not None and _SECONDS.fullmatch(asked.timestamp) is not None
    return named and signed and abs(now_seconds - int(asked.timestamp)) <= TOLERANCE_SECONDS


PAUSES_SECONDS: Final = (5, 30, 300, 1800, 7200, 18000, 36000, 86400)
"""Before each further try of a delivery that failed."""
GONE: Final = 410
LASTING_TRIES: Final = len(PAUSES_SECONDS)
"""Failures after which only the last try is left, in a day: 17 hours and a half since the first."""


class DeliveryVerdict(msgspec.Struct, frozen=True):
    """Consequence of one delivery attempt. ``seconds``: delay before the next one."""

    kind: Literal["delivered", "again", "given_up", "disabled"]
    seconds: int = 0


def verdict_of(status: int | None, tries: int) -> DeliveryVerdict:
    """The verdict on a delivery that failed ``tries`` times before, by the status of its answer; None: there was none.

    A redirect is a failure like any other: where it leads was not trusted.
    """
    if status is not None and 200 <= status < 300:
        return DeliveryVerdict("delivered")
    if status == GONE:
        return DeliveryVerdict("disabled")
    return (
        DeliveryVerdict("again", PAUSES_SECONDS[tries]) if tries < len(PAUSES_SECONDS) else DeliveryVerdict("given_up")
    )


def keeps_failing(tries: int) -> bool:
    """Return whether a delivery that failed so often is for a person to look at."""
    return tries >= LASTING_TRIES


_TRANSLATED: Final = ipaddress.ip_network("64:ff9b::/96")


def is_public(address: str) -> bool:
    """Return whether ``address`` is one of the world: not of this machine, its networks, or anything special.

    IPv6 can carry an IPv4 address inside, which is what would be reached.
    """
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        inner = found.ipv4_mapped or found.sixtofour or (found.teredo[1] if found.teredo is not None else None)
        if inner is None and found in _TRANSLATED:
            inner = ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(str(inner))
    return found.is_global and not found.is_multicast and not found.is_reserved


def payload(event: Event, url: str) -> dict[str, Any]:
    """The body of a delivery: what happened, by ids, and where it is told. Nobody's words leave the machine with it."""
    ids: dict[str, Any] = {"event": event.seq}
    if event.instruction is not None:
        ids["instruction"] = event.instruction
    if event.type == "message":
        ids["message"] = message_id(int(event.data["seq"]))
        link = f"{url}/messages/{ids['message']}"
    else:
        ids |= {key: event.data[key] for key in _IDS if isinstance(event.data.get(key), str | int)}
        since = f"{url}/events?follow=0&since={(event.seq or 1) - 1}"
        link = since if event.instruction is None else f"{url}/instructions/{event.instruction}"
    data = {"ids": ids, "space": event.space, "agent": event.agent, "link": link}
    return {"type": event.type, "timestamp": event.at, "data": data}


_IDS: Final = ("id", "run", "attempt")
"""Keys of the data of events that name something."""
