"""Preparation of an attempt's files and login, and its state for the next kernel process."""

import msgspec

from kernel.store.transitions.lease import Leased
from protocol.ipc import Start


class HandedLogin(msgspec.Struct, frozen=True, kw_only=True):
    """Login held by an attempt: ``lock`` is a descriptor, ``record`` the lender's record."""

    lock: int
    key: str
    record: bytes
    seen: tuple[int, int, int] | None = None


class PreparedAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """In-memory state of a prepared attempt, for the next kernel process."""

    placeholders: tuple[str, ...] = ()
    login: HandedLogin | None = None

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Return all descriptors that have to stay open for the attempt."""
        return () if self.login is None else (self.login.lock,)


class NotHome(Exception):
    """Work on a node cannot be fetched to this machine; the text has the reason and the location of the work."""


class Preparation(msgspec.Struct, eq=False):
    """Prepares the files of an attempt and collects its work; this base class is for attempts in the project itself."""

    def follows(self, leased: Leased) -> bool:
        """Return whether the agent's files have to move to a colleague's commit before its prompt is built."""
        return False

    async def follow(self, leased: Leased) -> None:
        """Move the files to the colleague's commit before a worker uses them, or log why not."""

    async def prepare(self, leased: Leased, start: Start) -> None:
        """Prepare the attempt before any of its processes starts. Raises CauseError, SpawnTransient."""

    async def finish(self, leased: Leased) -> None:
        """Store the work of the attempt before its completion is announced. Raises SpawnTransient, NotHome."""

    async def abandon(self, leased: Leased) -> None:
        """Store the work of a stopped or failed attempt, if it would be lost."""

    def release(self, leased: Leased) -> None:
        """Clean up after the attempt's processes have exited, whether it was prepared or not."""

    def export(self, leased: Leased) -> PreparedAttempt:
        """Return the state for the next kernel process. Raises CannotHandOver."""
        return PreparedAttempt()

    def let_go(self, leased: Leased) -> None:
        """Release the attempt without cleanup, which the next kernel process does."""

    def adopt(self, leased: Leased, prepared: PreparedAttempt) -> None:
        """Register what the previous kernel process prepared."""
