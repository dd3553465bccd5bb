"""What needs a person: of thousands of states exactly what no time ends, each with commands that are ours."""

import random
import shlex
from collections.abc import Iterator, Mapping
from typing import Any, Final, get_args

import msgspec
import pytest

from interface.cli.command_parser import parser_for
from interface.cli.command_table import BY_WORD
from kernel.policy.agent_status import AgentState, readiness
from kernel.policy.needs import count, needs
from kernel.policy.open_items import (
    TEXT_CHARACTERS,
    BlockedWork,
    DeadInstruction,
    Elector,
    ErrorAgent,
    LimitedRun,
    PendingProposal,
    Request,
    Snapshot,
    StuckWebhook,
    UntrustedSchedules,
)
from kernel.policy.voting import Ballot
from protocol.api.approvals import Need
from protocol.instruction import Status, WaitReason
from protocol.limits import PlaceNeeds
from protocol.voting import Vote

AT: Final = "2026-11-22T10:00:00.000Z"
WAITING: Final = BlockedWork(
    agent="bob@review:main#3", name="bob", space="review:main", home="review:main", run=3, limited_by=None,
    state="waiting", waits_for="credentials", wait_key="anthropic#k", not_before_ms=0, agent_state="active",
    hold_key=None, hold_reason=None, hold_until_ms=0, asks=False, since=AT, blocks=(7,),
)  # fmt: skip
BINDING: Final = PendingProposal(
    ballot=Ballot(
        type="approval", rule="majority", options=("yes", "no"), electors=frozenset({"a", "b"}), quorum=2,
        deadline_ms=60_000, number=1, space="review:main", run=3, name="release", title="Release this?", labels=(),
        binding=True, creator="a", creator_key=None, created_ms=1, votes=(Vote(voter="a", choice="yes"),),
    ),
    electors={"a": Elector(held=False), "b": Elector(held=False)}, space="review:main", since=AT,
)  # fmt: skip
TIE: Final[Mapping[str, Any]] = {
    "votes": (Vote(voter="a", choice="yes"), Vote(voter="b", choice="no")),
    "tie_breaker": "creator-decides",
    "rule": "plurality",
}
FOR_PEOPLE: Final[dict[str, str]] = {
    "credentials": "credentials", "quota": "quota", "budget": "limit", "hops": "limit", "answer": "answer",
    "node": "node",
}  # fmt: skip


def changed(one: Any, **fields: Any) -> Any:
    return msgspec.structs.replace(one, **fields)


def waiting(*found: BlockedWork, **more: Any) -> tuple[Need, ...]:
    return needs(Snapshot(blocked=found, **more))


def random_blocked(chance: random.Random, number: int) -> BlockedWork:
    """One that may stand in any way at all."""
    state: Status = chance.choice(("queued", "yielded", "waiting"))
    name = chance.choice(("alice", "bob", "carol"))
    inline = name == "carol"
    held = chance.random() < 0.4
    space = "review:main" if inline else chance.choice(("review:main", f"dm:{name}"))
    return BlockedWork(
        agent=f"{name}@review:main#3" if inline else name,
        name=name,
        space=space,
        home="review:main" if inline else None,
        run=3 if space == "review:main" else None,
        limited_by=chance.choice((None, "hops")) if space == "review:main" else None,
        state=state,
        waits_for=chance.choice(get_args(WaitReason)) if state == "waiting" else None,
        wait_key=chance.choice(("anthropic#k", "openai#k")) if state == "waiting" else None,
        not_before_ms=chance.choice((0, 1)),
        agent_state=chance.choice(get_args(AgentState)),
        hold_key="openai#k" if held else None,
        hold_reason=chance.choice(("provider", "credentials", "quota")) if held else None,
        hold_until_ms=chance.choice((0, 1)) if held else 0,
        asks=chance.random() < 0.5,
        since=AT,
        blocks=(number,),
    )


@pytest.mark.promise("P34")
def test_of_ten_thousand_states_what_stands_still_for_a_person_is_in_one_need_and_nothing_else_is() -> None:
    chance = random.Random(13)
    met: set[str] = set()
    for _ in range(10_000):
        found = tuple(random_blocked(chance, number) for number in range(chance.randint(0, 6)))
        probed = frozenset({"openai#k"} if chance.random() < 0.3 else ())
        items = waiting(*found, probed=probed)
        blocked = [name for item in items for name in item.blocks]
        assert len(blocked) == len(set(blocked))
        for one in found:
            times = (one.not_before_ms, one.agent_state, one.hold_reason, one.hold_until_ms)
            stands = readiness(one.state, one.waits_for, *times, 0, 0)
            own = one.state == "waiting" and one.waits_for == stands.reason
            tried = FOR_PEOPLE.get(stands.reason or "") in ("credentials", "quota") and (
                (one.wait_key if own else one.hold_key) in probed
            )
            asks = stands.reason == "answer" and one.asks
            wanted = stands.kind == "person" and stands.reason in FOR_PEOPLE and not tried and not asks
            (name,) = (f"i{number}" for number in one.blocks)
            kinds = [item.kind for item in items if name in item.blocks]
            assert kinds == ([FOR_PEOPLE[str(stands.reason)]] if wanted else []), (one, items)
            met.update(kinds)
        assert count(Snapshot(blocked=found, probed=probed)) == len(items)
    assert met == set(FOR_PEOPLE.values())


def every_need() -> Iterator[Need]:
    """One of each kind, with names that need care."""
    long = "evil\x1b[2J\n" * 100
    dead = DeadInstruction(
        id="i9", name="bob", space="review:pr-1", run=3, status="failed", cause="invalid", text=long, retriable=True,
        since=AT,
    )  # fmt: skip
    yield from needs(
        Snapshot(
            requests=(Request(id="a3", name="bob", space="dm:bob", run=None, instruction=7, tool=long, since=AT),),
            votes=(changed(BINDING, space="review:pr-1", ballot=changed(BINDING.ballot, title=long)), BINDING),
            errors=(
                ErrorAgent(name="bob", space="review:pr-1", reason=long, since=AT, blocks=(1, 2)),
                ErrorAgent(name="alice", space=None, reason=None, since=None),
            ),
            blocked=(
                WAITING,
                changed(WAITING, wait_key="agent:x", missing=long),
                changed(WAITING, waits_for="quota"),
                changed(WAITING, waits_for="hops", limited_by="hops"),
                changed(WAITING, waits_for="budget", home=None, name="alice", agent="alice"),
                changed(WAITING, waits_for="answer"),
                changed(WAITING, waits_for="node", wait_key="node"),
                changed(WAITING, waits_for="node", needs=PlaceNeeds(labels=("gpu",), memory=2**33, gpus=2)),
            ),
            limited=(LimitedRun(run=4, space="other:pr-1", by="budget"),),
            dead=(dead, changed(dead, retriable=False)),
            dead_total=2,
            untrusted=(UntrustedSchedules(file=".workflows/a file; rm -rf ~.yaml", count=2),),
            webhooks=(
                StuckWebhook(id="w1a2b3c4d5e6f", host="https://ci.example", ended=True, tries=0),
                StuckWebhook(id="w000000000000", host="", ended=False, tries=8),
            ),
        )
    )


def test_every_command_begins_with_awk_and_is_a_command_of_ours_with_words_that_fit() -> None:
    found = list(every_need())
    assert {item.kind for item in found} == {
        "approval", "vote", "agent_error", "credentials", "quota", "limit", "answer", "node", "trust", "webhook",
        "dead",
    }  # fmt: skip
    for item in found:
        assert item.actions, item
        for action in item.actions:
            awk, word, *words = shlex.split(action.command)
            assert awk == "awk"
            command = BY_WORD[word]
            parser_for(command, "awk", command.load()[0]).parse_args(words)


def test_a_text_is_one_bounded_line_whatever_agents_wrote() -> None:
    for item in every_need():
        assert "\n" not in item.text
        assert 0 < len(item.text) <= TEXT_CHARACTERS


def test_one_key_that_is_missing_is_one_thing_to_do_however_many_wait_for_it() -> None:
    other = changed(WAITING, agent="alice", name="alice", home=None, space="dm:alice", run=None, blocks=(9,))
    stopped = changed(WAITING, agent_state="stopped", blocks=(1,), agent="carol", name="carol", home=None)
    (item,) = waiting(WAITING, other, stopped)
    assert (item.kind, item.agent, item.space, item.blocks) == ("credentials", None, None, ("i1", "i7", "i9"))
    assert item.actions[0].command == "awk reset bob@review"
    assert item.actions[1].command == "awk cancel i1 i7 i9"
    assert waiting(WAITING, other, probed=frozenset({"anthropic#k"})) == ()


@pytest.mark.parametrize(
    ("what", "fields", "needed"),
    [
        ("nobody is left who votes: one has no work", {}, True),
        ("it binds nobody", {"ballot": {"binding": False}}, False),
        ("b is at work there", {"electors": {"b": Elector(held=False, work=frozenset({"runnable"}))}}, False),
        ("b goes on by itself later", {"electors": {"b": Elector(held=False, work=frozenset({"time"}))}}, False),
        ("b waits for a person", {"electors": {"b": Elector(held=False, work=frozenset({"person"}))}}, True),
        ("somebody works who may wake b", {"working": True}, False),
        ("b is given no work", {"working": True, "electors": {"b": Elector(held=True)}}, True),
        ("b is no member any more", {"working": True, "electors": {}}, True),
        ("a tie that its creator may break", {"working": True, "ballot": TIE}, False),
        ("a tie that the user alone may break", {"working": True, "ballot": {**TIE, "creator": "user"}}, True),
        ("the user is an elector", {
            "working": True, "ballot": {"binding": False, "electors": frozenset({"a", "user"})},
        }, True),
        ("the user has voted", {
            "ballot": {
                "binding": False, "electors": frozenset({"a", "user"}), "votes": (Vote(voter="user", choice="yes"),),
            },
        }, False),
    ],
)  # fmt: skip
def test_a_vote_needs_a_person_who_is_an_elector_or_if_nobody_else_can_decide_what_binds(
    what: str, fields: dict[str, Any], needed: bool
) -> None:
    """contracts 7."""
    one = changed(BINDING, **fields | {"ballot": changed(BINDING.ballot, **fields.get("ballot", {}))})
    assert bool(needs(Snapshot(votes=(one,)))) is needed, what


def test_a_vote_offers_what_ends_it() -> None:
    """The user's vote counts, but a quorum of members may be missing all the same: then it can only be called off."""
    (item,) = needs(Snapshot(votes=(BINDING,)))
    settling = ["awk proposal vote release@review yes", "awk proposal cancel release@review"]
    assert [action.command for action in item.actions] == settling
    nobody = changed(BINDING, ballot=changed(BINDING.ballot, votes=()), space="review:pr-1")
    (item,) = needs(Snapshot(votes=(nobody,)))
    assert [action.command for action in item.actions] == ["awk proposal cancel release@review:pr-1"]


def test_what_is_dead_is_counted_also_where_it_is_not_listed() -> None:
    state = Snapshot(errors=(ErrorAgent(name="alice", space=None, reason=None, since=AT),), dead_total=3000)
    assert (count(state), len(needs(state))) == (3001, 1)


def test_a_limited_run_is_one_need_with_what_waits_there_and_without() -> None:
    limited = (LimitedRun(run=3, space="review:main", by="hops"),)
    (idle,) = needs(Snapshot(limited=limited))
    (held,) = waiting(changed(WAITING, waits_for="hops", limited_by="hops"), limited=limited)
    assert (idle.id, held.id, held.blocks) == ("r3", "r3", ("i7",))
    below = changed(WAITING, waits_for="hops", limited_by="hops", space="review:main~design")
    (in_space,) = waiting(below)
    assert (in_space.id, in_space.space) == ("r3", "review:main"), "what limits a run is the run's, in all its spaces"
    told = {need.actions[0].command for need in (idle, held, in_space)}
    assert told == {"awk continue @review"}
