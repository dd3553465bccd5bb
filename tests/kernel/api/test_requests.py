"""Bad requests: each gets a problem with a stable code, and none gets a 500."""

from contextlib import suppress

import pytest
import trio

from kernel.store import agents
from tests.builders.api import TOKEN, ServedKernel
from tests.kernel.api.client import connected

pytestmark = pytest.mark.promise("HF08", "HF17", "HF24")

JSON = "application/json"


@pytest.mark.promise("IF03", "IF05", "HF18")
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"text"',
        b'{"to": "alice"}',
        b'{"to": 1, "text": "x"}',
        b'{"to": "alice", "text": "x", "from": "root"}',
        b'{"to": "alice", "text": "\xff"}',
        rb'{"to": "alice", "text": "\ud800"}',
        b'{"to": "alice", "text": ' + b"[" * 100_000,
        b"\x00",
        b'{"to": "alice", "to": "alice", "text": "x"}',
        b'{"to": "alice", "text": "x", "t\\u006f": "bob"}',
        b'{"to": "alice", "text": "x", "priority": NaN}',
        b'{"to": "alice", "text": "x", "priority": Infinity}',
        b'{"to": "alice", "text": "x", "priority": 1e999}',
    ],
)
async def test_a_body_that_does_not_fit_is_a_bad_request(kernel: ServedKernel, data: bytes) -> None:
    answer = await kernel.ask("POST", "/messages", raw=data, headers=kernel.headers(Content_Type=JSON))
    assert answer.refusal == (400, "bad_request")
    assert answer.headers["content-type"] == "application/problem+json"
    assert (await kernel.get("/spaces/dm:alice/channel"))["messages"] == []


@pytest.mark.parametrize(
    ("to", "code", "status"),
    [
        ("nobody", "unknown_agent", 404),
        ("@review", "workflow_not_running", 404),
        ("Not A Target", "bad_target", 400),
        ("", "bad_target", 400),
        ("../../etc", "bad_target", 400),
        ("@dm:alice", "bad_target", 400),
    ],
)
async def test_a_target_that_is_not_there_is_refused_with_a_code(
    kernel: ServedKernel, to: str, code: str, status: int
) -> None:
    """contracts 2: two errors, not running and not a participant, and the grammar."""
    answer = await kernel.ask("POST", "/messages", {"to": to, "text": "x"})
    assert answer.refusal == (status, code)


@pytest.mark.promise("P17")
@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "", "application/jsonp"])
async def test_a_body_must_be_said_to_be_json(kernel: ServedKernel, content_type: str) -> None:
    headers = kernel.headers(Content_Type=content_type)
    answer = await kernel.ask("POST", "/messages", raw=b'{"to": "alice", "text": "x"}', headers=headers)
    assert answer.refusal == (415, "unsupported_media_type")


async def test_parameters_of_the_content_type_do_not_matter(kernel: ServedKernel) -> None:
    """RFC 9110 section 8.3.1."""
    headers = kernel.headers(Content_Type="Application/JSON; charset=utf-8")
    answer = await kernel.ask("POST", "/messages", raw=b'{"to": "alice", "text": "x"}', headers=headers)
    assert answer.status == 202


@pytest.mark.parametrize("path", ["/messages", "/mcp", "/agents/alice/reset", "/nowhere"])
async def test_a_body_over_the_limit_is_413_and_the_client_sees_it(kernel: ServedKernel, path: str) -> None:
    """4 MiB; announced or not, on every route."""
    await kernel.attempt(token="worker")
    headers = kernel.headers("worker" if path == "/mcp" else TOKEN, Content_Type=JSON)
    answer = await kernel.ask("POST", path, raw=b"x" * (5 * 1024 * 1024), headers=headers)
    assert answer.refusal == (413, "too_large")


async def test_an_endless_chunked_body_is_cut_off(kernel: ServedKernel) -> None:
    chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
    async with connected(kernel.port) as wire:
        head = f"POST /messages HTTP/1.1\r\nHost: {kernel.host}\r\nAuthorization: Bearer {TOKEN}\r\n"
        await wire.stream.send_all(head.encode() + b"Content-Type: application/json\r\n")
        await wire.stream.send_all(b"Transfer-Encoding: chunked\r\n\r\n")
        sent = 0
        with trio.fail_after(10), suppress(trio.BrokenResourceError):
            while sent < 100 * 1024 * 1024:
                await wire.stream.send_all(chunk)
                sent += 65536
        assert 4 * 1024 * 1024 < sent < 50 * 1024 * 1024


@pytest.mark.parametrize(
    "path",
    [
        "/nowhere", "/agents/", "//agents", "/mcp/", "//mcp", "/mcp//", "/agents/%2e%2e/x", "/agents/%2Fetc%2Fpasswd",
        "/messages/m1/x", "/openapi.yaml", "/ws/", "/static/x",
    ],
)  # fmt: skip
async def test_an_unknown_route_is_a_json_404_with_a_token_and_401_without(kernel: ServedKernel, path: str) -> None:
    with_token = await kernel.ask("GET", path)
    assert with_token.refusal == (404, "not_found")
    assert with_token.headers["content-type"] == "application/problem+json"
    assert (await kernel.ask("GET", path, headers=kernel.headers(None))).status == 401


@pytest.mark.parametrize("name", ["..", "nobody", "Alice", "%F0%9F%98%80", "a%20b", "%00", "a%00b"])
async def test_an_agent_that_is_not_there_is_404_and_a_nul_in_its_name_400(kernel: ServedKernel, name: str) -> None:
    assert (await kernel.ask("GET", f"/agents/{name}")).status == (400 if "%00" in name else 404)


async def test_an_absolute_target_is_refused(kernel: ServedKernel) -> None:
    assert (await kernel.ask("GET", f"http://{kernel.host}/agents")).refusal == (400, "bad_request")


@pytest.mark.promise("P17")
@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/health", "GET"),
        ("PUT", "/messages", "POST"),
        ("OPTIONS", "/agents", "GET"),
        ("GET", "/mcp", "POST"),
    ],
)
async def test_a_wrong_method_is_a_json_405_that_names_the_right_ones(
    kernel: ServedKernel, method: str, path: str, allowed: str
) -> None:
    """RFC 9110 section 15.5.6; a preflight gets no CORS header."""
    await kernel.attempt(token="worker")
    headers = kernel.headers("worker" if path == "/mcp" else TOKEN)
    answer = await kernel.ask(method, path, headers=headers)
    assert answer.refusal == (405, "method_not_allowed")
    assert allowed in answer.headers["allow"]
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize("path", ["/health", "/ps", "/nowhere"])
async def test_head_answers_like_get_without_the_body(kernel: ServedKernel, path: str) -> None:
    """RFC 9110 section 9.3.2; the head of an answer goes out although no body follows."""
    head, whole = await kernel.ask("HEAD", path), await kernel.ask("GET", path)
    assert (head.status, head.body) == (whole.status, b"")
    assert head.headers["content-length"] == str(len(whole.body))


async def test_a_websocket_handshake_elsewhere_is_refused(kernel: ServedKernel) -> None:
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    headers = kernel.headers() | upgrade | {"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
    assert (await kernel.ask("GET", "/mcp/ws", headers=headers)).status == 404
    assert (await kernel.ask("GET", "/health")).status == 200


@pytest.mark.parametrize("query", ["since=x", "since=-1", "since=9" * 30, "follow=2", "since=1&since=abc", "&" * 100])
async def test_a_bad_query_is_a_bad_request(kernel: ServedKernel, query: str) -> None:
    assert (await kernel.ask("GET", f"/events?{query}")).code == "bad_request"


@pytest.mark.promise("P18")
async def test_a_failing_handler_is_an_internal_error_without_details(
    kernel: ServedKernel, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **_named: object) -> None:
        raise ZeroDivisionError("secret detail")

    monkeypatch.setattr(agents, "ps", fail)
    for path in ("/ps", "/status"):
        answer = await kernel.ask("GET", path)
        assert answer.refusal == (500, "internal")
        assert b"secret detail" not in answer.body
    assert "secret detail" in caplog.text
