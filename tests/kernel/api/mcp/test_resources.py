"""Resources: long texts are kept once for a space, and read by reference by whoever works there and nobody else."""

from typing import cast

import apsw
import pytest

from kernel.store.agents import AgentSpec, put_agents
from kernel.store.entries import INLINE_BYTES
from kernel.store.resources import STUB_CHARACTERS
from protocol.message import TEXT_LIMIT_BYTES
from protocol.names import AgentKey
from tests.builders.api import ServedKernel
from tests.kernel.api.mcp.rpc import CALL_KEY, call, content, refusal

pytestmark = pytest.mark.promise("P41")

BIG = "first line\nsecond line\n" + "é日x\n" * 5000
INSTEAD = "[only the beginning of "


async def channel(kernel: ServedKernel, space: str = "review") -> list[str]:
    found = (await kernel.get(f"/spaces/{space}/channel"))["messages"]
    return [message["text"] for message in found]


def reference(text: str) -> str:
    return text.rpartition("resource:")[2].partition(";")[0]


async def test_a_long_message_is_a_stub_and_whom_it_mentions_at_its_end_is_woken(kernel: ServedKernel) -> None:
    await kernel.attempt("alice@review")
    sent = await call(kernel, "channel_send", {"message": f"{BIG}@bob all yours"})
    assert len(sent["structuredContent"]["instruction_ids"]) == 1
    kept = (await channel(kernel))[-1]
    assert kept.startswith("first line\nsecond line\n")
    assert INSTEAD in kept
    assert len(kept.encode()) < 3 * STUB_CHARACTERS + 400
    bob = await kernel.attempt("bob@review", "read it", token="bobs")
    assert bob
    whole, offset = "", 0
    while True:
        part = await call(kernel, "resource_read", {"id": reference(kept), "offset": offset, "limit": 7001}, "bobs")
        found = part["structuredContent"]
        assert len(found["content"]) <= 7001
        whole += found["content"]
        if found["next"] is None:
            break
        offset = found["next"]
    assert whole == f"{BIG}@bob all yours"
    assert found["characters"] == len(whole)


@pytest.mark.parametrize(("more", "cut"), [(0, False), (1, True)])
async def test_what_fits_is_said_as_it_is(kernel: ServedKernel, more: int, cut: bool) -> None:
    """16 KiB of UTF-8 exactly, and one byte more."""
    await kernel.attempt()
    text = "é" * (INLINE_BYTES // 2) + "x" * more
    await call(kernel, "channel_send", {"message": text})
    kept = (await channel(kernel, "dm:alice"))[-1]
    assert (kept == text, INSTEAD in kept) == (not cut, cut)


async def test_one_text_has_one_id_in_a_space_and_another_in_the_next(kernel: ServedKernel) -> None:
    await kernel.attempt("alice@review")
    made = [(await content(kernel, "resource_create", {"content": BIG}))["id"] for _ in range(2)]
    await call(kernel, "channel_send", {"message": BIG})
    posted = await kernel.ask("POST", "/spaces/review/resources", {"content": BIG, "type": "text/x-diff"})
    assert {*made, reference((await channel(kernel))[-1]), posted.json["id"]} == {made[0]}
    assert (posted.json["from"], posted.json["type"]) == ("alice", "text/plain"), "the first who said it"
    listed = await kernel.get("/spaces/review/resources")
    assert ([row["id"] for row in listed["resources"]], listed["total"], listed["next"]) == ([made[0]], 1, None)
    await kernel.ask("POST", "/messages", {"to": "alice", "text": BIG})
    elsewhere = reference((await channel(kernel, "dm:alice"))[-1])
    assert elsewhere != made[0]
    both = await kernel.get("/resources")
    assert [row["id"] for row in both["resources"]] == [elsewhere, made[0]]
    rows = kernel.reader.now(lambda conn: conn.execute("SELECT count(DISTINCT blob) FROM resources").get)
    assert rows == 1, "its bytes are there once"


@pytest.mark.promise("P41", "XF16")
async def test_another_spaces_resource_is_as_if_it_were_not_there(kernel: ServedKernel) -> None:
    await kernel.attempt("alice@review")
    made = await content(kernel, "resource_create", {"content": "ours"})
    assert made["reference"] == f"resource:{made['id']}"
    mine = await content(kernel, "resource_read", {"id": made["reference"]})
    assert (mine["content"], mine["next"]) == ("ours", None)
    carol = AgentSpec(key=AgentKey("carol"), origin="ephemeral", definition=b'{"name": "carol", "model": "mock/x"}')
    await kernel.writer.commit(put_agents, [carol])
    await kernel.attempt("carol", token="carols")
    for name in (made["id"], "0" * 20):
        refused = await call(kernel, "resource_read", {"id": name}, "carols")
        assert refused["isError"]
        assert refused["structuredContent"]["code"] == "not_found"
        assert refused["structuredContent"]["detail"] == f"resource {name!r} not found in this workspace"
    assert (await kernel.ask("GET", f"/spaces/dm:carol/resources/{made['id']}")).status == 404
    assert (await kernel.get(f"/spaces/review/resources/{made['id']}"))["content"] == "ours"
    part = await kernel.get(f"/resources/{made['id']}?offset=1&limit=2")
    assert (part["content"], part["next"], part["space"]) == ("ur", 3, "review:main")


async def test_pages_of_resources_leave_none_out(kernel: ServedKernel) -> None:
    await kernel.ask("POST", "/workflows", {"workflow": "review"})
    made = [
        (await kernel.ask("POST", "/spaces/review/resources", {"content": f"n{number}"})).json["id"]
        for number in range(5)
    ]
    pages = [page["resources"] async for page in kernel.pages("/resources?limit=2", "before")]
    assert [row["id"] for page in pages for row in page] == made[::-1]


async def test_what_an_agent_keeps_counts_as_what_it_says_and_has_an_end(kernel: ServedKernel) -> None:
    await kernel.attempt()
    assert await refusal(kernel, "resource_create", {"content": "x" * (2 * 2**20 + 1)}) == "too_large"
    codes = []
    for number in range(20):
        answer = await call(kernel, "resource_create", {"content": f"{number:02}" + "x" * (2**20 - 2)})
        codes.append(answer["structuredContent"].get("code"))
    assert codes == [None] * 16 + ["quota_reached"] * 4
    assert len((await kernel.get("/resources"))["resources"]) == 16


def _bodies(conn: apsw.Connection) -> list[tuple[bytes]]:
    return cast("list[tuple[bytes]]", conn.execute("SELECT body FROM blobs").fetchall())


async def test_what_is_cleared_takes_its_resources_along(kernel: ServedKernel) -> None:
    """No byte of it is left, unless another space said the same."""
    await kernel.ask("POST", "/workflows", {"workflow": "review"})
    for text in ("only here " * 10, "both " * 10):
        await kernel.ask("POST", "/spaces/review/resources", {"content": text})
    await kernel.ask("POST", "/spaces/dm:alice/resources", {"content": "both " * 10})
    assert (await kernel.ask("DELETE", "/workflows/review")).status == 200
    assert (await kernel.ask("POST", "/spaces/review/clear")).status == 200
    (left,) = (await kernel.get("/resources"))["resources"]
    assert left["space"] == "dm:alice"
    assert (await kernel.get(f"/resources/{left['id']}"))["content"] == "both " * 10
    bodies = kernel.reader.now(_bodies)
    assert [row for row in bodies if b"only here" in row[0]] == []


async def test_a_repeated_call_says_a_long_message_once(kernel: ServedKernel) -> None:
    await kernel.attempt()
    answers = [await call(kernel, "channel_send", {"message": BIG}, **{CALL_KEY: "one"}) for _ in range(2)]
    assert answers[0] == answers[1]
    assert len([text for text in await channel(kernel, "dm:alice") if INSTEAD in text]) == 1


async def test_the_largest_message_of_control_characters_fits_the_start_of_a_worker(kernel: ServedKernel) -> None:
    text = "\x01" * TEXT_LIMIT_BYTES
    instruction = await kernel.send("alice", text)
    prompt = await kernel.get(f"/instructions/{instruction}/prompt")
    told = prompt["messages"][-1]["text"]
    assert INSTEAD in told
    name = reference(told)
    assert (await kernel.get(f"/resources/{name}"))["content"] == text
