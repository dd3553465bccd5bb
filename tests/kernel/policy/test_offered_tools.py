"""Tools follow from the situation: few where there is little to do with them, all of a scope where it is named."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.policy.tools import GUARDED, LONE, TEAM, Situation, offered_tools
from protocol.agent import NAMED_ONLY, SCOPES, Scope
from protocol.tools import CONTEXT_SCOPES, CONTEXT_TOOLS, DEPRECATED_TOOLS, ToolScope

pytestmark = pytest.mark.promise("P42")

DEFAULT: frozenset[ToolScope] = frozenset[ToolScope]({*SCOPES, "all"})
IN_TREE: frozenset[ToolScope] = DEFAULT.union({"tree"})
SITUATIONS = st.builds(Situation, st.booleans(), st.booleans(), st.frozensets(st.sampled_from(sorted(SCOPES))))


def of(*scopes: ToolScope) -> set[str]:
    """The tools of these scopes."""
    return {name for name, scope in CONTEXT_SCOPES.items() if scope in scopes}


def test_a_lone_agent_has_twelve_tools_and_one_of_a_plain_workflow_twenty_five_at_most() -> None:
    assert LONE | TEAM | GUARDED <= CONTEXT_TOOLS
    alone, team = offered_tools(Situation(), DEFAULT), offered_tools(Situation(team=True), IN_TREE)
    assert (alone, len(alone)) == (LONE, 12)
    assert (team, len(team) <= 25) == (LONE | TEAM | of("tree"), True)
    assert not alone & {*of("votes", "tasks", "documents.read", "documents.write", "rules", "auth", "spaces")}


@pytest.mark.parametrize("scope", sorted(SCOPES - {"feedback"}))
def test_what_a_workflow_uses_and_what_a_file_names_is_offered_whole(scope: Scope) -> None:
    plain = offered_tools(Situation(team=True), DEFAULT)
    assert offered_tools(Situation(team=True, uses=frozenset({scope})), DEFAULT) == plain | of(scope)
    assert offered_tools(Situation(team=True), DEFAULT, ("default", scope)) == plain | of(scope)
    assert offered_tools(Situation(team=True), {scope, "all"}, (scope,)) == of(scope) | {
        "team_members",
        "resource_read",
    }


def test_what_was_granted_or_is_no_part_of_the_default_is_offered() -> None:
    """Somebody named it. Feedback where the file switches it on; the permission prompt of programs never."""
    for scope in NAMED_ONLY:
        assert offered_tools(Situation(), {*DEFAULT, scope}) == LONE | of(scope)
    assert offered_tools(Situation(guarded=True), DEFAULT) == LONE | GUARDED
    assert offered_tools(Situation(), DEFAULT, switches=("bash", "feedback")) == LONE | {"feedback_submit"}
    every = offered_tools(Situation(True, True), {*IN_TREE, *NAMED_ONLY}, get_args(Scope), ("feedback",))
    assert CONTEXT_TOOLS - every == {"auth_request", *DEPRECATED_TOOLS}


@given(SITUATIONS, st.frozensets(st.sampled_from(sorted(get_args(Scope)))))
def test_nothing_is_offered_that_no_scope_opens_and_more_of_anything_takes_nothing_away(
    situation: Situation, scopes: frozenset[Scope]
) -> None:
    """The scopes decide; what is there only adds."""
    opened: set[ToolScope] = {*scopes, "all"}
    offered = offered_tools(situation, opened, tuple(sorted(scopes)))
    assert offered <= of(*opened)
    for more in (situation._replace(team=True), situation._replace(guarded=True), situation._replace(uses=SCOPES)):
        assert offered <= offered_tools(more, opened, tuple(sorted(scopes)))
