"""What an answer cost is counted, and what nobody can pay for is not
asked."""

import json
from typing import Any

import httpx2
import pytest
import trio
import trio.testing

from protocol.instruction import Usage
from protocol.ipc import Limits
from tests.worker.scripted_api import Events, Fail, Move, Say, ScriptedApi
from worker.backends.meter import RequestMeter, metered

pytestmark = pytest.mark.promise("P27")

SPENT = Say("hello", input_tokens=10, output_tokens=5, cached_tokens=3)
LIMITS = Limits(idle_seconds=5.0)


async def free() -> None:
    """There is money."""


async def ask(meter: RequestMeter, path: str, key: str = "k") -> httpx2.Response:
    async with httpx2.AsyncClient(trust_env=False) as client:
        body: dict[str, Any] = {"stream": True, "model": "m"}
        return await client.post(f"{meter.url}/{path}", json=body, headers={"authorization": f"Bearer {key}"})


@pytest.mark.parametrize("path", ["messages", "chat/completions", "responses"])
async def test_an_answer_passes_as_it_is_and_is_counted(path: str) -> None:
    with ScriptedApi([SPENT, SPENT]) as api, trio.fail_after(10):
        async with metered(f"{api.url}/v1", LIMITS, free) as meter:
            answer = await ask(meter, path)
            assert (meter.used, meter.take(), meter.take()) == (
                True,
                Usage(input_tokens=10, output_tokens=5, cache_read_tokens=3),
                None,
            )
        async with httpx2.AsyncClient(trust_env=False) as client:
            plain = await client.post(f"{api.url}/v1/{path}", json={"stream": True, "model": "m"})
    assert (answer.status_code, answer.content) == (200, plain.content)
    assert (api.requests[0].path, api.requests[0].headers["authorization"]) == (f"/v1/{path}", "Bearer k")


async def taken(meter: RequestMeter) -> Usage:
    """Return what was counted: an answer of known length reaches the program before it is counted."""
    while (usage := meter.take()) is None:
        await trio.lowlevel.checkpoint()
    return usage


async def test_a_byte_order_mark_costs_no_count() -> None:
    """WHATWG HTML 9.2.5: usage may be in the first line of a stream."""
    told = {"type": "message_start", "message": {"usage": {"input_tokens": 7, "output_tokens": 1}}}
    with ScriptedApi([Fail(200, f"\ufeffdata: {json.dumps(told)}\n\n")]) as api, trio.fail_after(10):
        async with metered(api.url, LIMITS, free) as meter:
            await ask(meter, "v1/messages")
            assert await taken(meter) == Usage(input_tokens=7, output_tokens=1)


@pytest.mark.parametrize("pretty", [False, True])
async def test_gemini_is_counted_in_a_stream_and_in_one_document(pretty: bool) -> None:
    said = '"promptTokenCount": 99'
    usage = {"promptTokenCount": 13, "candidatesTokenCount": 4, "thoughtsTokenCount": 1, "cachedContentTokenCount": 3}
    document = {"candidates": [{"content": {"parts": [{"text": said}]}}], "usageMetadata": usage}
    move: Move = Fail(200, json.dumps(document, indent=2)) if pretty else SPENT
    with ScriptedApi([move]) as api, trio.fail_after(10):
        async with metered(api.url, LIMITS, free) as meter:
            await ask(meter, "v1beta/models/m:streamGenerateContent?alt=sse")
            assert await taken(meter) == Usage(input_tokens=10, output_tokens=5, cache_read_tokens=3)


@pytest.mark.parametrize(
    ("move", "status"), [(Fail(429, {"error": {"message": "no"}}, {"retry-after": "7"}), 429), (Fail(400, "x"), 400)]
)
async def test_a_refusal_passes_as_it_is_and_costs_nothing(move: Move, status: int) -> None:
    with ScriptedApi([move]) as api, trio.fail_after(10):
        async with metered(api.url, LIMITS, free) as meter:
            answer = await ask(meter, "v1/messages")
            assert meter.take() is None
    assert (answer.status_code, answer.headers.get("retry-after")) == (status, "7" if status == 429 else None)


async def test_an_answer_that_breaks_off_is_broken_off_and_what_it_told_is_counted() -> None:
    start = {"type": "message_start", "message": {"usage": {"input_tokens": 7, "output_tokens": 1}}}
    with ScriptedApi([Events((("message_start", start),), cut=True)]) as api, trio.fail_after(10):
        async with metered(api.url, LIMITS, free) as meter:
            with pytest.raises(httpx2.HTTPError):
                await ask(meter, "v1/messages")
            with trio.move_on_after(2):
                while meter.take() != Usage(input_tokens=7, output_tokens=1):
                    await trio.lowlevel.checkpoint()
                return
    raise AssertionError("it was not counted")


async def test_a_provider_that_is_not_there_is_a_connection_that_ends() -> None:
    with trio.fail_after(10):
        async with metered("http://127.0.0.1:9", LIMITS, free) as meter:
            with pytest.raises(httpx2.HTTPError):
                await ask(meter, "v1/messages")


@pytest.mark.parametrize("target", ["@evil.example/v1", "http://evil.example/v1", "*"])
async def test_requests_go_to_the_provider_and_nowhere_else(target: str) -> None:
    with ScriptedApi([SPENT]) as api, trio.fail_after(10):
        async with metered(api.url, LIMITS, free) as meter:
            async with await trio.open_tcp_stream("127.0.0.1", int(meter.url.rpartition(":")[2])) as stream:
                await stream.send_all(f"POST {target} HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{{}}".encode())
                assert await stream.receive_some() == b""
            assert not meter.used
    assert api.requests == []


async def test_what_may_not_be_asked_does_not_reach_the_provider() -> None:
    with ScriptedApi([SPENT]) as api, trio.fail_after(10):
        asked = trio.Event()

        async def never() -> None:
            asked.set()
            await trio.sleep_forever()

        async with metered(api.url, LIMITS, never) as meter, trio.open_nursery() as nursery:
            nursery.start_soon(ask, meter, "v1/messages")
            await asked.wait()
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
    assert api.requests == []
