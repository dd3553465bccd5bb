"""The context tools: what they do, in the name of exactly the attempt that calls."""

import msgspec
import pytest

from kernel.api.mcp.calls import ToolDispatcher
from kernel.api.mcp.tools import TOOLS
from kernel.operations.operation import Actor
from kernel.store import messages
from kernel.store.agents import AgentSpec, put_agents
from kernel.store.attempts import Identity
from kernel.store.transitions.lease import lease
from kernel.store.transitions.requeue import Requeue, requeue
from protocol.names import AgentKey, AgentName, InstructionId, SpaceId
from protocol.tools import OFFERED_TO, TO_MODEL
from tests.builders.api import ServedKernel
from tests.kernel.api.client import at_once
from tests.kernel.api.mcp.rpc import CALL_KEY, ENVELOPE, REVISION, call, call_of, content, post, refusal

pytestmark = pytest.mark.promise("P4", "P6")


async def said(kernel: ServedKernel, space: str) -> list[tuple[str, str]]:
    channel = (await kernel.get(f"/spaces/{space}/channel"))["messages"]
    return [(message["from"], message["text"]) for message in channel if message["kind"] == "said"]


async def test_a_ninth_mention_is_reported_to_the_sender(kernel: ServedKernel) -> None:
    names = [f"n{number}" for number in range(9)]
    root = kernel.root
    members = "".join(f"  {name}: {{ model: mock/x, mock: [{{ text: hi }}] }}\n" for name in names)
    (root / ".workflows/big.yaml").write_text(f"agents:\n  alice: {{ ref: alice }}\n{members}")
    assert (await kernel.ask("POST", "/workflows", {"workflow": "big"})).status == 201
    await kernel.attempt("alice@big")
    text = " ".join(f"@{name}" for name in names)
    sent = await content(kernel, "channel_send", {"message": text})
    assert (len(sent["instruction_ids"]), sent["not_woken"]) == (8, ["n8"])


async def test_a_repeated_call_of_one_key_adds_nothing_and_gets_the_first_answer(kernel: ServedKernel) -> None:
    await kernel.attempt()
    results = await at_once(10, call, kernel, "channel_send", {"message": "once"}, **{CALL_KEY: "call-1"})
    assert all(result == results[0] for result in results)
    assert [text for _, text in await said(kernel, "dm:alice")].count("once") == 1


async def test_calls_without_a_key_are_calls_of_their_own(kernel: ServedKernel) -> None:
    await kernel.attempt()
    for _ in range(2):
        await call(kernel, "channel_send", {"message": "again"})
    await call(kernel, "channel_send", {"message": "again"}, **{CALL_KEY: "a"})
    await call(kernel, "channel_send", {"message": "again"}, **{CALL_KEY: "b"})
    assert [text for _, text in await said(kernel, "dm:alice")].count("again") == 4


async def test_no_part_of_a_channel_is_left_out_without_a_word(kernel: ServedKernel) -> None:
    await kernel.attempt(text="n0")
    for number in range(1, 5):
        await call(kernel, "channel_send", {"message": f"n{number}"})

    async def pages(parameter: str, place: int | None) -> list[list[str]]:
        found: list[list[str]] = []
        arguments = {"limit": 2} if place is None else {"limit": 2, parameter: place}
        while len(found) < 5:
            page = await content(kernel, "channel_read", arguments)
            assert page["total"] == 5
            found.append([message["text"] for message in page["messages"]])
            if page["next"] is None:
                return found
            arguments[parameter] = page["next"]
        raise AssertionError("it has no end")

    assert await pages("before", None) == [["n3", "n4"], ["n1", "n2"], ["n0"]]
    assert await pages("since", 0) == [["n0", "n1"], ["n2", "n3"], ["n4"]]
    both = await call(kernel, "channel_read", {"since": 0, "before": 3})
    assert "cannot be combined" in both["structuredContent"]["detail"]


async def test_no_part_of_an_inbox_is_left_out_without_a_word(
    kernel: ServedKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "DELIVERIES_LIMIT", 2)
    await kernel.attempt(text="n0")
    for number in range(1, 4):
        await kernel.ask("POST", "/messages", {"to": "alice", "text": f"n{number}"})
    first = await content(kernel, "my_inbox")
    assert ([row["text"] for row in first["deliveries"]], first["total"]) == (["n0", "n1"], 4)
    assert first["next"] == first["deliveries"][-1]["message_id"]
    second = await content(kernel, "my_inbox", {"after": first["next"]})
    assert ([row["text"] for row in second["deliveries"]], second["total"], second["next"]) == (["n2", "n3"], 4, None)
    assert await refusal(kernel, "my_inbox", {"after": "soon"}) == "bad_request"


async def test_the_inbox_lists_what_is_not_handled_and_marks_exactly_what_is_named(kernel: ServedKernel) -> None:
    await kernel.attempt(text="the work")
    other = (await kernel.ask("POST", "/messages", {"to": "alice", "text": "URGENT: more"})).json["message_id"]
    rows = (await content(kernel, "my_inbox"))["deliveries"]
    assert [(row["text"], row["state"], row["flag"]) for row in rows] == [
        ("the work", "leased", None),
        ("URGENT: more", "queued", "urgent"),
    ]
    marked = await content(kernel, "my_inbox_ack", {"ids": [other, "m999"]})
    assert marked["acknowledged"] == [other]
    again = await content(kernel, "my_inbox_ack", {"ids": [other]})
    assert again["acknowledged"] == []
    rows = (await content(kernel, "my_inbox"))["deliveries"]
    assert [row["text"] for row in rows] == ["the work"]


@pytest.mark.promise("P6", "XF16")
async def test_an_agent_cannot_mark_the_messages_of_another(kernel: ServedKernel) -> None:
    carol = AgentSpec(key=AgentKey("carol"), origin="ephemeral", definition=b'{"name": "carol", "model": "mock/x"}')
    await kernel.writer.commit(put_agents, [carol])
    theirs = (await kernel.ask("POST", "/messages", {"to": "carol", "text": "private"})).json["message_id"]
    await kernel.attempt()
    marked = await content(kernel, "my_inbox_ack", {"ids": [theirs]})
    assert marked["acknowledged"] == []
    receipts = (await kernel.get(f"/messages/{theirs}"))["receipts"]
    assert [receipt["state"] for receipt in receipts] == ["queued"]


@pytest.mark.promise("HF04", "HF20")
async def test_no_other_field_makes_a_call_somebody_elses(kernel: ServedKernel) -> None:
    await kernel.attempt("alice@review", token="alice-token")
    await kernel.attempt("bob@review", token="bob-token")
    claims = {"X_Agent_Id": "bob", "Mcp_Session_Id": "bob", "X_Forwarded_User": "bob", "Cookie": "token=bob-token"}
    info = {"io.modelcontextprotocol/clientInfo": {"name": "bob", "version": "1"}}
    for number, (header, value) in enumerate(claims.items()):
        body = {"message": f"who {number}"}
        answer = await post(kernel, call_of("channel_send", body, **info), "alice-token", **{header: value})
        assert answer.json["result"]["isError"] is False
    forged = await call(kernel, "channel_send", {"message": "x", "from": "bob"}, "alice-token")
    assert forged["isError"] is True
    assert {sender for sender, text in await said(kernel, "review:main") if text.startswith("who")} == {"alice"}


@pytest.mark.promise("HF07")
async def test_an_attempt_that_was_fenced_off_writes_nothing(kernel: ServedKernel) -> None:
    """Attempt k while k+1 runs; its token is refused at the door."""
    instruction = await kernel.attempt(token="first")
    await kernel.writer.commit(requeue, instruction, 1, Requeue(status="queued", outcome="crash", charge="attempt"))
    assert await kernel.writer.commit(lease, instruction, b"2" * 32) is not None
    answer = await post(kernel, {}, "first")
    assert answer.refusal == (401, "stale_attempt")


@pytest.mark.promise("HF06", "HF21")
async def test_an_attempt_that_ends_during_a_call_is_told_so(kernel: ServedKernel) -> None:
    instruction = await kernel.attempt()
    await kernel.end(instruction)
    name = "alice"
    identity = Identity(AgentKey(name), AgentName(name), SpaceId("dm:alice"), InstructionId(instruction), 1, True)
    tool = TOOLS["channel_send"]
    answer = await ToolDispatcher(kernel.services).call(tool, Actor(identity=identity), {"message": "too late"})
    assert answer.is_error
    assert msgspec.json.decode(answer.body)["code"] == "stale_attempt"
    assert "too late" not in [text for _, text in await said(kernel, "dm:alice")]


async def test_without_a_channel_there_is_none_to_read_or_speak_in(kernel: ServedKernel) -> None:
    path = kernel.root / ".workflows/solo.yaml"
    path.write_text("agents:\n  alice: { ref: alice }\nworkspace: false\n")
    assert (await kernel.ask("POST", "/workflows", {"workflow": "solo"})).status == 201
    await kernel.attempt("alice@solo")
    for tool, arguments in (("channel_send", {"message": "hi"}), ("channel_read", {})):
        result = await call(kernel, tool, arguments)
        assert (result["isError"], "no channel" in result["structuredContent"]["detail"]) == (True, True)
    assert (await call(kernel, "my_inbox", {}))["isError"] is False


@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
@pytest.mark.parametrize("streams", [False, True])
async def test_a_model_is_not_offered_to_ask_for_approvals(kernel: ServedKernel, revision: str, streams: bool) -> None:
    await kernel.attempt()
    shown: dict[str, set[str]] = {}
    for said in ("", TO_MODEL):
        headers = {"MCP_Protocol_Version": revision, OFFERED_TO.replace("-", "_"): said}
        if streams:  # so that the SDK answers
            headers["Mcp_Param_X"] = "1"
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        if revision == REVISION:
            body |= {"params": {"_meta": ENVELOPE}}
        answer = await post(kernel, body, **headers)
        shown[said] = {tool["name"] for tool in answer.json["result"]["tools"]}
    assert shown[""] - shown[TO_MODEL] == {"auth_request"}
    assert shown[TO_MODEL] < shown[""]
    assert (await call(kernel, "auth_request", {"tool": "bash", "input": {}, "wait_seconds": 0}))["isError"] is False
