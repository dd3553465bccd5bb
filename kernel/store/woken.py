"""What a task is resumed with when its answer lies ready for it elsewhere."""

from collections.abc import AsyncGenerator, Generator
from typing import Any, Final

import outcome


class Woken(outcome.Outcome[None]):
    """An outcome that says no more than: go on. Unlike others it is not used up, so one serves every task."""

    __slots__ = ()

    def unwrap(self) -> None:
        """See Outcome."""

    def send(self, gen: Generator[Any, None, object]) -> Any:
        """See Outcome."""
        return gen.send(None)

    async def asend(self, agen: AsyncGenerator[Any, None]) -> Any:
        """See Outcome."""
        return await agen.asend(None)


WOKEN: Final = Woken()
