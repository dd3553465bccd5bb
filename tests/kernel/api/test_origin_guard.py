"""Who may knock: Host, Origin and token on every kind of route."""

import itertools

import pytest

from tests.builders.api import TOKEN, ServedKernel
from tests.kernel.api.client import connected

pytestmark = pytest.mark.promise("P17", "HF01", "HF03")

HOSTS = ("{host}", "localhost:{port}", "evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "{host}.evil")
ORIGINS = (None, "http://{host}", "http://evil.example", "null", "https://{host}", "http://localhost:1")
TOKENS = (None, TOKEN, "wrong", TOKEN + "x", TOKEN[:-1])
ROUTES = (
    ("GET", "/health", False),
    ("GET", "/agents", True),
    ("GET", "/agents/alice/queue", True),
    ("GET", "/events?follow=0&since=0", True),
    ("GET", "/nowhere", True),
    ("POST", "/mcp", True),
    ("DELETE", "/agents/alice", True),
    ("GET", "//mcp", True),
)
GOOD_HOSTS = HOSTS[:2]
GOOD_ORIGINS = ORIGINS[:2]


async def test_only_our_own_host_origin_and_token_get_past_the_door(kernel: ServedKernel) -> None:
    whole = itertools.product(HOSTS, ORIGINS, TOKENS, [one for one in ROUTES if one[1] in ("/agents", "/mcp")])
    kinds = itertools.product(HOSTS[1:3], ORIGINS[:3], TOKENS[:3], ROUTES)
    combinations = (*whole, *kinds)
    assert len(combinations) >= 400
    for host, origin, token, (method, path, guarded) in combinations:
        headers = {"Host": host.format(host=kernel.host, port=kernel.port)}
        if origin is not None:
            headers["Origin"] = origin.format(host=kernel.host)
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        answer = await kernel.ask(method, path, headers=headers)
        where = (host, origin, token, path)
        if host not in GOOD_HOSTS:
            assert answer.refusal == (421, "forbidden_host"), where
        elif origin not in GOOD_ORIGINS:
            assert answer.refusal == (403, "forbidden_origin"), where
        elif guarded and token != TOKEN:
            assert answer.refusal == (401, "unauthorized"), where
        else:
            assert answer.status not in (401, 421), where
        assert not [name for name in answer.headers if name.startswith("access-control")], where
        assert answer.headers["cache-control"] == "no-store", where


@pytest.mark.parametrize("field", ["Host", "Origin"])
async def test_a_foreign_page_cannot_tell_a_good_token_from_a_bad_one(kernel: ServedKernel, field: str) -> None:
    bodies = set()
    for token in (TOKEN, "wrong", None):
        headers = kernel.headers(token) | {field: "http://evil.example"}
        answer = await kernel.ask("GET", "/agents", headers=headers)
        assert answer.status in (403, 421)
        bodies.add(answer.body)
    assert len(bodies) == 1


async def test_a_doubled_host_is_refused(kernel: ServedKernel) -> None:
    """Two readers of one request must not see two hosts; HTTP/1.1 forbids it and h11 refuses it."""
    async with connected(kernel.port) as wire:
        await wire.stream.send_all(
            f"GET /health HTTP/1.1\r\nHost: {kernel.host}\r\nHost: evil.example\r\n\r\n".encode()
        )
        assert (await wire.stream.receive_some(100)).startswith(b"HTTP/1.1 400")


async def test_http_1_0_without_a_host_is_refused(kernel: ServedKernel) -> None:
    async with connected(kernel.port) as wire:
        await wire.stream.send_all(b"GET /health HTTP/1.0\r\n\r\n")
        assert (await wire.stream.receive_some(100)).startswith(b"HTTP/1.1 421")
