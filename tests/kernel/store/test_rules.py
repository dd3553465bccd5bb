"""Rules of a workspace on a real store: defined, redefined, held for grants, and never more than their author could."""

from typing import Any, get_args

import msgspec
import pytest

from kernel.policy.grants import WantedGrant
from kernel.policy.needs import needs
from kernel.policy.rules import DEPTH, FUEL
from kernel.rule.draft import Draft
from kernel.store import rules as store_rules
from kernel.store import tasks
from kernel.store.needs import snapshot
from kernel.store.transaction import Transaction
from kernel.store.transitions import grants, rules
from kernel.store.transitions import tasks as task_steps
from kernel.store.transitions.append import append
from kernel.store.transitions.clear import clear
from kernel.store.transitions.runs import stop_workflow
from kernel.store.transitions.voting import vote
from protocol.agent import SCOPES, Scope
from protocol.errors import Refused
from protocol.message import SYSTEM, USER
from protocol.rules import RuleInfo, RuleSpec
from tests.kernel.store.busy_workspace import SPACE, BusyWorkspace, asked
from tests.shorthand import present

pytestmark = pytest.mark.promise("P53")

ALL: frozenset[Scope] = frozenset(get_args(Scope))
SAID = "SELECT kind, sender, text, hops FROM messages WHERE space = ? AND seq > ? ORDER BY seq"
NEWEST = "SELECT coalesce(max(seq), 0) FROM messages"
WORK = "SELECT name FROM instructions WHERE id > ? ORDER BY id"
NEWEST_WORK = "SELECT coalesce(max(id), 0) FROM instructions"


def spec(**fields: Any) -> RuleSpec:
    return msgspec.convert(fields, RuleSpec)


class Table:
    """Who says what in a workspace with rules."""

    def __init__(self, workspace: BusyWorkspace) -> None:
        self.workspace = workspace
        self.conn = workspace.conn

    def define(self, who: str = USER, **fields: Any) -> RuleInfo:
        author = self.workspace.author(who)
        scopes = None if author is None else ALL
        return self.workspace.commit(rules.define, SPACE, spec(**fields), author=author, scopes=scopes).rule

    def say(self, text: str, who: str = USER) -> list[tuple[str, str, str, int]]:
        """Everything in the log that follows from it, the message itself left out."""
        before = int(self.conn.execute(NEWEST).get)
        draft = Draft(kind="said", space=SPACE, sender=who, text=text, author=self.workspace.author(who))
        self.workspace.commit(append, draft)
        return list(self.conn.execute(SAID, (SPACE, before + 1)))

    def texts(self, text: str, who: str = USER) -> list[str]:
        return [row[2] for row in self.say(text, who)]

    def given(self, text: str, who: str = USER) -> list[str]:
        before = int(self.conn.execute(NEWEST_WORK).get)
        self.say(text, who)
        return [str(name) for (name,) in self.conn.execute(WORK, (before,))]

    def finish(self, who: str, text: str) -> None:
        self.workspace.close(who, text)


@pytest.fixture
def table(workspace: BusyWorkspace) -> Table:
    return Table(workspace)


def test_what_is_said_is_answered_with_work_that_quotes_it(table: Table) -> None:
    when = {"said": {"from": "alice", "matches": r"CHANGES (\w+)"}}
    table.define(
        name="fix", when=when, then=[{"assign": "bob", "message": "${{ match.1 }}: ${{ message.text }} @carol"}]
    )
    assert table.texts("CHANGES requested", "bob") == []
    (answer,) = table.say("CHANGES requested @nobody", "alice")
    assert answer == ("said", SYSTEM, "requested: CHANGES requested @nobody @carol", 2)
    assert table.given("CHANGES again", "alice") == ["bob"]


def test_what_a_variable_brings_in_wakes_nobody(table: Table) -> None:
    """Only the rule itself mentions."""
    table.define(name="echo", when={"said": {"from": "user"}}, then=[{"say": "@bob heard: ${{ message.text }}"}])
    assert table.given("wake carol and everybody") == ["bob"]
    table.define(name="echo", when={"said": {"from": "alice"}}, then=[{"say": "heard: ${{ message.text }}"}])
    assert "bob" not in table.given("x @carol", "alice")[1:]


def test_the_end_of_work_hands_over_in_the_short_form(table: Table) -> None:
    made = table.define(**{"on": "done", "from": "alice", "assign": "carol"})
    assert (made.name, made.version) == ("alice-done-carol", 1)
    before = int(table.conn.execute(NEWEST_WORK).get)
    table.finish("alice", "it is built")
    assert [str(name) for (name,) in table.conn.execute(WORK, (before,))] == ["carol"]


def test_a_definition_is_in_force_from_the_next_message_on(table: Table) -> None:
    rule: dict[str, Any] = {"name": "greet", "when": {"said": {"from": "user"}}}
    assert table.define(**rule, then=[{"say": "one"}]).version == 1
    assert table.texts("hello") == ["one"]
    again = table.define(**rule, then=[{"say": "two"}])
    assert (again.version, again.author) == (2, USER)
    assert table.texts("hello") == ["two"]
    table.workspace.commit(rules.switch_off, SPACE, "greet")
    assert table.texts("hello") == []


def test_only_its_author_or_a_person_defines_a_rule_anew(table: Table) -> None:
    table.define("alice", name="mine", then=[{"say": "hi"}])
    with pytest.raises(Refused, match="belongs to alice") as refused:
        table.define("bob", name="mine", then=[{"say": "ho"}])
    assert refused.value.code == "forbidden"
    assert table.define("alice", name="mine", then=[{"say": "hm"}]).version == 2
    assert table.define(name="mine", then=[{"say": "hu"}]).author == USER


def test_a_rule_says_what_it_says_as_its_author(table: Table) -> None:
    table.define("alice", name="mine", when={"said": {"from": "user"}}, then=[{"say": "hi @bob"}])
    ((kind, sender, text, hops),) = table.say("hello")
    assert (kind, sender, text, hops) == ("said", "alice", "hi @bob", 1)


@pytest.mark.promise("P54")
@pytest.mark.parametrize(
    ("action", "scope"),
    [
        ({"assign": "bob"}, "channel.write"),
        ({"say": "x"}, "channel.write"),
        ({"ask": "bob"}, "ask"),
        ({"vote": {"type": "approval", "title": "Now?"}}, "votes"),
        ({"task": {"title": "more"}}, "tasks"),
    ],
)
def test_an_agent_defines_no_rule_that_does_what_it_may_not(table: Table, action: dict[str, Any], scope: str) -> None:
    author = table.workspace.author("alice")
    rule = spec(name="more", then=[action])
    with pytest.raises(Refused, match=scope):
        table.workspace.commit(rules.define, SPACE, rule, author=author, scopes=ALL - {scope})
    assert table.workspace.commit(rules.define, SPACE, rule, author=author, scopes=SCOPES).rule.version == 1


@pytest.mark.promise("P54")
def test_the_rule_of_an_agent_that_has_left_does_nothing(table: Table) -> None:
    table.define("alice", name="mine", when={"said": {"from": "user"}}, then=[{"say": "hi"}])
    table.conn.execute("DELETE FROM members WHERE name = 'alice'")
    (told,) = table.texts("hello")
    assert told == "[RULE:mine] not done: its author alice is no longer a member"


@pytest.mark.promise("P54")
def test_a_rule_that_was_defined_by_a_grant_ends_with_it(table: Table) -> None:
    given = table.workspace.commit(grants.give, SPACE, WantedGrant("rules", None, 1), "alice")
    alice, rule = (
        table.workspace.author("alice"),
        spec(name="hi", when={"said": {"from": "user"}}, then=[{"say": "hi"}]),
    )
    assert alice is not None

    def define(tx: Transaction) -> None:
        rules.define(tx, SPACE, rule, author=alice, scopes=SCOPES)  # without the scope rules

    def by_grant(tx: Transaction) -> None:
        grants.under_grant(tx, alice, "rules", define, counts=True)

    table.workspace.commit(by_grant)
    assert table.texts("hello") == ["hi"], "that it is used up is because of this rule"
    table.workspace.commit(grants.revoke, SPACE, given.id)
    assert table.texts("hello") == ["[RULE:hi] not done: the grant of the scope rules of alice is no longer valid"]
    until = table.workspace.now_ms + 1000
    table.workspace.commit(grants.give, SPACE, WantedGrant("rules", until, None), "alice")
    assert table.texts("hello") == ["hi"]
    table.workspace.now_ms = until
    assert "not done" in table.texts("hello")[0]


@pytest.mark.promise("P54")
def test_what_its_author_was_given_for_calls_is_no_scope_of_a_rule(table: Table) -> None:
    table.workspace.commit(grants.give, SPACE, WantedGrant("votes", None, 1), "alice")
    vote = spec(name="vote", then=[{"vote": {"type": "approval", "title": "Now?"}}])
    with pytest.raises(Refused, match="votes"):
        table.workspace.commit(
            rules.define, SPACE, vote, author=table.workspace.author("alice"), scopes=ALL - {"votes"}
        )


def test_who_was_given_votes_agrees_to_a_rule_as_long_as_that_counts(table: Table) -> None:
    when = {"said": {"from": "alice"}}
    table.define(name="deploy", when=when, requires={"from": ["bob"]}, then=[{"say": "gone"}])
    given = table.workspace.commit(grants.give, SPACE, WantedGrant("votes", None, None), "bob")
    bob = table.workspace.attempt("bob")

    def agree(text: str) -> None:
        ((_, _, said, _),) = table.say(text, "alice")
        name = said[len("[PROPOSAL:") :].partition("]")[0]

        def vote_now(tx: Transaction) -> None:
            vote(tx, SPACE, name, "yes", author=bob)

        def by_grant(tx: Transaction) -> None:
            grants.under_grant(tx, bob, "votes", vote_now, counts=True)

        table.workspace.commit(by_grant)

    newest = "SELECT text FROM messages ORDER BY seq DESC LIMIT 1"
    agree("deploy it")
    assert table.conn.execute(newest).get == "gone"
    table.workspace.commit(grants.revoke, SPACE, given.id)
    with pytest.raises(Refused, match="no valid grant"):
        agree("deploy again")


def test_rules_that_answer_each_other_end(table: Table) -> None:
    table.define(name="ping", when={"said": {"matches": "p"}}, then=[{"say": "pong"}] * 16)
    table.define(name="pong", when={"said": {"matches": "o"}}, then=[{"say": "ping"}] * 16)
    said = table.say("p")
    made = [row for row in said if row[0] == "said"]
    assert 16 <= len(made) <= FUEL
    assert any("not done" in text for _, _, text, _ in said)
    assert max(hops for _, _, _, hops in said) <= DEPTH + 1


def test_a_rule_that_invokes_itself_ends(table: Table) -> None:
    table.define(name="again", when={"said": {"from": "user"}}, then=[{"say": "x"}, {"invoke": "again"}])
    said = table.texts("go")
    assert said.count("x") == DEPTH
    assert said[-1] == f"[RULE:again] not done: rules are nested more than {DEPTH} levels deep"


def test_a_rule_is_invoked_with_parameters_of_their_types(table: Table) -> None:
    table.define(
        name="sub",
        params={"who": "string", "count": "integer?"},
        then=[{"say": "${{ params.who }} ${{ params.count }}"}],
    )
    table.define(
        name="top",
        when={"said": {"from": "user"}},
        then=[{"invoke": "sub", "params": {"who": "by ${{ message.from }}"}}],
    )
    assert table.texts("go") == ["by user "]
    table.workspace.commit(
        rules.invoke_rule, SPACE, "sub", {"who": "me", "count": 3}, author=table.workspace.author("bob")
    )
    with pytest.raises(Refused, match="integer"):
        table.workspace.commit(rules.invoke_rule, SPACE, "sub", {"who": "me", "count": "3"})
    with pytest.raises(Refused, match="parameter 'who' of rule 'sub' missing"):
        table.workspace.commit(rules.invoke_rule, SPACE, "sub", {})


def test_a_rule_that_requires_a_grant_waits_for_it_in_needs(table: Table) -> None:
    when = {"said": {"from": "alice", "matches": "deploy"}}
    table.define(
        name="deploy", when=when, requires={"grants": 1, "from": ["user"]}, then=[{"assign": "bob", "message": "go"}]
    )
    (asked,) = table.say("deploy it", "alice")
    assert asked[0] == "proposal"
    assert "assign bob: go" in asked[2]
    (need,) = (one for one in needs(snapshot(table.conn, table.workspace.now_ms)) if one.kind == "vote")
    assert [one.label for one in need.actions] == ["vote yes", "vote no", "cancel the vote"]
    before = int(table.conn.execute(NEWEST_WORK).get)
    table.workspace.vote(USER, need.id, "yes")
    assert [str(name) for (name,) in table.conn.execute(WORK, (before,))] == ["bob"]


@pytest.mark.parametrize("switched_off", [True, False])
def test_what_is_not_agreed_to_or_switched_off_meanwhile_is_not_done(table: Table, *, switched_off: bool) -> None:
    table.define(
        name="deploy",
        when={"said": {"from": "alice"}},
        requires={"grants": 2, "from": ["bob", "carol"]},
        then=[{"say": "gone"}],
    )
    ((_, _, text, _),) = table.say("deploy it", "alice")
    name = text[len("[PROPOSAL:") :].partition("]")[0]
    if switched_off:
        table.workspace.commit(rules.switch_off, SPACE, "deploy")
    table.workspace.vote("bob", name, "yes")
    table.workspace.vote("carol", name, "yes" if switched_off else "no")
    last = table.conn.execute("SELECT text FROM messages ORDER BY seq DESC LIMIT 1").get
    assert str(last).startswith("[RULE:deploy] not done: ")


def test_a_rule_plans_a_task_and_gives_it_to_whom_it_is_for(table: Table) -> None:
    table.define(
        name="review",
        when={"said": {"from": "user", "matches": r"build (\w+)"}},
        then=[{"task": {"title": "Build ${{ match.1 }}", "text": "All of it", "for": "bob", "files": ["src/**"]}}],
    )
    after = {"title": "Test ${{ message.about }}", "needs": ["${{ message.about }}"], "for": "carol"}
    table.define(name="test", when={"task": {"state": "cancelled"}}, then=[{"task": after}])
    (planned, given) = table.say("build it")
    assert planned == ("status", SYSTEM, "[TASKS] planned by the rule review:\n- t1 Build it (for bob)", 1)
    assert given[:2] == ("said", SYSTEM)
    assert given[2].startswith("[TASK:t1] Build it\nAll of it\nOnly you may change these files meanwhile: src/**")
    row = present(tasks.find(table.conn, SPACE, "t1"))
    assert (row.state, row.creator, row.given_out, row.instruction is None) == ("ready", SYSTEM, 1, False)
    table.workspace.commit(task_steps.cancel_task, SPACE, "t1", "never mind")
    follower = present(tasks.find(table.conn, SPACE, "t2"))
    assert (follower.state, [one.id for one in follower.needs]) == ("open", ["t1"])


def test_a_task_of_a_rule_that_nobody_does_comes_to_an_end(table: Table) -> None:
    ready = {"task": {"state": "ready"}}
    table.define(name="first", when={"said": {"from": "user"}}, then=[{"task": {"title": "one", "for": "bob"}}])
    table.define(name="again", when=ready, then=[{"task": {"title": "more", "for": "bob"}}])
    table.say("go")
    hops = []
    for _ in range(3):
        table.finish("bob", "")
        table.workspace.take_all()
        hops.append(table.conn.execute("SELECT max(hops) FROM tasks").get)
    assert hops == sorted(hops)
    assert hops[0] < hops[-1]


def test_a_hook_can_be_tried_on_what_a_run_heard(table: Table) -> None:
    table.define(name="echo", when={"hook": {}}, then=[{"say": "heard ${{ message.text }}"}])
    table.workspace.commit(append, Draft(kind="said", space=SPACE, sender="hook:build", text="red"))
    run = int(str(table.conn.execute("SELECT max(id) FROM workflows").get))
    tried = spec(name="new", when={"hook": {"name": "build"}}, then=[{"task": {"title": "Mend ${{ message.text }}"}}])
    _, total, (firing,) = store_rules.trial(table.conn, SPACE, run, tried)
    assert (total, firing.sender, firing.would) == (1, "hook:build", ("task: Mend red",))


@pytest.mark.parametrize(
    ("task", "why"),
    [
        ({"title": "x", "needs": ["${{ message.text }}"]}, "neither a key of this plan nor a task"),
        ({"title": "x", "parent": "t9"}, "neither a key of this plan nor a task"),
    ],
)
def test_a_task_that_cannot_be_planned_is_told_and_harms_nobody(table: Table, task: dict[str, Any], why: str) -> None:
    table.define(name="plan", when={"said": {"from": "user"}}, then=[{"task": task}, {"say": "still"}])
    said = table.texts("hello")
    assert said[0] == "still"
    assert said[1].startswith("[RULE:plan] not done: ")
    assert why in said[1]
    assert tasks.unfinished(table.conn, SPACE) == 0
    assert "task.changed" not in [one.type for one in table.workspace.events]


def test_a_rule_plans_no_task_for_who_is_no_member_and_none_with_a_command(table: Table) -> None:
    with pytest.raises(Refused, match=r"member .dave. not found"):
        table.define(name="plan", then=[{"task": {"title": "x", "for": "dave"}}])
    with pytest.raises(msgspec.ValidationError, match="check"):
        table.define(name="plan", then=[{"task": {"title": "x", "check": "make"}}])


def test_tasks_that_lead_to_tasks_end(table: Table) -> None:
    more = {"title": "again", "text": "${{ message.text }}", "for": "bob"}
    table.define(name="more", when={"said": {"matches": "again|go"}}, then=[{"task": more}, {"task": more}])
    said = table.texts("go")
    assert 2 <= tasks.unfinished(table.conn, SPACE) <= FUEL
    assert any("not done" in text for text in said)


def test_a_hook_sets_off_its_rules_whose_words_stay_its_own(table: Table) -> None:
    table.define(name="said", when={"said": {"from": ["alice", "hook:build"]}}, then=[{"say": "heard"}])
    table.define(name="other", when={"hook": {"name": "other"}}, then=[{"say": "wrong"}])
    then = [
        {"assign": "bob", "message": "Look at ${{ message.about }}: ${{ match.1 }}"},
        {"say": "The build is red."},
        {"task": {"title": "Mend ${{ match.1 }}", "for": "carol"}},
        {"vote": {"type": "approval", "title": "Revert ${{ match.1 }}?"}},
    ]
    table.define("alice", name="red", when={"hook": {"name": "build", "matches": r"red: (\w+)"}}, then=then)
    draft = Draft(kind="said", space=SPACE, sender="hook:build", text="red: main @carol", mentions=())
    before = int(table.conn.execute(NEWEST).get)
    table.workspace.commit(append, draft)
    rows = [
        (kind, sender, text.partition("\n")[0]) for kind, sender, text, _ in table.conn.execute(SAID, (SPACE, before))
    ]
    name = rows[3][2].partition(":")[2].partition("]")[0]
    assert rows == [
        ("said", "hook:build", "red: main @carol"),
        ("said", "hook:build", "Look at build: main"),
        ("said", "alice", "The build is red."),
        ("proposal", "hook:build", f"[PROPOSAL:{name}] Revert main?"),
        ("status", "hook:build", "[TASKS] planned by the rule red:"),
        ("said", "hook:build", "[TASK:t1] Mend main"),
        ("said", SYSTEM, "heard"),
    ]


def test_a_question_about_a_hooks_words_is_a_hooks(table: Table) -> None:
    then = [{"say": "It said ${{ message.text }}"}]
    table.define(name="ask", when={"hook": {}}, requires={"from": ["user"]}, then=then)
    before = int(table.conn.execute(NEWEST).get)
    table.workspace.commit(append, Draft(kind="said", space=SPACE, sender="hook:build", text="red"))
    _, (kind, sender, said, _) = table.conn.execute(SAID, (SPACE, before)).fetchall()
    assert (kind, sender) == ("proposal", "hook:build")
    table.workspace.vote(USER, str(said)[len("[PROPOSAL:") :].partition("]")[0], "yes")
    assert table.conn.execute("SELECT sender, text FROM messages ORDER BY seq DESC LIMIT 1").fetchone() == (
        "hook:build",
        "It said red",
    )


def test_rules_end_with_the_words_of_their_space(table: Table) -> None:
    """Those of its workflow's file were not said there."""
    table.define(name="secret", then=[{"say": "the words"}])
    table.workspace.commit(rules.define_of_file, SPACE, [spec(name="filed", then=[{"say": "the words"}])])
    table.workspace.commit(stop_workflow, SPACE, "done", 0)
    table.workspace.commit(clear, SPACE)
    assert [one.name for one in store_rules.in_space(table.conn, SPACE)] == ["filed"]


def test_a_rule_about_schedules_is_not_set_off_by_the_deadline_of_a_vote(table: Table) -> None:
    table.define(name="late", when={"due": {}}, then=[{"say": "a schedule came"}])
    table.workspace.create(USER, asked(seconds=1.0))
    table.workspace.advance(2.0)
    assert table.workspace.ballot("p1").state == "expired"
    assert store_rules.in_space(table.conn, SPACE)[0].fired == 0
