"""The page of the browser: the key that ``awk open`` asks for, and the token that the page gets for it."""

from typing import Annotated

import msgspec

from protocol.api.document import Ask, Body, Document
from protocol.api.tokens import TokenScope


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
