"""Rules over REST and the Daemon MCP: defined by people and agents, tried on a run, switched off."""

import logging

import pytest

from kernel.api.mcp.tools import TOOLS, warn_of_deprecated
from kernel.store.attempts import narrow
from protocol.agent import SCOPES, Scope
from protocol.tools import DEPRECATED_TOOLS
from tests.builders.api import ServedKernel
from tests.kernel.api.mcp.rpc import call, refusal

HERE = "/spaces/review:main/rules"
ECHO = {
    "name": "echo",
    "when": {"said": {"from": "user", "matches": "ship (\\w+)"}},
    "then": [{"say": "so: ${{ match.1 }}"}],
}


async def attempt(kernel: ServedKernel, *scopes: Scope) -> None:
    """An attempt of alice in review whose token opens ``scopes``."""
    instruction = await kernel.attempt("alice@review")
    await kernel.writer.commit(narrow, instruction, 1, frozenset(scopes))


async def texts(kernel: ServedKernel) -> list[tuple[str, str]]:
    found = (await kernel.get("/spaces/review:main/channel"))["messages"]
    return [(one["from"], one["text"]) for one in found if one["kind"] == "said"]


@pytest.mark.promise("P53")
async def test_a_person_defines_a_rule_which_is_listed_tried_and_switched_off(kernel: ServedKernel) -> None:
    await kernel.ask("POST", "/workflows", {"workflow": "review"})
    await kernel.ask("POST", "/messages", {"to": "@review", "text": "ship it"})
    trial = (await kernel.ask("POST", "/runs/review:main/rules/test", {"rule": ECHO})).json
    assert [one["would"] for one in trial["firings"]] == [["say: so: it"]]
    assert await texts(kernel) == [("user", "ship it")]
    made = await kernel.ask("POST", HERE, {"rule": ECHO})
    assert (made.status, made.json["version"], made.json["author"]) == (201, 1, "user")
    await kernel.ask("POST", "/messages", {"to": "@review", "text": "ship that"})
    assert (await texts(kernel))[-1] == ("system", "so: that")
    off = await kernel.ask("DELETE", f"{HERE}/echo")
    assert (off.json["enabled"], off.json["version"], off.json["fired"]) == (False, 2, 1)
    await kernel.ask("POST", "/messages", {"to": "@review", "text": "ship more"})
    assert (await texts(kernel))[-1] == ("user", "ship more")
    assert [one["name"] for one in (await kernel.get(HERE))["rules"]] == ["echo"]


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ({"name": "x", "then": [{"assign": "nobody"}]}, "member 'nobody' not found"),
        ({"name": "x", "then": [{"say": "${{ env.HOME }}"}]}, "variable 'env.HOME' unknown"),
        ({"name": "x", "when": {"said": {"matches": "(?=a)"}}, "then": [{"say": "y"}]}, "pattern '(?=a)' invalid"),
        ({"name": "x", "when": {"said": {}, "done": {}}, "then": [{"say": "y"}]}, "exactly one"),
        ({"name": "x", "then": [{"say": "y", "assign": "alice"}]}, "exactly one"),
        ({"name": "x", "then": []}, "1 to 16 are allowed"),
        ({"name": "X!", "then": [{"say": "y"}]}, "X!"),
    ],
)
async def test_what_can_be_no_rule_is_refused_with_why(kernel: ServedKernel, rule: object, why: str) -> None:
    await kernel.ask("POST", "/workflows", {"workflow": "review"})
    refused = await kernel.ask("POST", HERE, {"rule": rule})
    assert refused.status == 400
    assert why in refused.json["detail"]


@pytest.mark.promise("P54")
async def test_an_agent_needs_the_scope_to_define_a_rule_and_may_do_no_more_by_it(kernel: ServedKernel) -> None:
    await attempt(kernel, *SCOPES)
    assert await refusal(kernel, "rule_define", {"rule": {"name": "mine", "then": [{"say": "x"}]}}) == "forbidden"


@pytest.mark.promise("P54")
async def test_the_scope_of_what_a_rule_does_is_asked_for_at_its_definition(kernel: ServedKernel) -> None:
    await attempt(kernel, "rules", "channel.read")
    refused = await call(kernel, "rule_define", {"rule": {"name": "mine", "then": [{"say": "x"}]}})
    assert "channel.write" in refused["structuredContent"]["detail"]


@pytest.mark.parametrize(("old", "current"), DEPRECATED_TOOLS.items())
async def test_a_deprecated_name_of_a_tool_works_and_is_logged_and_not_listed(
    kernel: ServedKernel, old: str, current: str, caplog: pytest.LogCaptureFixture
) -> None:
    await attempt(kernel, "rules", "channel.read")
    warn_of_deprecated.cache_clear()
    given = {"rule_list": {}, "rule_define": {"rule": ECHO}, "rule_invoke": {"rule": "absent"}}[current]
    with caplog.at_level(logging.WARNING):
        by_old, by_current = await call(kernel, old, given), await call(kernel, current, given)
    assert by_old["structuredContent"].get("code") == by_current["structuredContent"].get("code")
    assert f"tool.deprecated {old}: use {current}" in caplog.text
    assert old not in TOOLS


async def test_an_approval_rule_with_the_deprecated_name_of_a_tool_grants_calls_of_the_current_one(
    kernel: ServedKernel,
) -> None:
    await attempt(kernel, *SCOPES)
    asked = {"tool": "rule_define", "input": {"rule": 1}, "wait_seconds": 0}
    await call(kernel, "auth_request", asked)
    assert (await kernel.ask("POST", "/approvals/a1/approve", {"always": '{"rule":*}'})).status == 200
    await kernel.writer.commit(lambda tx: tx.write("UPDATE approval_rules SET tool = 'proposal_define'", ()))
    granted = await call(kernel, "auth_request", asked | {"input": {"rule": 2}})
    assert granted["structuredContent"]["decision"] == "granted", granted
