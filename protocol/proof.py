"""The proof of a kernel's identity before a client shows it the token (contracts 3). Standard library only."""

import hmac


def prove(token: str, nonce: str) -> str:
    """HMAC-SHA256 of ``nonce`` under ``token``, in hex: what only the holder of the token can say."""
    return hmac.new(token.encode(), nonce.encode(), "sha256").hexdigest()


def is_proof(proof: str, token: str, nonce: str) -> bool:
    """Return whether ``proof`` is what ``prove`` says, compared in constant time."""
    return hmac.compare_digest(proof.encode(), prove(token, nonce).encode())
