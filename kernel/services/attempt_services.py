"""The services that every attempt uses, and the conversation that one holds with its worker."""

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Literal, NamedTuple

import msgspec

from kernel.services.budgets import Admission, BudgetEnforcer
from kernel.services.completion import Completer
from kernel.services.kept_workers import Worker
from kernel.services.session_pause import HandedSession
from kernel.services.start_frame import StartFrame, StartFrameBuilder
from kernel.services.work_places import WorkPlaces
from kernel.store.feed import Feed
from kernel.store.reader import Reader
from kernel.store.writer import Writer

StopReason = Literal["cancelled", "stopped", "restarted", "made room", "upgrade", "shutdown"]


class AttemptServices(msgspec.Struct, frozen=True, kw_only=True):
    """The services that every attempt of a kernel uses."""

    writer: Writer
    reader: Reader
    feed: Feed
    places: WorkPlaces
    start_frames: StartFrameBuilder
    admission: Admission
    budgets: BudgetEnforcer
    completer: Completer
    now_text: Callable[[], str]
    in_flight: Callable[[str], AbstractContextManager[object]] = contextlib.nullcontext
    """A block of it is around whatever the kernel itself does for an instruction."""


class Conversation(NamedTuple):
    """A worker that is there, and what it is told. ``session``: an earlier program of this kernel has told it."""

    frame: StartFrame
    worker: Worker
    session: HandedSession | None = None
