"""An attempt as the next program of the kernel goes on with it: all that is neither in the log nor in its worker."""

import msgspec

from kernel.procs.handle import HandedHandle
from kernel.services.budgets import HandedBudget
from kernel.services.preparation import Prepared
from kernel.services.session_pause import HandedSession
from kernel.services.start_frame import StartFrame
from kernel.services.worker_link import HandedLine
from kernel.store.transitions.lease import Leased
from protocol.placement import PlaceNeeds


class HandedAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt between two frames of its conversation. A field that is added has a default: older ones lack it."""

    leased: Leased
    token: str
    frame: StartFrame
    """Its ``start`` is as it was sent, but for the prompt where the worker has that already."""
    handle: HandedHandle
    session: HandedSession
    budget: HandedBudget
    line: HandedLine = HandedLine()
    prepared: Prepared = Prepared()
    provider: str = ""
    """Of the place of its agent: as limits count it."""
    needs: PlaceNeeds = PlaceNeeds()
    """Set aside for it on this machine."""
    identity: bytes = b""
    served: int = 0
    """Of its worker, as kept workers know it."""
    stderr: bytes = b""
    pid: int | None = None
    doing: str = ""
    steps: int = 0
    probing: tuple[str, ...] = ()
    reached_mcp: bool = False
    warned: tuple[str, ...] = ()
    """The paths outside its tree of which it was told."""

    @property
    def descriptors(self) -> tuple[int, ...]:
        """All that have to stay open for it."""
        return (*self.handle.descriptors, *self.prepared.descriptors)


def without_prompt(frame: StartFrame) -> StartFrame:
    """Return ``frame`` without what its worker was told and nobody asks for again. It may be megabytes."""
    start = msgspec.structs.replace(frame.start, system="", messages=(), message="", entries=(), source_text="")
    return msgspec.structs.replace(frame, start=start)
