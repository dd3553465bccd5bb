"""Tokens for people's own programs. The text of a token is only in the answer to its creation."""

from typing import Annotated, Final

import msgspec

from kernel.operations.context import StoreAccess
from kernel.operations.operation import CommandFront, OfId, operation
from kernel.store import tokens
from kernel.store.transaction import rfc3339
from protocol.api.document import Ask
from protocol.api.tokens import SCOPE_PATTERN, TokenList, TokenMade
from protocol.message import Event

RECHECK: Final = "recheck"
"""Type of the event that makes each stream check its token again. Clients do not receive it."""


class TokenRequest(Ask, frozen=True, kw_only=True):
    """POST /tokens. ``scope`` is ``read``, ``operate``, ``approve``, or for some agents only ``approve:alice,bob``."""

    scope: Annotated[str, msgspec.Meta(pattern=SCOPE_PATTERN)]
    name: Annotated[str, msgspec.Meta(max_length=100)] = ""


def list_tokens(store: StoreAccess) -> TokenList:
    """List the valid tokens."""
    return TokenList(tokens=store.reader.now(tokens.all_, store.now_ms()))


async def create_token(asked: TokenRequest, store: StoreAccess) -> TokenMade:
    """Create a token. Its text is shown only in this answer."""
    return await store.writer.commit(tokens.create, asked.scope, asked.name, store.salt() + store.salt())


async def revoke_token(asked: OfId, store: StoreAccess) -> TokenList:
    """Revoke a token. Its next request is refused, and its streams end. Returns the remaining tokens."""
    await store.writer.commit(tokens.revoke, asked.id)
    store.feed.live(Event(type=RECHECK, at=rfc3339(store.now_ms())))
    return list_tokens(store)


OPERATIONS = (
    operation(
        list_tokens,
        "GET /tokens",
        scope="admin",
        cli=CommandFront("token list", "List the valid tokens", "tokens_lines"),
    ),
    operation(create_token, "POST /tokens", status=201, scope="admin", secret=True),
    operation(revoke_token, "DELETE /tokens/<id>", scope="admin"),
)
