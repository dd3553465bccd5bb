"""Tools to give colleagues what oneself has, and to take it back; and calls that are made by what was given.

Authority is looked at in the commit of the effect: what a grant allows passes through ``GrantedWriter``.
"""

from collections.abc import Callable
from typing import Annotated, Concatenate, Final, ParamSpec, TypeVar

import msgspec

from kernel.api.http.grants import until_ms
from kernel.api.mcp.tool import Caller, ToolArguments
from kernel.operations.context import StoreAccess
from kernel.policy.grants import Wanted
from kernel.rule.draft import Author
from kernel.store.transaction import Transaction
from kernel.store.transitions import grants as transitions
from kernel.store.transitions.grants import Granted
from kernel.store.writer import CommitWriter
from protocol.agent import Scope
from protocol.errors import Refused
from protocol.grants import LONGEST_TEXT, Until, Uses

P = ParamSpec("P")
T = TypeVar("T")

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_TEXT)]


class AuthGrantArguments(ToolArguments, frozen=True, kw_only=True):
    """Arguments of auth_grant: a scope for a colleague, or a request that waits."""

    scope: Annotated[Scope, msgspec.Meta(description="What they may use: one of your scopes.")] | None = None
    request: (
        Annotated[Name, msgspec.Meta(description="The request to let through (a3), in place of a scope.")] | None
    ) = None
    to: Annotated[Name, msgspec.Meta(description="Who gets the scope: a member of your workspace.")] | None = None
    until: Until | None = None
    uses: Uses | None = None


class AuthRevokeArguments(ToolArguments, frozen=True, kw_only=True):
    """Arguments of auth_revoke."""

    grant: Annotated[Name, msgspec.Meta(description="What you gave: its id (w3).")]


async def auth_grant(caller: Caller, asked: AuthGrantArguments, store: StoreAccess) -> Granted:
    """Give a scope, or let a call through that waits. Raises Refused (bad_request, forbidden, not_found, conflict)."""
    space, author, key = caller.identity.space, caller.author, caller.call_key
    if asked.request is not None:
        if asked.scope is not None or asked.until is not None or (asked.uses or 1) != 1:
            raise Refused("bad_request", "a request is for one call: it goes without scope, until and uses")
        return await store.writer.commit(transitions.answer, space, asked.request, author=author, call_key=key)
    if asked.scope is None or asked.to is None:
        raise Refused("bad_request", "say what, and to whom", "give scope and to, or request")
    wanted = Wanted(asked.scope, until_ms(asked.until, store.now_ms()), asked.uses)
    return await store.writer.commit(transitions.give, space, wanted, asked.to, author=author, call_key=key)


async def auth_revoke(caller: Caller, asked: AuthRevokeArguments, store: StoreAccess) -> Granted:
    """Take back what the caller gave. Raises Refused (not_found, forbidden, conflict)."""
    return await store.writer.commit(
        transitions.revoke, caller.identity.space, asked.grant, author=caller.author, call_key=caller.call_key
    )


class GrantedWriter:
    """The writer as it is handed to one call that is made by a grant of ``scope``.

    Each commit of the call has the authority that is there then; the first that changes something counts as the use.
    """

    def __init__(self, writer: CommitWriter, author: Author, scope: Scope) -> None:
        self._writer = writer
        self._author = author
        self._scope: Final = scope
        self._counts = True

    async def commit(self, job: Callable[Concatenate[Transaction, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Commit ``job`` as the writer does. Raises Refused (forbidden) as well."""

        def run(tx: Transaction) -> T:
            return job(tx, *args, **kwargs)

        result, counted = await self._writer.commit(
            transitions.under_grant, self._author, self._scope, run, counts=self._counts
        )
        self._counts = self._counts and not counted
        return result

    async def trouble(self) -> Refused | None:
        """Return why nothing can be written now."""
        return await self._writer.trouble()
