"""Only model requests of running attempts, for their own models, pass the gateway; nothing else reaches a provider."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio

from tests.builders.api import TOKEN
from tests.kernel.api.client import Answer, connected
from tests.kernel.api.test_node_door import through
from tests.kernel.gateway.scripted import BODY, PATHS, Door, credential, upstream

Fields = dict[str, str]
ANTHROPIC, OPENAI, GEMINI = (f"/gateway/{PATHS[name]}" for name in ("anthropic", "openai", "gemini"))


async def raw(door: Door, method: str, target: str, fields: Fields, body: bytes) -> Answer:
    """A request whose target is sent as it is."""
    headers = {"host": door.kernel.host, "content-length": str(len(body)), **fields}
    with trio.fail_after(10):
        async with connected(door.kernel.port) as wire:
            await wire.send(method, target, headers.items(), body)
            return await wire.answer()


WRONG = "awk-i1-1-AAAAAAAAAAAAAAAAAAAAAA"


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"x-api-key": WRONG},
        {"x-api-key": ""},
        {"authorization": f"Bearer {WRONG}"},
        {"authorization": "Basic {own}"},
        {"authorization": f"Bearer {TOKEN}"},
        {"x-goog-api-key": WRONG},
        {"x-api-key": "{own}x"},
        {"x-api-key": "{half}"},
        {"x-api-key": "{half}", "authorization": "Bearer"},
        {"cookie": "key={own}"},
        {"x-api-key": "{ended}"},
        {"authorization": "Bearer {ended}"},
        {"x-api-key": "{away}"},
        {"x-api-key": "{login}"},
    ],
)
async def test_without_the_placeholder_of_a_running_attempt_it_is_401(door: Door, fields: Fields) -> None:
    async with upstream() as provider:
        own, ended = door.admit(provider.url), door.admit(provider.url, attempt="i2-1")
        away, login = door.admit(provider.url, attempt="i3-1", node="n1"), door.admit(None, attempt="i4-1", login=True)
        door.gateway.dismiss("i2-1")
        known = {"own": own, "half": own[:-8], "ended": ended, "away": away, "login": login}
        sent = {name: value.format(**known) for name, value in fields.items()}
        answer = await raw(door, "POST", ANTHROPIC, sent, json.dumps(BODY).encode())
        assert answer.refusal == (401, "unauthorized")
        assert not any(value in answer.body.decode() for value in known.values())
        for path in (f"{own}/anthropic/v1/messages", f"{WRONG}/anthropic/v1/messages", "anthropic/v1/messages?key=x"):
            assert (await raw(door, "POST", f"/gateway/{path}", {}, b"{}")).status == 401
    assert provider.hits == []


@pytest.mark.parametrize(
    ("method", "target"),
    [
        *[(method, ANTHROPIC) for method in ("GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")],
        *[("POST", f"/gateway/{path}") for path in (
            "", "anthropic", "anthropic/", "anthropic/v1", "anthropic/v1/", "anthropic/v1/messages/",
            "anthropic/v1/messages/batches", "anthropic/v1/models", "anthropic/v1/files", "anthropic/v1/complete",
            "anthropic/v1/organizations/api_keys", "anthropic/v1//messages", "anthropic//v1/messages",
            "anthropic/../anthropic/v1/messages", "anthropic/v1/../v1/messages", "anthropic/v1/./messages",
            "anthropic/v1/messages/../models", "anthropic/v1/%6dessages", "anthropic/v1/messages%2f..%2fmodels",
            "anthropic/v1/messages%00", "anthropic/v1/messages;x=1", "anthropic/v1/messages%3Fbeta=true",
            "anthropic/V1/messages", "Anthropic/v1/messages", "anthropic\\v1\\messages", "/anthropic/v1/messages",
            "anthropic/v1/messages?beta=false", "anthropic/v1/messages?beta=true&beta=true&beta=true",
            "anthropic/v1/messages?x=1", "anthropic/v1/messages?beta=true&", "anthropic/v1/messages?url=http://x",
            "anthropic/v1/chat/completions", "openai/v1/messages", "openai/chat/completions", "openai/v1/completions",
            "openai/v1/models", "openai/v1/files", "openai/v1/responses/resp_1", "openai/v1/responses?stream=1",
            "openai/v1/fine_tuning/jobs", "openai/v1/images/generations", "openai/v1/audio/speech",
            "openai/v1/chat/completions/", "openai/v1/chat%2Fcompletions", "openai/v2/chat/completions",
            "gemini/v1beta/models", "gemini/v1beta/models/m1", "gemini/v1beta/models/m1:embedContent",
            "gemini/v1beta/models/m1:batchGenerateContent", "gemini/v1beta/models/../m1:generateContent",
            "gemini/v1beta/models/a/b:generateContent", "gemini/v1beta/models/:generateContent",
            "gemini/v1beta/models/m%31:generateContent", "gemini/v1beta/tunedModels/m1:generateContent",
            "gemini/v1beta/models/m1:generateContent?alt=media", "gemini/v1beta/cachedContents",
            "gemini/v3/models/m1:generateContent", "gemini/upload/v1beta/files", "cursor/v1/messages", "mock/v1",
            "http://127.0.0.1/v1/messages",
        )],
    ],
)  # fmt: skip
async def test_what_is_not_in_the_table_is_404_and_goes_nowhere(door: Door, method: str, target: str) -> None:
    async with upstream() as provider:
        dialect: Any = next((name for name in PATHS if target.startswith(f"/gateway/{name}")), "anthropic")
        fields = {"x-api-key": door.admit(provider.url, dialect)}
        body = b"" if method in ("GET", "HEAD") else json.dumps(BODY).encode()
        answer = await raw(door, method, target, fields, body)
    assert answer.status == 404
    assert provider.hits == []


@pytest.mark.parametrize("target", ["/%67ateway/anthropic/v1/messages", "//gateway/anthropic/v1/messages", "/gateway"])
async def test_other_spellings_of_the_gateway_are_not_the_gateway(door: Door, target: str) -> None:
    async with upstream() as provider:
        answer = await raw(door, "POST", target, {"x-api-key": door.admit(provider.url)}, json.dumps(BODY).encode())
    assert (answer.status, provider.hits) == (401, [])


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"model": "m2"}', 403),
        (b'{"model": "M1"}', 403),
        (b'{"model": "m1 "}', 403),
        (b'{"model": "m1", "models": ["m2"]}', 403),
        (b'{"model": "m2", "x": {"model": "m1"}}', 403),
        (b'{"model": "m1", "model": "m2"}', 400),
        (b'{"model": "m2", "model": "m1"}', 400),
        (b'{"model": "m2", "Model": "m1"}', 400),
        (b'{"Model": "m2", "model": "m1"}', 400),
        (b'{"mod\\u0065l": "m2", "model": "m1"}', 400),
        (b'{"model": "m1", "mod\\u0065l": "m1"}', 400),
        (b'{"x": {"model": "m1"}}', 400),
        (b'{"model": 1}', 400),
        (b'{"model": ["m1"]}', 400),
        (b'["model", "m1"]', 400),
        (b'{"model": "m1"', 400),
        (b'{"model": "m1"} {"model": "m2"}', 400),
        (b"", 400),
        (b"model=m1", 400),
        (b"[" * 100_000, 400),
        ('{"model": "m1"}'.encode("utf-16"), 400),
        (b'{"model": "m\xff"}', 400),
        (b'{"x": "' + b"y" * 3_000_000 + b'", "model": "m2"}', 403),
        (b'{"x": "' + b"y" * 3_000_000 + b'", "model": "m1", "model": "m1"}', 400),
        (b'{"x": "' + b"y\\\\" * 1_000_000 + b'\\", \\"model\\": \\"m1", "model": "m2"}', 403),
    ],
)
async def test_a_model_that_is_not_the_agents_or_not_clear_is_not_asked(door: Door, body: bytes, status: int) -> None:
    async with upstream() as provider, trio.open_nursery():
        placeholder = door.admit(provider.url)
        answer = await raw(door, "POST", ANTHROPIC, credential("anthropic", placeholder), body)
    assert (answer.status, provider.hits) == (status, [])


@pytest.mark.parametrize(
    "body",
    [
        {**BODY, "tools": [{"input_schema": {"properties": {"model": {"type": "string", "enum": ["model"]}}}}]},
        {**BODY, "note": 'text "model": "m2" and \\u0041 \\'},
        {**BODY, "big": 'é\\"' * 900_000, "tools": [{"model": "nested"}]},
        {"big": ["x" * 300, "y" * 257, "\\" * 256, '"' * 129] * 3000, **BODY},
    ],
)
async def test_other_keys_and_texts_do_not_confuse_the_model(door: Door, body: dict[str, Any]) -> None:
    async with upstream() as provider, door.client() as client:
        headers = credential("anthropic", door.admit(provider.url))
        content = json.dumps(body).encode()
        assert (await client.post(PATHS["anthropic"], headers=headers, content=content)).status_code == 200
    assert [hit.size for hit in provider.hits] == [len(content)]


async def test_another_dialect_and_another_model_in_the_path_are_403(door: Door) -> None:
    async with upstream() as provider:
        body, gemini = json.dumps(BODY).encode(), door.admit(provider.url, "gemini", attempt="i2-1")
        assert (await raw(door, "POST", OPENAI, {"x-api-key": door.admit(provider.url)}, body)).status == 403
        target = GEMINI.replace("/m1:", "/m2:")
        assert (await raw(door, "POST", target, {"x-goog-api-key": gemini}, b"{}")).status == 403
    assert provider.hits == []


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"host": "evil.example"}, 421),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "http://{host}"}, 403),
        ({"content-encoding": "gzip"}, 415),
    ],
)
async def test_pages_other_hosts_and_encoded_bodies_are_refused(door: Door, fields: Fields, status: int) -> None:
    async with upstream() as provider:
        sent = {name: value.format(host=door.kernel.host) for name, value in fields.items()}
        sent["x-api-key"] = door.admit(provider.url)
        answer = await raw(door, "POST", ANTHROPIC, sent, json.dumps(BODY).encode())
    assert (answer.status, provider.hits) == (status, [])


async def test_any_model_is_allowed_where_the_program_chooses(door: Door) -> None:
    async with upstream() as provider:
        assert (await door.ask(door.admit(provider.url, models=frozenset()))).status_code == 200


async def test_a_body_without_an_end_is_too_large(door: Door) -> None:
    async with upstream() as provider, door.client() as client:
        placeholder = door.admit(provider.url)

        async def endless() -> AsyncIterator[bytes]:
            for _ in range(70):
                yield b" " * 1_000_000

        headers = credential("anthropic", placeholder)
        answer = await client.post(PATHS["anthropic"], headers=headers, content=endless())
    assert (answer.status_code, provider.hits) == (413, [])


@pytest.mark.parametrize(("own", "through_node", "status"), [("n1", "n1", 200), ("n1", "n2", 401), ("", "n1", 401)])
async def test_a_placeholder_is_valid_through_its_own_node_only(
    door: Door, own: str, through_node: str, status: int
) -> None:
    async with upstream() as provider:
        body, placeholder = json.dumps(BODY).encode(), door.admit(provider.url, node=own)
        fields = {"host": "127.0.0.1:9", "x-api-key": placeholder, "content-length": str(len(body))}
        with trio.fail_after(10):
            async with through(door.kernel, through_node) as wire:
                await wire.send("POST", ANTHROPIC, fields.items(), body)
                assert (await wire.answer()).status == status
    assert len(provider.hits) == (1 if status == 200 else 0)


async def test_more_requests_at_once_than_the_limit_are_refused(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernel.gateway.gateway.MOST_REQUESTS", 1)
    asked = trio.Event()

    async def never() -> None:
        asked.set()
        await trio.sleep_forever()

    async with upstream() as provider, trio.open_nursery() as nursery:
        placeholder = door.admit(provider.url, may=never)
        nursery.start_soon(door.ask, placeholder)
        await asked.wait()
        assert (await door.ask(placeholder)).status_code == 503
        nursery.cancel_scope.cancel()
