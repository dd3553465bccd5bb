"""Agents over REST: those of files are read here, those made at run time are made, changed and ended here."""

from typing import Any

import pytest

from tests.builders.api import ServedKernel

MOCK: dict[str, Any] = {"model": "mock/x", "mock": [{"text": "hi"}]}


@pytest.mark.promise("P9")
async def test_a_broken_file_is_listed_as_an_error_and_shown_with_its_place(kernel: ServedKernel) -> None:
    (kernel.root / ".agents/bad.yaml").write_text("model: 1\nmodle: x\n")
    rows = (await kernel.get("/agents"))["agents"]
    assert [(row["name"], row["state"]) for row in rows] == [("alice", "idle"), ("bad", "error")]
    processes = (await kernel.get("/ps"))["agents"]
    assert [(row["state"], row["reason"]) for row in processes if row["name"] == "bad"] == [("error", "definition")]
    shown = await kernel.ask("GET", "/agents/bad")
    assert shown.refusal == (422, "bad_definition")
    assert {error["path"] for error in shown.json["errors"]} == {".agents/bad.yaml"}
    assert all(error["line"] > 0 for error in shown.json["errors"])


async def test_an_agent_whose_file_broke_is_listed_as_it_works(kernel: ServedKernel) -> None:
    (kernel.root / ".agents/alice.yaml").write_text("model: 1\n")
    await kernel.attempt()
    (row,) = (await kernel.get("/agents"))["agents"]
    assert (row["state"], row["model"]) == ("running", "mock/x")
    assert ".agents/alice.yaml:1" in row["error"]
    status = await kernel.get("/status")
    assert status["state"] == "up" and "not in effect" in status["notice"]
    sent = await kernel.ask("POST", "/messages", {"to": "alice", "text": "hi"})
    assert (sent.status, sent.json["outdated"]) == (202, ".agents/alice.yaml:1:1")
    (kernel.root / "moniro.yaml").write_text("limts: {}\n")
    (row,) = (await kernel.get("/agents"))["agents"]
    assert (row["state"], row["file"], "moniro.yaml:1" in row["error"]) == ("running", ".agents/alice.yaml", True)


@pytest.mark.promise("HF26")
async def test_an_agent_with_work_is_not_deleted(kernel: ServedKernel) -> None:
    """409, nothing orphaned."""
    await kernel.ask("POST", "/agents", MOCK | {"name": "helper"})
    await kernel.ask("POST", "/messages", {"to": "helper", "text": "work"})
    assert (await kernel.ask("DELETE", "/agents/helper")).refusal == (409, "conflict")


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (MOCK | {"name": "alice"}, "already_exists"),
        (MOCK | {"name": "System"}, "bad_request"),
        (MOCK | {"name": "../x"}, "bad_request"),
        (MOCK | {"colour": "red"}, "bad_request"),
        ({"model": "nobody/x", "system": "s"}, "bad_definition"),
        ({"model": "mock/x", "mock": "no"}, "bad_definition"),
        ({"model": "mock/x"}, "bad_definition"),
        ({"model": "anthropic/claude-sonnet-4-5"}, "bad_definition"),
    ],
)
async def test_a_wrong_agent_is_not_made(kernel: ServedKernel, asked: object, code: str) -> None:
    assert (await kernel.ask("POST", "/agents", asked)).code == code


async def test_an_agent_whose_file_is_gone_is_forgotten_with_what_was_said_to_it(kernel: ServedKernel) -> None:
    """contracts 9: agent delete removes the bytes; while it has work it stays."""
    file = kernel.root / ".agents/alice.yaml"
    sent = (await kernel.ask("POST", "/messages", {"to": "alice", "text": "the secret"})).json
    text = file.read_text()
    file.unlink()
    assert (await kernel.ask("DELETE", "/agents/alice")).code == "conflict"
    file.write_text(text)
    await kernel.ask("POST", f"/instructions/{sent['instruction_ids'][0]}/cancel", {})
    file.unlink()
    assert (await kernel.ask("DELETE", "/agents/alice")).status == 200
    assert (await kernel.ask("GET", "/agents/alice")).code == "unknown_agent"
    assert (await kernel.ask("DELETE", "/agents/alice")).code == "unknown_agent"
    said = await kernel.get("/spaces/dm:alice/channel")
    assert "the secret" not in str(said)


async def test_an_ephemeral_agent_that_gets_a_file_keeps_its_queue(kernel: ServedKernel) -> None:
    await kernel.ask("POST", "/agents", MOCK | {"name": "helper"})
    await kernel.ask("POST", "/messages", {"to": "helper", "text": "work"})
    (kernel.root / ".agents/helper.yaml").write_text("model: mock/x\nmock: [{text: hi}]\n")
    assert (await kernel.ask("DELETE", "/agents/helper")).status == 200
    shown = await kernel.get("/agents/helper")
    assert (shown["ephemeral"], shown["file"], shown["workspaces"]) == (False, ".agents/helper.yaml", [])
    assert len((await kernel.get("/agents/helper/queue"))["instructions"]) == 1
