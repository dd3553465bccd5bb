"""Idempotency-Key: each POST that is repeated with the same key gives the same answer and makes one change."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from kernel.api.dispatch import RawRequest, dispatch
from kernel.api.routes import ROUTES
from kernel.operations.answers import KeyedAnswers, Response
from kernel.operations.context import StoreAccess
from kernel.operations.operation import Operation, operation
from kernel.store.messages import add_feedback
from kernel.store.transaction import Transaction
from protocol.api.document import Ask
from tests.builders.api import ServedKernel
from tests.kernel.api.mcp.rpc import call

pytestmark = pytest.mark.promise("P2")
POSTS = [route for route in ROUTES if route.method == "POST"]


class Probe(Ask, frozen=True, kw_only=True):
    """What a probe is asked."""

    what: str


class Probed(msgspec.Struct, frozen=True):
    """What a probe answers."""

    n: int


def named(route: Operation) -> str:
    return f"{route.method} {route.path}"


def test_only_work_that_goes_on_keeps_its_own_key() -> None:
    assert {route.path for route in POSTS if route.keeps_key} == {"/messages", "/run", "/serve", "/workflows"}
    assert {route.path for route in POSTS if route.tokenless} == {"/hooks/<name>", "/page/token"}
    assert {route.path for route in POSTS if route.secret} == {"/tokens", "/nodes", "/page/keys"}


@pytest.mark.parametrize("route", [one for one in POSTS if not one.keeps_key and not one.tokenless], ids=named)
@pytest.mark.parametrize("in_commit", [True, False])
async def test_every_post_is_done_once_for_its_key(kernel: ServedKernel, route: Operation, in_commit: bool) -> None:
    told, committed = 0, trio.Event()

    async def handler(asked: Probe, store: StoreAccess) -> Probed:
        nonlocal told
        told += 1
        if asked.what == "fails":
            raise OSError("the disk is on fire")

        def change(tx: Transaction) -> Probed:
            add_feedback(tx, "probe")
            return Probed(told)

        await store.writer.commit(change)
        committed.set()
        await trio.testing.wait_all_tasks_blocked()
        return Probed(told + 100)  # more than the commit knew

    asks = operation(handler, "POST /probe/<what>")
    own = ("handler", "takes", "kind", "request", "variables", "query", "without", "body_optional", "trusts", "vouches")
    given = {name: getattr(asks, name) for name in own}
    probe = msgspec.structs.replace(route, **given, answers=Probed if in_commit else None)

    async def ask(key: str, what: str = "x") -> Response:
        fields = {b"idempotency-key": key.encode()}
        answer = await dispatch(kernel.services, probe, RawRequest(fields, b"", b"", args={"what": what}))
        assert isinstance(answer, Response)
        return answer

    answers: list[Response] = []
    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(_keep, answers, ask, "k")
        await committed.wait()
        answers.append(await ask("k"))
    answers.append(await ask("k"))
    assert [answer.status for answer in answers] == [route.status] * 4
    assert len({answer.body for answer in answers}) == 1
    assert len((await kernel.get("/feedback"))["feedback"]) == 1
    assert msgspec.json.decode((await ask("k", "y")).body)["code"] == "key_reused"
    assert (await ask("other")).body != answers[0].body
    for _ in range(2):  # a failure is no answer: the next repeat tries again
        before = told
        assert (await ask("f", "fails")).status == 500
        assert told == before + 1


async def _keep(answers: list[Response], ask: Callable[[str], Awaitable[Response]], key: str) -> None:
    answers.append(await ask(key))


async def twice(kernel: ServedKernel, path: str, body: object = None) -> Any:
    """Return what a POST is answered, which a repeat of it is too; anything else with its key is refused."""
    headers = kernel.headers(Idempotency_Key=f"key of {path}")
    first, second = [await kernel.ask("POST", path, body, headers=headers) for _ in range(2)]
    assert first.status < 300, (path, first.body)
    assert (second.status, second.body) == (first.status, first.body)
    other = await kernel.ask("POST", path, {"name": "somebody else"}, headers=headers)
    assert other.code in ("key_reused", "bad_request")
    return first.json


async def test_what_ignored_its_key_is_done_once(kernel: ServedKernel) -> None:
    instruction = await kernel.attempt("alice@review", token="alices")
    await call(kernel, "team_doc_create", {"file": "a.md", "content": "one\n"}, "alices")
    for text in ("two\n", "three\n"):
        await kernel.ask(
            "PUT", "/spaces/review:main/documents/a.md", {"content": text}, headers=kernel.headers(If_Match="1")
        )
    await call(kernel, "team_doc_suggest", {"file": "a.md", "suggestion": "four\n"}, "alices")
    for observation in ("Be brief", "Be bold", "Be kind"):
        await call(kernel, "soul_suggest", {"observation": observation}, "alices")
    await kernel.end(instruction)
    await twice(kernel, "/agents/alice/soul/p1/approve")
    await twice(kernel, "/agents/alice/soul/p2/reject")
    await twice(kernel, "/agents/alice/soul/rollback", {"version": 1})
    await twice(kernel, "/agents/alice/reindex")
    await twice(kernel, "/reindex")
    await twice(kernel, "/prune", {})
    await twice(kernel, "/worktrees/remove", {})
    await twice(kernel, "/agents/alice/memory/purge", {"source": "web"})
    await kernel.ask("POST", "/agents", {"name": "carol", "model": "mock/x", "mock": [{"text": "hi"}]})
    (kernel.root / ".agents/erin.yaml").write_text("model: mock/x\nmock: [{ text: hi }]\n")
    await twice(kernel, "/agents/carol/rename", {"to": "erin"})
    node = {"name": "gpu", "node": {"via": "join"}}
    await twice(kernel, "/nodes", node)
    await twice(kernel, "/nodes/gpu/drain")
    await twice(kernel, "/upgrade")
    await twice(kernel, "/page/keys", {})
    await twice(kernel, "/tokens", {"scope": "read"})
    assert len((await kernel.get("/tokens"))["tokens"]) == 1
    notes = await twice(kernel, "/agents/alice/notes", {"text": "a note"})
    assert (await kernel.get("/agents/alice/notes"))["notes"] == notes["notes"]
    await twice(kernel, "/agents/alice/todo", {"text": "buy milk"})
    assert len((await kernel.get("/agents/alice/todo"))["items"]) == 1
    await twice(kernel, "/spaces/review:main/clear")
    await twice(kernel, "/shutdown", {"grace": 1})
    assert len(kernel.asked_to_stop) == 1


SECRETS: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("/tokens", {"scope": "read", "name": "ci"}, "token"),
    ("/nodes", {"name": "gpu", "node": {"via": "join"}, "host": "word-of-the-node"}, "command"),
    ("/page/keys", {}, "key"),
)


@pytest.mark.parametrize("on_disk", [True])
@pytest.mark.parametrize(("path", "body", "field"), SECRETS)
@pytest.mark.parametrize("end", ["time", "restart"])
async def test_a_secret_is_told_again_for_a_while_and_never_kept_on_disk(
    kernel: ServedKernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, body: object, field: str, end: str
) -> None:
    """Contract E: ten minutes, in memory; then, or after a restart, 409, and nothing is changed."""
    headers = kernel.headers(Idempotency_Key="k")
    first = await kernel.ask("POST", path, body, headers=headers)
    assert first.status == 201, first.body
    assert (await kernel.ask("POST", path, body, headers=headers)).json == first.json
    written = b"".join(file.read_bytes() for file in tmp_path.glob("kernel.db*"))  # noqa: ASYNC240
    assert b"idempotency" in written
    assert str(first.json[field]).encode() not in written
    if end == "time":
        later = trio.current_time() + 601
        monkeypatch.setattr("kernel.operations.answers.trio.current_time", lambda: later)
    else:
        msgspec.structs.force_setattr(kernel.services.kernel.keys, "answers", KeyedAnswers())
    before = await counts(kernel)
    assert (await kernel.ask("POST", path, body, headers=headers)).refusal == (409, "already_told")
    assert await counts(kernel) == before


async def counts(kernel: ServedKernel) -> tuple[int, int]:
    """Return how many tokens and nodes there are."""
    tokens, nodes = [await kernel.get(path) for path in ("/tokens", "/nodes")]
    return len(tokens["tokens"]), len(nodes["nodes"])
