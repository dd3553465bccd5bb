"""What happens to a world, decided in full before it begins: a seed expands to a plan, and a plan prints.

Times are virtual seconds. Deaths of workers are by number of spawn, deaths of kernels by number of commit, so that they
fall on exact points and not near them.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Final, Literal

from tests.sim.polls import POLLS

AGENTS: Final = ("alice", "bob", "carol", "dave")
PROVIDER_OF: Final = {"alice": "anthropic", "bob": "anthropic", "carol": "openai", "dave": "openai"}
TEAM: Final = "team:main"
WATCH: Final = "watch:main"
CALL_TOKENS: Final = 15
"""What each call of the simulated model takes."""
SPAN_SECONDS: Final = 120.0
"""In which everything is sent and done; faults may last longer."""

Sky = Literal["rate", "auth", "quota", "overloaded", "network", "slow", "hang"]
Fate = Literal[
    "killed before entry", "killed after entry", "killed in tool", "frozen", "silent exit", "garbage", "never ready",
    "spawn refused",
]  # fmt: skip
Deed = Literal[
    "pause", "resume", "reset", "pause workflow", "resume workflow", "cancel", "promote", "retry", "wall jump",
    "stop workflow",
]  # fmt: skip
Verdict = Literal["approve", "deny", "always"]


@dataclass(frozen=True, slots=True)
class Send:
    """A message of the user; ``to`` and mentions in the text say whom it wakes. ``label`` is its name in all logs."""

    at: float
    label: str
    space: str
    to: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Weather:
    """What a provider does to every call from ``at`` on, for a while."""

    at: float
    seconds: float
    provider: str
    sky: Sky
    retry_after: float | None


@dataclass(frozen=True, slots=True)
class Doom:
    """What becomes of the ``spawn``-th worker, at its entry ``k``."""

    spawn: int
    fate: Fate
    k: int


@dataclass(frozen=True, slots=True)
class Death:
    """A kernel is killed at its world's ``commit``-th commit: before it, or before anybody hears of it."""

    commit: int
    durable: bool


@dataclass(frozen=True, slots=True)
class Act:
    """Something a person, or the machine's clock, does. ``number`` counts instructions, or is seconds of a jump."""

    at: float
    deed: Deed
    agent: str = ""
    number: int = 0


@dataclass(frozen=True, slots=True)
class Decide:
    """Somebody looks at what waits for an approval, and decides about the first ``count`` of it."""

    at: float
    verdict: Verdict
    count: int


@dataclass(frozen=True, slots=True)
class Poll:
    """A person puts something to the vote of the team, and may vote, or take it back."""

    at: float
    label: str
    kind: int
    """Of tests.sim.polls."""
    vote: float | None
    cancel: float | None


@dataclass(frozen=True, slots=True)
class Run:
    """Somebody runs a workflow of ``agents``: it ends by itself. None: without that limit."""

    at: float
    label: str
    agents: tuple[str, ...]
    kickoff: str
    hops: int
    instructions: int
    tokens: int | None
    seconds: float | None
    attended: bool = False
    """Somebody watches who may approve: it waits for that."""

    @property
    def space(self) -> str:
        return f"{self.label}:main"


@dataclass(frozen=True, slots=True)
class Watch:
    """A workflow is started in which ``agent`` wakes every ``wakeup`` seconds, and stopped at ``until``."""

    at: float
    until: float
    agent: str
    wakeup: int


@dataclass(frozen=True, slots=True)
class Plan:
    seed: int
    workers: int
    sends: tuple[Send, ...]
    weather: tuple[Weather, ...] = ()
    dooms: tuple[Doom, ...] = ()
    deaths: tuple[Death, ...] = ()
    acts: tuple[Act, ...] = ()
    runs: tuple[Run, ...] = ()
    watches: tuple[Watch, ...] = ()
    decides: tuple[Decide, ...] = ()
    polls: tuple[Poll, ...] = ()

    def __str__(self) -> str:
        return "\n".join([f"seed {self.seed}, {self.workers} workers", *self._lines()])

    def _lines(self) -> Iterator[str]:
        faults = (self.sends, self.weather, self.dooms, self.deaths, self.acts, self.runs, self.watches)
        for part in (*faults, self.decides, self.polls):
            for one in part:
                told = ", ".join(f"{field.name}={getattr(one, field.name)!r}" for field in fields(one))
                yield f"  {type(one).__name__.lower()}: {told}"


def expand(seed: int) -> Plan:
    """The plan of ``seed``. Every kind of fault is left out of some plans, so that none hides another."""
    chance, more = random.Random(seed), random.Random(f"more of {seed}")
    agents = AGENTS[: chance.randint(2, len(AGENTS))]
    count = chance.choice((4, 8, 8, 12, 20))
    often = chance.random
    workers = chance.choice((1, 2, 4, 8))
    leave = random.Random(f"approvals of {seed}")
    risky = leave.random() < 0.4
    ballot = random.Random(f"ballots of {seed}")
    voting = ballot.random() < 0.4
    sends = sorted((_send(chance, number, agents) for number in range(count)), key=lambda one: one.at)
    return Plan(
        seed=seed,
        workers=workers,
        sends=tuple(_polled(ballot, _riskier(leave, _harder(more, one, agents), risky), voting) for one in sends),
        weather=tuple(_weather(chance) for _ in range(chance.randint(1, 3))) if often() < 0.6 else (),
        dooms=(
            *(tuple(_doom(chance, count) for _ in range(chance.randint(1, 4))) if often() < 0.6 else ()),
            *(Doom(leave.randint(1, count + 4), "killed in tool", 0) for _ in range(leave.choice((0, 3)) * risky)),
        ),
        deaths=_deaths(chance, count) if often() < 0.6 else (),
        acts=_acts(chance, agents, count) if often() < 0.6 else (),
        runs=tuple(
            _watched(leave, _run(more, number, agents), risky) for number in range(more.choice((0, 0, 1, 1, 2)))
        ),
        watches=(_watch(more, agents),) if more.random() < 0.3 else (),
        decides=_decides(leave) if risky else (),
        polls=_polls(ballot) if voting else (),
    )


def _send(chance: random.Random, number: int, agents: tuple[str, ...]) -> Send:
    label = f"m{number}"
    agent = chance.choice(agents)
    others = [one for one in agents if one != agent]
    work = f"job {label}: do {chance.choice((1, 1, 2, 3, 5))}"
    if chance.random() < 0.4:
        work += f"; touch {chance.randint(0, 2)}"
    if chance.random() < 0.4:
        work += f"; tell {chance.randint(0, 2)} {chance.choice(others)}"
    if chance.random() < 0.3:
        work += f"; pass {chance.choice(others)}"
    at = round(chance.random() ** 2 * SPAN_SECONDS, 3)
    match chance.choice(("personal", "direct", "direct", "mention")):
        case "personal":
            return Send(at, label, f"dm:{agent}", (), f"{work}.")
        case "direct":
            return Send(at, label, TEAM, (agent,), f"{work}.")
        case _:
            return Send(at, label, TEAM, (), f"@{agent} {work}.")


def _harder(chance: random.Random, send: Send, agents: tuple[str, ...]) -> Send:
    more = ""
    if chance.random() < 0.25:
        more += f"; ask {chance.randint(0, 2)} {chance.choice(agents)}"
    if chance.random() < 0.1:
        more += f"; long {chance.randint(0, 2)}"
    return replace(send, text=f"{send.text[:-1]}{more}.")


def _riskier(chance: random.Random, send: Send, risky: bool) -> Send:
    if not risky or chance.random() < 0.5:
        return send
    word = chance.choice(("risk", "risk", "hold"))
    return replace(send, text=f"{send.text[:-1]}; {word} {chance.randint(0, 2)}.")


def _polled(chance: random.Random, send: Send, voting: bool) -> Send:
    if not voting or chance.random() < 0.7:
        return send
    return replace(send, text=f"{send.text[:-1]}; poll {chance.randint(0, 1)} {chance.randrange(len(POLLS))}.")


def _polls(chance: random.Random) -> tuple[Poll, ...]:
    return tuple(_poll(chance, number) for number in range(chance.choice((0, 1, 3))))


def _poll(chance: random.Random, number: int) -> Poll:
    at = round(chance.random() * SPAN_SECONDS, 3)
    vote = chance.choice((None, at + 1.0, at + 15.0))
    cancel = chance.choice((None, None, at + 0.5, at + 12.0))
    return Poll(at, f"u{number}", chance.randrange(len(POLLS)), vote, cancel)


def _watched(chance: random.Random, run: Run, risky: bool) -> Run:
    if not risky:
        return run
    kickoff = f"{run.kickoff[:-1]}; risk {chance.randint(0, 1)}."
    return replace(run, kickoff=kickoff, attended=chance.random() < 0.5)


def _decides(chance: random.Random) -> tuple[Decide, ...]:
    verdicts: tuple[Verdict, ...] = ("approve", "approve", "deny", "always")
    times = sorted(round(chance.random() * SPAN_SECONDS, 3) for _ in range(chance.choice((0, 2, 6))))
    return tuple(Decide(at, chance.choice(verdicts), chance.choice((1, 3))) for at in times)


def _run(chance: random.Random, number: int, agents: tuple[str, ...]) -> Run:
    label = f"r{number}"
    lead = chance.choice(agents)
    work = f"@{lead} job {label}: do {chance.choice((1, 2, 3))}"
    for word in ("ask", "tell"):
        if chance.random() < 0.5:
            work += f"; {word} {chance.randint(0, 1)} {chance.choice(agents)}"
    if chance.random() < 0.5:
        work += f"; pass {chance.choice(agents)}"
    return Run(
        at=round(chance.random() * SPAN_SECONDS, 3),
        label=label,
        agents=agents,
        kickoff=f"{work}.",
        hops=chance.choice((1, 2, 32)),
        instructions=chance.choice((1, 2, 1000)),
        tokens=chance.choice((None, None, CALL_TOKENS, 4 * CALL_TOKENS)),
        seconds=chance.choice((None, None, 5.0, 60.0)),
    )


def _watch(chance: random.Random, agents: tuple[str, ...]) -> Watch:
    at = round(chance.random() * SPAN_SECONDS / 2, 3)
    return Watch(at, at + chance.choice((20.0, 60.0)), chance.choice(agents), chance.choice((3, 10, 30)))


def _weather(chance: random.Random) -> Weather:
    sky: Sky = chance.choice(("rate", "rate", "auth", "quota", "overloaded", "overloaded", "network", "slow", "hang"))
    retry_after = chance.choice((None, 0.0, 1.0, 7.5, 30.0, 90.0)) if sky in {"rate", "overloaded"} else None
    return Weather(
        at=round(chance.random() * SPAN_SECONDS, 3),
        seconds=chance.choice((1.0, 10.0, 60.0, 300.0)),
        provider=chance.choice(("anthropic", "openai")),
        sky=sky,
        retry_after=retry_after,
    )


def _doom(chance: random.Random, count: int) -> Doom:
    fates: tuple[Fate, ...] = (
        "killed before entry", "killed before entry", "killed after entry", "killed after entry", "killed in tool",
        "frozen", "silent exit", "garbage", "never ready", "spawn refused",
    )  # fmt: skip
    return Doom(spawn=chance.randint(1, count + 4), fate=chance.choice(fates), k=chance.randint(0, 4))


def _deaths(chance: random.Random, count: int) -> tuple[Death, ...]:
    commits = sorted(chance.sample(range(3, 12 * count), chance.randint(1, 4)))
    return tuple(Death(commit, chance.random() < 0.5) for commit in commits)


def _acts(chance: random.Random, agents: tuple[str, ...], count: int) -> tuple[Act, ...]:
    acts: list[Act] = []
    for _ in range(chance.randint(1, 5)):
        at = round(chance.random() * SPAN_SECONDS, 3)
        agent = chance.choice(agents)
        match chance.choice(
            ("pause", "pause", "pause workflow", "cancel", "promote", "retry", "wall jump", "stop", "reset")
        ):
            case "pause":
                acts += [Act(at, "pause", agent), Act(at + chance.choice((1.0, 30.0, 100.0)), "resume", agent)]
            case "pause workflow":
                acts += [Act(at, "pause workflow"), Act(at + chance.choice((1.0, 30.0, 100.0)), "resume workflow")]
            case "cancel" | "promote" | "retry" as deed:
                acts.append(Act(at, deed, number=chance.randint(1, count)))
            case "reset":
                acts.append(Act(at, "reset", agent))
            case "stop":
                acts.append(Act(at, "stop workflow"))
            case _:
                acts.append(Act(at, "wall jump", number=chance.choice((-31_536_000, -3600, 3600, 31_536_000))))
    return tuple(sorted(acts, key=lambda one: one.at))
