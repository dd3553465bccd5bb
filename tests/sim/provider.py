"""The providers of the simulation: they answer, or do what the weather says, and remember who asked too early."""

import random
from dataclasses import dataclass, field
from typing import Final

import trio

from tests.sim.chance import pass_seconds
from tests.sim.plan import Sky, Weather
from tests.sim.witness import Witness
from worker.models.model import Failed, cause_of

STATUS: Final[dict[Sky, int | None]] = {"rate": 429, "auth": 401, "quota": 402, "overloaded": 529, "network": None}
"""Skies under which a call fails, and with what. None: no answer at all."""
SLOW_SECONDS: Final = (10.0, 45.0)
USUAL_SECONDS: Final = (0.05, 1.5)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: one attempt."""

    instruction: str
    attempt: str
    provider: str
    model: str
    born: float
    """When its worker was started."""


@dataclass(slots=True)
class Floor:
    """A Retry-After that the kernel has heard of: nobody who starts later may ask before ``until``."""

    instruction: str
    heard: float
    until: float
    alone: bool
    """One overload says little: only who met it is bound."""


@dataclass
class Providers:
    witness: Witness
    chance: random.Random
    weather: tuple[Weather, ...] = ()
    healed: bool = False
    calls: int = 0
    asked: list[tuple[float, str]] = field(default_factory=list)
    """When, and by which instruction."""
    refused: dict[str, tuple[Caller, float]] = field(default_factory=dict)
    """By attempt: told to wait, until when; the kernel may not have heard of it."""
    floors: dict[tuple[str, str], list[Floor]] = field(default_factory=dict)

    def heal(self) -> None:
        self.healed = True

    def heard(self, attempt: str, cause: str) -> None:
        """The kernel has booked that ``attempt`` was told to wait."""
        if attempt in self.refused:
            caller, until = self.refused.pop(attempt)
            floor = Floor(caller.instruction, trio.current_time(), until, alone=cause != "rate_limited")
            self.floors.setdefault((caller.provider, caller.model), []).append(floor)

    def forgive(self) -> None:
        self.floors.clear()

    async def answer(self, caller: Caller) -> None:
        """Return when there is an answer. Raises Failed as the weather has it."""
        now = trio.current_time()
        self.calls += 1
        self.asked.append((now, caller.instruction))
        self._check_patience(caller, now)
        weather = self._over(caller.provider, now)
        sky = None if weather is None else weather.sky
        self.witness.note(now, "asked", caller.attempt, caller.provider, sky or "clear")
        if weather is None or sky is None:
            await pass_seconds(self.chance.uniform(*USUAL_SECONDS))
        elif sky == "slow":
            await pass_seconds(self.chance.uniform(*SLOW_SECONDS))
        elif sky == "hang":
            await trio.sleep_forever()
        else:
            await pass_seconds(0.05)
            self._fail(caller, sky, weather.retry_after)

    def _fail(self, caller: Caller, sky: Sky, retry_after: float | None) -> None:
        status = STATUS[sky]
        if retry_after is not None:
            self.refused[caller.attempt] = (caller, trio.current_time() + retry_after)
        if status is None:
            raise Failed("network", "connection reset")
        raise Failed(cause_of(status, ()), f"HTTP {status}", http_status=status, retry_after_seconds=retry_after)

    def _over(self, provider: str, now: float) -> Weather | None:
        if self.healed:
            return None
        over = (one for one in self.weather if one.provider == provider and one.at <= now < one.at + one.seconds)
        return next(over, None)

    def _check_patience(self, caller: Caller, now: float) -> None:
        for floor in self.floors.get((caller.provider, caller.model), ()):
            bound = caller.instruction == floor.instruction or (caller.born > floor.heard and not floor.alone)
            if bound and now < floor.until - 0.001:
                text = f"{caller.attempt} asked {floor.until - now:.3f} s before Retry-After was over"
                self.witness.blame(now, "P12", text)
