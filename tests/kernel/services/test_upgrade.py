"""What an upgrade waits for, what it refuses, and that everything goes on when it comes to nothing."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from kernel.gateway.gateway import Gateway
from kernel.procs.handle import CannotHandOver
from kernel.services import upgrade as service
from kernel.services.handover import KernelProgram, TrialFailed
from kernel.services.upgrade import Upgrade
from kernel.services.worker_link import SessionPause
from protocol.errors import Refused
from tests.shorthand import beside

INSTALLED = KernelProgram("/venv/bin/python", ("--project", "/p"))


@dataclass
class Attempt:
    """An attempt as an upgrade sees it."""

    talks: bool = True
    hands_over: bool = True
    completing: bool = False
    handle: object = None
    node: str = ""
    stopped: list[str] = field(default_factory=list)
    pause: SessionPause = field(default_factory=SessionPause)

    @property
    def leased(self) -> Any:
        return type("Leased", (), {"attempt": "i1-1", "node": self.node})

    def stop(self, reason: str, _grace_seconds: float) -> None:
        """Leave at once: it talks with nobody any more."""
        self.stopped.append(reason)

    def export(self, *, standing: bool = True) -> Any:
        if standing and not self.pause.stands:
            raise CannotHandOver("it does not stand")
        raise CannotHandOver("a double") if not standing else AssertionError


class PauseThatTells(SessionPause):
    """A pause that sets ``told`` when it is asked for."""

    told: trio.Event = msgspec.field(default_factory=trio.Event)

    def ask(self) -> None:
        SessionPause.ask(self)
        self.told.set()


class Kernel:
    """All that an upgrade needs, and the upgrade."""

    def __init__(self, trial: Callable[[], Any] = lambda: "2.0") -> None:
        self.running: dict[str, Attempt] = {}
        self.kept = type("Kept", (), {"waiting": {}})()
        self.said: list[str] = []
        self.told = trio.Event()
        """Why it failed, was committed."""
        self.commands: list[str] = []
        self.upgrade = Upgrade(
            attempts=self,  # type: ignore[arg-type]
            dispatcher=self,  # type: ignore[arg-type]
            spawns=self,  # type: ignore[arg-type]
            gateway=Gateway("http://x", {}, "/"),
            writer=self,  # type: ignore[arg-type]
            version="1.0",
            safe_mode=trio.Event(),
            trial=self._try,
            installed=INSTALLED,
        )
        self._trial = trial

    async def _try(self, program: KernelProgram, _table: bytes) -> str:
        self.said.append(f"tried {program.python}")
        await trio.lowlevel.checkpoint()
        return str(self._trial())

    async def commit(self, _job: object, **told: object) -> None:
        await trio.lowlevel.checkpoint()
        if told:
            self.said.append(f"told {told['reason']}")
            self.told.set()

    def hold_back(self) -> None:
        self.said.append("held back")

    def go_on(self) -> None:
        self.said.append("goes on")

    def unsettled(self) -> int:
        return 0

    def under_way(self, _beside: object) -> tuple[str, ...]:
        return tuple(self.commands)

    def shut_off(self) -> None:
        self.said.append("shut off")

    def open(self) -> None:
        self.said.append("opened")


async def failing(kernel: Kernel) -> str:
    """Ask for an upgrade that fails. Returns the reason."""
    kernel.told = trio.Event()
    async with beside(kernel.upgrade.run):
        kernel.upgrade.ask(None)
        with trio.fail_after(600):
            await kernel.told.wait()
        assert kernel.upgrade.tell().state == "failed"
    return str(kernel.upgrade.tell().reason)


async def test_an_idle_kernel_leaves_as_soon_as_the_new_version_was_tried() -> None:
    kernel = Kernel()
    async with beside(kernel.upgrade.run):
        assert kernel.upgrade.ask(None).state == "checking"
        with pytest.raises(Refused, match="another upgrade is running"):
            kernel.upgrade.ask(None)
        await kernel.upgrade.leaving.wait()
    assert kernel.said == ["tried /venv/bin/python", "held back", "shut off"]
    told = kernel.upgrade.tell()
    assert (told.state, told.to, kernel.upgrade.program) == ("replacing", "2.0", INSTALLED)


@pytest.mark.promise("P93")
async def test_a_trial_that_fails_holds_nobody_back(autojump_clock: trio.testing.MockClock) -> None:
    def fails() -> str:
        raise TrialFailed("it has no module named x")

    kernel = Kernel(fails)
    assert await failing(kernel) == "it has no module named x"
    assert kernel.said == ["tried /venv/bin/python", "told it has no module named x"]
    assert await failing(kernel) == "it has no module named x"


@pytest.mark.promise("P93")
async def test_a_command_that_takes_long_refuses_the_upgrade_for_now(autojump_clock: trio.testing.MockClock) -> None:
    kernel = Kernel()
    kernel.commands = ["git-3"]
    assert await failing(kernel) == "command git-3 is running: retry"
    assert kernel.said[-3:] == ["opened", "goes on", "told command git-3 is running: retry"]


@pytest.mark.promise("P93")
async def test_a_node_that_does_not_answer_refuses_the_upgrade_for_now(autojump_clock: trio.testing.MockClock) -> None:
    kernel = Kernel()
    away = kernel.running["i1"] = Attempt(talks=False, hands_over=False, node="g1")
    assert await failing(kernel) == "i1-1 has not left node g1: retry"
    assert away.stopped == ["upgrade"]
    assert kernel.said[-3:-1] == ["opened", "goes on"]


@pytest.mark.promise("P93")
async def test_a_worker_that_takes_long_to_start_is_put_back_and_a_commit_refuses_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    kernel = Kernel()
    starting, far, ending = Attempt(talks=False, hands_over=False), Attempt(hands_over=False), Attempt()
    ending.talks = ending.hands_over = False
    ending.completing = True
    kernel.running = {"i1": starting, "i2": far, "i3": ending}
    reason = await failing(kernel)
    assert (starting.stopped, far.stopped, ending.stopped) == (["upgrade"], ["upgrade"], [])
    assert "i1-1 starts or ends" in reason
    assert "i1-1 cannot be handed over" in reason


@pytest.mark.promise("P93")
async def test_a_conversation_that_does_not_come_to_a_stop_lets_all_go_on(
    autojump_clock: trio.testing.MockClock,
) -> None:
    kernel = Kernel()
    stands, never = Attempt(), Attempt()
    kernel.running = {"i1": stands, "i2": never}
    asked, went_on = trio.Event(), trio.Event()
    stands.pause = PauseThatTells(told=asked)

    async def converse() -> None:
        await asked.wait()
        await stands.pause.wait()
        went_on.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(converse)
        assert await failing(kernel) == "a commit takes too long: retry"
        await went_on.wait()
    assert not never.pause.asked


async def test_what_a_bug_of_ours_breaks_goes_on_too(autojump_clock: trio.testing.MockClock) -> None:
    def breaks() -> str:
        raise ZeroDivisionError

    assert await failing(Kernel(breaks)) == "internal error (ZeroDivisionError); see kernel.log"


def test_the_wait_is_bounded() -> None:
    assert service.SETTLE_SECONDS + service.PUT_BACK_SECONDS + service.PAUSE_SECONDS <= 30
