"""Tokens that people make for programs of their own: asked for, made, listed and taken back."""

from typing import Annotated, Literal

import msgspec

from protocol.api.document import Ask, Body, Document

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


class PageKeyRequest(Ask, frozen=True, kw_only=True):
    """POST /page/keys. ``read_only``: for a token that looks and changes nothing."""

    read_only: bool = False


class PageKey(Document, frozen=True, kw_only=True):
    """``awk open --json``. The key is good for one token, until it expires; ``url`` has it behind the ``#``."""

    key: str
    url: str
    expires_at: str
    schema: str = "awk/page-key/1"


class PageTokenRequest(Ask, frozen=True, kw_only=True):
    """POST /page/token, without a token."""

    key: Annotated[str, msgspec.Meta(max_length=200)]


class PageProject(Body, frozen=True, kw_only=True):
    """The project whose page it is: its folder, and the last part of that."""

    name: str
    root: str


class PageToken(Document, frozen=True, kw_only=True):
    """The page's token, and whose page it is. ``scopes`` are all that it opens."""

    id: str
    token: str
    scope: TokenScope
    scopes: tuple[TokenScope, ...]
    project: PageProject
    version: str
    expires_at: str
    schema: str = "awk/page-token/1"
