"""The requests that the gateway forwards, by dialect. The table is data; every other request is refused with 404.

Targets are compared as they arrive: an encoded, relative or doubled path is not in the table.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from protocol.errors import Refused

PREFIX: Final = b"/gateway/"


class DialectRules(msgspec.Struct, frozen=True):
    """One dialect: its official address, its paths, its query parameters, and the header field of its key."""

    official: str
    mount: str
    """Path of the dialect's base URL below the gateway's address; paths of the table continue it."""
    paths: re.Pattern[bytes]
    """Paths of POST requests. The group ``model`` is the model, where the path names it."""
    query: frozenset[bytes]
    key_field: bytes
    key_prefix: bytes = b""


DIALECTS: Final[Mapping[str, DialectRules]] = {
    "anthropic": DialectRules(
        official="https://api.anthropic.com",
        mount="anthropic",
        paths=re.compile(rb"/v1/messages(?:/count_tokens)?"),
        query=frozenset({b"beta=true"}),
        key_field=b"x-api-key",
    ),
    "openai": DialectRules(
        official="https://api.openai.com/v1",
        mount="openai/v1",
        paths=re.compile(rb"/(?:chat/completions|embeddings|responses)"),
        query=frozenset(),
        key_field=b"authorization",
        key_prefix=b"Bearer ",
    ),
    "gemini": DialectRules(
        official="https://generativelanguage.googleapis.com",
        mount="gemini",
        paths=re.compile(
            rb"/v1(?:beta)?/models/(?P<model>[A-Za-z0-9][A-Za-z0-9._-]{0,127})"
            rb":(?:generateContent|streamGenerateContent|countTokens)"
        ),
        query=frozenset({b"alt=sse", b"alt=json"}),
        key_field=b"x-goog-api-key",
    ),
}

KEY_FIELDS: Final = frozenset(rules.key_field for rules in DIALECTS.values()) | {b"api-key"}
_CONNECTION: Final = frozenset(
    {
        b"connection", b"date", b"keep-alive", b"proxy-authenticate", b"proxy-authorization",
        b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade",
    }
)  # fmt: skip
"""Header fields of one connection, which are not forwarded."""
_OWN: Final = frozenset(
    {
        b"accept-encoding", b"content-length", b"cookie", b"expect", b"forwarded", b"host", b"origin", b"referer",
        b"via", b"x-http-method-override", b"x-original-url", b"x-real-ip", b"x-rewrite-url",
    }
)  # fmt: skip
"""Further fields of requests that are not forwarded, beside x-forwarded-*."""

HeaderList = list[tuple[bytes, bytes]]


class Endpoint(NamedTuple):
    """Request of the table. ``model`` is the model in the path; None: the body names it."""

    path: bytes
    query: bytes
    model: str | None


def endpoint_of(dialect: str, method: str, path: bytes, query: bytes) -> Endpoint:
    """Return the row of the table for ``path``, which starts with a dialect. Raises Refused (not_found, forbidden)."""
    parts = query.split(b"&") if query else []
    kept = [part for part in parts if not part.startswith(b"key=")]
    for name, rules in DIALECTS.items():
        found = rules.paths.fullmatch(path.removeprefix(rules.mount.encode()))
        if found is None or not path.startswith(rules.mount.encode()) or method != "POST":
            continue
        if name != dialect:
            raise Refused("forbidden", f"the provider of this agent is not available as {name}")
        if rules.query.issuperset(kept) and len(parts) <= len(rules.query) + 1:
            model = found.groupdict().get("model")
            return Endpoint(found[0], b"&".join(kept), None if model is None else model.decode())
    raise Refused("not_found", "the gateway forwards only model requests: method or path is not in its table")


def request_fields(headers: HeaderList, *, keeps_keys: bool) -> HeaderList:
    """Return the header fields to forward. ``keeps_keys``: fields with credentials pass."""
    dropped = _CONNECTION | _OWN | _named(headers) | (frozenset() if keeps_keys else KEY_FIELDS)
    return [field for field in headers if field[0] not in dropped and not field[0].startswith(b"x-forwarded-")]


def response_fields(headers: HeaderList, key: bytes) -> HeaderList:
    """Return the header fields of a response to forward, in lower case, without cookies and without ``key``."""
    lower = [(name.lower(), value) for name, value in headers]
    dropped = _CONNECTION | _named(lower) | {b"set-cookie", b"alt-svc"}
    return [(name, value) for name, value in lower if name not in dropped and not (key and key in value)]


def _named(headers: HeaderList) -> set[bytes]:
    """Return the fields that the field Connection declares to be fields of the connection."""
    return {part.strip().lower() for name, value in headers if name == b"connection" for part in value.split(b",")}
