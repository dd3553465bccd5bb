"""Standard Webhooks: what a signature is made of, and when one counts. Pure.

The signed content is ``id.timestamp.body``; a signature is ``v1,`` and the base64 of its HMAC-SHA256. The secret is
base64 too, perhaps behind ``whsec_``. Several signatures, with spaces between them, let a sender change its secret.
"""

import base64
import binascii
import hashlib
import hmac
import re
from typing import Final

import msgspec

TOLERANCE_SECONDS: Final = 300
"""A request that was signed longer ago, or so far ahead, does not count: who recorded it cannot send it again."""
SECRET_PREFIX: Final = "whsec_"
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
    return key or None


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
