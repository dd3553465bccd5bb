"""Faults of rules, a row for each condition; neighbours that are sound; messages that set a rule off, and others."""

from collections.abc import Callable
from typing import Any, Final

import msgspec
import pytest

from kernel.policy.rule_check import SPEC_BYTES, check_rule
from kernel.policy.rule_trigger import matched, trigger_of
from kernel.policy.rules import check_params, normal
from protocol.errors import Refused
from protocol.rules import ACTIONS_LIMIT, PARAMS_BYTES, PARAMS_LIMIT, RuleSpec

pytestmark = pytest.mark.promise("P53")

MEMBERS: Final = ("alice", "bob")
SAY: Final = {"say": "hi"}
VOTE: Final = {"type": "approval", "title": "Now?"}


def spec(**fields: Any) -> RuleSpec:
    return msgspec.convert({"name": "one", "then": [SAY], **fields}, RuleSpec)


def fault(**fields: Any) -> str | None:
    return refusal(check_rule, spec(**fields), MEMBERS)


def refusal(check: Callable[..., None], *asked: object) -> str | None:
    """Return the text with which ``check`` refuses; None where it does not."""
    try:
        check(*asked)
    except Refused as refused:
        return refused.text
    return None


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"on": "done"}, "mixes two forms"),
        ({"assign": "bob"}, "mixes two forms"),
        ({"from": "bob"}, "mixes two forms"),
        ({"message": "x"}, "mixes two forms"),
        ({"then": []}, "has 0 actions"),
        ({"then": [SAY] * (ACTIONS_LIMIT + 1)}, "has 17 actions"),
        ({"params": {f"p{n}": "string" for n in range(PARAMS_LIMIT + 1)}}, "16 parameters"),
        ({"then": [{"say": "x" * 4_000}] * 9}, f"{SPEC_BYTES:,} bytes"),
        ({"when": {"said": {}, "done": {}}}, "exactly one of"),
        ({"when": {"said": {"matches": "("}}}, "pattern '(' invalid"),
        ({"requires": {"grants": 2, "from": ["user", "user"]}}, "fewer members"),
        ({"requires": {"from": ["dave"]}}, "member 'dave' not found"),
        ({"params": {"No": "string"}}, "parameter name 'No' invalid"),
        ({"then": [{"say": "x", "assign": "bob"}]}, "exactly one of"),
        ({"then": [{"say": "x", "message": "y"}]}, "message: is only valid for assign and ask"),
        ({"then": [{"say": "x", "params": {"a": "b"}}]}, "params: only for invoke"),
        ({"then": [{"say": " "}]}, "say: is empty"),
        ({"then": [{"create_agent": {"name": "x", "like": "bob", "prompt": "do ${{ message.text }}"}}]}, "a variable"),
        ({"then": [{"assign": "dave"}]}, "member 'dave' not found"),
        ({"then": [{"assign": "bob", "message": "${{ params.x }}"}]}, "parameter 'x' not declared"),
        ({"then": [{"say": "${{ match.x }}"}]}, "variable 'match.x' unknown"),
        ({"then": [{"say": "${{ other.1 }}"}]}, "variable 'other.1' unknown"),
        ({"then": [{"say": "${{ message.body }}"}]}, "variable 'message.body' unknown"),
        ({"then": [{"say": "${{ other.text }}"}]}, "variable 'other.text' unknown"),
        ({"then": [{"vote": {**VOTE, "type": "decision"}}]}, "options"),
        ({"then": [{"vote": {**VOTE, "title": "${{ params.x }}?"}}]}, "parameter 'x' not declared"),
        ({"then": [{"vote": {**VOTE, "description": "${{ params.x }}?"}}]}, "parameter 'x' not declared"),
        ({"then": [{"task": {"title": "${{ params.x }}"}}]}, "parameter 'x' not declared"),
        ({"then": [{"task": {"title": "t", "for": "dave"}}]}, "dave"),
        ({"then": [{"invoke": "two", "params": {"p": "${{ params.x }}"}}]}, "parameter 'x' not declared"),
    ],
)
def test_each_fault_of_a_rule_is_named(fields: dict[str, Any], why: str) -> None:
    said = fault(**fields)
    assert said is not None
    assert why in said


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"then": [SAY] * ACTIONS_LIMIT},
        {"params": {f"p{n}": "string" for n in range(PARAMS_LIMIT)}},
        {"requires": {"grants": 2, "from": ["user", "alice"]}},
        {"then": [{"say": "${{ match.1 }} ${{ message.state }} ${{ params.p }}"}], "params": {"p": "string"}},
        {"then": [{"assign": "bob", "message": "x"}, {"ask": "bob"}, {"invoke": "two", "params": {"p": 1}}]},
        {"then": [{"vote": VOTE}, {"task": {"title": "t", "for": "bob"}}]},
    ],
)
def test_a_rule_at_its_limits_is_sound(fields: dict[str, Any]) -> None:
    assert fault(**fields) is None


SHORT: Final[dict[str, Any]] = {"name": "", "on": "done", "from": "alice", "assign": "bob", "then": []}


def test_only_a_whole_short_form_stands_for_when_and_then() -> None:
    made = normal(spec(**SHORT))
    assert (made.name, made.on, made.assign, len(made.then)) == ("alice-done-bob", None, None, 1)
    broken: dict[str, Any]
    for broken in ({"on": None}, {"assign": None}, {"when": {"said": {}}}, {"then": [SAY]}):
        half = spec(**{**SHORT, **broken})
        assert normal(half) is half


@pytest.mark.parametrize(
    ("kind", "fits", "does_not"),
    [
        ("string", ["x"], [1, True, None]),
        ("integer", [1], [True, 1.5, "1"]),
        ("number", [1, 1.5], [True, "1"]),
        ("boolean", [True], [1, "yes"]),
    ],
)
def test_a_parameter_is_of_its_type(kind: str, fits: list[object], does_not: list[object]) -> None:
    rule = spec(params={"p": kind})
    assert [refusal(check_params, rule, {"p": one}) for one in fits] == [None] * len(fits)
    assert all(refusal(check_params, rule, {"p": one}) for one in does_not)
    assert refusal(check_params, rule, {}) is not None
    assert refusal(check_params, spec(params={"p": f"{kind}?"}), {}) is None
    assert refusal(check_params, rule, {"p": fits[0], "q": 1}) is not None


def test_parameters_have_a_size() -> None:
    rule = spec(params={"p": "string"})
    assert refusal(check_params, rule, {"p": "x" * (PARAMS_BYTES - 100)}) is None
    assert refusal(check_params, rule, {"p": "x" * PARAMS_BYTES}) is not None


@pytest.mark.parametrize(
    ("when", "message", "is_set_off"),
    [
        ({"said": {"from": "bob"}}, ("said", "bob", "x"), True),
        ({"said": {"from": ["alice", "bob"]}}, ("said", "bob", "x"), True),
        ({"said": {"from": "alice"}}, ("said", "bob", "x"), False),
        ({"said": {}}, ("status", "bob", "x"), False),
        ({"said": {}}, ("said", "hook:build", "x"), False),
        ({"hook": {}}, ("said", "hook:build", "x"), True),
        ({"hook": {}}, ("reply", "hook:build", "x"), False),
        ({"hook": {"name": "other"}}, ("said", "hook:build", "x"), False),
        ({"resolved": {"proposal": "p1"}}, ("resolved", "", "[RESOLVED:p1] x"), True),
        ({"resolved": {"proposal": "p2"}}, ("resolved", "", "[RESOLVED:p1] x"), False),
        ({"resolved": {"proposal": "p1", "winner": "a"}}, ("resolved", "", "[RESOLVED:p1] x"), True),
        ({"resolved": {"proposal": "p1", "winner": "b"}}, ("resolved", "", "[RESOLVED:p1] x"), False),
        ({"document": {}}, ("document", "bob", "[DOC:notes.md] written"), True),
        ({"document": {"file": "*.md"}}, ("document", "bob", "[DOC:notes.md] written"), True),
        ({"document": {"file": "*.txt"}}, ("document", "bob", "[DOC:notes.md] written"), False),
    ],
)
def test_a_message_sets_off_what_waits_for_all_of_it(
    when: dict[str, Any], message: tuple[str, str, str], *, is_set_off: bool
) -> None:
    trigger = trigger_of(*message, winner="a")
    found = None if trigger is None else matched(spec(when=when), trigger)
    assert (found is not None) == is_set_off
    hook_again = trigger_of("said", "hook:build", "x", 1)
    assert hook_again is None
