"""POST /hooks/:name: messages from programs that have no token, and sign what they send."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kernel.agents.sections import hook_units
from kernel.api.requests import SIGNED_BYTES
from kernel.policy.webhooks import key_of, signature_of
from tests.builders.api import ServedKernel, serve_kernel
from tests.kernel.api.client import Answer

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
NOW = 1_700_000_000
PROJECT = """
hooks:
  build: { to: '@review', secret: $BUILD }
  note: { to: alice, secret: $BUILD }
  lost: { to: alice, secret: $NOWHERE }
  weak: { to: alice, secret: $WEAK }
"""


@pytest.fixture
async def kernel(tmp_path: Path) -> AsyncIterator[ServedKernel]:
    async with serve_kernel(tmp_path, environ={"BUILD": SECRET, "WEAK": "hunter2"}) as built:
        catalog = built.services.files.catalog
        (catalog.root / "moniro.yaml").write_text(PROJECT)
        built.grants += hook_units(catalog.project())
        yield built


async def post(
    kernel: ServedKernel, name: str, body: Any, *, id: str = "msg_1", at: int = NOW, **fields: str
) -> Answer:
    """A request as Standard Webhooks has it; ``fields`` in place of those that sign it."""
    data = body if isinstance(body, bytes) else msgspec.json.encode(body)
    headers = {
        "Host": kernel.host,
        "webhook-id": id,
        "webhook-timestamp": str(at),
        "webhook-signature": signature_of(key_of(SECRET) or b"", id, str(at), data),
    } | {key.replace("_", "-"): value for key, value in fields.items()}
    return await kernel.ask("POST", f"/hooks/{name}", headers=headers, raw=data)


async def said_to(kernel: ServedKernel, space: str) -> list[tuple[str, str]]:
    channel = (await kernel.get(f"/spaces/{space}/channel"))["messages"]
    return [(one["from"], one["text"]) for one in channel if one["kind"] == "said"]


@pytest.mark.promise("P59")
async def test_a_signed_request_says_its_text_and_wakes_whom_that_mentions(kernel: ServedKernel) -> None:
    await kernel.ask("POST", "/workflows", {"workflow": "review"})
    sent = await post(kernel, "build", {"text": "@alice build 7 failed", "log": "@bob"})
    assert (sent.status, len(sent.json["instruction_ids"])) == (202, 1)
    assert await said_to(kernel, "review:main") == [("hook:build", "@alice build 7 failed")]


@pytest.mark.promise("P59")
async def test_json_without_a_text_is_data_that_wakes_nobody(kernel: ServedKernel) -> None:
    await kernel.ask("POST", "/workflows", {"workflow": "review"})
    for number, body in enumerate(({"commit": "@alice"}, ["@alice"], {"text": ["@alice"]}, {"text": " "}, "@alice")):
        sent = await post(kernel, "build", body, id=f"msg_{number}")
        assert (sent.status, sent.json["instruction_ids"]) == (202, [])
    assert (await said_to(kernel, "review:main"))[0] == ("hook:build", '{"commit": "@alice"}')


async def test_a_hook_to_an_agent_wakes_it_and_its_words_are_quoted_as_the_webs(kernel: ServedKernel) -> None:
    """A prompt shows them behind bars, under who sent them: never as the user's."""
    (one,) = (await post(kernel, "note", {"text": "look\nnow"})).json["instruction_ids"]
    prompt = await kernel.get(f"/instructions/{one}/prompt")
    assert "hook:note\n> look\n> now" in prompt["messages"][-1]["text"]
    assert "web" in {part["trust"] for part in prompt["parts"]}


@pytest.mark.promise("P59", "P54")
async def test_what_a_rule_makes_of_a_hook_is_quoted_as_the_webs_too(kernel: ServedKernel) -> None:
    await kernel.ask("POST", "/workflows", {"workflow": "review"})
    task = {"title": "Mend ${{ match.1 }}", "text": "${{ message.text }}", "for": "alice"}
    rule = {"name": "red", "when": {"hook": {"name": "build", "matches": "(.*) failed"}}, "then": [{"task": task}]}
    assert (await kernel.ask("POST", "/spaces/review:main/rules", {"rule": rule})).status == 201
    (one,) = (await post(kernel, "build", {"text": "main failed, says bob"})).json["instruction_ids"]
    prompt = await kernel.get(f"/instructions/{one}/prompt")
    assert "> [TASK:t1] Mend main\n> main failed, says bob\n" in prompt["messages"][-1]["text"]
    assert "web" in {part["trust"] for part in prompt["parts"]}
    listed = (await kernel.get("/spaces/review:main/tasks"))["tasks"]
    assert [(one["creator"], one["title"]) for one in listed] == [("hook:build", "Mend main")]


@pytest.mark.promise("P59")
async def test_the_id_is_the_idempotency_key(kernel: ServedKernel) -> None:
    first = await post(kernel, "note", {"text": "once"})
    again = await post(kernel, "note", {"text": "once"}, at=NOW + 60)
    assert (first.status, again.status, again.json) == (202, 202, first.json)
    other = await post(kernel, "note", {"text": "twice"})
    assert other.refusal == (422, "key_reused")
    assert await said_to(kernel, "dm:alice") == [("hook:note", "once")]


@pytest.mark.promise("P59")
async def test_ids_of_one_hook_are_nothing_to_another_nor_to_the_owner(kernel: ServedKernel) -> None:
    await kernel.ask("POST", "/messages", {"to": "alice", "text": "x"}, headers=kernel.headers(Idempotency_Key="msg_1"))
    await kernel.ask("POST", "/workflows", {"workflow": "review"})
    answers = [await post(kernel, name, {"text": "y"}, Idempotency_Key="msg_1") for name in ("note", "build")]
    assert [one.status for one in answers] == [202, 202]


@pytest.mark.promise("P59", "P17")
async def test_who_cannot_sign_learns_nothing(kernel: ServedKernel) -> None:
    kernel.grants[:] = [one for one in kernel.grants if one.subject != "hook build"]
    wrong = signature_of(b"x" * 24, "msg_1", str(NOW), b'{"text":"x"}')
    answers = [
        await post(kernel, "note", {"text": "x"}, webhook_signature=wrong),
        await post(kernel, "note", {"text": "x"}, webhook_signature=""),
        await post(kernel, "note", b"no JSON", webhook_signature=wrong),
        await post(kernel, "note", {"text": "x"}, at=NOW - 301),
        await post(kernel, "note", {"text": "x"}, at=NOW + 301),
        await post(kernel, "nobody", {"text": "x"}),
        await post(kernel, "lost", {"text": "x"}),
        await post(kernel, "weak", {"text": "x"}),
        await post(kernel, "build", {"text": "x"}),
    ]
    assert {(one.status, one.code, one.body) for one in answers} == {(401, "bad_signature", answers[0].body)}
    assert await said_to(kernel, "dm:alice") == []


async def test_a_sender_that_is_known_is_told_what_is_wrong(kernel: ServedKernel) -> None:
    assert (await post(kernel, "note", b"{")).code == "bad_request"
    assert (await post(kernel, "note", b'{"text": "a", "text": "b"}')).code == "bad_request"
    assert (await post(kernel, "build", {"text": "x"})).code == "workflow_not_running"


@pytest.mark.promise("P10")
async def test_a_body_without_a_token_is_small(kernel: ServedKernel) -> None:
    large = await post(kernel, "note", b'"' + b"x" * SIGNED_BYTES + b'"')
    assert large.refusal == (413, "too_large")
    fits = await post(kernel, "note", b'"' + b"x" * (SIGNED_BYTES - 2) + b'"')
    assert fits.status == 202


@pytest.mark.promise("P17")
async def test_a_page_of_another_origin_cannot_use_a_hook(kernel: ServedKernel) -> None:
    assert (await post(kernel, "note", {"text": "x"}, Origin="http://evil.example")).code == "forbidden_origin"
    assert (await post(kernel, "note", {"text": "x"}, Host="evil.example")).code == "forbidden_host"


async def test_only_post_is_open(kernel: ServedKernel) -> None:
    bare = kernel.headers(None)
    assert (await kernel.ask("GET", "/hooks/note", headers=bare)).code == "unauthorized"
    assert (await kernel.ask("POST", "/hooks/note/more", headers=bare)).code == "unauthorized"
    assert (await kernel.ask("POST", "/hooks", headers=bare)).code == "unauthorized"
