"""Needs of a person, out of a snapshot of what stands still, and the commands that settle them. Pure.

One definition: the list, its number in ``ps``, ``top`` and ``status``, and the exit code of ``awk needs`` come from
here. What a person decided is no need: a pause, a stop. Nor is what ends by itself, by a time or somebody's try.

A command settles its need: it is gone, or something goes on. Where the cause is still there (a key that is still
refused) it comes back as a new one.
"""

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final, TypeVar

import msgspec

from kernel.policy.agent_status import readiness
from kernel.policy.open_items import (
    BlockedWork,
    DeadInstruction,
    Elector,
    ErrorAgent,
    LimitedRun,
    PendingProposal,
    Proposed,
    Question,
    Request,
    Snapshot,
    StuckTask,
    StuckWebhook,
    SuggestedSoul,
    Untrusted,
)
from kernel.policy.voting import Decided, Undecided, tally
from protocol.api.needs import Need, NeedAction, NeedKind
from protocol.message import USER
from protocol.names import base_space, instruction_id, run_id, split_space
from protocol.target import Target

V = TypeVar("V")
TEXT_CHARACTERS: Final = 200
"""Of what agents wrote, in the text of a need: the whole of it is shown by the command that shows the thing."""
CANCELLED_AT_ONCE: Final = 20
"""Of what waits for a key, so that a command stays one that can be read."""


def needs(state: Snapshot) -> tuple[Need, ...]:
    """Return what needs a person, the most pressing kind first; of what is dead as much as ``state`` has."""
    return tuple(make() for make in _found(state))


def count(state: Snapshot) -> int:
    """Return how many there are, also of those that ``state`` leaves out."""
    return sum(1 for _ in _found(state)) - len(state.dead) + state.dead_total


Make = Callable[[], Need]


def _found(state: Snapshot) -> Iterator[Make]:
    """A maker of each need, so that who only counts them makes none."""
    yield from (partial(_request, request) for request in state.requests)
    yield from (partial(_question, question) for question in state.questions)
    yield from (partial(_vote, vote) for vote in state.votes if needs_person(vote))
    yield from (partial(_agent_error, agent) for agent in state.errors)
    waiting: dict[tuple[NeedKind, str], list[BlockedWork]] = {}
    for blocked in state.blocked:
        cause = _cause(blocked, state.probed)
        if cause is not None:
            waiting.setdefault(cause, []).append(blocked)
    limited = {one.run: one for one in state.limited}
    for (kind, key), group in waiting.items():
        if kind == "limit" and group[0].limited_by and group[0].run is not None:
            limited.pop(group[0].run, None)
        yield partial(_WAITS[kind], kind, key, group)
    for run in limited.values():
        yield partial(_limited_run, run)
    yield from (partial(_task, task) for task in state.tasks if task.held_by or task.left or not task.working)
    yield from (partial(_untrusted, file) for file in state.untrusted)
    yield from (partial(_webhook, hook) for hook in state.webhooks)
    yield from (partial(_memory, proposed) for proposed in state.trays)
    yield from (partial(_soul, suggested) for suggested in state.souls)
    for dead in state.dead:
        yield partial(_dead, dead)


def _request(one: Request) -> Need:
    return Need(
        kind="approval",
        id=one.id,
        agent=one.name,
        space=one.space,
        run=_run(one.run),
        since=one.since,
        blocks=(instruction_id(one.instruction),),
        text=_line(f"{one.name} wants to call {one.tool}"),
        actions=(_action("approve", f"approve {one.id}"), _action("deny", f"deny {one.id}")),
    )


def _question(one: Question) -> Need:
    return Need(
        kind="answer",
        id=one.id,
        agent=one.name,
        space=one.space,
        run=_run(one.run),
        since=one.since,
        blocks=(one.id,),
        text=_line(f"{one.name} is asked: {one.asked}"),
        actions=(
            _action("answer it, in your own words for these", f"answer {one.id} done"),
            _action("take it back", f"cancel {one.id}"),
        ),
    )


def needs_person(one: PendingProposal) -> bool:
    """Return whether a vote waits for the user: who is an elector; or, of one that is binding, nobody else can.

    A member that has not voted can still do so by itself while work of its own goes on there; one without work, while
    anything does that may wake it. Who called for the vote may break a tie in the same way.
    """
    counting = one.counting
    if USER in counting.electors and USER not in one.votes:
        return True
    if not one.binding and not counting.grants:
        return False
    stands = tally(counting, one.votes, one.opened_ms)
    missing = counting.electors - one.votes.keys()
    voters = {one.creator} if isinstance(stands, Undecided) and stands.tied else missing
    return not any(_can_vote(one.electors.get(name), one) for name in voters)


def _can_vote(elector: Elector | None, vote: PendingProposal) -> bool:
    if elector is None or elector.held:
        return False
    return bool(elector.work - {"person"}) if elector.work else vote.working


def _vote(one: PendingProposal) -> Need:
    workflow, tag = split_space(one.space)
    named = str(Target(one.name, workflow, tag))
    decisive: list[NeedAction] = []
    for option in one.counting.options:
        outcome = tally(one.counting, {**one.votes, USER: option}, one.opened_ms)
        is_ours = USER in one.counting.electors
        if USER not in one.votes and (is_ours or isinstance(outcome, Decided)):
            decisive.append(_action(f"vote {option}", f"proposal vote {named} {option}"))
    cancel = _action("call it off", f"proposal cancel {named}")
    return Need(
        kind="vote",
        id=one.name,
        space=one.space,
        run=_run(one.run),
        since=one.since,
        blocks=(run_id(one.run),),
        text=_line(f"{one.name} waits for your vote: {one.title}"),
        actions=(*decisive, cancel),
    )


def _agent_error(one: ErrorAgent) -> Need:
    target = _target(one.name, one.space)
    why = f": {one.reason}" if one.reason else ""
    return Need(
        kind="agent_error",
        id=target,
        agent=one.name,
        space=one.space,
        since=one.since,
        blocks=tuple(map(instruction_id, one.blocks)),
        text=_line(f"{one.name} is in error{why}"),
        actions=(_action("give it work again", f"reset {target}"),),
    )


def _cause(one: BlockedWork, probed: frozenset[str]) -> tuple[NeedKind, str] | None:
    """Return what a person has to end for it to go on, and for what else; None where nobody has to, or it is told
    otherwise: an approval, an agent in error, whom an instruction waits for.
    """
    now_ms = 0  # whether a time has come makes no difference to what waits for a person
    stands = readiness(
        one.state,
        one.waits_for,
        one.not_before_ms,
        one.agent_state,
        one.hold_reason,
        one.hold_until_ms,
        0,
        now_ms,
    )
    kind = _KINDS.get(stands.reason or "")
    if stands.kind != "person" or kind is None:
        return None
    if kind == "answer":
        return None if one.asks else (kind, one.agent)
    if kind == "limit":
        return kind, f"run {one.run}" if one.limited_by else f"agent {one.agent}"
    own = one.state == "waiting" and one.waits_for == stands.reason
    key = (one.wait_key if own else one.hold_key) or f"agent:{one.agent}"
    return None if key in probed else (kind, key)


_KINDS: Final[Mapping[str, NeedKind]] = MappingProxyType(
    {"credentials": "credentials", "quota": "quota", "budget": "limit", "hops": "limit", "answer": "answer"}
)


def _provider(kind: NeedKind, key: str, group: Sequence[BlockedWork]) -> Need:
    """A provider that refuses, or a key that is missing: one thing to mend, however many wait for it."""
    first = min(group, key=lambda one: (one.agent_state != "active", one.blocks))
    named = _target(first.name, first.home)
    agents = len({one.agent for one in group})
    blocks = _blocks(group)
    provider = key.partition("#")[0]
    who = first.name if agents == 1 else f"{agents} agents"
    if kind == "quota":
        why = f"the quota of {provider} is used up"
    elif first.missing is not None:
        why = f"{first.missing}; set it, then awk restart --kernel from that shell"
    else:
        why = f"{provider} refused the key; set another one, then awk restart --kernel from that shell"
    cancel = [_action("take it back", f"cancel {' '.join(blocks)}")] if len(blocks) <= CANCELLED_AT_ONCE else []
    return Need(
        kind=kind,
        id=named,
        agent=first.name if agents == 1 else None,
        space=_common(one.space for one in group),
        run=_run(_common(one.run for one in group)),
        since=min(one.since for one in group),
        blocks=blocks,
        text=_line(f"{who} cannot go on: {why}"),
        actions=(_action("try again", f"reset {named}"), *cancel),
    )


def _limit(_kind: NeedKind, _key: str, group: Sequence[BlockedWork]) -> Need:
    first = group[0]
    if first.limited_by and first.run is not None:
        limit = LimitedRun(run=first.run, space=first.space, by=first.limited_by)
        return msgspec.structs.replace(
            _limited_run(limit), since=min(one.since for one in group), blocks=_blocks(group)
        )
    named = _target(first.name, first.home)
    return Need(
        kind="limit",
        id=named,
        agent=first.name,
        space=_common(one.space for one in group),
        run=_run(_common(one.run for one in group)),
        since=min(one.since for one in group),
        blocks=_blocks(group),
        text=_line(f"{first.name} has used up its budget"),
        actions=(_action("grant it once more", f"continue {named}"),),
    )


def _limited_run(one: LimitedRun) -> Need:
    named = str(Target(None, *split_space(base_space(one.space))))  # what a run may is the run's, in all its spaces
    return Need(
        kind="limit",
        id=run_id(one.run),
        space=base_space(one.space),
        run=run_id(one.run),
        text=_line(f"{named} has reached a limit: {one.by}"),
        actions=(_action("grant it once more", f"continue {named}"), _action("stop it", f"stop {named}")),
    )


def _answer(kind: NeedKind, _key: str, group: Sequence[BlockedWork]) -> Need:
    first, blocks = group[0], _blocks(group)
    return Need(
        kind=kind,
        id=blocks[0],
        agent=first.name,
        space=_common(one.space for one in group),
        run=_run(_common(one.run for one in group)),
        since=min(one.since for one in group),
        blocks=blocks,
        text=_line(f"{first.name} waits for an answer that nobody is left to give"),
        actions=(_action("take it back", f"cancel {' '.join(blocks)}"),),
    )


_WAITS: Final[Mapping[NeedKind, Callable[[NeedKind, str, Sequence[BlockedWork]], Need]]] = MappingProxyType(
    {"credentials": _provider, "quota": _provider, "limit": _limit, "answer": _answer}
)


def _task(one: StuckTask) -> Need:
    task = one.task
    named = str(Target(None, *split_space(task.space)))
    drop = _action("drop it", f"task cancel {named} {task.id}")
    if one.held_by:
        lost = ", ".join(one.held_by)
        why = f"waits for {lost}, which is not done and will not be"
        actions = (_action(f"count {lost} as done", f"task done {named} {' '.join(one.held_by)}"), drop)
    else:
        why = f"was left by {task.for_}, whose work has ended" if one.left else "is ready, and nobody claims it"
        actions = (_action("it is done", f"task done {named} {task.id}"), drop)
    return Need(
        kind="task",
        id=task.id,
        agent=task.for_,
        space=task.space,
        run=run_id(one.run),
        since=task.ready_at,
        blocks=task.blocks,
        text=_line(f"{task.id} ({task.title}) {why}"),
        actions=actions,
    )


def _memory(one: Proposed) -> Need:
    tray = f"agent memory {one.name} tray"
    return Need(
        kind="memory",
        id=one.id,
        agent=one.name,
        space=one.space,
        run=_run(one.run),
        since=one.since,
        text=_line(f"{one.name} may want to remember {one.key}: {one.value}"),
        actions=(_action("remember it", f"{tray} approve {one.id}"), _action("do not", f"{tray} reject {one.id}")),
    )


def _soul(one: SuggestedSoul) -> Need:
    soul = f"agent soul {one.name}"
    return Need(
        kind="soul",
        id=one.id,
        agent=one.name,
        run=_run(one.run),
        since=one.since,
        text=_line(f"{one.name} suggests for its {one.trait}: {one.value}"),
        actions=(_action("take it", f"{soul} approve {one.id}"), _action("do not", f"{soul} reject {one.id}")),
    )


def _untrusted(one: Untrusted) -> Need:
    many = "a schedule does" if one.count == 1 else f"{one.count} schedules do"
    text = _line(f"{many} not run until you trust {one.file}")
    keep = _action("look at it and keep it", f"trust --yes {shlex.quote(one.file)}")
    return Need(kind="trust", id=one.file, text=text, actions=(keep,))


def _webhook(one: StuckWebhook) -> Need:
    why = "wants to be told nothing more (410)" if one.ended else f"cannot be told: a delivery failed {one.tries} times"
    if one.why:
        why = f"takes no spans: {one.why}"
    text = _line(f"{one.host or 'a server'} {why}; mend it, or take it out of the project file")
    return Need(kind="webhook", id=one.id, text=text, actions=(_action("try again", f"webhook retry {one.id}"),))


def _dead(one: DeadInstruction) -> Need:
    why = f" ({one.cause})" if one.cause else ""
    said = f": {one.text}" if one.text.strip() else ""
    retry = [_action("try it again", f"retry {one.id}")] if one.retriable else []
    return Need(
        kind="dead",
        id=one.id,
        agent=one.name,
        space=one.space,
        run=_run(one.run),
        since=one.since,
        text=_line(f"{one.name}: {one.id} ended {one.status}{why}{said}"),
        actions=(*retry, _action("list all that failed no more", "dead --clear")),
    )


def _action(label: str, command: str) -> NeedAction:
    return NeedAction(label=label, command=f"awk {command}")


def _target(name: str, space: str | None) -> str:
    """The spelling of an agent; one that lives inside a workflow is named with that."""
    return name if space is None else str(Target(name, *split_space(space)))


def _run(number: int | None) -> str | None:
    return None if number is None else run_id(number)


def _blocks(group: Sequence[BlockedWork]) -> tuple[str, ...]:
    return tuple(instruction_id(number) for number in sorted(number for one in group for number in one.blocks))


def _common(values: Iterable[V]) -> V | None:
    """The one value that all have; None where they differ."""
    found = set(values)
    return found.pop() if len(found) == 1 else None


def _line(text: str) -> str:
    """``text`` on one line, cut: it may be an agent's."""
    line = " ".join(text.split())
    return line if len(line) <= TEXT_CHARACTERS else f"{line[: TEXT_CHARACTERS - 1]}…"
