"""Derives the needs of a person from a snapshot of blocked work, with the commands that settle them. Pure.

The list of needs, its count in ``ps``, ``top`` and ``status``, and the exit code of ``awk needs`` all come from here.
A person's own decision (pause, stop) is no need, and neither is a wait that ends without a person.

A command settles its need: the need disappears or work continues. If the cause remains (a key that is still refused),
a new need appears.

All work that is blocked for the same reason (a key, a quota, a limit, an answer, a machine) is one need.
"""

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec

from kernel.policy.open_items import (
    BlockedWork,
    DeadInstruction,
    Elector,
    ErrorAgent,
    LimitedRun,
    OpenDecision,
    OpenItem,
    PendingProposal,
    PersonQuestion,
    Request,
    SilentStep,
    Snapshot,
    StuckTask,
    StuckWebhook,
    UntrustedSchedules,
    action,
    blocks_of,
    common,
    one_line,
    run_of,
    target_of,
)
from kernel.policy.voting import Decided, Undecided, tally
from protocol.api.approvals import Need, NeedAction, NeedKind
from protocol.limits import PlaceNeeds
from protocol.message import USER
from protocol.names import base_space, instruction_id, run_id, split_space
from protocol.target import Target

CANCELLED_AT_ONCE: Final = 20
"""Limit of instructions in one suggested command, so that it stays readable."""


def cause(one: BlockedWork, probed: frozenset[str]) -> tuple[NeedKind, str] | None:
    """Return the kind and the key of the need of ``one``; work with the same key is one need.

    None: no person is needed, or another need covers the work (an approval, an agent in error, an
    instruction that waits for another). ``probed``: breakers with a running probe.
    """
    stands = one.readiness(0)  # the current time does not matter to work that waits for a person
    kind = _KINDS.get(stands.reason or "")
    if stands.kind != "person" or kind is None:
        return None
    if kind == "answer":
        return None if one.asks else (kind, one.agent)
    if kind == "node":
        return kind, "\0".join((one.agent, *(_asked(one.needs) if one.needs else ())))
    if kind == "limit":
        return kind, f"run {one.run}" if one.limited_by else f"agent {one.agent}"
    own = one.state == "waiting" and one.waits_for == stands.reason
    key = (one.wait_key if own else one.hold_key) or f"agent:{one.agent}"
    return None if key in probed else (kind, key)


def _asked(needs: PlaceNeeds) -> tuple[str, ...]:
    memory = f"{needs.memory / 2**30:g} GiB of memory" if needs.memory else ""
    gpus = f"{needs.gpus} GPUs" if needs.gpus else ""
    return tuple(filter(None, (f"labels {', '.join(needs.labels)}" if needs.labels else "", memory, gpus)))


_KINDS: Mapping[str, NeedKind] = {
    "credentials": "credentials",
    "quota": "quota",
    "budget": "limit",
    "hops": "limit",
    "answer": "answer",
    "node": "node",
}


def _stuck(
    kind: NeedKind, group: Sequence[BlockedWork], id: str, text: str, *actions: NeedAction, agent: str | None
) -> Need:
    return Need(
        kind=kind,
        id=id,
        agent=agent,
        space=common(one.space for one in group),
        run=run_of(common(one.run for one in group)),
        since=min(one.since for one in group),
        blocks=blocks_of(group),
        text=one_line(text),
        actions=actions,
    )


def _cancel(group: Sequence[BlockedWork]) -> NeedAction:
    return action("cancel the work", f"cancel {' '.join(blocks_of(group))}")


def _few(group: Sequence[BlockedWork]) -> tuple[NeedAction, ...]:
    return (_cancel(group),) if len(blocks_of(group)) <= CANCELLED_AT_ONCE else ()


def _provider(kind: NeedKind, key: str, group: Sequence[BlockedWork]) -> Need:
    first = min(group, key=lambda one: (one.agent_state != "active", one.blocks))
    named = target_of(first.name, first.home)
    agents = len({one.agent for one in group})
    provider = key.partition("#")[0]
    who = first.name if agents == 1 else f"{agents} agents"
    if kind == "quota":
        why = f"quota of {provider} exhausted"
    elif first.missing is not None:
        why = f"{first.missing}; set it, then run awk restart --kernel in the same shell"
    else:
        why = f"{provider} rejected the key; set a valid one, then run awk restart --kernel in the same shell"
    again = action("try again", f"reset {named}")
    agent = first.name if agents == 1 else None
    return _stuck(kind, group, named, f"{who} blocked: {why}", again, *_few(group), agent=agent)


def _limit(_kind: NeedKind, _key: str, group: Sequence[BlockedWork]) -> Need:
    first = group[0]
    if first.limited_by and first.run is not None:
        limit = LimitedRun(run=first.run, space=first.space, by=first.limited_by)
        return msgspec.structs.replace(
            limited_run(limit), since=min(one.since for one in group), blocks=blocks_of(group)
        )
    named = target_of(first.name, first.home)
    more = action("grant the budget again", f"continue {named}")
    return _stuck("limit", group, named, f"{first.name} has exhausted its budget", more, agent=first.name)


def limited_run(one: LimitedRun) -> Need:
    """Return the need of a run that has reached a limit, even if no work of the run is waiting."""
    named = str(Target(None, *split_space(base_space(one.space))))  # limits belong to the run and span all its spaces
    return Need(
        kind="limit",
        id=run_id(one.run),
        space=base_space(one.space),
        run=run_id(one.run),
        text=one_line(f"{named} has reached its limit: {one.by}"),
        actions=(action("grant the limit again", f"continue {named}"), action("stop the workflow", f"stop {named}")),
    )


def _answer(kind: NeedKind, _key: str, group: Sequence[BlockedWork]) -> Need:
    name = group[0].name
    text = f"{name} waits for an answer, but no agent is left to give it"
    return _stuck(kind, group, blocks_of(group)[0], text, _cancel(group), agent=name)


def _node(kind: NeedKind, key: str, group: Sequence[BlockedWork]) -> Need:
    name, named = group[0].name, target_of(group[0].name, group[0].home)
    asked = " ".join(key.split("\0")[1:]) or "the required resources"
    text = f"{name} waits for a node with {asked}, but none is up; see awk node list"
    again = action("look for a node again", f"reset {named}")
    return _stuck(kind, group, named, text, again, *_few(group), agent=name)


MAKERS: Final[Mapping[NeedKind, Callable[[NeedKind, str, Sequence[BlockedWork]], Need]]] = {
    "credentials": _provider,
    "quota": _provider,
    "limit": _limit,
    "answer": _answer,
    "node": _node,
}


def needs(state: Snapshot) -> tuple[Need, ...]:
    """Return the needs, most urgent kind first. Of dead instructions, ``state`` may omit some."""
    return tuple(make() for make in _found(state))


def count(state: Snapshot) -> int:
    """Return the number of needs, including dead instructions that ``state`` omits."""
    return sum(1 for _ in _found(state)) - len(state.dead) + state.dead_total


Make = Callable[[], Need]


def _found(state: Snapshot) -> Iterator[Make]:
    """Yield a function that creates each need, so that ``count`` creates none."""
    if state.lost:
        text = one_line(f"{state.lost}: no work starts and no file is written until you restore it")
        stop = (action("stop the kernel of this project", "stop"),)
        yield partial(Need, kind="project", id="project", text=text, actions=stop)
    yield from (partial(_request, request) for request in state.requests)
    yield from (partial(_question, question) for question in state.questions)
    yield from (partial(_vote, vote) for vote in state.votes if needs_person(vote))
    yield from (partial(_agent_error, agent) for agent in state.errors)
    yield from (partial(_silent, step) for step in state.silent)
    waiting: dict[tuple[NeedKind, str], list[BlockedWork]] = {}
    for blocked in state.blocked:
        why = cause(blocked, state.probed)
        if why is not None:
            waiting.setdefault(why, []).append(blocked)
    limited = {one.run: one for one in state.limited}
    for (kind, key), group in waiting.items():
        if kind == "limit" and group[0].limited_by and group[0].run is not None:
            limited.pop(group[0].run, None)
        yield partial(MAKERS[kind], kind, key, group)
    for run in limited.values():
        yield partial(limited_run, run)
    yield from (partial(_task, task) for task in state.tasks if task.held_by or task.left or not task.working)
    yield from (partial(_untrusted, file) for file in state.untrusted)
    yield from (partial(_webhook, hook) for hook in state.webhooks)
    yield from (partial(_decision, decision) for decision in state.decisions)
    for dead in state.dead:
        yield partial(_dead, dead)


def _of(kind: NeedKind, one: OpenItem, text: str, *actions: NeedAction, blocks: tuple[str, ...] = ()) -> Need:
    return Need(
        kind=kind,
        id=one.id,
        agent=one.name,
        space=one.space,
        run=run_of(one.run),
        since=one.since,
        blocks=blocks,
        text=one_line(text),
        actions=actions,
    )


def _request(one: Request) -> Need:
    approve, deny = action("approve", f"approve {one.id}"), action("deny", f"deny {one.id}")
    blocks = (instruction_id(one.instruction),)
    text = f"{one.name} wants to call {one.tool}{f': {one.input}' if one.input else ''}"
    return _of("approval", one, text, approve, deny, blocks=blocks)


def _question(one: PersonQuestion) -> Need:
    answer = action("answer (replace 'done' in the command)", f"answer {one.id} done")
    cancel = action("cancel the question", f"cancel {one.id}")
    return _of("answer", one, f"{one.name} is asked: {one.asked}", answer, cancel, blocks=(one.id,))


def needs_person(one: PendingProposal) -> bool:
    """Return whether a vote waits for the user: as an elector, or because no other member can decide a binding vote.

    A member that has not voted can still vote while it has runnable work in the workspace, or, without work, while
    other work there may wake it. The same holds for the creator of the vote, who may break a tie.
    """
    ballot, votes = one.ballot, one.ballot.choices
    if USER in ballot.electors and USER not in votes:
        return True
    if not ballot.binding and not ballot.grants:
        return False
    stands = tally(ballot, votes, ballot.created_ms)
    missing = ballot.electors - votes.keys()
    voters = {ballot.creator} if isinstance(stands, Undecided) and stands.tied else missing
    return not any(_can_vote(one.electors.get(name), one) for name in voters)


def _can_vote(elector: Elector | None, vote: PendingProposal) -> bool:
    if elector is None or elector.held:
        return False
    return bool(elector.work - {"person"}) if elector.work else vote.working


def _vote(one: PendingProposal) -> Need:
    ballot, votes = one.ballot, one.ballot.choices
    named = str(Target(ballot.name, *split_space(one.space)))
    decisive: list[NeedAction] = []
    for option in ballot.options:
        outcome = tally(ballot, {**votes, USER: option}, ballot.created_ms)
        if USER not in votes and (USER in ballot.electors or isinstance(outcome, Decided)):
            decisive.append(action(f"vote {option}", f"proposal vote {named} {option}"))
    cancel = action("cancel the vote", f"proposal cancel {named}")
    return Need(
        kind="vote",
        id=ballot.name,
        space=one.space,
        run=run_of(ballot.run),
        since=one.since,
        blocks=(run_id(ballot.run),),
        text=one_line(f"{ballot.name} waits for your vote: {ballot.title}"),
        actions=(*decisive, cancel),
    )


def _agent_error(one: ErrorAgent) -> Need:
    target = target_of(one.name, one.space)
    why = f": {one.reason}" if one.reason else ""
    return Need(
        kind="agent_error",
        id=target,
        agent=one.name,
        space=one.space,
        since=one.since,
        blocks=tuple(map(instruction_id, one.blocks)),
        text=one_line(f"{one.name} is in error{why}"),
        actions=(action("re-enable the agent", f"reset {target}"),),
    )


def _silent(one: SilentStep) -> Need:
    doing = f" during {one.doing}" if one.doing else ""
    said = f"{one.name} has had no output since {one.since}{doing}"
    watch, cancel = action("watch it", f"attach {one.target}"), action("cancel the work", f"cancel {one.id}")
    again = action("try again", f"restart {one.target}")
    return _of("silent", one, said, watch, cancel, again, blocks=(one.id,))


def _task(one: StuckTask) -> Need:
    task = one.task
    named = str(Target(None, *split_space(task.space)))
    drop = action("cancel the task", f"task cancel {named} {task.id}")
    if one.held_by:
        lost = ", ".join(one.held_by)
        why = f"depends on {lost}, which will not be done"
        actions = (action(f"mark {lost} as done", f"task done {named} {' '.join(one.held_by)}"), drop)
    else:
        why = f"was left open by {task.for_}, which has no more work" if one.left else "is ready but unclaimed"
        actions = (action("mark the task as done", f"task done {named} {task.id}"), drop)
    return Need(
        kind="task",
        id=task.id,
        agent=task.for_,
        space=task.space,
        run=run_id(one.run),
        since=task.ready_at,
        blocks=task.blocks,
        text=one_line(f"{task.id} ({task.title}) {why}"),
        actions=actions,
    )


def _decision(one: OpenDecision) -> Need:
    take, leave = (action(word, f"{one.group}{word} {one.id}") for word in ("approve", "reject"))
    return _of(one.kind, one, one.text, take, leave)


def _untrusted(one: UntrustedSchedules) -> Need:
    many = "1 schedule does" if one.count == 1 else f"{one.count} schedules do"
    text = one_line(f"{many} not run until you trust {one.file}")
    keep = action("review and trust the file", f"trust --yes {shlex.quote(one.file)}")
    return Need(kind="trust", id=one.file, text=text, actions=(keep,))


def _webhook(one: StuckWebhook) -> Need:
    failed = "returned 410 Gone" if one.ended else f"unreachable: a delivery failed {one.tries} times"
    subject = one.host if one.why else f"Webhook {one.host or 'server'}"
    text = f"{subject} {one.why or failed}; fix the server, or remove it from the project file"
    again = action("try again", f"webhook retry {one.id}")
    if one.secret:
        text = f"events for {one.host} wait: {one.secret}; set it, then run the command in the same shell"
        again = action("restart the kernel", "restart --kernel")
    return Need(kind="webhook", id=one.id, text=one_line(text), actions=(again,))


def _dead(one: DeadInstruction) -> Need:
    why = f" ({one.cause})" if one.cause else ""
    said = f": {one.text}" if one.text.strip() else ""
    retry = [action("review and trust what it would run", "trust")] if one.cause == "untrusted" else []
    retry += [action("retry", f"retry {one.id}")] if one.retriable else []
    text = f"{one.name}: {one.id} ended {one.status}{why}{said}"
    return _of("dead", one, text, *retry, action("clear all dead instructions", "dead --clear"))
