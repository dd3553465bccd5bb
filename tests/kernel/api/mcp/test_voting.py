"""Votes as they go over the wire: what the caller learns, what is refused, and who it is that votes."""

from typing import Any

import pytest

from kernel.api.mcp.tools import TOOLS
from tests.builders.api import ServedKernel
from tests.kernel.api.mcp.rpc import CALL_KEY, call, refusal

CREATE = {"type": "decision", "title": "Which?", "options": [{"id": "a", "label": "Apples"}, {"id": "b"}]}


async def given(kernel: ServedKernel, tool: str, arguments: Any, token: str = "worker-token", key: str = "") -> Any:
    """The structured result of a call that is not refused."""
    meta = {CALL_KEY: key} if key else {}
    result = await call(kernel, tool, arguments, token, **meta)
    assert result["isError"] is False, result
    return result["structuredContent"]


@pytest.mark.promise("P4")
async def test_a_repeated_call_of_the_same_key_adds_nothing(team: ServedKernel) -> None:
    first = await given(team, "team_proposal_create", CREATE, key="0.0:c")
    vote = {"proposal": "p1", "choice": "b"}
    voted = await given(team, "team_vote", vote, key="0.1:v")
    assert await given(team, "team_proposal_create", CREATE, key="0.0:c") == first
    assert await given(team, "team_vote", vote, key="0.1:v") == voted
    assert voted["message_id"].startswith("m")  # by which a repeated call without a key is told from one that is meant
    assert (await given(team, "team_vote", vote, key="0.2:v"))["again"] is True


@pytest.mark.promise("P6")
@pytest.mark.parametrize(
    ("tool", "arguments", "code"),
    [
        ("team_proposal_create", {**CREATE, "timeout_seconds": 0.5}, "bad_request"),
        ("team_proposal_create", {**CREATE, "timeout_seconds": 604801}, "bad_request"),
        ("team_proposal_create", {**CREATE, "creator": "bob"}, "bad_request"),
        ("team_proposal_create", {**CREATE, "type": "coup"}, "bad_request"),
        ("team_proposal_create", {**CREATE, "options": [{"id": "a b"}, {"id": "c"}]}, "bad_request"),
        ("team_proposal_create", {**CREATE, "resolution": {"quorum": 3}}, "bad_request"),
        ("team_proposal_create", {**CREATE, "binding": True}, "bad_request"),
        ("team_proposal_create", {"type": "election", "title": "x", "binds": {"documents": ["a"]}}, "bad_request"),
        ("team_proposal_create", {"type": "approval", "title": "x", "binding": True}, "bad_request"),
        ("team_proposal_create", {**CREATE, "id": "p1"}, "already_exists"),
        ("team_vote", {"proposal": "p9", "choice": "a"}, "not_found"),
        ("team_vote", {"proposal": "p1", "choice": "c"}, "bad_request"),
        ("team_vote", {"proposal": "p1", "choice": "a", "voter": "alice"}, "bad_request"),
        ("team_proposal_status", {"proposal": "p9"}, "not_found"),
        ("team_proposal_cancel", {"proposal": "p1"}, "forbidden"),
    ],
)
async def test_a_refusal_is_a_result_with_a_code(team: ServedKernel, tool: str, arguments: Any, code: str) -> None:
    """contracts 5: nobody votes or cancels as another; bounds are checked."""
    await given(team, "team_proposal_create", CREATE)
    assert await refusal(team, tool, arguments, "bobs-token") == code


async def test_in_a_personal_space_nobody_votes(kernel: ServedKernel) -> None:
    await kernel.attempt()
    assert await refusal(kernel, "team_proposal_create", CREATE) == "not_a_participant"


def test_the_tools_say_of_themselves_what_they_change() -> None:
    """contracts 5: annotations, a schema in and one out."""
    tools = {one["name"]: one for one in (tool.described for tool in TOOLS.values())}
    hints = {
        name: (tools[name]["annotations"]["readOnlyHint"], tools[name]["annotations"]["idempotentHint"])
        for name in ("team_proposal_create", "team_vote", "team_proposal_status", "team_proposal_cancel")
    }
    assert hints == {
        "team_proposal_create": (False, False),
        "team_vote": (False, True),
        "team_proposal_status": (True, True),
        "team_proposal_cancel": (False, True),
    }
    create = tools["team_proposal_create"]["inputSchema"]
    assert create["required"] == ["type", "title"]
    assert create["properties"]["timeout_seconds"]["default"] is None
    assert all(tools[name]["outputSchema"] for name in hints)
