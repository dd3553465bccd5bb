"""The page: fixed bytes that need no token, the one-time key that opens it, and the token that it gets."""

import re
from pathlib import Path

import pytest

import interface
from kernel.api.mcp.tools import MANAGEMENT
from kernel.api.routes import ROUTES
from kernel.operations import page
from kernel.operations.answers import KEY_SECONDS, OPEN_KEYS, WRONG_KEYS, WRONG_SECONDS, PageKeys
from kernel.store import tokens
from protocol.errors import Refused
from tests.builders.api import SALT, ServedKernel
from tests.kernel.api.client import Answer, at_once
from tests.kernel.api.mcp.rpc import call
from tests.kernel.refusals import refused


async def opened(kernel: ServedKernel, *, read_only: bool = False) -> Answer:
    """The page's token, as the page gets it."""
    made = await kernel.ask("POST", "/page/keys", {"read_only": read_only})
    assert made.status == 201, made.body
    answer = await kernel.ask("POST", "/page/token", {"key": made.json["key"]}, headers=kernel.headers(None))
    assert answer.status == 201, answer.body
    return answer


@pytest.mark.promise("P81")
async def test_every_file_of_the_page_is_served_under_a_policy_that_lets_nothing_in(kernel: ServedKernel) -> None:
    web = Path(interface.__file__).parent / "web"
    names = sorted(path.relative_to(web).as_posix() for path in web.rglob("*") if path.is_file())
    assert sorted(page.files()) == names, "the kernel knows the type of every file there is"
    size = 0
    for name in names:
        path = "/page" if name == "index.html" else f"/page/{name}"
        answer = await kernel.ask("GET", path, headers=kernel.headers(None))
        assert answer.status == 200
        assert answer.headers["content-security-policy"] == (
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
            "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
            "trusted-types 'none'"
        )
        assert answer.headers["content-type"] == page.TYPES[Path(name).suffix].decode()
        assert answer.headers["cache-control"] == "no-cache"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cross-origin-opener-policy"] == "same-origin"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        size += len(answer.body)
        known = kernel.headers(None, If_None_Match=f'W/"x", {answer.headers["etag"]}')
        again = await kernel.ask("GET", path, headers=known)
        assert (again.status, again.body, again.headers["etag"]) == (304, b"", answer.headers["etag"])
    assert size <= 300 * 1024, "of all of it"
    linked = (await kernel.ask("GET", "/page", headers=kernel.headers(None))).headers["link"]
    assert re.findall(r"</page/(\S+)>; rel=modulepreload", linked) == [
        name for name in names if name.endswith(".js") and name != page.CLASSIC
    ]


async def test_nothing_else_is_a_file_of_the_page(kernel: ServedKernel) -> None:
    no_token = kernel.headers(None)
    for path in (
        "/page/",
        "/page/token",
        "/page/x.js",
        "/page/..%2f__init__.py",
        "/page/%2e%2e/SKILL.md",
        "/page//x",
        "/page/vendor/x",
        "/page/vendor/..%2fx",
    ):
        assert (await kernel.ask("GET", path, headers=no_token)).status in (401, 404), path
    assert (await kernel.ask("GET", "/page/keys", headers=no_token)).status == 404
    assert (await kernel.ask("POST", "/page/index.html", {}, headers=no_token)).status == 401
    assert (await kernel.ask("DELETE", "/page", headers=no_token)).status == 405
    assert (await kernel.ask("GET", "/page", headers={"Host": "evil.example"})).code == "forbidden_host"
    foreign = kernel.headers(None, Origin="http://evil.example")
    assert (await kernel.ask("GET", "/page", headers=foreign)).code == "forbidden_origin"
    assert (await kernel.ask("POST", "/page/token", {"key": "k"}, headers=foreign)).code == "forbidden_origin"


@pytest.mark.promise("P80")
async def test_a_key_is_good_for_one_token_of_the_owners_scopes(kernel: ServedKernel) -> None:
    made = (await kernel.ask("POST", "/page/keys", {})).json
    assert made["url"] == f"http://{kernel.host}/page#key={made['key']}"
    no_token = kernel.headers(None)
    assert (await kernel.ask("POST", "/page/token", {"key": "wrong"}, headers=no_token)).code == "unauthorized"
    answer = (await kernel.ask("POST", "/page/token", {"key": made["key"]}, headers=no_token)).json
    assert (answer["scope"], answer["scopes"]) == ("approve", ["read", "operate", "approve"])
    root = kernel.services.kernel.identity.project
    assert answer["project"] == {"name": Path(root).name, "root": root}
    assert (await kernel.ask("POST", "/page/token", {"key": made["key"]}, headers=no_token)).code == "unauthorized"
    holder = kernel.headers(answer["token"])
    assert (await kernel.ask("POST", "/messages", {"to": "alice", "text": "go"}, headers=holder)).status == 202
    assert (await kernel.ask("GET", "/tokens", headers=holder)).code == "forbidden"
    assert (await kernel.ask("POST", "/page/keys", {}, headers=holder)).code == "forbidden", "no token makes more"
    (row,) = (await kernel.get("/tokens"))["tokens"]
    assert (row["id"], row["name"], row["expires_at"]) == (answer["id"], "page", answer["expires_at"])
    dump = kernel.reader.now(lambda conn: conn.serialize("main"))
    assert answer["token"].encode() not in dump
    await kernel.ask("DELETE", f"/tokens/{answer['id']}")
    assert (await kernel.ask("GET", "/agents", headers=holder)).code == "unauthorized"


@pytest.mark.promise("P80")
async def test_of_many_who_bring_the_same_key_at_once_one_is_served(kernel: ServedKernel) -> None:
    key = (await kernel.ask("POST", "/page/keys", {})).json["key"]
    kernel.below.append(True)
    for path, headers in (("/page/keys", kernel.headers()), ("/page/token", kernel.headers(None))):
        body = {"key": key} if path == "/page/token" else {}
        assert (await kernel.ask("POST", path, body, headers=headers)).code == "forbidden"
    kernel.below.clear()
    answers = await at_once(8, kernel.ask, "POST", "/page/token", {"key": key}, headers=kernel.headers(None))
    assert sorted(answer.status for answer in answers) == [201, *([401] * 7)]


@pytest.mark.promise("P80")
def test_keys_end_and_wrong_ones_are_bounded() -> None:
    keys = PageKeys()
    keys.offer("old", 0.0, read_only=False)
    with pytest.raises(Refused, match="older than 60 s"):
        keys.take("old", KEY_SECONDS)
    for number in range(OPEN_KEYS + 1):
        keys.offer(f"key {number}", 100.0, read_only=number == 1)
    with pytest.raises(Refused, match="key is not valid"):
        keys.take("key 0", 100.0)
    codes = [refused(keys.take, "guess", 101.0).code for _ in range(2 * WRONG_KEYS)]
    assert codes == ["unauthorized"] * (WRONG_KEYS - 2) + ["busy"] * (WRONG_KEYS + 2)
    assert keys.take("key 1", 101.0)
    assert not keys.take("key 2", 101.0)
    assert refused(keys.take, "key 1", 101.0 + WRONG_SECONDS).code == "unauthorized"


async def test_a_token_of_the_page_ends(kernel: ServedKernel) -> None:
    store = kernel.services.store
    ended = await store.writer.commit(tokens.create, "read", "page", SALT, store.now_ms())
    headers = kernel.headers(ended.token)
    assert (await kernel.ask("GET", "/agents", headers=headers)).code == "unauthorized"
    proof = await kernel.ask("GET", "/health?nonce=n&token=1", headers=kernel.headers(None))
    assert proof.json.get("proof") is None
    assert (await kernel.get("/tokens"))["tokens"] == []
    lasting = await store.writer.commit(tokens.create, "read", "page", SALT + "2", store.now_ms() + 1)
    assert (await kernel.ask("GET", "/agents", headers=kernel.headers(lasting.token))).status == 200
    count = store.reader.now(lambda conn: conn.execute("SELECT count(*), max(number) FROM tokens").fetchone())
    assert count == (1, 2)


@pytest.mark.promise("P82")
async def test_a_read_token_changes_nothing(kernel: ServedKernel) -> None:
    answer = (await opened(kernel, read_only=True)).json
    assert (answer["scope"], answer["scopes"]) == ("read", ["read"])
    headers = kernel.headers(answer["token"])
    before = kernel.reader.now(lambda conn: conn.serialize("main"))
    tried = [route for route in ROUTES if route.method != "GET" and not route.tokenless]
    for route in tried:
        path = re.sub(r"<(path:)?\w+>", "alice", route.path)
        refused = await kernel.ask(route.method, path, {}, headers=headers)
        assert refused.refusal == (403, "forbidden"), (route.method, route.path)
    changing = [tool for tool in MANAGEMENT.values() if tool.row.needs != "read"]
    assert {"send", "workflow_run", "approval_decide"} <= {tool.name for tool in changing}
    for tool in changing:
        called = await call(kernel, tool.name, {}, token=answer["token"])
        assert called["isError"], tool.name
        assert called["structuredContent"]["code"] == "forbidden", tool.name
    assert kernel.reader.now(lambda conn: conn.serialize("main")) == before
    assert kernel.asked_to_stop == []
