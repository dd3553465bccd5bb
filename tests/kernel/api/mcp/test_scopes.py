"""Scopes: an attempt is listed, and may call, exactly the tools that its agent's file gives it."""

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.api.mcp.tools import TOOLS
from kernel.policy.tools import GUARDED, LONE, TEAM
from kernel.store.attempts import narrow
from protocol.agent import NAMED_ONLY, SCOPES, Scope, scopes_of
from tests.builders.api import ServedKernel
from tests.kernel.api.mcp.rpc import ENVELOPE, call, call_of, post, refusal

pytestmark = pytest.mark.promise("P42", "XF15")


async def attempt(kernel: ServedKernel, *scopes: Scope) -> None:
    """An attempt of alice in review whose token opens ``scopes``."""
    instruction = await kernel.attempt("alice@review")
    await kernel.writer.commit(narrow, instruction, 1, frozenset(scopes))


async def listed(kernel: ServedKernel, **extra: Any) -> set[str]:
    """The tools that it is listed; with something ``extra`` in the request by the SDK, else without it."""
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": ENVELOPE | extra}}
    return {tool["name"] for tool in (await post(kernel, body)).json["result"]["tools"]}


@pytest.mark.parametrize("extra", [{}, {"progressToken": 1}], ids=["fast", "sdk"])
async def test_a_reviewer_that_may_not_speak_reads_votes_and_is_refused_the_rest(
    kernel: ServedKernel, extra: dict[str, int]
) -> None:
    await attempt(kernel, "channel.read", "votes")
    tools = await listed(kernel, **extra)
    assert {"channel_read", "my_inbox", "my_inbox_ack", "team_vote", "team_proposal_create", "team_members"} <= tools
    assert not tools & {"channel_send", "ask_agent", "feedback_submit"}
    before = (await kernel.get("/spaces/review/channel"))["total"]
    refused = (await post(kernel, call_of("channel_send", {"message": "@bob hi"}, **extra))).json["result"]
    assert (refused["isError"], refused["structuredContent"]["code"]) == (True, "forbidden")
    assert "channel.write" in refused["structuredContent"]["detail"]
    assert (await kernel.get("/spaces/review/channel"))["total"] == before
    assert (await call(kernel, "channel_read"))["isError"] is False


async def test_a_writer_without_votes_is_refused_even_with_arguments_that_are_wrong(kernel: ServedKernel) -> None:
    await attempt(kernel, "channel.write")
    for name in ("team_vote", "team_proposal_create", "team_proposal_status", "team_proposal_cancel"):
        assert await refusal(kernel, name, {"no": "such"}) == "forbidden", name
    assert (await call(kernel, "channel_send", {"message": "hi"}))["isError"] is False


async def test_a_token_opens_everything_of_the_default_and_lists_what_its_situation_needs(kernel: ServedKernel) -> None:
    """`default` is all but what only its name opens; a tool that is not listed is answered to who knows its name."""
    await kernel.attempt(token="alone")
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": ENVELOPE}}

    async def names(token: str) -> set[str]:
        return {tool["name"] for tool in (await post(kernel, body, token)).json["result"]["tools"]}

    assert await names("alone") == LONE | {"auth_request"}
    reflected = await call(kernel, "soul_reflect", {}, "alone")
    assert reflected["isError"] is False
    await kernel.attempt("bob@review", token="bobs")
    plain = LONE | TEAM | {"auth_request"}
    assert await names("bobs") == plain
    task = {"tasks": [{"title": "x"}]}
    assert (await call(kernel, "team_task_plan", task, "bobs"))["isError"] is False
    assert await names("bobs") == plain | {tool.name for tool in TOOLS.values() if tool.scope == "tasks"}
    file = kernel.root / ".agents.yaml"
    file.write_text("guard: {soul_evolution: auto}\n")
    assert await names("alone") == LONE | GUARDED | {"auth_request"}


async def test_a_file_that_names_a_scope_has_its_tools_listed(kernel: ServedKernel) -> None:
    file = kernel.root / ".agents/alice.yaml"
    file.write_text(f"{file.read_text()}scopes: [default, votes]\n")
    await kernel.attempt()
    assert await listed(kernel) == LONE | {"auth_request"} | {
        tool.name for tool in TOOLS.values() if tool.scope == "votes"
    }


async def test_an_agent_without_any_scope_has_the_tools_that_all_have(kernel: ServedKernel) -> None:
    await attempt(kernel)
    assert await listed(kernel) == {"team_members", "resource_read", "auth_request"}


@given(st.frozensets(st.sampled_from(sorted(get_args(Scope)))))
def test_each_scope_opens_its_tools_whatever_the_others_are(scopes: frozenset[Scope]) -> None:
    assert scopes_of(tuple(scopes)) == scopes
    assert scopes_of(("default", *scopes)) == SCOPES | scopes
    assert set(get_args(Scope)) == SCOPES | NAMED_ONLY
