"""Second conditions of rules: what belongs to another space, another author, another run, or was decided meanwhile."""

from collections.abc import Callable
from typing import Any, Final

import msgspec
import pytest

from kernel.rule.draft import Draft
from kernel.store import rules as rows
from kernel.store.transitions import rules
from kernel.store.transitions.append import append
from kernel.store.transitions.runs import stop_workflow
from protocol.agent import SCOPES
from protocol.errors import Refused
from protocol.message import SYSTEM, USER
from protocol.rules import RULES_LIMIT, RuleSpec
from tests.kernel.store.busy_workspace import MEMBERS, SPACE, BusyWorkspace, asked

pytestmark = pytest.mark.promise("P53")

OTHER: Final = "task:main"
COUNT: Final = "SELECT count(*) FROM messages"


def spec(name: str = "one", say: str = "hi", **fields: Any) -> RuleSpec:
    return msgspec.convert({"name": name, "then": [{"say": say}], **fields}, RuleSpec)


@pytest.fixture
def work(workspace: BusyWorkspace) -> BusyWorkspace:
    """A workspace at work, and another one that runs beside it with a member of the same name."""
    workspace.begin_beside(OTHER)
    return workspace


def define(work: BusyWorkspace, who: str, one: RuleSpec, space: str = SPACE) -> None:
    author = work.author(who)
    work.commit(rules.define, space, one, author=author, scopes=None if author is None else SCOPES)


def known(work: BusyWorkspace, space: str = SPACE) -> dict[str, tuple[str, int, bool]]:
    return {one.name: (one.author, one.version, one.enabled) for one in rows.in_space(work.conn, space)}


def messages(work: BusyWorkspace) -> int:
    return int(work.conn.execute(COUNT).get)


def test_a_file_switches_off_what_files_defined_and_nothing_else(work: BusyWorkspace) -> None:
    work.commit(rules.define_of_file, SPACE, [spec("old"), spec("off"), spec("stays"), spec("changed")])
    work.commit(rules.switch_off, SPACE, "off")  # by the user: a file's it is no longer
    define(work, USER, spec("theirs"))
    define(work, "alice", spec("hers"))
    work.commit(rules.define_of_file, SPACE, [spec("stays"), spec("changed", "ho")])
    assert known(work) == {
        "old": (SYSTEM, 2, False), "off": (USER, 2, False), "stays": (SYSTEM, 1, True), "changed": (SYSTEM, 2, True),
        "theirs": (USER, 1, True), "hers": ("alice", 1, True),
    }  # fmt: skip
    before = messages(work)
    work.commit(rules.define_of_file, SPACE, [spec("stays"), spec("changed", "ho")])
    assert messages(work) == before, "what is so already is not said again"


def test_a_file_takes_the_name_that_somebody_else_had_taken_meanwhile(work: BusyWorkspace) -> None:
    define(work, "alice", spec("one"))
    work.commit(rules.define_of_file, SPACE, [spec("one"), spec("two")])
    assert known(work) == {"one": (SYSTEM, 2, True), "two": (SYSTEM, 1, True)}


def test_a_rule_is_its_spaces_own(work: BusyWorkspace) -> None:
    when = {"said": {"from": "user"}}
    define(work, USER, spec("one", "here", when=when))
    define(work, USER, spec("one", "there", when=when), OTHER)
    define(work, USER, spec("two", "only there", when=when), OTHER)
    conn = work.conn
    here, there = rows.find(conn, SPACE, "one"), rows.find(conn, OTHER, "one")
    assert here is not None and there is not None
    assert (here.version, there.version, here.message_id == there.message_id) == (1, 1, False)
    assert (rows.count(conn, SPACE), rows.count(conn, OTHER)) == (1, 2)
    assert (set(known(work)), set(known(work, OTHER))) == ({"one"}, {"one", "two"})
    assert [one.spec.then[0].say for one in rows.active(conn, SPACE)] == ["here"]
    assert rows.author_of(conn, SPACE, "two") is None
    work.commit(rules.switch_off, SPACE, "one")
    assert (rows.active(conn, SPACE), len(rows.active(conn, OTHER))) == ((), 2)


def test_what_waits_for_agreement_is_its_own_proposals(work: BusyWorkspace) -> None:
    for space, name in ((SPACE, "one"), (SPACE, "two"), (OTHER, "one")):
        held = spec(name, f"{name} in {space}", when={"said": {"from": "user"}}, requires={"from": ["user"]})
        define(work, USER, held, space)
    for space in (SPACE, OTHER):
        work.commit(append, Draft(kind="said", space=space, sender=USER, text="go"))
    conn = work.conn
    found = [(space, name) for space, name in conn.execute("SELECT space, proposal FROM held_rules ORDER BY id")]
    rules_of = [one and one.rule.spec.then[0].say for one in (rows.held(conn, *place) for place in found)]
    assert rules_of == [f"one in {SPACE}", f"two in {SPACE}", f"one in {OTHER}"]
    assert rows.held(conn, OTHER, found[1][1]) is None


REFUSED: Final[list[tuple[Callable[[BusyWorkspace], object], str]]] = [
    (lambda work: work.commit(rules.invoke_rule, SPACE, "none", {}), "not_found"),
    (lambda work: work.commit(rules.invoke_rule, SPACE, "off", {}), "conflict"),
    (lambda work: work.commit(rules.invoke_rule, SPACE, "on", {"p": 1}), "bad_request"),
    (lambda work: work.commit(rules.switch_off, SPACE, "none"), "not_found"),
    (lambda work: work.commit(rules.switch_off, OTHER, "on"), "not_found"),
    (lambda work: work.commit(rules.switch_off, "dm:nobody", "on"), "unknown_agent"),
    (lambda work: define(work, "alice", spec("on")), "forbidden"),
    (lambda work: define(work, "alice", spec(then=[{"assign": "alice"}])), "forbidden"),
    (lambda work: define(work, USER, spec(then=[{"assign": "dave"}])), "bad_request"),
]


@pytest.mark.parametrize(("step", "code"), REFUSED)
def test_what_a_rule_is_not_is_refused_and_says_nothing(
    work: BusyWorkspace, step: Callable[[BusyWorkspace], object], code: str
) -> None:
    define(work, USER, spec("on"))
    define(work, USER, spec("off"))
    work.commit(rules.switch_off, SPACE, "off")
    before = messages(work)
    with pytest.raises(Refused) as refused:
        step(work)
    assert (refused.value.code, messages(work)) == (code, before)
    assert work.commit(rules.switch_off, SPACE, "off").version == 2, "twice is once"


def test_a_person_may_give_work_by_a_rule_to_anybody(work: BusyWorkspace) -> None:
    """Only an agent cannot give work to itself."""
    define(work, USER, spec(then=[{"assign": "alice"}]))
    define(work, "bob", spec("two", then=[{"assign": "alice"}]))
    assert set(known(work)) == {"one", "two"}


def test_a_space_that_is_full_takes_new_versions_only(work: BusyWorkspace) -> None:
    for number in range(RULES_LIMIT):
        define(work, USER, spec(f"r{number}"))
    with pytest.raises(Refused, match="has the maximum of"):
        define(work, USER, spec("more"))
    define(work, USER, spec("r3", "ho"))
    assert known(work)["r3"][1] == 2


def test_where_nothing_runs_no_rule_is_defined(work: BusyWorkspace) -> None:
    work.commit(stop_workflow, SPACE, "stopped", 0)
    with pytest.raises(Refused) as refused:
        define(work, USER, spec())
    assert refused.value.code == "workflow_not_running"


def test_a_trial_looks_at_the_messages_and_winners_of_one_run(work: BusyWorkspace) -> None:
    conn = work.conn
    rule = spec("one", "${{ message.state }}", when={"resolved": {"proposal": "same"}})
    for choice in ("a", "b"):
        work.create(USER, asked(name="same"))
        work.create(USER, asked(name="other"))
        for who in MEMBERS[:2]:
            work.vote(who, "other", "b" if choice == "a" else "a")
            work.vote(who, "same", choice)
        run = int(conn.execute("SELECT max(id) FROM workflows WHERE space = ?", (SPACE,)).get)
        seen, total, firings = rows.trial(conn, SPACE, run, rule)
        said = "SELECT count(*) FROM messages WHERE run = ? AND kind IN ('said', 'resolved', 'status')"
        assert (seen, total) == (int(conn.execute(said, (run,)).get), 1)
        assert [one.would for one in firings] == [(f"say: {choice}",)]
        work.commit(stop_workflow, SPACE, "stopped", 0)
        work.begin()


def test_a_trial_tells_of_what_could_not_be_done_too(work: BusyWorkspace) -> None:
    work.commit(append, Draft(kind="said", space=SPACE, sender=USER, text="go"))
    rule = spec("one", when={"said": {"matches": "^go$"}}, then=[{"invoke": "none"}])
    run = int(work.conn.execute("SELECT id FROM workflows WHERE space = ?", (SPACE,)).get)
    _, total, firings = rows.trial(work.conn, SPACE, run, rule)
    assert (total, [one.would for one in firings]) == (1, [("one: not done: rule 'none' not found",)])
