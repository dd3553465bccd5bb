"""The guard with a model: what of its answer is kept, whatever it answers."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.policy.guard import MOST_ITEMS, Evidence, extracted, junk, shown
from protocol.message import Message
from protocol.names import AgentKey

pytestmark = pytest.mark.promise("P69")

ALICE = AgentKey("alice")
EVIDENCE = Evidence({"m1": "user", "m2": "tool", "m3": "agent"}, {"alice": ALICE})
SOUND = {
    "for": "alice",
    "kind": "decision",
    "key": "parser",
    "value": "The parser accepts dates as RFC 3339, since two clients disagreed",
    "messages": ["m1"],
}


def found(*items: Any, known: tuple[str, ...] = ()) -> list[str]:
    """The keys of what is kept of ``items``."""
    return [one.key for one in extracted(json.dumps({"items": items}), EVIDENCE, {ALICE: known})]


@pytest.mark.parametrize(
    "value",
    [
        "Done.", "Working on the parser as asked by the user", "Still waiting for the review of bob",
        "Hello, thanks for the quick answer today", "uses JWT", "The parser accepts dates as RFC 3339, and",
        "The parser accepts the following formats:", "x" * 501, "The parser\u202eaccepts dates as RFC 3339", "",
    ],
)  # fmt: skip
def test_states_of_work_fragments_and_what_is_cut_off_are_junk(value: str) -> None:
    assert junk("key", value) is not None
    assert found({**SOUND, "value": value}) == []


@pytest.mark.parametrize(
    "value", [SOUND["value"], "部署前必须先在预发布环境运行测试", "Never run migrations on a Friday"]
)
def test_a_sentence_that_stands_alone_is_none(value: str) -> None:
    assert junk("key", value) is None
    assert found({**SOUND, "value": value}) == ["parser"]


@pytest.mark.parametrize(
    "change", [{"messages": []}, {"messages": ["m9"]}, {"messages": ["m1", "m9"]}, {"for": "carol"}, {"key": ""}]
)
def test_an_item_without_messages_that_it_was_shown_or_for_nobody_is_thrown_away(change: dict[str, Any]) -> None:
    assert found({**SOUND, **change}) == []


def test_what_is_known_or_proposed_or_said_twice_in_other_words_is_not_proposed() -> None:
    again = {**SOUND, "key": "other", "value": "the parser accepts dates as RFC 3339 since two clients disagreed!"}
    assert found(SOUND, again) == ["parser"]
    assert found(again, known=(str(SOUND["value"]),)) == []


def test_the_trust_of_a_proposal_is_the_least_of_all_that_the_model_was_shown_and_of_its_own_words() -> None:
    (one,) = extracted(json.dumps({"items": [SOUND]}), EVIDENCE._replace(classes={"m1": "user"}), {})
    assert (one.trust, one.messages) == ("agent", ("m1",))
    (one,) = extracted(json.dumps({"items": [SOUND]}), EVIDENCE, {})
    assert (one.trust, one.messages) == ("tool", ("m1", "m2"))


@given(st.one_of(st.text(), st.recursive(st.none() | st.text() | st.integers(), st.lists).map(json.dumps)))
def test_an_answer_of_another_shape_has_nothing(answer: str) -> None:
    assert extracted(answer, EVIDENCE, {}) == ()


def test_a_fenced_answer_is_read_and_one_that_is_too_long_is_cut() -> None:
    many = [{**SOUND, "key": f"k{n}", "value": f"fact{n} holds{n} for{n} module{n} always{n}"} for n in range(30)]
    told = extracted(f"Here:\n```json\n{json.dumps({'items': many})}\n```", EVIDENCE, {})
    assert len(told) == MOST_ITEMS


def test_what_it_is_shown_is_quoted_bounded_and_the_oldest() -> None:
    """So that it stays one message."""
    said = [
        Message(seq=n, kind="said", space="review:main", sender="bob", to=(), text=f"{n}\n# you", at="", hops=0)
        for n in range(1, 3000)
    ]
    text, classes = shown(said, {one.seq: "agent" for one in said})
    assert "[m1] bob:\n> 1\n> # you" in text
    assert len(text.encode()) <= 14_000
    assert ("m2999" in classes, classes["m1"]) == (False, "agent")
    begun = [Message(seq=n, kind="kickoff", space="review:main", sender="system", text="begin") for n in (1, 2)]
    assert shown(begun, {1: "user", 2: "tool"})[1] == {"m1": "user", "m2": "tool"}
