"""Rules of installed packages: asked as the core rules are, told where they raise, and always at an end."""

from collections.abc import Callable
from pathlib import Path

import pytest

from kernel.policy.rules import FUEL
from kernel.rule.draft import Draft, Fact
from kernel.rule.effects import Append, Effect, InboxDelivery, Refuse, Rule, RuleView
from kernel.rule.evaluate import CHANCES, CORE_TABLE, MOST, Installed, InstalledRules, evaluate
from kernel.services.installed_rules import find_installed
from protocol.errors import Refused
from protocol.message import USER, MessageKind
from protocol.names import AgentKey, AgentName
from tests.kernel.rule.view_double import ViewDouble

pytestmark = pytest.mark.promise("P66")
SPACE = "review:main"


def rule(name: str, decide: Callable[[Fact], tuple[Effect, ...]]) -> Installed:
    def asked(fact: Fact, _view: RuleView) -> tuple[Effect, ...]:
        return decide(fact)

    return Installed(rule=Rule(name=name, kinds=frozenset({"said", "reply"}), decide=asked), package="demo 1.0")


def say(text: str, *, kind: MessageKind = "said", space: str = SPACE, sender: str = USER) -> Append:
    return Append(Draft(kind=kind, space=space, sender=sender, text=text))


def told(rules: InstalledRules, text: str = "hello", sender: str = USER) -> list[tuple[str, str, str]]:
    """What follows from a message: kind, sender, text."""
    view = ViewDouble()
    evaluate(Fact(Draft(kind="said", space=SPACE, sender=sender, text=text)), rules.table(), view, view)
    return [(fact.draft.kind, fact.draft.sender, fact.draft.text) for fact, _ in view.recorded[1:]]


def test_a_rule_of_a_package_answers_as_the_system() -> None:
    echo = rule("echo", lambda fact: (say(f"heard {fact.draft.text}", sender="alice"),))
    rules = InstalledRules([echo])
    assert told(rules) == [("said", "system", "heard hello")]
    assert told(rules, sender="hook:build") == [("said", "hook:build", "heard hello")]
    (listed,) = rules.listed()
    assert (listed.name, listed.package, listed.state, listed.fired) == ("echo", "demo 1.0", "on", 2)


def test_what_it_answers_ends_and_is_bounded() -> None:
    rules = InstalledRules([rule("chat", lambda _fact: tuple(say(f"{place}") for place in range(FUEL)))])
    said = told(rules)
    assert len(said) == MOST + 1
    assert "[RULE:chat] not done: installed rules may append 8 messages" in said[-1 - MOST][2] + said[-1][2]


def test_one_that_raises_is_told_and_left_out_after_a_few_times() -> None:
    logged: list[str] = []

    def broken(_fact: Fact) -> tuple[Effect, ...]:
        raise ValueError("no such\nticket")

    rules = InstalledRules(
        [rule("bad", broken), rule("good", lambda _fact: (say("good"),))], log=lambda name, _: logged.append(name)
    )
    for chance in range(1, CHANCES + 1):
        good, bad = told(rules)
        assert good == ("said", "system", "good")
        assert bad[2].startswith("[RULE:bad] not done: ValueError: no such")
        assert ("disabled until" in bad[2]) == (chance == CHANCES)
    assert told(rules) == [("said", "system", "good")]
    assert logged == ["bad"] * CHANCES
    assert [one.state for one in rules.listed()] == ["left out", "on"]


@pytest.mark.parametrize(
    "effect",
    [
        InboxDelivery(AgentKey("bob"), AgentName("bob")),
        say("elsewhere", space="other:main"),
        say("I am done", kind="done"),
    ],
)
def test_it_appends_messages_to_its_space_and_nothing_else(effect: Effect) -> None:
    (note,) = told(InstalledRules([rule("odd", lambda _fact: (effect,))]))
    assert note[2].startswith("[RULE:odd] not done: TypeError: ")


def test_it_may_refuse_what_is_said() -> None:
    rules = InstalledRules([rule("quiet", lambda _fact: (Refuse("forbidden", "not on a Sunday"),))])
    with pytest.raises(Refused, match="not on a Sunday"):
        told(rules)


def test_the_project_switches_one_off_by_its_name() -> None:
    off: set[str] = set()
    rules = InstalledRules([rule("echo", lambda _fact: (say("x"),))], is_off=off.__contains__)
    assert len(told(rules)) == 1
    off.add("echo")
    assert told(rules) == []
    assert [one.state for one in rules.listed()] == ["off"]


def test_without_any_the_table_is_that_of_the_core() -> None:
    assert InstalledRules().table() is CORE_TABLE


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the path, with one package that offers rules."""
    (tmp_path / "demo_rules-1.2.dist-info").mkdir()
    (tmp_path / "demo_rules-1.2.dist-info/METADATA").write_text(
        "Metadata-Version: 2.1\nName: demo-rules\nVersion: 1.2\n"
    )
    (tmp_path / "demo_rules-1.2.dist-info/entry_points.txt").write_text(
        "[agent_worker.rules]\nall = demo_rules_for_tests:RULES\nmissing = demo_rules_for_tests:NONE\n"
    )
    (tmp_path / "demo_rules_for_tests.py").write_text(
        "from kernel.rule.draft import Draft\n"
        "from kernel.rule.effects import Append, Rule\n"
        "def decide(fact, view):\n"
        "    if 'ticket' not in fact.draft.text:\n"
        "        return ()\n"
        "    return (Append(Draft(kind='said', space=fact.draft.space, sender='', text='noted')),)\n"
        "RULES = [Rule(name='tickets', kinds=frozenset({'said'}), decide=decide),\n"
        "         Rule(name='routing', kinds=frozenset({'said'}), decide=decide),\n"
        "         Rule(name='Odd Name', kinds=frozenset(), decide=decide), 'nothing']\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_packages_offer_rules_by_an_entry_point(packages: Path) -> None:
    rules = InstalledRules(find_installed([str(packages)]))
    assert told(rules, "a ticket") == [("said", "system", "noted")]
    assert told(rules) == []
    listed = {one.name: (one.package, one.state) for one in rules.listed()}
    assert listed["tickets"] == ("demo-rules 1.2", "on")
    assert [state for _, state in listed.values()].count("broken") == len(listed) - 1
    assert listed["missing"] == ("demo-rules 1.2", "broken")
    assert find_installed([str(packages / "nowhere")]) == ()
