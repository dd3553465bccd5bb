"""Tokens for programs of people: creation, list and revocation."""

from typing import Annotated, Literal

import msgspec

from protocol.api.document import Ask, Body, Document

TokenScope = Literal["read", "operate", "approve"]
"""Scopes. Each includes the previous ones."""
RouteScope = Literal["read", "operate", "approve", "admin"]
"""Scope that a route requires. ``admin``: only the kernel's own token has it."""

_AGENT = r"[a-z][a-z0-9_-]{0,31}(\.[1-9][0-9]?)?"
SCOPE_PATTERN = rf"^(read|operate|approve(:{_AGENT}(,{_AGENT}){{0,99}})?)$"


class TokenMade(Document, frozen=True, kw_only=True):
    """``awk token create --json``. The token is shown only once, because only its digest is stored."""

    id: str
    token: str
    scope: str
    name: str
    schema: str = "awk/token/1"


class TokenRow(Body, frozen=True, kw_only=True):
    """Token in a list, without its secret."""

    id: str
    name: str
    scope: str
    created_at: str
    expires_at: str | None = None
    """Expiry of a page's token. Null: the token is valid until it is revoked."""


class TokenList(Document, frozen=True, kw_only=True):
    """``awk token list``: valid tokens, the oldest first."""

    tokens: tuple[TokenRow, ...]
    schema: str = "awk/token-list/1"


class PageKeyRequest(Ask, frozen=True, kw_only=True):
    """POST /page/keys. ``read_only``: for a token that can only read."""

    read_only: bool = False


class PageKey(Document, frozen=True, kw_only=True):
    """``awk open --json``. The key can be exchanged for one token until it expires; ``url`` contains it after ``#``."""

    key: str
    url: str
    expires_at: str
    schema: str = "awk/page-key/1"


class PageTokenRequest(Ask, frozen=True, kw_only=True):
    """POST /page/token: exchange a page key for a token. The request itself needs no token."""

    key: Annotated[str, msgspec.Meta(max_length=200)]


class PageProject(Body, frozen=True, kw_only=True):
    """Project of the page: its folder, and the last part of the path."""

    name: str
    root: str


class PageToken(Document, frozen=True, kw_only=True):
    """Token of the page, and its project. ``scopes`` are all scopes that the token includes."""

    id: str
    token: str
    scope: TokenScope
    scopes: tuple[TokenScope, ...]
    project: PageProject
    version: str
    expires_at: str
    schema: str = "awk/page-token/1"
