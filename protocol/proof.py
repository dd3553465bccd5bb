"""The proof of a kernel's identity before a client shows it the token (contracts 3). Standard library only.

``hmac`` and ``hashlib`` load OpenSSL, which takes a sixth of the time of ``awk ps``. The interpreter has SHA-256 of its
own, and what ``hmac`` compares with where there is no OpenSSL.
"""

from _operator import _compare_digest  # pyright: ignore[reportPrivateUsage]
from typing import Final

try:
    from _sha256 import sha256  # type: ignore[import-not-found]  # the stubs have public modules only
except ImportError:  # Python 3.12 calls it by another name; some distributions leave it out
    from hashlib import sha256

_BLOCK_BYTES: Final = 64
_INNER: Final = bytes(byte ^ 0x36 for byte in range(256))
_OUTER: Final = bytes(byte ^ 0x5C for byte in range(256))


def digest(data: bytes) -> str:
    """SHA-256 of ``data``, in hex."""
    return str(sha256(data).hexdigest())


def prove(token: str, nonce: str) -> str:
    """HMAC-SHA256 (RFC 2104) of ``nonce`` under ``token``, in hex: what only the holder of the token can say."""
    key = token.encode()
    key = (sha256(key).digest() if len(key) > _BLOCK_BYTES else key).ljust(_BLOCK_BYTES, b"\0")
    inner = sha256(key.translate(_INNER) + nonce.encode()).digest()
    return digest(key.translate(_OUTER) + inner)


def is_proof(proof: str, token: str, nonce: str) -> bool:
    """Return whether ``proof`` is what ``prove`` says, compared in constant time."""
    return _compare_digest(proof.encode(), prove(token, nonce).encode())
