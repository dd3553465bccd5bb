"""POST /messages: durable, once for each key, and refused in a way that tells what to do."""

import trio

from kernel.store.transitions.runs import stop_workflow
from tests.builders.api import ALICE, ServedKernel


async def test_a_message_to_an_agent_is_accepted_with_its_instruction(kernel: ServedKernel) -> None:
    """Contracts section 4: 202 with message_id and instruction_ids; the receipt says what became of it."""
    sent = await kernel.ask("POST", "/messages", {"to": "alice", "text": "hello"})
    assert (sent.status, sent.json["schema"]) == (202, "awk/send/1")
    assert len(sent.json["instruction_ids"]) == 1
    shown = (await kernel.ask("GET", f"/messages/{sent.json['message_id']}")).json
    assert shown["message"]["text"] == "hello"
    assert [(receipt["agent"], receipt["state"]) for receipt in shown["receipts"]] == [("alice", "queued")]


async def test_the_same_key_gets_the_same_answer_and_appends_nothing(kernel: ServedKernel) -> None:
    """P2, HF15: ten retries at once, one row."""
    headers = kernel.headers(Idempotency_Key="k1")
    bodies = set()

    async def send() -> None:
        answer = await kernel.ask("POST", "/messages", {"to": "alice", "text": "once"}, headers=headers)
        assert answer.status == 202
        bodies.add(answer.body)

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(send)
    assert len(bodies) == 1
    assert len((await kernel.ask("GET", "/spaces/dm:alice/channel")).json["messages"]) == 1


async def test_the_same_key_for_another_body_is_refused(kernel: ServedKernel) -> None:
    """Contracts section 4: 422."""
    headers = kernel.headers(Idempotency_Key="k1")
    await kernel.ask("POST", "/messages", {"to": "alice", "text": "one"}, headers=headers)
    other = await kernel.ask("POST", "/messages", {"to": "alice", "text": "two"}, headers=headers)
    assert (other.status, other.code) == (422, "key_reused")


async def test_the_same_key_on_another_route_is_refused(kernel: ServedKernel) -> None:
    """A key names one request, not one body."""
    headers = kernel.headers(Idempotency_Key="k1")
    body = {"to": "alice", "text": "one"}
    await kernel.ask("POST", "/messages", body, headers=headers)
    assert (await kernel.ask("POST", "/serve", body, headers=headers)).code == "key_reused"


async def test_a_refused_request_does_not_use_up_its_key(kernel: ServedKernel) -> None:
    """What changed nothing may be tried again."""
    headers = kernel.headers(Idempotency_Key="k1")
    body = {"to": "@review", "text": "@alice hi"}
    assert (await kernel.ask("POST", "/messages", body, headers=headers)).status == 404
    await kernel.ask("POST", "/workflows", {"workflow": "review"})
    assert (await kernel.ask("POST", "/messages", body, headers=headers)).status == 202


async def test_an_agent_whose_file_was_just_written_can_be_sent_to(kernel: ServedKernel) -> None:
    """Files are read when they are needed: no restart, no reload."""
    (kernel.services.files.catalog.root / ".agents/carol.yaml").write_text(ALICE)
    sent = await kernel.ask("POST", "/messages", {"to": "carol", "text": "hello"})
    assert (sent.status, len(sent.json["instruction_ids"])) == (202, 1)


async def test_a_member_of_a_running_workflow_is_addressed_there(kernel: ServedKernel) -> None:
    """Contracts section 2: alice@review is alice in that workspace; who is no member is told the file."""
    await kernel.ask("POST", "/workflows", {"workflow": "review"})
    sent = await kernel.ask("POST", "/messages", {"to": "alice@review", "text": "look"})
    assert sent.status == 202
    shown = (await kernel.ask("GET", f"/messages/{sent.json['message_id']}")).json["message"]
    assert (shown["space"], shown["to"]) == ("review:main", ["alice"])
    stranger = await kernel.ask("POST", "/messages", {"to": "zoe@review", "text": "look"})
    assert (stranger.status, stranger.code) == (404, "not_a_participant")
    assert ".workflows/review.yaml" in stranger.json["hint"]
    await kernel.services.store.writer.commit(stop_workflow, "review:main#1", "cancelled", 130)
    late = await kernel.ask("POST", "/messages", {"to": "alice@review", "text": "look"})
    assert (late.code, "awk start review" in late.json["hint"]) == ("workflow_not_running", True)


async def test_a_stopping_kernel_takes_nothing_new_but_can_be_read(kernel: ServedKernel) -> None:
    """Intake is stopped with 503."""
    assert (await kernel.ask("POST", "/shutdown", {"grace": 3})).status == 202
    assert kernel.asked_to_stop == [3.0]
    refused = await kernel.ask("POST", "/messages", {"to": "alice", "text": "late"})
    assert (refused.status, refused.code) == (503, "stopping")
    assert (await kernel.ask("GET", "/health")).json["status"] == "stopping"
    assert (await kernel.ask("GET", "/ready")).status == 503
    assert (await kernel.ask("GET", "/agents")).status == 200


async def test_what_an_agents_file_would_run_needs_trust_also_after_an_edit(kernel: ServedKernel) -> None:
    """P19: the answer is kept for the very file it was given for, not for its name."""
    path = kernel.services.files.catalog.root / ".agents/alice.yaml"
    body = {"to": "alice", "text": "hello"}
    assert (await kernel.ask("POST", "/messages", body)).status == 202
    path.write_text(ALICE.replace("text: done", 'shell: "id"'))
    refused = await kernel.ask("POST", "/messages", body)
    assert (refused.status, refused.code) == (403, "untrusted")
    assert (await kernel.ask("POST", "/messages", body | {"trust": True})).status == 202
    agreed = body | {"agree": [want["digest"] for want in refused.json["wants"]]}
    assert (await kernel.ask("POST", "/messages", agreed)).status == 202
    path.write_text(ALICE.replace("text: done", 'shell: "id -u"'))
    assert (await kernel.ask("POST", "/messages", agreed)).code == "untrusted"
    path.write_text(ALICE)
    assert (await kernel.ask("POST", "/messages", body)).status == 202
    path.write_text("model: [")
    assert (await kernel.ask("POST", "/messages", body)).status == 202, "what was right last stays in effect"
