"""Standard Webhooks: signatures, their verification, allowed targets, and retries of deliveries. Pure.

The signed content is ``id.timestamp.body``; a signature is ``v1,`` and the base64 of its HMAC-SHA256. The secret is
base64, too, optionally prefixed with ``whsec_``. Several signatures, separated by spaces, let a sender rotate its
secret.
"""

import base64
import binascii
import hashlib
import hmac
import ipaddress
import math
import re
from collections.abc import Container, Mapping
from typing import Any, Final, Literal

import msgspec

from protocol.message import Event
from protocol.names import message_id

TOLERANCE_SECONDS: Final = 300
"""Maximum age (or clock difference) of a signed request; older ones are rejected to prevent replays."""
SECRET_PREFIX: Final = "whsec_"
LEAST_KEY_BYTES: Final = 24
"""Minimum of Standard Webhooks; a shorter key could be guessed from one recorded request."""
_VERSION: Final = "v1,"
_MOST_SIGNATURES: Final = 16
_ID: Final = re.compile(r"[\x21-\x7e]{1,200}", re.ASCII)
_SECONDS: Final = re.compile(r"[0-9]{1,12}", re.ASCII)


class Signed(msgspec.Struct, frozen=True):
    """Request with its signature headers, unchanged."""

    id: str
    timestamp: str
    signatures: str
    body: bytes


def key_of(secret: str) -> bytes | None:
    """Return the key that ``secret`` encodes; None: it is not a secret of Standard Webhooks."""
    try:
        key = base64.b64decode(secret.strip().removeprefix(SECRET_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        return None
    return key if len(key) >= LEAST_KEY_BYTES else None


def signature_of(key: bytes, id: str, timestamp: str, body: bytes) -> str:
    """Return the signature of a request."""
    content = b"%s.%s.%s" % (id.encode(), timestamp.encode(), body)
    return _VERSION + base64.b64encode(hmac.digest(key, content, hashlib.sha256)).decode()


def is_genuine(key: bytes, asked: Signed, now_seconds: int) -> bool:
    """Return whether ``asked`` was recently signed with ``key``; the time taken does not reveal the failure."""
    signatures = asked.signatures.encode("utf-8", "replace").split(b" ")[:_MOST_SIGNATURES]
    expected = signature_of(key, asked.id, asked.timestamp, asked.body).encode()
    signed = sum(hmac.compare_digest(one, expected) for one in signatures) > 0
    named = _ID.fullmatch(asked.id) is not None and _SECONDS.fullmatch(asked.timestamp) is not None
    return named and signed and abs(now_seconds - int(asked.timestamp)) <= TOLERANCE_SECONDS


PAUSES_SECONDS: Final = (5, 30, 300, 1800, 7200, 18000, 36000, 86400)
"""Delays before each retry of a failed delivery."""
GONE: Final = 410
LASTING_TRIES: Final = len(PAUSES_SECONDS)
"""Failures (17.5 hours after the first) after which only the final try, a day later, remains."""


class DeliveryVerdict(msgspec.Struct, frozen=True):
    """Consequence of one delivery attempt; ``seconds`` is the delay before the next one."""

    kind: Literal["delivered", "again", "given_up", "disabled"]
    seconds: int = 0


def verdict_of(status: int | None, tries: int) -> DeliveryVerdict:
    """Return the consequence of a delivery after ``tries`` earlier failures, by its status; None: no response.

    A redirect is a failure, because its target was not trusted.
    """
    if status is not None and 200 <= status < 300:
        return DeliveryVerdict("delivered")
    if status == GONE:
        return DeliveryVerdict("disabled")
    return (
        DeliveryVerdict("again", PAUSES_SECONDS[tries]) if tries < len(PAUSES_SECONDS) else DeliveryVerdict("given_up")
    )


def keeps_failing(tries: int) -> bool:
    """Return whether a delivery has failed enough times that a person should inspect it."""
    return tries >= LASTING_TRIES


_TRANSLATED: Final = ipaddress.ip_network("64:ff9b::/96")


def is_public(address: str) -> bool:
    """Return whether ``address`` is public: not of this machine, its networks, or a reserved range.

    An IPv6 address may embed an IPv4 address, which is then checked.
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
    """Return the body of a delivery: ids and a link, but no message text, which must not leave the machine."""
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
"""Keys of event data that identify an object."""


def rest_seconds(retries: Mapping[str, int | None], busy: Container[str], now_ms: int) -> float:
    """Return the time until the next of ``retries`` (Unix times in ms by webhook); infinite without one.

    A busy webhook handles its due retries already, and only a later one counts.
    """
    due = (at_ms for name, at_ms in retries.items() if at_ms is not None and (at_ms > now_ms or name not in busy))
    return max(0.0, (min(due, default=math.inf) - now_ms) / 1000)
