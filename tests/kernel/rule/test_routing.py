"""Who hears a message and who is woken."""

import pytest

from kernel.rule.draft import Draft
from protocol.errors import Refused
from protocol.message import RESOURCE_LIMIT_BYTES, MessageKind
from protocol.names import AgentKey
from tests.kernel.refusals import refused
from tests.kernel.rule.view_double import SPACE, ViewDouble, team


def said(
    view: ViewDouble,
    text: str,
    *,
    kind: MessageKind = "said",
    space: str = SPACE,
    sender: str = "user",
    to: tuple[str, ...] = (),
    mentions: tuple[str, ...] | None = None,
    hops: int = 0,
    cause: int | None = None,
) -> ViewDouble:
    speaker = None if cause is None else AgentKey(view.members.get(sender, sender))
    draft = Draft(kind=kind, space=space, sender=sender, text=text, to=to, mentions=mentions)
    return view.hear(draft, hops=hops, cause=cause, speaker=speaker)


def test_a_direct_message_wakes_its_agent_at_once() -> None:
    """contracts 2: alice is a DM in her personal space."""
    assert said(ViewDouble(), "hi", space="dm:alice").woken() == [("alice", "immediate")]


def test_what_an_agent_says_in_its_own_space_wakes_nobody() -> None:
    """User -> agent only."""
    view = said(ViewDouble(), "@bob hi", space="dm:alice", sender="alice", cause=1)
    assert (view.woken(), len(view.recorded)) == ([], 1)


def test_an_unknown_agent_is_refused_before_anything_is_recorded() -> None:
    """Exit 5 of contracts 7."""
    view = ViewDouble()
    assert (refused(said, view, "hi", space="dm:zoe").code, view.recorded) == ("unknown_agent", [])


def test_a_direct_send_to_a_member_waits_its_turn() -> None:
    assert said(ViewDouble(team("alice")), "hi", to=("alice",)).woken() == [("alice@review:main", "normal")]


def test_a_mention_is_urgent_whatever_its_case() -> None:
    """contracts 2: case-insensitive."""
    assert said(ViewDouble(team("alice")), "ask @Alice").woken() == [("alice@review:main", "immediate")]


@pytest.mark.promise("TF20")
@pytest.mark.parametrize(("text", "lane"), [("@alice hi", "immediate"), ("hi", "normal")])
@pytest.mark.parametrize("shout", ["URGENT ", "lane: background, priority 0! ", "[IMMEDIATE] "])
def test_no_word_changes_the_lane(shout: str, text: str, lane: str) -> None:
    to = () if "@" in text else ("alice",)
    for words in (text, shout + text):
        view = said(ViewDouble(team("alice", "bob")), words, sender="bob", to=to, cause=1)
        assert view.woken() == [("alice@review:main", lane)]


def test_who_is_addressed_and_mentioned_is_woken_once() -> None:
    view = said(ViewDouble(team("alice", "bob")), "@alice @bob hi", to=("alice",))
    assert view.woken() == [("alice@review:main", "normal"), ("bob@review:main", "immediate")]
    assert view.delivered() == ["alice@review:main", "bob@review:main"]


def test_a_member_is_found_by_its_name_in_the_workflow() -> None:
    view = ViewDouble({"critic": "bob"})
    assert said(view, "@critic and @bob").woken() == [("bob", "immediate")]


def test_without_a_mention_nobody_is_woken() -> None:
    """Pull only."""
    view = said(ViewDouble(team("alice")), "just saying; mail me at a@alice.example")
    assert (view.woken(), view.delivered()) == ([], [])


@pytest.mark.promise("TF13")
def test_nobody_wakes_itself() -> None:
    view = ViewDouble({"alice": "a", "twin": "a", "bob": "b"})
    said(view, "@alice @twin @bob", sender="alice", cause=1)
    assert view.woken() == [("b", "immediate")]


def test_a_ninth_mention_is_delivered_and_not_woken() -> None:
    names = [f"m{number}" for number in range(10)]
    view = said(ViewDouble(team(*names)), " ".join(f"@{name}" for name in names))
    assert len(view.woken()) == 8
    assert len(view.delivered()) == 10


def test_a_final_reply_does_not_wake_again_whom_its_work_addressed() -> None:
    view = ViewDouble(team("alice", "bob", "carol"), addressed=frozenset({"bob@review:main"}))
    said(view, "@bob @carol done", kind="reply", sender="alice", cause=1)
    assert view.woken() == [("carol@review:main", "immediate")]


@pytest.mark.promise("CF16")
def test_mentions_that_were_given_replace_those_in_the_text() -> None:
    view = said(ViewDouble(team("alice", "bob")), "@alice and @bob", kind="kickoff", mentions=("alice",))
    assert view.woken() == [("alice@review:main", "immediate")]


@pytest.mark.promise("P27")
@pytest.mark.parametrize(
    ("view", "hops", "waits_for"),
    [(ViewDouble(team("bob"), hops=3), 4, "hops"), (ViewDouble(team("bob"), instructions=2, assigned=2), 0, "hops")],
)
def test_a_limit_wakes_nobody_says_so_once_and_keeps_the_work(view: ViewDouble, hops: int, waits_for: str) -> None:
    said(view, "@bob go", hops=hops)
    view.limited = True
    said(view, "@bob go", hops=hops)
    assert view.woken() == []
    assert view.held_back() == [("bob@review:main", waits_for)] * 2
    assert [fact.draft.kind for fact, _ in view.recorded] == ["said", "system", "said"]


@pytest.mark.promise("P27")
@pytest.mark.parametrize(("by", "waits_for"), [("budget", "budget"), ("wall_time", "hops")])
def test_where_the_budget_is_used_up_nobody_is_woken_whatever_is_said(by: str, waits_for: str) -> None:
    view = said(ViewDouble(team("bob"), limited=True, limited_by=by), "@bob go")
    assert (view.woken(), view.held_back()) == ([], [("bob@review:main", waits_for)])


def test_under_the_hop_limit_of_one_chain_another_goes_on() -> None:
    view = said(ViewDouble(team("bob"), hops=3, limited=True, limited_by="hops"), "@bob go")
    assert view.woken() == [("bob@review:main", "immediate")]


@pytest.mark.parametrize(
    ("runs", "code", "hint"),
    [(False, "workflow_not_running", "awk start review"), (True, "not_a_participant", "flow.yaml")],
)
def test_a_refusal_says_what_to_do(runs: bool, code: str, hint: str) -> None:
    """contracts 2: two errors; one names the command, the other the file."""
    error = refused(said, ViewDouble(team("alice"), runs=runs), "hi", to=("zoe",))
    assert error.code == code
    assert hint in (error.hint or "")


def test_a_message_that_no_worker_could_be_given_is_refused() -> None:
    view = ViewDouble()
    error = refused(said, view, "é" * RESOURCE_LIMIT_BYTES, space="dm:alice")
    assert (error.code, view.recorded) == ("too_large", [])


@pytest.mark.parametrize(
    ("text", "sender", "kind", "expected"),
    [
        ("continue", "user", "said", 7),
        ("  CONTINUE: faster", "user", "said", 7),
        ("continued", "user", "said", None),
        ("go on, continue", "user", "said", None),
        ("continue", "bob", "said", None),
        ("continue", "system", "kickoff", None),
    ],
)
def test_the_users_word_takes_up_what_was_left_incomplete(
    text: str, sender: str, kind: MessageKind, expected: int | None
) -> None:
    view = ViewDouble(members=team("alice"), left_incomplete={(SPACE, f"alice@{SPACE}"): 7, ("dm:alice", "alice"): 8})
    said(view, text, sender=sender, kind=kind, to=("alice",))
    assert view.taken_up() == [expected]


def test_without_a_channel_agents_do_not_hear_each_other_and_the_user_reaches_all() -> None:
    view = ViewDouble(team("alice", "bob"), has_channel=False)
    said(view, "done, @bob", kind="reply", sender="alice", cause=1)
    assert (view.woken(), view.delivered()) == ([], [])
    with pytest.raises(Refused, match="has no channel: its agents cannot communicate"):
        said(view, "@bob look", sender="alice", cause=1)
    assert said(view, "@bob hi").woken() == [("bob@review:main", "immediate")]
    assert said(view, "hi", to=("alice",)).woken()[1:] == [("alice@review:main", "normal")]
