"""Souls: suggested by agents, decided by people, kept in versions, and what the next prompt says."""

from pathlib import Path
from typing import Any

import pytest

from kernel.agents.personal_context import ContextPlace, PersonalContexts
from kernel.agents.registration import register
from tests.builders.api import ServedKernel
from tests.kernel.api.mcp.rpc import call, content

SOUL = "/agents/alice/soul"


async def suggested(kernel: ServedKernel, /, **arguments: Any) -> Any:
    return await content(kernel, "soul_suggest", arguments, "worker-token")


def soul_file(kernel: ServedKernel) -> Path:
    return kernel.root / ".agents/alice/soul.yaml"


@pytest.fixture
async def kernel(kernel: ServedKernel) -> ServedKernel:
    """A kernel in which alice (worker-token) is at work."""
    await kernel.attempt()
    return kernel


@pytest.mark.promise("P52")
async def test_what_an_agent_suggests_of_itself_changes_nothing_until_a_person_takes_it(kernel: ServedKernel) -> None:
    made = await suggested(kernel, observation="I always explain trade-offs", value="Explain trade-offs")
    assert (made["id"], made["state"], made["trait"]) == ("p1", "open", "principles")
    assert not soul_file(kernel).exists()
    (need,) = (await kernel.get("/needs"))["items"]
    assert (need["kind"], need["agent"], need["actions"][0]["command"]) == (
        "soul", "alice", "awk agent soul alice approve p1",
    )  # fmt: skip
    taken = await kernel.ask("POST", f"{SOUL}/p1/approve", {"reason": "true"})
    assert taken.json["soul"] == {"principles": ["Explain trade-offs"]}
    assert soul_file(kernel).read_text() == "principles: [Explain trade-offs]\n"
    newest, baseline = taken.json["versions"]
    assert (newest["version"], newest["author"], newest["reason"], newest["proposal"]) == (2, "user", "true", "p1")
    assert "+principles: [Explain trade-offs]" in newest["diff"]
    assert (baseline["version"], baseline["reason"]) == (1, "as in the file of the agent")
    assert (await kernel.get("/needs"))["total"] == 0
    reflected = await call(kernel, "soul_reflect", {}, "worker-token")
    assert reflected["structuredContent"]["soul"] == {"principles": ["Explain trade-offs"]}


@pytest.mark.promise("P52")
async def test_a_soul_is_rolled_back_by_a_version_that_says_the_same(kernel: ServedKernel) -> None:
    for value in ("Test first", "Explain trade-offs"):
        made = await suggested(kernel, observation=value)
        await kernel.ask("POST", f"{SOUL}/{made['id']}/approve")
    back = await kernel.ask("POST", f"{SOUL}/rollback", {"version": 2})
    assert back.json["soul"] == {"principles": ["Test first"]}
    assert [row["version"] for row in back.json["versions"]] == [4, 3, 2, 1]
    assert back.json["versions"][0]["reason"] == "rolled back to 2"
    assert (await kernel.ask("POST", f"{SOUL}/rollback", {"version": 9})).status == 404
    assert (await kernel.ask("POST", f"{SOUL}/rollback", {"version": 2})).status == 409


@pytest.mark.promise("P52")
async def test_what_people_wrote_into_the_soul_meanwhile_is_a_version_of_its_own(kernel: ServedKernel) -> None:
    first = await suggested(kernel, observation="Test first")
    await kernel.ask("POST", f"{SOUL}/{first['id']}/approve")
    soul_file(kernel).write_text("role: critic\nprinciples: [Test first]\n")
    assert (await kernel.get(SOUL))["edited"] is True
    second = await suggested(kernel, observation="Be brief")
    taken = await kernel.ask("POST", f"{SOUL}/{second['id']}/approve")
    assert taken.json["soul"] == {"role": "critic", "principles": ["Test first", "Be brief"]}
    assert [row["reason"] for row in taken.json["versions"]][:2] == ["Be brief", "edited by hand"]


@pytest.mark.promise("P52")
async def test_what_people_write_between_the_kernels_look_and_its_write_is_a_version_too(
    kernel: ServedKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, edits = PersonalContexts.write_soul, ["role: critic\n", "role: 'torn"]

    def edited(self: PersonalContexts, place: ContextPlace, text: str, known: str) -> str | None:
        if edits:
            soul_file(kernel).write_text(edits.pop(0))
        return write(self, place, text, known)

    soul_file(kernel).parent.mkdir(exist_ok=True)
    monkeypatch.setattr(PersonalContexts, "write_soul", edited)
    first = await suggested(kernel, observation="Test first")
    approved = await kernel.ask("POST", f"{SOUL}/{first['id']}/approve", {"reason": "true"})
    assert approved.json["soul"] == {"principles": ["Test first"]}
    told = [(row["version"], row["reason"], row["proposal"]) for row in approved.json["versions"]]
    assert told == [
        (4, "true", "p1"), (3, "edited by hand", None), (2, "true", "p1"), (1, "as in the file of the agent", None),
    ]  # fmt: skip
    assert "+role: critic" in approved.json["versions"][1]["diff"]
    assert soul_file(kernel).read_text() == "role: 'torn"
    soul_file(kernel).write_text("role: judge\n")
    now = await kernel.ask("GET", SOUL)
    assert [row["reason"] for row in now.json["versions"]][:3] == ["true", "edited by hand", "true"]
    assert soul_file(kernel).read_text() == "principles: [Test first]\n"


async def test_a_suggestion_is_rejected_once_and_said_again_while_it_is_open_it_is_the_same(
    kernel: ServedKernel,
) -> None:
    made = await suggested(kernel, observation="Be bold")
    assert (await suggested(kernel, observation="Be bold"))["id"] == made["id"]
    rejected = await kernel.ask("POST", f"{SOUL}/{made['id']}/reject", {"reason": "no"})
    assert (rejected.json["proposals"][0]["state"], rejected.json["soul"]) == ("rejected", {})
    assert (await kernel.ask("POST", f"{SOUL}/{made['id']}/approve")).status == 409
    assert (await kernel.ask("POST", f"{SOUL}/p99/approve")).status == 404


async def test_the_same_suggestion_of_another_agent_is_its_own(
    kernel: ServedKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is decided for whom it is about; and only its own open ones keep an agent from another."""
    monkeypatch.setattr("kernel.store.souls.MOST_SUGGESTIONS", 1)
    assert (
        await kernel.ask("POST", "/agents", {"name": "bob", "model": "mock/x", "mock": [{"text": "hi"}]})
    ).status == 201
    await kernel.attempt("bob", token="bobs-token")
    made = await suggested(kernel, observation="Be bold")
    words = {"observation": "Be bold"}
    theirs = await content(kernel, "soul_suggest", words, "bobs-token")
    assert theirs["id"] != made["id"]
    assert (await suggested(kernel, observation="Be brief"))["code"] == "conflict"
    await kernel.ask("POST", f"{SOUL}/{made['id']}/reject", {"reason": "no"})
    kept = (await kernel.get("/agents/bob/soul"))["proposals"]
    assert [(row["id"], row["state"]) for row in kept] == [(theirs["id"], "open")]


@pytest.mark.parametrize(("mode", "state"), [("auto", "approved"), ("disabled", None)])
async def test_soul_evolution_says_what_becomes_of_it(kernel: ServedKernel, mode: str, state: str | None) -> None:
    (kernel.root / "moniro.yaml").write_text(f"guard: {{ soul_evolution: {mode} }}\n")
    made = await suggested(kernel, observation="Be brief")
    assert made.get("state") == state
    assert made.get("code") == (None if state else "forbidden")
    assert soul_file(kernel).exists() == (state is not None)
    assert (await kernel.get("/needs"))["total"] == 0


async def test_a_soul_that_cannot_be_written_counts_from_its_row(kernel: ServedKernel) -> None:
    made = await suggested(kernel, observation="Be brief")
    home = kernel.root / ".agents/alice"
    home.write_text("in the way")
    taken = await kernel.ask("POST", f"{SOUL}/{made['id']}/approve")
    assert taken.json["soul"] == {"principles": ["Be brief"]}
    home.unlink()
    assert (await kernel.get(SOUL))["soul"] == {"principles": ["Be brief"]}
    assert soul_file(kernel).read_text() == "principles: [Be brief]\n"


async def test_an_agent_made_at_run_time_keeps_its_soul_when_it_gets_a_file(kernel: ServedKernel) -> None:
    await kernel.ask("POST", "/agents", {"name": "carol", "model": "mock/x", "mock": [{"text": "hi"}]})
    await kernel.attempt("carol", token="carols-token")
    await call(kernel, "soul_suggest", {"observation": "Be brief"}, "carols-token")
    taken = await kernel.ask("POST", "/agents/carol/soul/p1/approve")
    assert (taken.json["soul"], taken.json["managed"]) == ({"principles": ["Be brief"]}, None)
    asked = await kernel.ask("POST", "/messages", {"to": "carol", "text": "hi"})
    prompt = await kernel.ask("GET", f"/instructions/{asked.json['instruction_ids'][0]}/prompt")
    assert b"Be brief" in prompt.body
    (kernel.root / ".agents/carol.yaml").write_text("model: mock/x\nmock: [{ text: hi }]\n")
    files, store = kernel.services.files, kernel.services.store
    await register(files.catalog, store.writer, store.reader)
    assert (await kernel.get("/agents/carol/soul"))["managed"] == ".agents/carol/soul.yaml"
    assert (kernel.root / ".agents/carol/soul.yaml").read_text() == "principles: [Be brief]\n"


async def test_an_agent_that_gets_a_file_of_another_name_is_who_it_was(kernel: ServedKernel) -> None:
    await kernel.ask("POST", "/agents", {"name": "carol", "model": "mock/x", "mock": [{"text": "hi"}]})
    instruction = await kernel.attempt("carol", token="carols-token")
    for said in ("Be brief", "Be bold"):
        await call(kernel, "soul_suggest", {"observation": said}, "carols-token")
    await call(kernel, "memory_write", {"key": "k", "value": "the gate is blue"}, "carols-token")
    await kernel.ask("POST", "/agents/carol/soul/p1/approve")
    await kernel.end(instruction)
    (kernel.root / ".agents/erin.yaml").write_text("model: mock/x\nmock: [{ text: hi }]\n")
    assert (await kernel.ask("POST", "/agents/carol/rename", {"to": "erin"})).status == 200
    soul = await kernel.get("/agents/erin/soul")
    assert (soul["soul"], soul["managed"]) == ({"principles": ["Be brief"]}, ".agents/erin/soul.yaml")
    assert [row["version"] for row in soul["versions"]] == [2, 1]
    assert [(row["id"], row["state"]) for row in soul["proposals"]] == [("p2", "open"), ("p1", "approved")]
    assert (await kernel.get("/agents/erin/memory"))["entries"][0]["value"] == "the gate is blue"
    (need,) = (await kernel.get("/needs"))["items"]
    assert need["actions"][0]["command"] == "awk agent soul erin approve p2"
    asked = await kernel.ask("POST", "/messages", {"to": "erin", "text": "hi"})
    prompt = await kernel.ask("GET", f"/instructions/{asked.json['instruction_ids'][0]}/prompt")
    assert b"Be brief" in prompt.body and b"the gate is blue" not in prompt.body.split(b"Be brief")[0]


@pytest.mark.promise("P52")
@pytest.mark.parametrize(
    ("edited", "line"), [(b"role: x\nstyle: \xff\xfe\n", 2), ("role: x\n".encode("utf-16"), 1), (b"role: [\n", 2)]
)
async def test_a_soul_file_that_is_no_text_is_told_with_its_place(
    edited: bytes, line: int, kernel: ServedKernel
) -> None:
    soul_file(kernel).parent.mkdir(exist_ok=True)
    soul_file(kernel).write_bytes(edited)
    told = await kernel.ask("GET", SOUL)
    assert told.refusal == (422, "bad_definition")
    assert f".agents/alice/soul.yaml:{line}" in told.json["detail"]
