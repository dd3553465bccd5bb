"""POST /call: a tool of agents for a process of an attempt, which shows no token."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import pytest
import trio

from kernel.procs.procfs import identify
from tests.builders.api import COOKIE, ServedKernel

pytestmark = [pytest.mark.promise("P56"), pytest.mark.skipif(not os.path.exists("/proc/net/tcp"), reason="needs /proc")]

ASKS: Final = """
import http.client, json, sys
for line in sys.stdin:
    port, method, headers, body = json.loads(line)
    wire = http.client.HTTPConnection("127.0.0.1", port)
    wire.request(method, "/call", body, headers)
    if headers.get("Leaves"):
        wire.close()
        print("null", flush=True)
        continue
    answer = wire.getresponse()
    print(json.dumps([answer.status, answer.read().decode()]), flush=True)
    wire.close()
"""
JSON: Final = {"Content-Type": "application/json", "Agent-Worker-Cookie": COOKIE}


@dataclass
class Asking:
    kernel: ServedKernel
    process: trio.Process

    async def ask(
        self, tool: str, arguments: Any = None, *, raw: str | None = None, method: str = "POST", **headers: str
    ) -> tuple[int, Any]:
        body = raw if raw is not None else json.dumps({"tool": tool, "arguments": arguments or {}})
        fields = JSON | {name.replace("_", "-"): value for name, value in headers.items()}
        assert self.process.stdin is not None and self.process.stdout is not None
        with trio.fail_after(10):
            line = json.dumps([self.kernel.port, method, fields, body]) + "\n"
            await self.process.stdin.send_all(line.encode())
            said = b""
            while not said.endswith(b"\n"):
                said += await self.process.stdout.receive_some()
        answer = json.loads(said)
        return (0, None) if answer is None else (answer[0], json.loads(answer[1]))


@asynccontextmanager
async def asking(kernel: ServedKernel, token: str | None) -> AsyncGenerator[Asking, None]:
    """A process; of the attempt with ``token``, where that is given."""
    process = await trio.lowlevel.open_process(
        [sys.executable, "-I", "-c", ASKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        root = identify(process.pid)
        assert root is not None
        if token is not None:
            kernel.trees[root] = hashlib.sha256(token.encode()).digest()
        yield Asking(kernel, process)
    finally:
        kernel.trees.clear()
        process.kill()
        await process.wait()


async def test_two_attempts_at_once_are_each_who_they_are(kernel: ServedKernel) -> None:
    await kernel.attempt("alice", token="a")
    await kernel.attempt("bob@review", "work", token="b")
    async with asking(kernel, "a") as alice, asking(kernel, "b") as bob:

        async def say(one: Asking, text: str) -> None:
            for _ in range(5):
                status, answer = await one.ask(
                    "feedback_submit", {"text": text}, X_Agent_Id="mallory", Authorization="Bearer b"
                )
                assert (status, answer["id"][0]) == (200, "f")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(say, alice, "from alice")
            nursery.start_soon(say, bob, "from bob")
    rows = (await kernel.get("/feedback"))["feedback"]
    assert sorted({(row["author"], row["text"]) for row in rows}) == [("alice", "from alice"), ("bob", "from bob")]
    assert len(rows) == 10


async def test_who_is_no_process_of_an_attempt_is_refused(kernel: ServedKernel) -> None:
    instruction = await kernel.attempt("alice", token="a")
    for token in ("a", "admin-token-of-the-tests"):
        answer = await kernel.ask("POST", "/call", {"tool": "team_members"}, headers=kernel.headers(token))
        assert answer.refusal == (401, "unauthorized")
    async with asking(kernel, None) as stranger, asking(kernel, "a") as alice, asking(kernel, "no such") as unknown:
        assert (await stranger.ask("team_members"))[0] == 401
        assert (await unknown.ask("team_members"))[0] == 401
        assert (await alice.ask("team_members"))[0] == 200
        await kernel.end(instruction)
        status, problem = await alice.ask("feedback_submit", {"text": "late"})
        assert (status, problem["code"]) == (401, "stale_attempt")
    assert (await kernel.get("/feedback"))["feedback"] == []


async def test_a_server_of_an_attempt_that_fetches_what_it_is_told_is_no_way_in(kernel: ServedKernel) -> None:
    """L7: the connection is the attempt's, and the request a stranger's: it lacks what programs of the attempt know."""
    await kernel.attempt("alice", token="a")
    async with asking(kernel, "a") as server:
        for cookie in ("", "x", COOKIE[:-1], f"{COOKIE}x", COOKIE.upper(), "\u00e9"):
            status, problem = await server.ask(
                "feedback_submit", {"text": "says a stranger"}, Agent_Worker_Cookie=cookie
            )
            assert (status, problem["code"]) == (401, "unauthorized")
            assert "Agent-Worker-Cookie" in problem["detail"]
    assert (await kernel.get("/feedback"))["feedback"] == []


async def test_a_call_is_what_it_is_over_mcp(kernel: ServedKernel) -> None:
    await kernel.attempt("alice", token="a")
    async with asking(kernel, "a") as alice:
        first, again = [await alice.ask("feedback_submit", {"text": "x"}, Idempotency_Key="one") for _ in range(2)]
        assert first == again
        for expected, asked in (
            ((404, "not_found"), alice.ask("agents_list")),
            ((403, "forbidden"), alice.ask("auth_revoke", {"grant": "w1"})),
            ((400, "bad_request"), alice.ask("feedback_submit", {"words": "x"})),
            ((400, "bad_request"), alice.ask("", raw='{"tool": "team_members", "tool": "my_inbox"}')),
            ((400, "bad_request"), alice.ask("", raw='{"tool": "team_members", "as": "bob"}')),
            ((400, "bad_request"), alice.ask("", raw="[")),
            ((400, "bad_request"), alice.ask("team_members", Idempotency_Key="x" * 201)),
            ((405, "method_not_allowed"), alice.ask("team_members", method="GET")),
            ((415, "unsupported_media_type"), alice.ask("team_members", Content_Type="text/plain")),
            ((403, "forbidden_origin"), alice.ask("team_members", Origin="http://evil.example")),
            ((421, "forbidden_host"), alice.ask("team_members", Host="evil.example")),
        ):
            status, problem = await asked
            assert (status, problem["code"]) == expected


async def test_who_leaves_before_the_answer_harms_nobody(kernel: ServedKernel) -> None:
    """It asked as itself, or nobody did: another's call never becomes its own, nor its call another's."""
    await kernel.attempt("alice", token="a")
    await kernel.attempt("bob@review", "work", token="b")
    async with asking(kernel, "a") as alice, asking(kernel, "b") as bob:
        for number in range(20):
            await alice.ask("feedback_submit", {"text": f"alice {number}"}, Leaves="yes")
            assert (await bob.ask("feedback_submit", {"text": f"bob {number}"}))[0] == 200
    rows = (await kernel.get("/feedback"))["feedback"]
    assert [row["text"] for row in rows if row["author"] == "bob"] == [f"bob {number}" for number in range(20)]
    assert [row["text"] for row in rows if row["text"].split()[0] != row["author"]] == []
