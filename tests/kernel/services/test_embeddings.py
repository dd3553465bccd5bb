"""Vectors of the user's own endpoint: a real client, a scripted server; and ranking by words whatever goes wrong."""

import struct
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import apsw
import msgspec
import psutil
import pytest
import trio

from kernel.agents.catalog import Catalog
from kernel.agents.sections import embedding_units
from kernel.agents.trust import ProjectTrust, TrustedFiles
from kernel.gateway.gateway import Gateway
from kernel.inspect.trust import trust_demands
from kernel.policy.recall import fused
from kernel.procs.launcher import ExecLauncher
from kernel.services import embeddings as service
from kernel.services.embeddings import FILE, Asking, EmbeddingClient, EmbeddingProcess
from kernel.services.recall import WAKING, Recall
from kernel.source.diagnostics import BadDefinition
from kernel.store import turn_index
from kernel.store.transitions.clear import delete_agent
from protocol.api.history import HistoryFound
from protocol.errors import Refused
from protocol.ipc import EmbeddingAnswer, EmbeddingRequest
from protocol.memory_eval import LEAST_QUESTIONS, VectorTrialRequest
from protocol.names import AgentKey
from protocol.trust import Grant
from tests.builders.embeddings_api import EmbeddingsApi
from tests.kernel.services.test_recall import Archive, archive_at, end_all
from worker.models.openai import embed

pytestmark = pytest.mark.promise("P47")

ALICE = AgentKey("alice")
KEY = "sk-not-to-be-told"
GAIN = VectorTrialRequest(questions=LEAST_QUESTIONS, words=0.5, vectors=0.6)
MEANINGS = (("car", "automobile"), ("ship", "boat"))
SAID = (
    "the boat race is on",
    "the race of the ship",
    "a race in the rain, of nobody at all",
    "the race of an automobile",
)
MEANT = SAID[3]


class AskedHere:
    """Does what the gateway does, and what the process does unless ``process`` does it."""

    def __init__(self, ground: "Ground", process: Asking | None = None) -> None:
        self.ground = ground
        self.process = process

    async def ask(self, asked: EmbeddingRequest, patience_seconds: float) -> EmbeddingAnswer:
        provider = self.ground.embeddings.endpoint().provider
        assert (asked.provider.base_url, KEY in repr(asked)) == ("http://kernel/gateway/openai/v1", False)
        asked = msgspec.structs.replace(asked, provider=provider)
        return await (embed(asked) if self.process is None else self.process.ask(asked, patience_seconds))


class Ground:
    """A history of alice's, an endpoint, and searches with both."""

    def __init__(self, archive: Archive, api: EmbeddingsApi, folder: Path) -> None:
        self.archive, self.api, self.folder = archive, api, folder
        self.asking: Asking = AskedHere(self)
        self.now = 0.0
        self.environ = {"EMBED_KEY": KEY, "PATH": "/usr/bin:/bin"}
        self.grants: list[Grant] = []
        (folder / "p/.agents").mkdir(parents=True)
        self.configure(f"embeddings: {{model: own/small, provider: own}}\n{self.provider}")
        (unit,) = embedding_units(self.catalog.project())
        self.grants.append(Grant(subject=unit.subject, demands=unit.demands, digest=unit.digest, at=""))
        self.restart()

    @property
    def provider(self) -> str:
        return f"providers: {{own: {{base_url: '{self.api.url}', api_key: $EMBED_KEY}}}}\n"

    def configure(self, text: str) -> None:
        """Have ``text`` in the project file."""
        (self.folder / "p/.agents.yaml").write_text(text)
        self.catalog = Catalog(self.folder / "p")
        self.catalog.project()

    def restart(self) -> None:
        """As the next kernel has it."""
        self.embeddings = EmbeddingClient(
            files=TrustedFiles(self.catalog, self.environ, ProjectTrust(kept=lambda: self.grants)),
            asking=self.asking,
            gateway=Gateway("http://kernel", {}, ""),
            state_dir=self.folder,
            now=lambda: self.now,
        )
        self.archive.recall = Recall(
            path=str(self.archive.path),
            log=self.archive.store.log,
            wake=self.archive.store.feed.new_wake(WAKING),
            embeddings=self.embeddings,
        )

    async def search(self, query: str = "car race", vectors: bool | None = None) -> HistoryFound:
        return await self.archive.recall.search("alice", query, limit=20, vectors=vectors)

    async def texts(self, query: str = "car race", vectors: bool | None = None) -> list[str]:
        return [hit.turn.text for hit in (await self.search(query, vectors)).found]


@pytest.fixture
async def ground(tmp_path: Path) -> AsyncGenerator[Ground]:
    async with archive_at(tmp_path) as archive:
        with EmbeddingsApi(*MEANINGS) as api:
            made = Ground(archive, api, tmp_path)
            await archive.say("alice", *SAID)
            yield made


async def test_a_process_asks_again_and_again_and_another_where_it_died(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = ground.folder / "run"
    folder.mkdir()
    monkeypatch.setattr(service, "ENDPOINT_SECONDS", 60.0)
    monkeypatch.setattr(service, "PATIENCE_SECONDS", 60.0)
    async with trio.open_nursery() as nursery:
        launcher = ExecLauncher(run_dir=folder, environ={"PATH": "/usr/bin:/bin"})
        await nursery.start(launcher.run)
        served = EmbeddingProcess(launcher, lambda: {"PATH": "/usr/bin:/bin"})
        ground.asking = AskedHere(ground, served)
        ground.restart()
        with pytest.raises(Refused, match="safe mode"):
            await ground.search(vectors=True)
        ground.now += service.REST_SECONDS
        await nursery.start(served.run)
        assert [(await ground.search(query, vectors=True)).ranked for query in ("race", "car race")] == ["vectors"] * 2
        assert [len(body["input"]) for _, _, body in ground.api.requests] == [1 + len(SAID), 1]
        assert {key for _, key, _ in ground.api.requests} == {f"Bearer {KEY}"}
        (asking,) = [
            one for one in psutil.Process().children(recursive=True) if "worker.models.openai" in one.cmdline()
        ]
        assert KEY not in str(asking.cmdline()) + str(asking.environ())
        asking.kill()
        with pytest.raises(Refused, match="failed"):
            await ground.search("rain", vectors=True)
        ground.now += service.REST_SECONDS
        assert (await ground.search("rain", vectors=True)).ranked == "vectors"
        nursery.cancel_scope.cancel()


async def test_vectors_are_off_until_a_gain_was_measured_and_until_one_was_not(ground: Ground) -> None:
    by_words = await ground.texts()
    assert ((await ground.search()).ranked, ground.api.requests) == ("words", [])
    kept = ground.embeddings.trial(ALICE, GAIN)
    assert (kept.on, kept.model, kept.agent) == (True, "small", "alice")
    ground.restart()
    found = await ground.search()
    with_vectors = [hit.turn.text for hit in found.found]
    assert (found.ranked, sorted(with_vectors)) == ("vectors", sorted(by_words))
    assert (with_vectors[0], by_words[0] == MEANT) == (MEANT, False)
    assert await ground.texts(vectors=False) == by_words
    for worse in (
        VectorTrialRequest(questions=LEAST_QUESTIONS - 1, words=0, vectors=1),
        VectorTrialRequest(questions=99, words=1, vectors=1),
    ):
        assert ground.embeddings.trial(ALICE, worse).on is False
        assert (await ground.search()).ranked == "words"
    ground.embeddings.trial(ALICE, GAIN)
    (ground.folder / FILE).write_text("{half")
    ground.restart()
    assert (await ground.search()).ranked == "words"
    assert (await ground.search(vectors=True)).ranked == "vectors"


async def test_a_turn_is_sent_once_with_the_key_and_only_ones_own(ground: Ground) -> None:
    await ground.archive.say("bob", "bob's car race")
    await ground.search(vectors=True)
    await ground.search("a boat race", vectors=True)
    (path, key, body), _ = ground.api.requests
    assert (path, key, body["model"]) == ("/v1/embeddings", f"Bearer {KEY}", "small")
    first, second = ground.api.texts
    assert first[0] == "car race" and sorted(first[1:]) == sorted(f"user: {text}" for text in SAID)
    assert second == ["a boat race"]


def _said(status: int, body: Any) -> Callable[[EmbeddingsApi], None]:
    def answer(_asked: dict[str, Any]) -> tuple[int, Any]:
        return status, body

    return lambda api: setattr(api, "answer", answer)


def _row(number: int, *vector: float) -> dict[str, Any]:
    return {"object": "embedding", "index": number, "embedding": list(vector)}


FAILURES: dict[str, Callable[[EmbeddingsApi], None]] = {
    "refused": _said(401, {"error": {"message": f"bad key {KEY}"}}),
    "broken": _said(200, b"<html>"),
    "too few": _said(200, {"object": "list", "data": [_row(0, 1.0)]}),
    "of two lengths": _said(200, {"data": [_row(0, 1.0), *(_row(n, 1.0, 2.0) for n in range(1, 5))]}),
    "nothing": _said(200, {"data": [_row(n, 0.0, 0.0) for n in range(5)]}),
    "no numbers": _said(200, {"data": [{"index": n, "embedding": "words"} for n in range(5)]}),
}


@pytest.mark.parametrize("failure", FAILURES)
async def test_whatever_goes_wrong_the_answer_is_the_one_by_words(
    failure: str, ground: Ground, caplog: pytest.LogCaptureFixture
) -> None:
    by_words = await ground.texts()
    ground.embeddings.trial(ALICE, GAIN)
    FAILURES[failure](ground.api)
    assert await ground.texts() == by_words
    assert await ground.texts() == by_words
    assert len(ground.api.requests) == 1
    told = [record.getMessage() for record in caplog.records if "vectors.none" in record.getMessage()]
    assert len(told) == 1 and KEY not in told[0]
    with pytest.raises(Refused, match="embeddings unavailable"):
        await ground.search(vectors=True)
    ground.now += service.REST_SECONDS
    ground.api.answer = ground.api.vectors
    assert (await ground.search()).ranked == "vectors"


async def test_vectors_that_cannot_be_kept_rank_all_the_same(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise apsw.FullError("database or disk is full")

    monkeypatch.setattr(turn_index, "put_vectors", full)
    assert [(await ground.search(vectors=True)).ranked for _ in range(2)] == ["vectors"] * 2
    assert [len(texts) for texts in ground.api.texts] == [1 + len(SAID)] * 2


async def test_a_silent_endpoint_costs_a_bounded_time(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    ground.embeddings.trial(ALICE, GAIN)
    over = trio.Event()

    def silent(_asked: dict[str, Any]) -> tuple[int, Any]:
        trio.from_thread.run(over.wait, trio_token=token)
        return 200, {}

    token = trio.lowlevel.current_trio_token()
    ground.api.answer = silent
    monkeypatch.setattr(service, "ENDPOINT_SECONDS", 0.2)
    found = await ground.search()
    assert found.ranked == "words" and len(found.found) == len(SAID)
    with pytest.raises(Refused, match="no answer within"):
        await ground.search(vectors=True)
    over.set()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("no key", "API key for own not found: set EMBED_KEY"),
        ("not trusted", "is not trusted"),
        ("no embeddings", "has no embeddings"),
    ],
)
async def test_without_an_endpoint_a_key_or_trust_nothing_is_sent(change: str, why: str, ground: Ground) -> None:
    ground.embeddings.trial(ALICE, GAIN)
    if change == "no key":
        del ground.environ["EMBED_KEY"]
    elif change == "not trusted":
        ground.grants.clear()
    else:
        ground.configure(ground.provider)
    ground.restart()
    assert (await ground.search()).ranked == "words"
    with pytest.raises(Refused, match=why):
        await ground.search(vectors=True)
    with pytest.raises(Refused, match=why):
        ground.embeddings.trial(ALICE, GAIN)
    assert ground.api.requests == []


@pytest.mark.promise("P48")
async def test_a_purge_leaves_no_byte_of_a_vector(ground: Ground) -> None:
    await ground.search(vectors=True)
    norm = sum(one * one for one in ground.api.vector(MEANT)) ** 0.5
    vector = struct.pack(f"{len(MEANINGS) + 1}f", *(one / norm for one in ground.api.vector(MEANT)))
    other = ground.api.vector(SAID[0])
    kept = struct.pack(f"{len(other)}f", *(one / sum(n * n for n in other) ** 0.5 for one in other))
    assert vector in ground.archive.bytes() and kept in ground.archive.bytes()
    await ground.archive.recall.purge("alice", messages=[4])
    assert vector not in ground.archive.bytes() and kept in ground.archive.bytes()


async def test_what_was_measured_for_an_agent_goes_with_it(ground: Ground) -> None:
    ground.embeddings.trial(ALICE, GAIN)
    ground.embeddings.trial(AgentKey("bob"), GAIN)
    await ground.search()
    await ground.archive.store.writer.commit(end_all, "dm:alice")
    await ground.archive.store.writer.commit(delete_agent, ALICE)
    await ground.archive.recall.redo()
    ground.restart()
    assert (ground.embeddings.proven("alice"), ground.embeddings.proven("bob")) == (False, True)


def test_scores_and_closeness_count_half_each_and_what_has_no_vector_is_the_least_close() -> None:
    words = {"a": 4.0, "b": 4.0, "c": 2.0}
    assert fused(words, {}) == [("a", 0.5), ("b", 0.5), ("c", 0.25)]
    assert fused(words, {"a": 0.3, "b": 0.3, "c": 0.3}) == fused(words, {})
    assert fused(words, {"a": 0.1, "b": 0.2, "c": 0.3}) == [("b", 0.75), ("c", 0.75), ("a", 0.5)]
    assert fused(words, {"c": 0.9, "b": -0.1}) == [("c", 0.75), ("a", 0.5), ("b", 0.5)]
    assert fused({}, {}) == []


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("{model: anthropic/claude-haiku-4-5}", "anthropic uses anthropic"),
        ("{model: nobody/small}", "unknown provider 'nobody'"),
        ("{model: small}", "'small' is not a model"),
        ("{}", "model"),
    ],
)
def test_a_mistake_is_told_where_it_stands(said: str, why: str, tmp_path: Path) -> None:
    (tmp_path / ".agents").mkdir()
    (tmp_path / ".agents.yaml").write_text(f"conversations: true\nembeddings: {said}\n")
    with pytest.raises(BadDefinition, match=why) as told:
        Catalog(tmp_path).project()
    assert ".agents.yaml:2" in told.value.text and "embeddings" in told.value.text


def test_the_demand_names_where_it_is_sent_and_with_which_key(tmp_path: Path) -> None:
    (tmp_path / ".agents").mkdir()
    (tmp_path / ".agents.yaml").write_text("embeddings: {model: openai/text-embedding-3-small}\n")
    (unit,) = trust_demands(tmp_path, ()).units
    assert unit.demands == ("what agents said, were told and search for is sent to openai, with $OPENAI_API_KEY",)
