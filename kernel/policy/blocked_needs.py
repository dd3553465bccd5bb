"""Needs of a person out of work that stands still: a key, a quota, a limit, an answer, a machine. Pure.

What stands still for the same reason is one need, however much of it there is.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from kernel.policy.agent_status import readiness
from kernel.policy.open_items import BlockedWork, LimitedRun, action, blocks_of, common, one_line, run_of, target_of
from protocol.api.needs import Need, NeedAction, NeedKind
from protocol.names import base_space, run_id, split_space
from protocol.placement import PlaceNeeds
from protocol.target import Target

CANCELLED_AT_ONCE: Final = 20
"""Of what waits for a key, so that a command stays one that can be read."""


def cause(one: BlockedWork, probed: frozenset[str]) -> tuple[NeedKind, str] | None:
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
    return action("take it back", f"cancel {' '.join(blocks_of(group))}")


def _few(group: Sequence[BlockedWork]) -> tuple[NeedAction, ...]:
    return (_cancel(group),) if len(blocks_of(group)) <= CANCELLED_AT_ONCE else ()


def _provider(kind: NeedKind, key: str, group: Sequence[BlockedWork]) -> Need:
    """A provider that refuses, or a key that is missing: one thing to mend, however many wait for it."""
    first = min(group, key=lambda one: (one.agent_state != "active", one.blocks))
    named = target_of(first.name, first.home)
    agents = len({one.agent for one in group})
    provider = key.partition("#")[0]
    who = first.name if agents == 1 else f"{agents} agents"
    if kind == "quota":
        why = f"the quota of {provider} is used up"
    elif first.missing is not None:
        why = f"{first.missing}; set it, then awk restart --kernel from that shell"
    else:
        why = f"{provider} refused the key; set another one, then awk restart --kernel from that shell"
    again = action("try again", f"reset {named}")
    agent = first.name if agents == 1 else None
    return _stuck(kind, group, named, f"{who} cannot go on: {why}", again, *_few(group), agent=agent)


def _limit(_kind: NeedKind, _key: str, group: Sequence[BlockedWork]) -> Need:
    first = group[0]
    if first.limited_by and first.run is not None:
        limit = LimitedRun(run=first.run, space=first.space, by=first.limited_by)
        return msgspec.structs.replace(
            limited_run(limit), since=min(one.since for one in group), blocks=blocks_of(group)
        )
    named = target_of(first.name, first.home)
    more = action("grant it once more", f"continue {named}")
    return _stuck("limit", group, named, f"{first.name} has used up its budget", more, agent=first.name)


def limited_run(one: LimitedRun) -> Need:
    """A run that has reached a limit, whether or not anything in it waits."""
    named = str(Target(None, *split_space(base_space(one.space))))  # what a run may is the run's, in all its spaces
    return Need(
        kind="limit",
        id=run_id(one.run),
        space=base_space(one.space),
        run=run_id(one.run),
        text=one_line(f"{named} has reached a limit: {one.by}"),
        actions=(action("grant it once more", f"continue {named}"), action("stop it", f"stop {named}")),
    )


def _answer(kind: NeedKind, _key: str, group: Sequence[BlockedWork]) -> Need:
    name = group[0].name
    text = f"{name} waits for an answer that nobody is left to give"
    return _stuck(kind, group, blocks_of(group)[0], text, _cancel(group), agent=name)


def _node(kind: NeedKind, key: str, group: Sequence[BlockedWork]) -> Need:
    """Work of one agent that no machine can take: told once, however much of it waits."""
    name, named = group[0].name, target_of(group[0].name, group[0].home)
    asked = " ".join(key.split("\0")[1:]) or "that it needs"
    text = f"{name} waits for a node with {asked}, and none is up: awk node list says why"
    again = action("look for one again", f"reset {named}")
    return _stuck(kind, group, named, text, again, *_few(group), agent=name)


MAKERS: Final[Mapping[NeedKind, Callable[[NeedKind, str, Sequence[BlockedWork]], Need]]] = {
    "credentials": _provider,
    "quota": _provider,
    "limit": _limit,
    "answer": _answer,
    "node": _node,
}
