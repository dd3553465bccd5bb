"""What an attempt asks its model reaches the provider with the real key, and comes back as it is and at once."""

import json
import socket
from pathlib import Path
from typing import Any

import anthropic
import h11
import httpx2
import openai
import pytest
import trio
import trio.testing
from cryptography import x509

from kernel.gateway.access import worker_provider
from protocol.instruction import Usage
from protocol.ipc import Provider
from tests.builders.api import serve_kernel
from tests.kernel.gateway.scripted import BODY, KEY, PATHS, Door, Hit, Line, credential, upstream
from tests.kernel.services.test_webhooks import LOOPBACK, Authority

MESSAGE = {
    "id": "x", "type": "message", "role": "assistant", "model": "m1", "stop_reason": "end_turn", "stop_sequence": None,
    "content": [{"type": "text", "text": "hello"}], "usage": {"input_tokens": 7, "output_tokens": 2},
}  # fmt: skip


def of_worker(door: Door, placeholder: str, dialect: Any, **more: Any) -> Provider:
    """What the attempt gets to know of its provider."""
    provider = Provider(name="acme", dialect=dialect, base_url="http://real.example/v9", api_key=KEY, **more)
    return worker_provider(provider, door.gateway.url, placeholder)


async def test_the_anthropic_client_is_answered_with_the_key_of_the_kernel(door: Door) -> None:
    async def script(line: Line, _hit: Hit) -> None:
        await line.reply(json.dumps(MESSAGE).encode(), request_id="req_1")

    async with upstream(script) as provider:
        known = of_worker(door, door.admit(provider.url), "anthropic")
        assert KEY not in str(known) and "real.example" not in str(known)
        async with anthropic.AsyncAnthropic(api_key=known.api_key, base_url=known.base_url, max_retries=0) as client:
            create: Any = client.messages.create
            answer = await create(**BODY, extra_headers={"anthropic-beta": "b1"}, extra_query={"beta": "true"})
    assert (answer.content[0].text, answer._request_id) == ("hello", "req_1")
    (hit,) = provider.hits
    assert (hit.method, hit.target) == ("POST", "/v1/messages?beta=true")
    assert (hit.fields["x-api-key"], hit.fields["authorization"]) == (KEY, f"Bearer {KEY}")
    assert (hit.fields["anthropic-beta"], json.loads(hit.body)) == ("b1", BODY)
    assert f"127.0.0.1:{provider.url.rpartition(':')[2]}" == hit.fields["host"]
    assert door.counted == [("m1", Usage(input_tokens=7, output_tokens=2))]


@pytest.mark.parametrize("responses", [False, True])
async def test_the_openai_client_is_answered_by_both_apis(door: Door, responses: bool) -> None:
    async def script(line: Line, _hit: Hit) -> None:
        usage = {"input_tokens": 9, "output_tokens": 3, "prompt_tokens": 9, "completion_tokens": 3}
        await line.reply(json.dumps({"id": "x", "usage": usage}).encode())

    async with upstream(script) as provider:
        known = of_worker(door, door.admit(f"{provider.url}/v9", "openai"), "openai")
        async with openai.AsyncOpenAI(api_key=known.api_key, base_url=known.base_url, max_retries=0) as client:
            if responses:
                await client.responses.create(model="m1", input="hi")
            else:
                await client.chat.completions.create(model="m1", messages=[{"role": "user", "content": "hi"}])
    (hit,) = provider.hits
    assert hit.target == ("/v9/responses" if responses else "/v9/chat/completions")
    assert hit.fields["authorization"] == f"Bearer {KEY}"
    assert door.counted == [("m1", Usage(input_tokens=9, output_tokens=3))]


@pytest.mark.parametrize("in_query", [False, True])
async def test_gemini_is_asked_for_the_model_in_the_path(door: Door, in_query: bool) -> None:
    async with upstream() as provider, door.client() as client:
        placeholder = door.admit(provider.url, "gemini")
        path = "gemini/v1beta/models/m1:streamGenerateContent?alt=sse" + (f"&key={placeholder}" if in_query else "")
        headers = {} if in_query else {"x-goog-api-key": placeholder}
        assert (await client.post(path, headers=headers, json={"contents": []})).status_code == 200
    (hit,) = provider.hits
    assert hit.target == "/v1beta/models/m1:streamGenerateContent?alt=sse"
    assert hit.fields["x-goog-api-key"] == KEY
    assert placeholder not in str(hit)


async def test_each_event_of_a_stream_arrives_before_the_next_is_sent(door: Door) -> None:
    arrived = [trio.Event() for _ in range(4)]

    async def script(line: Line, _hit: Hit) -> None:
        await line.begin()
        for number, event in enumerate(arrived):
            await event.wait()
            await line.data({"number": number})
        await line.send(h11.EndOfMessage())

    async with upstream(script) as provider, door.client() as client:
        headers = credential("anthropic", door.admit(provider.url))
        with trio.fail_after(10):
            async with client.stream("POST", PATHS["anthropic"], headers=headers, json=BODY) as answer:
                numbers: list[int] = []
                arrived[0].set()
                async for line in answer.aiter_lines():
                    if line.startswith("data: "):
                        numbers.append(json.loads(line[6:])["number"])
                        if len(numbers) < len(arrived):
                            arrived[len(numbers)].set()
    assert numbers == [0, 1, 2, 3]


async def test_the_head_of_a_stream_arrives_before_its_first_event(door: Door) -> None:
    seen = trio.Event()

    async def script(line: Line, _hit: Hit) -> None:
        await line.begin(x_request_id="r1")
        await seen.wait()
        await line.data({})
        await line.send(h11.EndOfMessage())

    async with upstream(script) as provider, door.client() as client:
        headers = credential("openai", door.admit(provider.url, "openai"))
        with trio.fail_after(10):
            async with client.stream("POST", PATHS["openai"], headers=headers, json=BODY) as answer:
                seen.set()
                assert await answer.aread() == b"data: {}\n\n"


async def test_a_provider_with_tls_is_asked_if_its_certificate_is_valid(
    door: Door, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    authority = Authority(tmp_path, "ours")
    async with (
        upstream(context=authority.server(LOOPBACK)) as known,
        upstream(context=Authority(tmp_path, "another").server(LOOPBACK)) as other,
    ):
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
        assert (await door.ask(door.admit(known.url))).status_code == 200
        refused = await door.ask(door.admit(other.url, attempt="i2-1"))
    assert (refused.status_code, refused.json()["code"]) == (502, "provider_unreachable")
    assert "acme" in refused.json()["detail"] and "certificate" in refused.json()["detail"].lower()
    assert (len(known.hits), other.hits) == (1, [])


async def test_credentials_and_fields_of_the_connection_end_here(door: Door) -> None:
    sent = {
        "cookie": "a=b", "forwarded": "for=1.2.3.4", "x-forwarded-for": "1.2.3.4", "via": "1.1 x", "api-key": "mine",
        "x-goog-api-key": "mine", "proxy-authorization": "Basic mine", "te": "trailers", "x-mine": "stays",
        "x-hop": "mine", "connection": "x-hop, keep-alive", "accept-encoding": "gzip", "x-real-ip": "1.2.3.4",
        "x-http-method-override": "mine",
    }  # fmt: skip
    async with upstream() as provider, door.client() as client:
        placeholder = door.admit(provider.url, "openai")
        headers = {**sent, **credential("openai", placeholder)}
        assert (await client.post(PATHS["openai"], headers=headers, json=BODY)).status_code == 200
    fields = provider.hits[0].fields
    assert fields["x-mine"] == "stays" and fields["accept-encoding"] == "identity"
    assert "mine" not in " ".join(value for name, value in fields.items() if name != "x-mine")
    assert not {"cookie", "forwarded", "x-forwarded-for", "via", "x-real-ip", "te", "x-hop"} & fields.keys()
    assert placeholder not in str(provider.hits)


async def test_a_local_server_without_a_key_gets_none(door: Door) -> None:
    async with upstream() as provider:
        assert (await door.ask(door.admit(provider.url, "openai", key=None), "openai")).status_code == 200
    assert not {"authorization", "x-api-key"} & provider.hits[0].fields.keys()


async def test_a_login_passes_its_own_credential_and_its_address_is_the_permission(door: Door) -> None:
    async with upstream() as provider, door.client() as client:
        placeholder = door.admit(provider.url, key=None, login=True, models=frozenset())
        known = Provider(name="acme", dialect="anthropic")
        address = worker_provider(known, door.gateway.url, placeholder, login=True)
        assert (address.base_url, address.api_key) == (f"{door.gateway.url}/gateway/{placeholder}/anthropic", None)
        headers = {"authorization": "Bearer of-the-login"}
        answer = await client.post(f"{address.base_url}/v1/messages", headers=headers, json=BODY | {"model": "any"})
        assert answer.status_code == 200
        assert (await client.post(PATHS["anthropic"], headers=headers, json=BODY)).status_code == 401
        assert (await door.ask(placeholder)).status_code == 401
    assert [hit.fields["authorization"] for hit in provider.hits] == ["Bearer of-the-login"]


@pytest.mark.parametrize("status", [307, 400, 401, 429, 500, 529])
async def test_what_the_provider_refuses_passes_without_the_key(door: Door, status: int) -> None:
    async def script(line: Line, _hit: Hit) -> None:
        told = json.dumps({"error": f"bad key {KEY} and {KEY[3:30]}"}).encode()
        await line.reply(told, status, retry_after="7", location="http://other.example/", x_echo=KEY, set_cookie="a=b")

    async with upstream(script) as provider:
        answer = await door.ask(door.admit(provider.url))
    assert (answer.status_code, answer.headers["retry-after"]) == (status, "7")
    assert answer.json()["error"] == "bad key [key] and [key]"
    assert KEY not in str(answer.headers) and "set-cookie" not in answer.headers
    assert len(provider.hits) == 1


async def test_a_provider_that_is_not_there_is_named_with_the_reason(door: Door) -> None:
    async with upstream() as provider:
        pass
    answer = await door.ask(door.admit(provider.url))
    assert (answer.status_code, answer.json()["code"]) == (502, "provider_unreachable")
    assert "acme" in answer.json()["detail"] and "ConnectError" in answer.json()["detail"]
    assert KEY not in answer.text


async def test_a_key_that_no_header_can_hold_is_not_told(door: Door) -> None:
    async with upstream() as provider:
        answer = await door.ask(door.admit(provider.url, key=f"{KEY}\nx"))
    assert answer.status_code == 502 and KEY not in answer.text and provider.hits == []


async def test_a_stream_that_breaks_off_breaks_off_and_is_counted(door: Door) -> None:
    async def script(line: Line, _hit: Hit) -> None:
        await line.begin()
        await line.data({"type": "message_start", "message": {"usage": {"input_tokens": 7, "output_tokens": 1}}})

    async with upstream(script) as provider:
        with pytest.raises(httpx2.RemoteProtocolError):
            await door.ask(door.admit(provider.url))
    assert door.counted == [("m1", Usage(input_tokens=7, output_tokens=1))]


async def test_a_client_that_leaves_ends_the_request_to_the_provider(door: Door) -> None:
    asked, ended = trio.Event(), trio.Event()

    async def script(line: Line, _hit: Hit) -> None:
        asked.set()
        assert await line.stream.receive_some() == b""
        ended.set()

    async with upstream(script) as provider, trio.open_nursery() as nursery:
        nursery.start_soon(door.ask, door.admit(provider.url))
        await asked.wait()
        assert door.gateway.busy() == ("i1-1",)
        nursery.cancel_scope.cancel()
        with trio.fail_after(5), trio.CancelScope(shield=True):
            await ended.wait()
    with trio.fail_after(5):
        await door.gateway.idle(5)
    assert door.gateway.busy() == ()


async def test_a_dismissed_attempt_is_cut_off_in_the_middle_and_refused_afterwards(door: Door) -> None:
    async def script(line: Line, _hit: Hit) -> None:
        await line.begin()
        await line.data({})
        await trio.sleep_forever()

    async with upstream(script) as provider, door.client() as client:
        placeholder = door.admit(provider.url)
        headers = credential("anthropic", placeholder)
        with trio.fail_after(10):
            async with client.stream("POST", PATHS["anthropic"], headers=headers, json=BODY) as answer:
                with pytest.raises(httpx2.RemoteProtocolError):  # noqa: PT012
                    async for _ in answer.aiter_raw():
                        door.gateway.dismiss("i1-1")
            assert (await door.ask(placeholder)).status_code == 401


async def test_nothing_is_asked_beyond_the_allowance_and_the_wait_ends_with_the_attempt(door: Door) -> None:
    waiting = trio.Event()

    async def never() -> None:
        waiting.set()
        await trio.sleep_forever()

    async with upstream() as provider, trio.open_nursery() as nursery:
        placeholder = door.admit(provider.url, may=never)
        answers: list[int] = []

        async def ask() -> None:
            answers.append((await door.ask(placeholder)).status_code)

        nursery.start_soon(ask)
        await waiting.wait()
        assert door.gateway.busy() == ()
        door.gateway.dismiss("i1-1")
    assert (answers, provider.hits) == ([401], [])


async def test_requests_wait_while_the_gateway_is_held(door: Door) -> None:
    async with upstream() as provider, trio.open_nursery() as nursery:
        placeholder = door.admit(provider.url)
        door.gateway.hold()
        nursery.start_soon(door.ask, placeholder)
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert provider.hits == []
        door.gateway.release()
    assert len(provider.hits) == 1


async def test_a_hundred_streams_at_once_are_all_answered(door: Door) -> None:
    all_there = trio.Event()

    async def script(line: Line, _hit: Hit) -> None:
        if len(provider.hits) == 100:
            all_there.set()
        await all_there.wait()
        await line.begin()
        await line.data({"usage": {"prompt_tokens": 1, "completion_tokens": 1}})
        await line.send(h11.EndOfMessage())

    async with upstream(script) as provider, door.client() as client:
        headers = credential("openai", door.admit(provider.url, "openai"))
        statuses: list[int] = []

        async def ask() -> None:
            statuses.append((await client.post(PATHS["openai"], headers=headers, json=BODY)).status_code)

        with trio.fail_after(30):
            async with trio.open_nursery() as nursery:
                for _ in range(100):
                    nursery.start_soon(ask)
    assert statuses == [200] * 100
    assert [usage.tokens for _, usage in door.counted] == [2] * 100


PROXIED = "http://model.example.test:8080/v1"


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "all_proxy"])
async def test_a_proxy_of_the_environment_is_used(door: Door, environ: dict[str, str], name: str) -> None:
    async with upstream() as proxy:
        environ[name] = proxy.url.replace("//", "//user:word@")
        assert (await door.ask(door.admit(PROXIED, "openai"), "openai")).status_code == 200
        environ["no_proxy"] = "example.test"
        assert (await door.ask(door.admit("http://other.example.test", attempt="i2-1"))).status_code == 502
    (hit,) = proxy.hits
    assert hit.target == f"{PROXIED}/chat/completions"
    assert (hit.fields["authorization"], hit.fields["proxy-authorization"]) == (f"Bearer {KEY}", "Basic dXNlcjp3b3Jk")


@pytest.mark.parametrize("held", [True, False])
async def test_a_request_that_waits_is_answered_by_the_next_process(door: Door, tmp_path: Path, held: bool) -> None:
    waiting = trio.Event()

    async def never() -> None:
        waiting.set()
        await trio.sleep_forever()

    async with upstream() as provider, trio.open_nursery() as nursery:
        placeholder = door.admit(provider.url, may=never)
        answers: list[httpx2.Response] = []

        async def ask() -> None:
            answers.append(await door.ask(placeholder))

        nursery.start_soon(ask)
        await waiting.wait()
        door.gateway.release_waiting()
        ((descriptor, begun),) = door.gateway.released
        listener = socket.create_server(("127.0.0.1", 0))  # of another port than the first kernel's
        here = f"127.0.0.1:{listener.getsockname()[1]}"
        handed = socket.socket(fileno=descriptor), begun.replace(door.kernel.host.encode(), here.encode())
        async with serve_kernel(tmp_path / "next", listener=listener, waiting=[handed]) as kernel:
            after = Door(kernel)
            if held:
                after.gateway.hold(checks=True)
                await trio.testing.wait_all_tasks_blocked(0.05)
            after.admit(provider.url, placeholder=placeholder)
            after.gateway.release()
            with trio.fail_after(5):
                while not answers:
                    await trio.testing.wait_all_tasks_blocked(0.01)
        nursery.cancel_scope.cancel()
    assert [answer.status_code for answer in answers] == [200]
    assert json.loads(provider.hits[0].body) == BODY


async def test_a_provider_with_tls_is_reached_through_the_proxy_without_showing_it_the_key(
    door: Door, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    authority, seen = Authority(tmp_path, "ours"), bytearray()
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))

    async def copy(source: trio.abc.ReceiveStream, sink: trio.abc.SendStream) -> None:
        async for data in source:
            seen.extend(data)
            await sink.send_all(data)

    async def tunnel(line: Line, hit: Hit) -> None:
        async with await trio.open_tcp_stream("127.0.0.1", int(provider.url.rpartition(":")[2])) as there:
            await line.stream.send_all(b"HTTP/1.1 200 OK\r\n\r\n")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(copy, line.stream, there)
                nursery.start_soon(copy, there, line.stream)

    name = x509.DNSName("model.example.test")
    async with upstream(context=authority.server(name)) as provider, upstream(tunnel) as proxy:
        environ["HTTPS_PROXY"] = proxy.url
        with trio.fail_after(10):
            assert (await door.ask(door.admit("https://model.example.test"))).status_code == 200
            assert (await door.ask(door.admit("https://other.example.test", attempt="i2-1"))).status_code == 502
    assert (proxy.hits[0].method, proxy.hits[0].target) == ("CONNECT", "model.example.test:443")
    assert provider.hits[0].fields["x-api-key"] == KEY and len(provider.hits) == 1
    assert KEY.encode() not in seen and b"/v1/messages" not in seen
