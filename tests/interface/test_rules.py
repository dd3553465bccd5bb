"""rule list, show, add, rm, test: what follows from what in a workflow, and a person's say in it."""

from pathlib import Path

import msgspec
import pytest

from protocol.rules import (
    Action,
    InstalledRule,
    RuleFiring,
    RuleInfo,
    RuleList,
    RuleSpec,
    RuleTrial,
    When,
    WhenSaid,
    document,
)
from tests.interface.conftest import Cli
from tests.interface.hostile import HOSTILE, obeyed
from tests.interface.kernel_double import KernelDouble
from tests.interface.samples import AT

HERE = "/spaces/review:main/rules"
SPEC = RuleSpec(name="fix", when=When(said=WhenSaid(from_="bob", matches="CHANGES")), then=(Action(assign="alice"),))
INFO = RuleInfo(
    name="fix", space="review:main", version=2, author="bob", enabled=True, defined_at=AT, message_id="m7", fired=3,
    fired_at=AT, rule=SPEC,
)  # fmt: skip
FILE = """\
rules:
  - {on: done, from: alice, assign: bob}
  - name: deploy
    when: {said: {matches: "^APPROVED"}}
    requires: {grants: 2, from: [user, bob]}
    then: [{say: go}]
    enabled: false
"""


def test_rules_are_listed_with_whose_they_are_and_how_often_they_were_done(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers[f"GET {HERE}"] = RuleList(space="review:main", rules=(INFO,), total=1)
    assert cli("rule", "list", "@review").out.splitlines() == [
        "NAME  VERSION  AUTHOR  STATE  WHEN  DONE",
        "fix   v2       bob     on     said  3",
    ]


def test_rules_of_packages_are_listed_after_them(cli: Cli, kernel: KernelDouble) -> None:
    installed = (
        InstalledRule(name="tickets", package="demo 1.2", kinds=("reply", "said"), state="on", fired=4, raised=0),
        InstalledRule(name="lost", package="demo 1.2", kinds=(), state="broken", fired=0, raised=0, why="no such name"),
    )
    kernel.answers[f"GET {HERE}"] = RuleList(space="review:main", rules=(INFO,), total=1, installed=installed)
    assert [line.split() for line in cli("rule", "list", "@review").out.splitlines()[2:]] == [
        ["tickets", "demo", "1.2", "installed", "on", "reply,said", "4"],
        ["lost", "demo", "1.2", "installed", "broken", "no", "such", "name", "0"],
    ]


def test_a_rule_is_shown_as_it_is(cli: Cli, kernel: KernelDouble) -> None:
    for text in (one.encode("utf-8", "replace").decode() for one in HOSTILE):
        rule = msgspec.structs.replace(INFO, author=text, rule=msgspec.structs.replace(SPEC, description=text))
        kernel.answers[f"GET {HERE}/fix"] = document(rule)
        out = cli("rule", "show", "fix", "@review").out
        assert 'when: {"said": {"from": "bob", "matches": "CHANGES"}}' in out
        assert obeyed(out) == []
    cli("rule", "show", "a?b", "@review")
    assert kernel.of("GET", f"{HERE}/a?b"), "not a rule a, asked for with b"


def test_the_rules_of_a_file_are_defined_in_their_order(cli: Cli, kernel: KernelDouble, tmp_path: Path) -> None:
    kernel.answers[f"POST {HERE}"] = document(INFO)
    (tmp_path / "rules.yaml").write_text(FILE)
    assert cli("rule", "add", str(tmp_path / "rules.yaml"), "@review").out.splitlines() == ["fix: version 2, on"] * 2
    sent = [one.body["rule"] for one in kernel.of("POST", HERE)]
    assert sent[0] == {"on": "done", "from": "alice", "assign": "bob"}
    assert sent[1]["requires"] == {"grants": 2, "from": ["user", "bob"]}
    assert sent[1]["enabled"] is False


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("rules: [{nmae: x}]", "unknown key nmae:"),
        ("- x", "Expected keys, got a text"),
        ("{name: x, then: [{vote: {}}]}", "then[0].vote: missing key type:"),
        ("{name: x, then: [{vote: soon}]}", "then[0].vote: expected keys, got a text"),
        ("{name: x, requires: {grants: two}}", "requires.grants: expected a whole number, got a text"),
        ("- [", ""),
        ("rules: []", "contains no rules"),
    ],
)
def test_a_file_that_has_no_rules_says_why(cli: Cli, tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "rules.yaml").write_text(text)
    done = cli("rule", "add", str(tmp_path / "rules.yaml"), "@review")
    assert (done.code, "rules.yaml" in done.err, why in done.err, "`" in done.err) == (2, True, True, False), done.err


def test_a_trial_tells_what_a_rule_would_have_done(cli: Cli, kernel: KernelDouble) -> None:
    firing = RuleFiring(
        seq=4, kind="said", sender="bob", text="CHANGES", waits_for=(), would=("assign alice: CHANGES",)
    )
    trial = RuleTrial(run="r1", rule="fix", messages=9, total=1, firings=(firing,))
    kernel.answers["POST /runs/r1/rules/test"] = trial
    assert cli("rule", "test", "fix", "--run", "r1").out.splitlines() == [
        "m4 said from bob: CHANGES",
        "  would assign alice: CHANGES",
        "fix: set off by 1 of 9 messages; nothing was done",
    ]


def test_a_rule_is_switched_off_by_its_name(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers[f"DELETE {HERE}/fix"] = document(msgspec.structs.replace(INFO, enabled=False, version=3))
    assert cli("rule", "rm", "fix", "@review").out == "fix: version 3, off\n"
