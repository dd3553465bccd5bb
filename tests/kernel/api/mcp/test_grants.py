"""Grants: what an attempt may do beyond its agent's file, from the next call on, and no longer than it may."""

from typing import Any

import pytest

from kernel.store.attempts import narrow
from protocol.agent import Scope
from tests.builders.api import ServedKernel
from tests.kernel.api.client import at_once
from tests.kernel.api.mcp.rpc import CALL_KEY, ENVELOPE, call, call_of, content, post, refusal

pytestmark = pytest.mark.promise("P61", "P62")

LEAD, HAND = "leads-token", "hands-token"


@pytest.fixture
async def kernel(kernel: ServedKernel) -> ServedKernel:
    """A kernel whose workflow review runs: alice (LEAD) may give what she has, bob (HAND) can only read the channel."""
    await kernel.ask("POST", "/workflows", {"workflow": "review"})
    await may(kernel, "alice@review", LEAD, "auth", "channel.write", "channel.read", "documents.write")
    await may(kernel, "bob@review", HAND, "channel.read")
    return kernel


async def may(kernel: ServedKernel, who: str, token: str, *scopes: Scope) -> str:
    """An attempt of ``who`` whose file names ``scopes``."""
    instruction = await kernel.attempt(who, token=token)
    await kernel.writer.commit(narrow, instruction, 1, frozenset(scopes))
    return instruction


async def gives(kernel: ServedKernel, token: str = LEAD, **asked: Any) -> Any:
    return await content(kernel, "auth_grant", asked, token)


async def person_gives(kernel: ServedKernel, **asked: Any) -> Any:
    answer = await kernel.ask("POST", "/spaces/review:main/grants", {"to": "bob", **asked})
    assert answer.status == 201, answer.body
    return answer.json


async def says(kernel: ServedKernel, text: str = "hello", token: str = HAND, **meta: Any) -> str | None:
    """Bob says something; the code of the refusal, or None."""
    given = await content(kernel, "channel_send", {"message": text}, token, **meta)
    return given.get("code") if "code" in given else None


async def listed(kernel: ServedKernel, token: str = HAND, **extra: Any) -> set[str]:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": ENVELOPE | extra}}
    return {tool["name"] for tool in (await post(kernel, body, token)).json["result"]["tools"]}


@pytest.mark.parametrize("extra", [{}, {"progressToken": 1}], ids=["fast", "sdk"])
async def test_what_a_colleague_gives_counts_from_the_next_call_until_it_is_revoked(
    kernel: ServedKernel, extra: dict[str, int]
) -> None:
    assert await says(kernel) == "forbidden"
    assert "channel_send" not in await listed(kernel, HAND, **extra)
    given = await gives(kernel, scope="channel.write", to="bob")
    assert "channel_send" in await listed(kernel, HAND, **extra)
    assert (await post(kernel, call_of("channel_send", {"message": "x"}, **extra), HAND)).json["result"][
        "isError"
    ] is False
    revoked = await call(kernel, "auth_revoke", {"grant": given["id"]}, LEAD)
    assert revoked["structuredContent"]["id"] == given["id"]
    assert await says(kernel) == "forbidden"
    assert "channel_send" not in await listed(kernel, HAND, **extra)
    said = (await kernel.get("/spaces/review/channel"))["messages"]
    assert [one["text"] for one in said if one["text"].startswith("[GRANT]")] == [
        f"[GRANT] {given['id']}: bob may use the scope channel.write",
        f"[GRANT] {given['id']} is revoked: bob may no longer use it for the scope channel.write",
    ]


async def test_uses_are_counted_with_what_they_allow_and_a_repeat_is_none(kernel: ServedKernel) -> None:
    await gives(kernel, scope="channel.write", to="bob", uses=2)
    refused = await call(kernel, "channel_send", {"message": ""}, HAND)
    assert refused["isError"] is True
    key = {CALL_KEY: "k1"}
    assert [await says(kernel, "one", **key), await says(kernel, "one", **key), await says(kernel, "two")] == [None] * 3
    assert await says(kernel, "three") == "forbidden"
    assert "channel_send" not in await listed(kernel)
    assert await says(kernel, "one", **key) is None
    said = [one["text"] for one in (await kernel.get("/spaces/review/channel"))["messages"]]
    assert [text for text in said if text in ("one", "two", "three")] == ["one", "two"]


async def test_calls_at_the_same_time_have_no_more_uses_than_there_are(kernel: ServedKernel) -> None:
    await gives(kernel, scope="channel.write", to="bob", uses=3)
    assert sorted(map(str, await at_once(8, says, kernel, "call"))) == ["None"] * 3 + ["forbidden"] * 5
    said = [one["text"] for one in (await kernel.get("/spaces/review/channel"))["messages"]]
    assert len([text for text in said if text == "call"]) == 3


async def test_reading_by_a_grant_uses_it_up_as_well(kernel: ServedKernel) -> None:
    await gives(kernel, scope="documents.write", to="bob", uses=1)
    made = await call(kernel, "team_doc_create", {"file": "a.md", "content": "x"}, HAND)
    assert made["isError"] is False
    assert (await call(kernel, "team_doc_append", {"file": "a.md", "content": "y"}, HAND))["isError"] is True
    await person_gives(kernel, scope="documents.read", uses=1)
    assert (await call(kernel, "team_doc_read", {"file": "a.md"}, HAND))["isError"] is False
    assert (await content(kernel, "team_doc_read", {"file": "a.md"}, HAND))["code"] == "forbidden"
    await person_gives(kernel, scope="memory", uses=1)
    said = [await content(kernel, "soul_suggest", {"observation": "x"}, HAND) for _ in range(2)]
    assert [one["code"] for one in said] == ["unknown_agent", "forbidden"], "what changes files is counted before"


async def test_who_may_not_give_is_not_told_how_and_is_refused(kernel: ServedKernel) -> None:
    assert not {"auth_grant", "auth_revoke"} & await listed(kernel)
    assert (await gives(kernel, HAND, scope="channel.read", to="alice"))["code"] == "forbidden"
    assert (await gives(kernel, scope="votes", to="bob"))["code"] == "forbidden"
    assert (await gives(kernel, scope="channel.write", to="nobody"))["code"] == "not_a_participant"
    assert (await gives(kernel, scope="channel.write", to="alice"))["code"] == "bad_request"
    assert (await gives(kernel, scope="channel.write", to="bob", until="yesterday"))["code"] == "bad_request"
    mine = await person_gives(kernel, scope="votes")
    assert await refusal(kernel, "auth_revoke", {"grant": mine["id"]}, LEAD) == "forbidden"
    assert (await content(kernel, "auth_revoke", {"grant": "w99"}, LEAD))["code"] == "not_found"


async def test_what_is_handed_on_ends_with_what_it_derives_from(kernel: ServedKernel) -> None:
    votes = await person_gives(kernel, scope="votes", uses=3)
    auth = await person_gives(kernel, scope="auth", until="2h")
    assert (await gives(kernel, HAND, scope="votes", to="alice", uses=4))["code"] == "forbidden"
    assert (await gives(kernel, HAND, scope="votes", to="alice", until="3h"))["code"] == "forbidden"
    handed = await gives(kernel, HAND, scope="votes", to="alice")
    assert handed["until"] == auth["until"], "nobody gives for longer than he may give"
    assert (await call(kernel, "team_proposal_status", {}, LEAD))["isError"] is False
    rows = {row["id"]: row for row in (await kernel.get("/grants?space=review:main"))["grants"]}
    assert (rows[votes["id"]]["used"], rows[handed["id"]]["used"]) == (1, 1)
    assert (rows[handed["id"]]["parent"], rows[handed["id"]]["warrant"]) == (votes["id"], auth["id"])
    assert (await kernel.ask("DELETE", f"/grants/{auth['id']}")).json["state"] == "revoked"
    assert (await content(kernel, "team_proposal_status", {}, LEAD))["code"] == "forbidden"
    assert (await kernel.get(f"/grants/{handed['id']}"))["state"] == "void"


async def test_a_lead_lets_through_the_call_of_another_and_never_its_own(kernel: ServedKernel) -> None:
    asked = await call(kernel, "auth_request", {"tool": "bash", "input": {}, "wait_seconds": 0}, HAND)
    own = await call(kernel, "auth_request", {"tool": "bash", "input": {}, "wait_seconds": 0}, LEAD)
    request, own_request = asked["structuredContent"]["id"], own["structuredContent"]["id"]
    assert (await gives(kernel, HAND, request=own_request))["code"] == "forbidden", "without the scope auth nobody does"
    assert (await gives(kernel, request=own_request))["code"] == "forbidden"
    assert (await gives(kernel, request="a99"))["code"] == "not_found"
    grant = await gives(kernel, request=request)
    decided = await kernel.get(f"/approvals/{request}")
    assert (decided["state"], decided["decided_by"]) == ("granted", "alice")
    shown = await kernel.get(f"/grants/{grant['id']}")
    assert (shown["request"], shown["state"], shown["to"]) == (request, "used", "bob")
    assert (await kernel.ask("DELETE", f"/grants/{grant['id']}")).status == 409


async def test_a_stale_token_has_no_grant_and_a_next_attempt_of_the_agent_has_it(kernel: ServedKernel) -> None:
    await gives(kernel, scope="channel.write", to="bob")
    first = (await kernel.get("/agents/bob@review:main/queue"))["instructions"][0]["id"]
    await kernel.end(first)
    assert (await post(kernel, call_of("channel_send", {"message": "x"}), HAND)).json["code"] == "stale_attempt"
    await may(kernel, "bob@review", "next-token", "channel.read")
    assert await says(kernel, "here again", "next-token") is None
