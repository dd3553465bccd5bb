"""Tokens that people make for programs of their own: asked for, made, listed and taken back."""

from typing import Literal

from protocol.api.document import Body, Document

TokenScope = Literal["read", "operate", "approve"]
"""Steps: each opens what those before it do."""
RouteScope = Literal["read", "operate", "approve", "admin"]
"""The scope that a route needs. ``admin``: no token that is made opens it, only the kernel's own."""

SCOPE_PATTERN = r"^(read|operate|approve(:[a-z][a-z0-9_-]{0,31}(,[a-z][a-z0-9_-]{0,31}){0,99})?)$"


class TokenMade(Document, frozen=True, kw_only=True):
    """``awk token create --json``. The token is shown this once: only its digest is kept."""

    id: str
    token: str
    scope: str
    name: str
    schema: str = "awk/token/1"


class TokenRow(Body, frozen=True, kw_only=True):
    """One token, without the token."""

    id: str
    name: str
    scope: str
    created_at: str
    expires_at: str | None = None
    """The end of a token that a page was given; null: it is valid until it is taken back."""


class TokenList(Document, frozen=True, kw_only=True):
    """``awk token list``: those that are valid, the oldest first."""

    tokens: tuple[TokenRow, ...]
    schema: str = "awk/token-list/1"
