"""Tokens of people's own programs: each opens what its scope says, before anything else of a request is looked at."""

from typing import Final

import h11
import msgspec
import pytest

from kernel.api.routes import ROUTES, route_of
from kernel.operations.operation import Operation
from kernel.policy.access import ADMIN, RECORD, STRANGER, Access
from protocol.discovery import is_proof, proof_key
from protocol.errors import Refused
from tests.builders.api import RECORD_TOKEN, ServedKernel
from tests.kernel.api.client import Events, Headers, connected
from tests.kernel.api.mcp.rpc import call

pytestmark = pytest.mark.promise("P57")

OPERATE: Final = {
    "POST /agents/<name>/reset", "POST /agents/<name>/pause", "POST /agents/<name>/resume",
    "POST /agents/<name>/stop", "POST /agents/<name>/restart", "POST /workflows", "DELETE /workflows/<name>",
    "DELETE /workflows/<name>/<tag>", "POST /workflows/<name>/pause", "POST /workflows/<name>/resume",
    "POST /workflows/<name>/<tag>/pause", "POST /workflows/<name>/<tag>/resume", "POST /run", "POST /serve",
    "POST /messages", "POST /spaces", "POST /instructions/<id>/cancel", "POST /instructions/<id>/retry",
    "POST /instructions/cancel", "POST /instructions/retry",
    "POST /instructions/<id>/promote", "POST /feedback", "POST /spaces/<space>/proposals",
    "POST /spaces/<space>/proposals/<id>/cancel", "POST /spaces/<space>/resources", "POST /spaces/<space>/tasks",
    "POST /spaces/<space>/tasks/<id>/claim", "POST /spaces/<space>/tasks/<id>/done",
    "POST /spaces/<space>/tasks/<id>/fail", "POST /spaces/<space>/tasks/<id>/cancel",
    "PUT /spaces/<space>/documents/<path:path>", "POST /spaces/<space>/documents/<path:path>",
    "DELETE /spaces/<space>/documents/<path:path>", "POST /spaces/<space>/suggestions/<id>/reject",
    "POST /agents/<name>/notes", "POST /agents/<name>/todo", "PUT /agents/<name>/todo/<n>",
    "DELETE /agents/<name>/todo/<n>", "POST /agents/<name>/reindex", "POST /reindex", "POST /runs/<run>/rules/test",
    "POST /hooks/<name>", "POST /agents/<name>/thread/trial", "DELETE /spaces/<space>", "POST /webhooks/<id>/retry",
    "POST /page/token",
}  # fmt: skip
APPROVE: Final = {
    "POST /approvals/<id>/approve", "POST /approvals/<id>/deny", "DELETE /approvals/rules/<id>",
    "POST /agents/<name>/continue", "POST /workflows/<name>/continue", "POST /workflows/<name>/<tag>/continue",
    "POST /unblock", "POST /runs/<run>/merge", "POST /spaces/<space>/proposals/<id>/vote",
    "POST /spaces/<space>/suggestions/<id>/accept", "POST /instructions/<id>/answer",
    "POST /instructions/<id>/reassign",
    "POST /agents/<name>/soul/rollback", "POST /agents/<name>/soul/<id>/approve",
    "POST /agents/<name>/soul/<id>/reject", "POST /agents/<name>/tray/<id>/approve",
    "POST /agents/<name>/tray/<id>/reject", "POST /spaces/<space>/rules", "DELETE /spaces/<space>/rules/<name>",
    "POST /spaces/<space>/members", "PUT /agents/<name>/memory/<path:path>", "GET /projects",
}  # fmt: skip
ADMINS: Final = {
    "POST /shutdown", "POST /agents", "PATCH /agents/<name>", "DELETE /agents/<name>", "POST /agents/<name>/rename",
    "POST /dead/clear", "POST /spaces/<space>/clear", "POST /worktrees/remove", "POST /prune",
    "POST /upgrade", "POST /runs/<run>/check",
    "GET /tokens", "POST /tokens", "DELETE /tokens/<id>", "POST /agents/<name>/memory/purge",
    "POST /spaces/<space>/grants", "DELETE /grants/<id>",
    "DELETE /agents/<name>/memory/<path:path>", "DELETE /agents/<name>/notes/<file>", "POST /page/keys",
    "POST /nodes", "POST /nodes/<name>/drain", "DELETE /nodes/<name>",
}  # fmt: skip
"""What changes what may run here, gives away what this kernel is asked by, or erases."""


def test_every_route_says_what_it_needs() -> None:
    needs: dict[str, set[str]] = {}
    for route in ROUTES:
        needs.setdefault(route.needs, set()).add(f"{route.method} {route.path}")
    assert needs["admin"] == ADMINS
    assert needs["approve"] == APPROVE
    assert needs["operate"] == OPERATE
    assert all(line.startswith("GET ") for line in needs["read"])


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_each_scope_opens_what_those_below_it_do(route: Operation) -> None:
    """And a token for some agents only approves nothing but calls of agents."""
    opened = [route.opened_by(Access("k1", scope)) for scope in ("read", "operate", "approve", "admin")]
    assert opened == sorted(opened)
    assert opened[-1]
    limited = Access("k1", "approve", frozenset({"alice"}))
    assert route.opened_by(limited) == (opened[1] or "/approvals/<id>/" in route.path)


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_the_route_of_a_path_is_found(route: Operation) -> None:
    path = route.path.replace("<path:path>", "a/b.md").replace("<", "x").replace(">", "")
    found = route_of(route.method, path)
    assert found is not None
    assert (found.needs, found.of_agent) == (route.needs, route.of_agent)


async def made(kernel: ServedKernel, scope: str) -> str:
    answer = await kernel.ask("POST", "/tokens", {"scope": scope, "name": "ci"})
    assert answer.status == 201, answer.body
    return str(answer.json["token"])


async def test_a_token_is_made_listed_and_taken_back(kernel: ServedKernel) -> None:
    first = (await kernel.ask("POST", "/tokens", {"scope": "read", "name": "ci"})).json
    await kernel.ask("POST", "/tokens", {"scope": "approve:alice,bob"})
    listed = (await kernel.get("/tokens"))["tokens"]
    assert [(row["id"], row["scope"], row["name"]) for row in listed] == [
        ("k1", "read", "ci"), ("k2", "approve:alice,bob", "")
    ]  # fmt: skip
    dump = kernel.reader.now(lambda conn: conn.serialize("main"))
    assert first["token"].encode() not in dump
    headers = kernel.headers(first["token"])
    assert (await kernel.ask("GET", "/agents", headers=headers)).status == 200
    left = (await kernel.ask("DELETE", "/tokens/k1")).json
    assert [row["id"] for row in left["tokens"]] == ["k2"]
    assert (await kernel.ask("GET", "/agents", headers=headers)).code == "unauthorized"
    assert (await kernel.ask("DELETE", "/tokens/k1")).code == "not_found"
    assert (await kernel.ask("POST", "/tokens", {"scope": "read"})).json["id"] == "k3", "no number is given twice"


@pytest.mark.parametrize("scope", ["", "admin", "read:alice", "approve:", "approve:alice,", "approve:All", "write"])
async def test_a_scope_that_there_is_not_is_refused(kernel: ServedKernel, scope: str) -> None:
    answer = await kernel.ask("POST", "/tokens", {"scope": scope})
    assert answer.refusal == (400, "bad_request")
    assert "scope (needed), name" in answer.json["hint"]


@pytest.mark.parametrize(
    ("scope", "method", "path"),
    [
        ("read", "POST", "/messages"),
        ("read", "POST", "/instructions/i999/cancel"),
        ("operate", "POST", "/approvals/a999/approve"),
        ("approve", "POST", "/shutdown"),
        ("approve", "DELETE", "/agents/nobody"),
        ("approve:alice", "POST", "/runs/r999/merge"),
        ("read", "PUT", "/spaces/review:main/documents/a/b.md"),
    ],
)
async def test_too_small_a_scope_is_refused_before_anything_is_looked_at(
    kernel: ServedKernel, scope: str, method: str, path: str
) -> None:
    """403 whether or not the thing is there, and while the body is still under way."""
    headers = kernel.headers(await made(kernel, scope))
    assert (await kernel.ask(method, path, headers=headers, raw=b"{ no json")).refusal == (403, "forbidden")
    async with connected(kernel.port) as wire:
        fields = headers | {"Content-Type": "application/json", "Content-Length": "1000000"}
        request = h11.Request(method=method, target=path, headers=list(fields.items()))
        await wire.stream.send_all(wire.h11.send(request) or b"")
        assert (await wire.event()).status_code == 403
    assert kernel.asked_to_stop == []


async def test_trust_is_not_given_by_a_token(kernel: ServedKernel) -> None:
    for token in (await made(kernel, "approve"), RECORD_TOKEN):
        await gives_no_trust(kernel, kernel.headers(token))


async def gives_no_trust(kernel: ServedKernel, headers: Headers) -> None:
    """Whatever a token with ``headers`` brings that says what may run is refused; an ordinary message is not."""
    for path, body in (
        ("/messages", {"to": "alice", "text": "go", "trust": True}),
        ("/messages", {"to": "alice", "text": "go", "agree": ["0" * 64]}),
        ("/workflows", {"workflow": "task", "trust": True}),
        ("/run", {"workflow": "task", "approve": "auto"}),
        ("/runs/r1/merge", {"check": "touch /tmp/mine"}),
        ("/runs/r1/merge", {"check": ""}),
        ("/spaces/review:main/tasks", {"tasks": [{"title": "one"}, {"title": "two", "check": "touch /tmp/mine"}]}),
    ):
        answer = await kernel.ask("POST", path, body, headers=headers)
        assert answer.refusal == (403, "forbidden"), path
        assert "token" in answer.json["detail"]
    assert (await kernel.ask("POST", "/messages", {"to": "alice", "text": "go"}, headers=headers)).status == 202


@pytest.mark.parametrize("scope", ["read", "approve:alice", "approve"])
@pytest.mark.parametrize(
    "path",
    [
        "/tokens", "/tokens/", "//tokens", "/./tokens", "/agents/../tokens", "/%74okens", "/tokens%2F",
        "/tokens?x=/agents", "/tokens;x", "/TOKENS", "/tokens%00", "/health/../tokens", "/hooks/../tokens",
        "/hooks/x/../../tokens", "/mcp/../tokens", "/tokens%3F", "/\\tokens",
    ],
)  # fmt: skip
async def test_no_other_spelling_of_a_route_opens_it(kernel: ServedKernel, scope: str, path: str) -> None:
    headers = kernel.headers(await made(kernel, scope)) | {
        "X-HTTP-Method-Override": "POST",
        "X-Original-URL": "/tokens",
        "X-Forwarded-For": "127.0.0.1",
        "X-Agent-Id": "user",
    }
    for method in ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "TRACE"):
        async with connected(kernel.port) as wire:
            body = b'{"scope": "approve"}' if method in ("POST", "PUT", "PATCH") else b""
            fields = headers | {"Content-Type": "application/json", "Content-Length": str(len(body))}
            await wire.send(method, path, fields.items(), body)
            assert (await wire.event()).status_code >= 400, method
    assert len((await kernel.get("/tokens"))["tokens"]) == 1


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_who_has_no_token_is_served_only_what_needs_none(route: Operation) -> None:
    if route.tokenless:
        route.check(STRANGER)
        return
    with pytest.raises(Refused, match="a bearer token is required"):
        route.check(STRANGER)


async def test_what_a_request_without_a_token_may_reach_is_no_more_than_that(kernel: ServedKernel) -> None:
    no_token = kernel.headers(None)
    for method, path in (
        ("POST", "/hooks/"), ("POST", "/hooks/a/b"), ("POST", "/hooks/%2e%2e/shutdown"),
        ("POST", "/hooks/..%2fshutdown"),
        ("POST", "/hooks"), ("GET", "/hooks/x"), ("POST", "/hooks//"), ("GET", "/health/"), ("POST", "/health"),
        ("DELETE", "/hooks/x"), ("PUT", "/hooks/x"),
    ):  # fmt: skip
        assert (await kernel.ask(method, path, headers=no_token)).status >= 400, (method, path)
    assert kernel.asked_to_stop == []


async def test_a_key_that_was_used_decides_nothing_else(kernel: ServedKernel) -> None:
    await kernel.attempt()
    for name in ("one", "two"):
        await call(kernel, "auth_request", {"tool": name, "input": {}, "wait_seconds": 0})
    headers = kernel.headers() | {"Idempotency-Key": "same"}
    answers = [await kernel.ask("POST", f"/approvals/{id_}/approve", headers=headers) for id_ in ("a1", "a2", "a1")]
    assert [answer.status for answer in answers] == [200, 422, 200]
    assert answers[1].code == "key_reused"
    assert (await kernel.get("/approvals/a2"))["state"] == "open"


async def test_a_process_of_ours_gets_no_further_with_a_token(kernel: ServedKernel) -> None:
    headers = kernel.headers(await made(kernel, "approve"))
    kernel.below.append(True)
    answer = await kernel.ask("POST", "/workflows", {"workflow": "task"}, headers=headers)
    assert answer.refusal == (403, "forbidden")


async def test_a_token_for_some_agents_decides_for_them_alone(kernel: ServedKernel) -> None:
    """And never once for all agents."""
    await kernel.attempt()
    asked = await call(kernel, "auth_request", {"tool": "bash", "input": {}, "wait_seconds": 0})
    path = f"/approvals/{asked['structuredContent']['id']}"
    bobs, alices = [kernel.headers(await made(kernel, f"approve:{name}")) for name in ("bob", "alice")]
    for verb in ("approve", "deny"):
        assert (await kernel.ask("POST", f"{path}/{verb}", headers=bobs)).code == "forbidden"
    refused = await kernel.ask("POST", f"{path}/approve", {"always": "*", "all_agents": True}, headers=alices)
    assert refused.code == "forbidden"
    assert (await kernel.get(path))["state"] == "open"
    assert (await kernel.ask("POST", f"{path}/approve", headers=alices)).json["state"] == "granted"


async def test_the_keys_of_two_tokens_are_two(kernel: ServedKernel) -> None:
    sent = []
    for token in (await made(kernel, "operate"), await made(kernel, "operate")):
        headers = kernel.headers(token) | {"Idempotency-Key": "same"}
        for _ in range(2):
            answer = await kernel.ask("POST", "/messages", {"to": "alice", "text": "hi"}, headers=headers)
            sent.append(answer.json["message_id"])
    assert sent[0] == sent[1] != sent[2] == sent[3]


async def test_a_stream_ends_when_its_token_is_taken_back(kernel: ServedKernel) -> None:
    headers = kernel.headers(await made(kernel, "read"))
    async with connected(kernel.port) as wire:
        await wire.send("GET", "/events", headers.items(), b"")
        assert (await wire.event()).status_code == 200
        stream = Events(wire)
        await kernel.ask("POST", "/messages", {"to": "alice", "text": "before"})
        seen = [(await anext(stream)).data["data"]["text"]]
        await kernel.ask("DELETE", "/tokens/k1")
        await kernel.ask("POST", "/messages", {"to": "alice", "text": "after"})
        seen += [event.data["data"].get("text") async for event in stream]
    assert "after" not in seen
    assert seen[0] == "before"


async def test_the_kernel_proves_to_know_a_token_before_it_is_shown(kernel: ServedKernel) -> None:
    token = await made(kernel, "read")
    key, number = proof_key(token)
    proof = (await kernel.ask("GET", f"/health?nonce=n&token={number}", headers=kernel.headers(None))).json["proof"]
    assert is_proof(proof, key, "n")
    assert not is_proof(proof, token, "n")
    unknown = await kernel.ask("GET", "/health?nonce=n&token=99", headers=kernel.headers(None))
    assert unknown.json.get("proof") is None


async def test_the_token_of_the_record_opens_what_one_that_operates_does(kernel: ServedKernel) -> None:
    """N1: one look at the discovery record must not be enough to act as the administrator."""
    headers = kernel.headers(RECORD_TOKEN)
    for route in ROUTES:
        assert route.tokenless or route.opened_by(RECORD) == (route.needs in ("read", "operate")), route.path
    for method, path, body in (
        ("POST", "/tokens", {"scope": "read"}),
        ("GET", "/tokens", None),
        ("POST", "/agents", {"name": "mallory", "model": "mock/x", "mock": [{"shell": "id"}]}),
        ("POST", "/page/keys", {}),
        ("POST", "/shutdown", {"grace": 0}),
        ("POST", "/approvals/a1/approve", {}),
    ):
        answer = await kernel.ask(method, path, body, headers=headers)
        assert answer.refusal == (403, "forbidden"), path
    assert (await kernel.ask("POST", "/workflows", {"workflow": "review"}, headers=headers)).status == 201
    sent = await kernel.ask("POST", "/messages", {"to": "alice", "text": "go"}, headers=headers)
    assert (await kernel.ask("GET", f"/messages/{sent.json['message_id']}", headers=headers)).status == 200


def test_only_the_kernels_own_token_is_the_administrators() -> None:
    assert ADMIN.scope == "admin"
    assert msgspec.structs.replace(ADMIN, name="k1") != ADMIN
