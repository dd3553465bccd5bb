"""The writer of calls that are made by a grant: authority is looked at in the commit of the effect."""

from collections.abc import Callable
from typing import Concatenate, Final, ParamSpec, TypeVar

from kernel.rule.draft import Author
from kernel.store.transaction import Transaction
from kernel.store.transitions import grants as transitions
from kernel.store.writer import CommitWriter
from protocol.agent import Scope
from protocol.errors import Refused

P = ParamSpec("P")
T = TypeVar("T")


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
