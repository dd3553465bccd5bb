"""POST /messages: durable, once for each key, and refused in a way that tells what to do."""

from typing import Any

import pytest

from kernel.source.safe_paths import keep_root
from kernel.store.transitions.runs import stop_workflow
from kernel.store.writer import Writer
from protocol.api.messages import MOST_AT_ONCE
from protocol.message import RESOURCE_LIMIT_BYTES
from tests.builders.api import ALICE, ServedKernel
from tests.kernel.api.client import Answer, at_once


@pytest.mark.promise("P2", "HF15")
async def test_the_same_key_gets_the_same_answer_and_appends_nothing(kernel: ServedKernel) -> None:
    headers = kernel.headers(Idempotency_Key="k1")
    answers = await at_once(10, kernel.ask, "POST", "/messages", {"to": "alice", "text": "once"}, headers=headers)
    assert {answer.status for answer in answers} == {202}
    assert len({answer.body for answer in answers}) == 1
    assert len((await kernel.get("/spaces/dm:alice/channel"))["messages"]) == 1


async def test_the_same_key_on_another_route_is_refused(kernel: ServedKernel) -> None:
    headers = kernel.headers(Idempotency_Key="k1")
    body = {"to": "alice", "text": "one"}
    await kernel.ask("POST", "/messages", body, headers=headers)
    assert (await kernel.ask("POST", "/serve", body, headers=headers)).code == "key_reused"


async def test_a_refused_request_does_not_use_up_its_key(kernel: ServedKernel) -> None:
    headers = kernel.headers(Idempotency_Key="k1")
    body = {"to": "@review", "text": "@alice hi"}
    assert (await kernel.ask("POST", "/messages", body, headers=headers)).status == 404
    await kernel.ask("POST", "/workflows", {"workflow": "review"})
    assert (await kernel.ask("POST", "/messages", body, headers=headers)).status == 202


async def test_an_agent_whose_file_was_just_written_can_be_sent_to(kernel: ServedKernel) -> None:
    (kernel.root / ".agents/carol.yaml").write_text(ALICE)
    sent = await kernel.ask("POST", "/messages", {"to": "carol", "text": "hello"})
    assert (sent.status, len(sent.json["instruction_ids"])) == (202, 1)


async def test_a_member_of_a_running_workflow_is_addressed_there(kernel: ServedKernel) -> None:
    """contracts 2: alice@review is alice in that workspace; who is no member is told the file."""
    await kernel.ask("POST", "/workflows", {"workflow": "review"})
    sent = await kernel.ask("POST", "/messages", {"to": "alice@review", "text": "look"})
    assert sent.status == 202
    shown = (await kernel.get(f"/messages/{sent.json['message_id']}"))["message"]
    assert (shown["space"], shown["to"]) == ("review:main", ["alice"])
    stranger = await kernel.ask("POST", "/messages", {"to": "zoe@review", "text": "look"})
    assert stranger.refusal == (404, "not_a_participant")
    assert ".workflows/review.yaml" in stranger.json["hint"]
    await kernel.writer.commit(stop_workflow, "review:main#1", "cancelled", 130)
    late = await kernel.ask("POST", "/messages", {"to": "alice@review", "text": "look"})
    assert (late.code, "awk start review" in late.json["hint"]) == ("workflow_not_running", True)


async def test_a_stopping_kernel_takes_nothing_new_but_can_be_read(kernel: ServedKernel) -> None:
    """Intake is stopped with 503."""
    assert (await kernel.ask("POST", "/shutdown", {"grace": 3})).status == 202
    assert kernel.asked_to_stop == [3.0]
    assert (await kernel.ask("POST", "/messages", {"to": "alice", "text": "late"})).refusal == (503, "stopping")
    assert (await kernel.get("/health"))["status"] == "stopping"
    assert (await kernel.ask("GET", "/ready")).status == 503
    assert (await kernel.ask("GET", "/agents")).status == 200
    assert (await kernel.ask("DELETE", "/agents/alice")).code == "stopping"


async def test_a_kernel_whose_folder_is_gone_changes_nothing_and_can_be_stopped(kernel: ServedKernel) -> None:
    root = kernel.root
    keep_root(str(root))
    root.rename(root.with_name("moved"))
    assert (await kernel.ask("POST", "/messages", {"to": "alice", "text": "lost"})).status == 503
    assert (await kernel.ask("POST", "/shutdown", {"grace": 3})).status == 202


@pytest.mark.promise("P19")
async def test_what_an_agents_file_would_run_needs_trust_also_after_an_edit(kernel: ServedKernel) -> None:
    path = kernel.root / ".agents/alice.yaml"
    body = {"to": "alice", "text": "hello"}
    assert (await kernel.ask("POST", "/messages", body)).status == 202
    path.write_text(ALICE.replace("text: done", 'shell: "id"'))
    refused = await kernel.ask("POST", "/messages", body)
    assert refused.refusal == (403, "untrusted")
    assert (await kernel.ask("POST", "/messages", body | {"trust": True})).status == 202
    agreed = body | {"agree": [want["digest"] for want in refused.json["wants"]]}
    assert (await kernel.ask("POST", "/messages", agreed)).status == 202
    path.write_text(ALICE.replace("text: done", 'shell: "id -u"'))
    assert (await kernel.ask("POST", "/messages", agreed)).code == "untrusted"
    path.write_text(ALICE)
    assert (await kernel.ask("POST", "/messages", body)).status == 202
    path.write_text("model: [")
    assert (await kernel.ask("POST", "/messages", body)).status == 202, "what was right last stays in effect"


def _codes(answer: Answer) -> list[str]:
    return [one["refused"]["code"] if "refused" in one else "" for one in answer.json["results"]]


async def test_many_messages_are_one_commit_and_one_answer_each(
    kernel: ServedKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In their order, and what is wrong with one is its own: decision 1.13."""
    (kernel.root / ".agents/carol.yaml").write_text(ALICE)  # after the kernel last looked
    await kernel.ask("POST", "/workflows", {"workflow": "review"})
    commits: list[object] = []
    commit = Writer.commit

    async def counted(self: Writer, job: Any, *args: Any, **how: Any) -> Any:
        commits.append(job)
        return await commit(self, job, *args, **how)

    monkeypatch.setattr(Writer, "commit", counted)
    asked = [
        {"to": "alice", "text": "one"},
        {"to": "olga", "text": "two"},
        {"to": "carol", "text": "three"},
        {"to": "zoe@review", "text": "four"},
        {"to": "@nowhere", "text": "five"},
        {"to": "alice", "text": " "},
        {"to": "a b", "text": "seven"},
        {"to": "@review", "text": "@alice eight"},
        {"to": "alice", "text": "x" * (RESOURCE_LIMIT_BYTES + 1)},
    ]
    sent = await kernel.ask("POST", "/messages", {"messages": asked})
    assert (sent.status, sent.json["schema"]) == (202, "awk/send-batch/1")
    assert len(commits) == 1
    assert (sent.json["accepted"], sent.json["refused"]) == (3, 6)
    codes = ["", "unknown_agent", "", "not_a_participant", "workflow_not_running", "bad_request", "bad_target", ""]
    assert _codes(sent)[:8] == codes
    alone = [await kernel.ask("POST", "/messages", one) for one in asked]
    for one, outcome in zip(alone, sent.json["results"], strict=True):
        assert one.status == (202 if "refused" not in outcome else outcome["refused"]["status"])
        assert one.json.get("detail") == outcome.get("refused", {}).get("detail")
    taken = [one["sent"]["message_id"] for one in sent.json["results"] if "sent" in one]
    assert taken == sorted(taken, key=lambda name: int(name[1:]))
    assert all(len(one["sent"]["instruction_ids"]) == 1 for one in sent.json["results"] if "sent" in one)
    said = (await kernel.get("/spaces/review:main/channel"))["messages"]
    assert [one["text"] for one in said if one["from"] == "user"] == ["@alice eight"] * 2, "what was refused is nowhere"


@pytest.mark.promise("P2", "HF15")
async def test_a_batch_that_is_sent_again_adds_only_what_was_refused(kernel: ServedKernel) -> None:
    body = {"messages": [{"to": "alice", "text": "one"}, {"to": "@review", "text": "@alice two"}]}
    headers = kernel.headers(Idempotency_Key="k1")
    first = await kernel.ask("POST", "/messages", body, headers=headers)
    assert _codes(first) == ["", "workflow_not_running"]
    await kernel.ask("POST", "/workflows", {"workflow": "review"})
    again = await kernel.ask("POST", "/messages", body, headers=headers)
    assert _codes(again) == ["", ""]
    assert again.json["results"][0] == first.json["results"][0]
    assert (await kernel.ask("POST", "/messages", body, headers=headers)).json == again.json
    assert len((await kernel.get("/spaces/dm:alice/channel"))["messages"]) == 1
    other = await kernel.ask(
        "POST", "/messages", {"messages": [{"to": "alice", "text": "another"}, *body["messages"][1:]]}, headers=headers
    )
    assert _codes(other) == ["key_reused", ""]


@pytest.mark.promise("P2")
async def test_a_message_with_a_key_of_its_own_happens_once_in_whatever_batch(kernel: ServedKernel) -> None:
    (kernel.root / ".agents/bob.yaml").write_text(ALICE)
    mine = {"to": "alice", "text": "mine", "key": "order-7"}
    first = await kernel.ask("POST", "/messages", {"messages": [mine, mine]})
    ids = {one["sent"]["message_id"] for one in first.json["results"]}
    assert len(ids) == 1
    others = (mine | {"text": "other"}, mine | {"to": "bob"})
    second = await kernel.ask("POST", "/messages", {"messages": [{"to": "alice", "text": "new"}, mine, *others]})
    assert _codes(second) == ["", "", "key_reused", "key_reused"]
    assert second.json["results"][1]["sent"]["message_id"] in ids
    texts = [one["text"] for one in (await kernel.get("/spaces/dm:alice/channel"))["messages"]]
    assert sorted(texts) == ["mine", "new"]


@pytest.mark.promise("P19")
async def test_trust_is_asked_for_each_agent_of_a_batch(kernel: ServedKernel) -> None:
    path = kernel.root / ".agents/alice.yaml"
    (path.parent / "bob.yaml").write_text(ALICE)
    path.write_text(ALICE.replace("text: done", 'shell: "id"'))
    body = {"messages": [{"to": "alice", "text": "1"}, {"to": "bob", "text": "2"}, {"to": "alice", "text": "3"}]}
    assert _codes(await kernel.ask("POST", "/messages", body)) == ["untrusted", "", "untrusted"]
    assert _codes(await kernel.ask("POST", "/messages", body | {"trust": True})) == ["", "", ""]
    kernel.below.append(True)
    assert (await kernel.ask("POST", "/messages", body | {"trust": True})).code == "forbidden"


HOSTILE: tuple[Any, ...] = (
    {},
    {"to": "alice"},
    {"text": "hi"},
    {"messages": []},
    {"messages": [{"to": "alice", "text": "x"}] * (MOST_AT_ONCE + 1)},
    {"to": "alice", "text": "hi", "messages": [{"to": "alice", "text": "x"}]},
    {"messages": [{"to": "alice", "text": "x", "trust": True}]},
    {"messages": [{"to": "alice", "text": "x", "key": ""}]},
    {"messages": [{"to": "alice", "text": "x", "key": "k" * 201}]},
    {"messages": [{"to": "alice", "text": "x"}, None]},
    {"messages": [{"to": "alice", "text": 3}]},
    {"messages": {"to": "alice", "text": "x"}},
    {"messages": [[["alice", "x"]]]},
)


@pytest.mark.parametrize("body", HOSTILE, ids=range(len(HOSTILE)))
async def test_a_request_of_another_shape_is_refused_whole(kernel: ServedKernel, body: Any) -> None:
    refused = await kernel.ask("POST", "/messages", body)
    assert refused.status in (400, 422)
    assert (await kernel.get("/spaces/dm:alice/channel"))["messages"] == []


async def test_a_batch_is_bounded_like_any_body(kernel: ServedKernel) -> None:
    whole = {"messages": [{"to": "alice", "text": "x" * (256 * 1024)}] * 17}
    assert (await kernel.ask("POST", "/messages", whole)).status == 413


async def test_a_message_without_a_recipient_goes_to_the_default_agent(kernel: ServedKernel) -> None:
    refused = await kernel.ask("POST", "/messages", {"text": "hi"})
    assert (refused.status, "default_agent" in refused.json["hint"]) == (400, True)
    project = kernel.services.files.catalog.root / ".agents.yaml"
    project.write_text("default_agent: alice\n")
    sent = await kernel.ask("POST", "/messages", {"text": "hi"})
    assert sent.status == 202
    said = (await kernel.ask("GET", f"/messages/{sent.json['message_id']}")).json
    assert [one["agent"] for one in said["receipts"]] == ["alice"]


async def test_a_message_over_256_kib_becomes_a_resource(kernel: ServedKernel) -> None:
    text = "first line\n" + "é" * 300_000
    sent = await kernel.ask("POST", "/messages", {"to": "alice", "text": text})
    said = (await kernel.ask("GET", f"/messages/{sent.json['message_id']}")).json["message"]["text"]
    assert said.startswith("first line\n")
    name = said.rpartition("resource:")[2].partition(";")[0]
    assert (await kernel.ask("GET", f"/resources/{name}")).json["content"] == text
