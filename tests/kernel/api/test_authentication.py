"""Only the bearer token tells who asks, and it is told to nobody."""

import hashlib
import hmac
import logging

import pytest

from tests.builders.api import RECORD_TOKEN, TOKEN, ServedKernel

pytestmark = pytest.mark.promise("P6", "P18")


@pytest.mark.promise("HF03")
@pytest.mark.parametrize("field", ["", "Bearer", "Basic {t}", "{t}", "Bearer {t} {t}", "Token {t}", "Bearer: {t}"])
async def test_what_is_not_exactly_our_bearer_token_is_unauthorized(kernel: ServedKernel, field: str) -> None:
    """Missing or wrong token is 401, with a challenge."""
    headers = kernel.headers(None) | {"Authorization": field.format(t=TOKEN)}
    answer = await kernel.ask("GET", "/agents", headers=headers)
    assert answer.refusal == (401, "unauthorized")
    assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.promise("HF03")
async def test_a_token_in_the_query_is_not_looked_at(kernel: ServedKernel) -> None:
    answer = await kernel.ask("GET", f"/agents?token={TOKEN}&access_token={TOKEN}", headers=kernel.headers(None))
    assert answer.status == 401


async def test_the_scheme_of_the_token_is_case_insensitive(kernel: ServedKernel) -> None:
    """RFC 9110 section 11.1."""
    headers = kernel.headers(None) | {"Authorization": f"bearer {TOKEN}"}
    assert (await kernel.ask("GET", "/agents", headers=headers)).status == 200


@pytest.mark.promise("HF05")
async def test_the_token_of_an_attempt_opens_nothing_but_mcp(kernel: ServedKernel) -> None:
    await kernel.attempt(token="worker")
    headers = kernel.headers("worker")
    for method, path in (("GET", "/agents"), ("GET", "/ps"), ("GET", "/nowhere"), ("GET", "/events")):
        answer = await kernel.ask(method, path, headers=headers)
        assert answer.refusal == (403, "forbidden"), path
    assert (await kernel.ask("POST", "/shutdown", {"grace": 0}, headers=headers)).status == 403
    assert kernel.asked_to_stop == []


@pytest.mark.promise("HF06")
async def test_the_token_of_an_attempt_is_worthless_the_moment_it_ends(kernel: ServedKernel) -> None:
    """401 stale_attempt, not a second later."""
    instruction = await kernel.attempt(token="worker")
    await kernel.end(instruction)
    answer = await kernel.ask("POST", "/mcp", {}, headers=kernel.headers("worker"))
    assert answer.refusal == (401, "stale_attempt")


@pytest.mark.promise("XF19")
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/run", {"workflow": "task", "approve": "auto"}),
        ("/serve", {"workflow": "task", "approve": "auto"}),
        ("/serve", {"to": "alice", "text": "go", "trust": True}),
        ("/workflows", {"workflow": "task", "trust": True}),
        ("/agents/alice/continue", None),
        ("/messages", {"to": "alice", "text": "go", "trust": True}),
        ("/messages", {"to": "alice", "text": "go", "agree": ["0" * 64]}),
    ],
)
async def test_a_process_of_ours_does_not_speak_for_people(kernel: ServedKernel, path: str, body: object) -> None:
    kernel.below.append(True)
    assert (await kernel.ask("POST", path, body)).refusal == (403, "forbidden")
    assert (await kernel.ask("POST", "/messages", {"to": "alice", "text": "go"})).status == 202


async def test_no_token_appears_in_an_answer_or_a_log(kernel: ServedKernel, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    await kernel.attempt(token="worker-secret")
    seen = b""
    for token in (TOKEN, "worker-secret", "guessed-secret"):
        for path in ("/health?nonce=x", "/status", "/providers", "/nowhere", "/events?follow=0&since=0", "/mcp"):
            seen += (await kernel.ask("GET", path, headers=kernel.headers(token))).body
        bad = await kernel.ask("POST", "/messages", raw=b"{bad", headers=kernel.headers(token))
        seen += bad.body
    text = seen.decode() + caplog.text
    assert [token for token in (TOKEN, "worker-secret", "guessed-secret") if token in text] == []


@pytest.mark.promise("HF27")
async def test_health_proves_that_the_kernel_holds_the_token(kernel: ServedKernel) -> None:
    answer = await kernel.ask("GET", "/health?nonce=abc", headers=kernel.headers(None))
    record, admin = (hmac.new(token.encode(), b"abc", hashlib.sha256).hexdigest() for token in (RECORD_TOKEN, TOKEN))
    assert answer.json["status"] == "ok"
    assert (answer.json["proof"], answer.json["admin_proof"]) == (record, admin)
    assert not {"proof", "admin_proof"} & set((await kernel.ask("GET", "/health", headers=kernel.headers(None))).json)
