"""The preparation of what an attempt works on, and what of it the next program of the kernel has to know."""

import msgspec

from kernel.store.transitions.lease import Leased
from protocol.ipc import Start


class HandedLogin(msgspec.Struct, frozen=True, kw_only=True):
    """A login that an attempt has: ``lock`` is a descriptor, ``record`` what its lender wrote down."""

    lock: int
    key: str
    record: bytes
    seen: tuple[int, int, int] | None = None


class PreparedAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """Things made ready for an attempt that are only known in memory, for the next program of the kernel."""

    placeholders: tuple[str, ...] = ()
    login: HandedLogin | None = None

    @property
    def descriptors(self) -> tuple[int, ...]:
        """All that have to stay open for it."""
        return () if self.login is None else (self.login.lock,)


class NotHome(Exception):
    """Work that was done elsewhere cannot be brought to this machine. The text says why, and where the work is."""


class Preparation(msgspec.Struct, eq=False):
    """Makes ready what an attempt works on, and sees to what it leaves. This one: attempts in the project itself."""

    def follows(self, leased: Leased) -> bool:
        """Return whether its files have to be brought to another's before its prompt is made."""
        return False

    async def follow(self, leased: Leased) -> None:
        """Bring them there, or note why not: nothing is left of the worker before it. Raises SpawnTransient."""

    async def prepare(self, leased: Leased, start: Start) -> None:
        """Make it ready, before anything is started there. Raises CauseError, SpawnTransient."""

    async def finish(self, leased: Leased) -> None:
        """Keep what the attempt has done, before anybody hears that it is done. Raises SpawnTransient, NotHome."""

    async def abandon(self, leased: Leased) -> None:
        """Keep what an attempt has done that ended otherwise, where it would be lost else."""

    def release(self, leased: Leased) -> None:
        """Take it down, once nothing of the attempt is left, whether it was prepared or not."""

    def export(self, leased: Leased) -> PreparedAttempt:
        """Return what the next program of the kernel has to know of it. Raises CannotHandOver."""
        return PreparedAttempt()

    def let_go(self, leased: Leased) -> None:
        """Take nothing down: the next program of the kernel does."""

    def adopt(self, leased: Leased, prepared: PreparedAttempt) -> None:
        """Know what an earlier program of this kernel has made ready."""
