"""Permissions of attempts to call models: a placeholder in place of the provider's key, valid for one attempt.

A placeholder is compared by its digest, so that the duration of a comparison reveals nothing.
"""

import hashlib
import secrets
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
import trio

from kernel.gateway.table import DIALECTS
from kernel.store.exchanges import WireRecord
from protocol.instruction import Usage
from protocol.ipc import Provider

_RANDOM_BYTES: Final = 16

May = Callable[[], Awaitable[None]]
Count = Callable[[str, Usage], None]
Record = Callable[[WireRecord], Awaitable[None]]


class ModelAccess(msgspec.Struct, frozen=True, kw_only=True):
    """Permission of one attempt: the provider, whose ``base_url`` and ``api_key`` are the real ones, and the models."""

    attempt: str
    provider: Provider
    models: frozenset[str]
    """Ids of models as providers know them; empty: any model of the provider, for programs that choose it themselves
    (a login, or helper models of a program)."""
    node: str = ""
    login: bool = False
    """Whether the attempt's program sends a credential of its own, which passes unchanged."""


class Admission(msgspec.Struct, eq=False):
    """Admitted attempt with its open requests. ``may``, ``count`` and ``record``: see ``Gateway.admit``."""

    access: ModelAccess
    may: May
    count: Count
    record: Record | None = None
    requests: set[trio.CancelScope] = msgspec.field(default_factory=set)
    flying: int = 0
    """Number of requests that the provider is answering."""
    dismissed: bool = False


def digest_of(placeholder: bytes) -> bytes:
    """Return the digest under which a placeholder is known."""
    return hashlib.sha256(placeholder).digest()


def new_placeholder(attempt: str) -> str:
    """Return a new placeholder for ``attempt``."""
    return f"awk-{attempt}-{secrets.token_urlsafe(_RANDOM_BYTES)}"


def worker_provider(provider: Provider, url: str, placeholder: str, *, login: bool = False) -> Provider:
    """Return ``provider`` for a worker: the gateway's address and ``placeholder`` instead of the real ones.

    With ``login`` the placeholder is part of the address, because the program sends a credential of its own. A dialect
    without a gateway is returned unchanged.
    """
    rules = DIALECTS.get(provider.dialect)
    if rules is None:
        return provider
    base = f"{url}/gateway/{placeholder}/{rules.mount}" if login else f"{url}/gateway/{rules.mount}"
    return msgspec.structs.replace(provider, base_url=base, api_key=None if login else placeholder)
