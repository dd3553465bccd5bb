"""Recall: maintains the index of agents' histories, and answers searches and reads.

The index follows the log after its commits, in threads, at most a tenth of the time; a query updates it first, so that
new messages are found. Other services never wait for the index. A lost or broken index file is reported and rebuilt
from the log. If its disk is full, the index falls behind, reports that, and catches up later.
"""

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from itertools import groupby
from typing import Concatenate, Final, NamedTuple, ParamSpec, TypeVar

import msgspec
import trio
from msgspec.structs import replace

from kernel.policy.recall import RERANKED, Ranked, RankedPlaces, asked_words, excerpt, fused, rank, remembered
from kernel.services.embeddings import EmbeddingClient, NoEndpoint, NoVectors, closeness_to, said_in
from kernel.store import history, recall_index, search, turn_index
from kernel.store.database import Connection
from kernel.store.feed import Wake
from kernel.store.recall_index import Index, IndexBroken, IndexUnwritable
from kernel.store.turn_index import KeptText, Kind, TurnFilter, TurnPlace
from kernel.store.writer import StoreLog
from protocol.agent_memory import Entry, Tier
from protocol.api.history import HistoryFound, HistoryHit, HistoryPage, HistoryTurn, Reindexed
from protocol.errors import Refused
from protocol.memory_files import Memory

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

FILE: Final = "recall-index.db"
"""File in the state directory."""
WAKING: Final = frozenset({"message", "instruction.ended", "attempt.ended", "space.cleared", "agent.changed"})
GATHER_SECONDS: Final = 1.0
"""Delay between the first change and the update; a query updates the index at once."""
SHARE: Final = 9.0
"""Rest before the next update, as a multiple of the duration of the last one."""
LONGEST_REST_SECONDS: Final = 5.0
RETRY_SECONDS: Final = 30.0
PATIENCE_SECONDS: Final = 2.0
"""Time that a query waits for the update of the index."""
TIDY_SECONDS: Final = 24 * 3600.0
"""Interval of checks for turns that were deleted from the log."""
HIT_CHARACTERS: Final = 2000
BESIDE_CHARACTERS: Final = 600
READ_CHARACTERS: Final = 4000
TIERS: Final[tuple[Tier, ...]] = ("core", "working")
"""Tiers of memory that are searched by default."""


class _IndexedMemory(NamedTuple):
    memory: Memory
    places: Mapping[str, int]


class Recall(msgspec.Struct, eq=False, kw_only=True):
    """Updates the index from the log, in one task, and answers queries from it."""

    path: str
    log: StoreLog
    wake: Wake
    embeddings: EmbeddingClient | None = None
    _index: Index | None = None
    _writing: trio.Lock = msgspec.field(default_factory=trio.Lock)
    _opening: trio.Lock = msgspec.field(default_factory=trio.Lock)
    _threads: trio.CapacityLimiter = msgspec.field(default_factory=lambda: trio.CapacityLimiter(2))
    _behind: bool = True
    _trouble: str = ""
    """Last reported reason why the index cannot be written."""
    _kept: dict[str, _IndexedMemory] = {}
    """Last indexed memory of each agent."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Update the index until cancelled."""
        task_status.started()
        tidy_at = trio.current_time() + GATHER_SECONDS
        while True:
            self.wake.clear()
            began = trio.current_time()
            await self._follow(float("inf"))
            if began >= tidy_at:
                tidy_at = began + TIDY_SECONDS
                with suppress(Refused):
                    await self._drop_gone()
            if self._trouble:
                await trio.sleep(RETRY_SECONDS)
                continue
            await trio.sleep(min(SHARE * (trio.current_time() - began), LONGEST_REST_SECONDS))
            with trio.move_on_after(max(0.0, tidy_at - trio.current_time())):
                await self.wake.wait()
                await trio.sleep(GATHER_SECONDS)

    async def search(
        self,
        agent: str,
        query: str,
        *,
        limit: int,
        offset: int = 0,
        since_ms: int = 0,
        until_ms: int = turn_index.END,
        vectors: bool | None = None,
    ) -> HistoryFound:
        """Return the best matching turns of ``agent`` (its key) with their neighbours. Raises Refused.

        ``vectors``: True requires embeddings, False uses words only, None uses embeddings if a gain was measured.
        """
        asked = await self._asked(query)
        proven = self.embeddings is not None and self.embeddings.proven(agent)
        wanted_vectors = proven if vectors is None else vectors
        candidates = RERANKED if wanted_vectors else recall_index.CANDIDATES
        best, common = await self._ask(turn_index.ranked, agent, asked, since_ms, until_ms, candidates)
        used = False
        if wanted_vectors:
            try:
                best, used = await self._closest(agent, query, best), True
            except NoVectors as why:
                if vectors:
                    raise why.refused() from why
                best = best[: recall_index.CANDIDATES]
        shown = best[offset : offset + limit]
        wanted = [place for one in shown for place in (one.place, one.before, one.after) if place is not None]
        texts = await self.log.reader.read(history.texts, agent, dict.fromkeys(wanted))
        return HistoryFound(
            agent=agent,
            found=tuple(
                HistoryHit(
                    turn=_cut(texts[one.place], HIT_CHARACTERS, asked),
                    before=_beside(one.before, texts),
                    after=_beside(one.after, texts),
                    score=round(one.score, 3),
                )
                for one in shown
                if one.place in texts  # skip turns deleted concurrently
            ),
            total=len(best),
            next=offset + limit if offset + limit < len(best) else None,
            common=common,
            behind=self._behind,
            ranked="vectors" if used else "words",
        )

    async def search_all(
        self, query: str, kind: Kind | None, space: str | None, wanted: slice
    ) -> tuple[list[HistoryTurn], int, bool]:
        """Return the ``wanted`` turns of all agents, best first, the total number, and whether the index is behind.
        Raises Refused."""
        best = await self._ask(search.turns, await self._asked(query), kind, space)
        texts: dict[TurnPlace, HistoryTurn] = {}
        for agent, places in groupby(sorted(best[wanted]), lambda one: one[0]):
            texts |= await self.log.reader.read(history.texts, agent, [place for _, place in places])
        return [texts[place] for _, place in best[wanted] if place in texts], len(best), self._behind

    async def _asked(self, query: str) -> tuple[str, ...]:
        """Return the words of a query after the update of the index. Raises Refused."""
        if not (asked := asked_words(query)):
            text = f"query {query[:40]!r} has no searchable word"
            raise Refused("bad_request", text, "use words from the conversation")
        await self._follow(PATIENCE_SECONDS)
        return asked

    async def _closest(
        self, agent: str, query: str, best: Sequence[turn_index.RankedTurn]
    ) -> tuple[turn_index.RankedTurn, ...]:
        """Rerank ``best`` with embeddings, requesting and storing missing ones. Raises NoVectors."""
        if self.embeddings is None:
            raise NoEndpoint("this kernel has no embedding client")
        endpoint = self.embeddings.endpoint()
        if not best:
            return ()
        found = {one.place.id: one for one in best}
        known = await self._ask(turn_index.vectors_of, endpoint.id, found)
        missing = [one.place for one in best if one.place.id not in known]
        texts = await self.log.reader.read(history.texts, agent, missing)
        said = [said_in(turn) for turn in texts.values()]
        asked, *others = await self.embeddings.vectors(endpoint, [query, *said])
        new = {place: vector.tobytes() for place, vector in zip(texts, others, strict=True)}
        if new:
            with suppress(Refused):  # not stored: requested again next time
                await self._write(turn_index.put_vectors, endpoint.id, list(new.items()))
        known |= {place.id: vector for place, vector in new.items()}
        closeness = await trio.to_thread.run_sync(closeness_to, asked, known, limiter=self._threads)
        both = fused({one.place.id: one.score for one in best}, closeness)
        return tuple(found[turn]._replace(score=score) for turn, score in both)

    async def read(self, wanted: TurnFilter, limit: int, before: int | None = None) -> HistoryPage:
        """Return the newest turns of an agent, or those before a turn, oldest first. Raises Refused."""
        await self._follow(PATIENCE_SECONDS)
        page = await self._ask(turn_index.newest, wanted, limit, before)
        texts = await self.log.reader.read(history.texts, wanted.agent, page.turns)
        return HistoryPage(
            agent=wanted.agent,
            turns=tuple(_cut(texts[place], READ_CHARACTERS) for place in page.turns if place in texts),
            total=page.total,
            next=page.next,
            behind=self._behind,
        )

    async def find(
        self,
        agent: str,
        memory: Memory,
        query: str,
        limit: int,
        tiers: Iterable[Tier] = TIERS,
        counts: Callable[[Entry], bool] = lambda _entry: True,
    ) -> RankedPlaces:
        """Return the memory entries of ``agent`` that match ``query`` best.

        Only entries in ``tiers`` for which ``counts`` returns True are searched. The same memory
        object is indexed once. Raises Refused.
        """
        known = self._kept.get(agent)
        if known is None or known.memory is not memory:
            known = self._kept[agent] = await self._write(_put_memory, agent, memory)
        keys, corpus = await self._ask(turn_index.search_kept, agent, asked_words(query), tiers)
        places = [place for key in keys if (place := known.places.get(key)) is not None]
        found = [place for place in places if counts(memory.kept[place].entry)]
        kept = [remembered(memory.kept[place].entry) for place in found]
        ranked = rank(kept, query, self.log.now_ms(), len(kept), corpus)
        return RankedPlaces(tuple(Ranked(found[one.place], one.score) for one in ranked[:limit]), len(ranked))

    async def redo(self) -> None:
        """Erase turns that were deleted from the log, so that no byte remains in the index file."""
        await self._follow(float("inf"))

    async def purge(
        self, agent: str | None, *, messages: Iterable[int] = (), instructions: Iterable[int] = (), kept: bool = False
    ) -> int:
        """Delete messages and steps of instructions from the index of ``agent`` (None: all), without leaving a byte.

        ``kept``: also reindex its memory at the next query. Returns the number of deleted turns.
        """

        def remove(conn: Connection) -> int:
            numbers: list[tuple[Kind, int]] = [("message", number) for number in messages]
            numbers.extend(("step", number) for number in instructions)
            turns = [turn for kind, number in numbers for turn in turn_index.turns_of(conn, agent, kind, number)]
            removed = turn_index.forget_turns(conn, turns)
            if kept and agent is not None:
                turn_index.forget_kept(conn, agent)
            recall_index.scrub(conn)
            return removed

        if kept and agent is not None:
            self._kept.pop(agent, None)
        return await self._write(remove)

    async def reindex(self, agent: str | None) -> Reindexed:
        """Rebuild the index, completely or for ``agent``. Raises Refused (storage_full)."""
        if agent is None:
            async with self._writing:
                await self._throw_away("requested")
        else:

            def forget(conn: Connection) -> None:
                turn_index.forget_turns(conn, (one.id for one in turn_index.suspects(conn, agent=agent, limit=2**62)))
                turn_index.forget_kept(conn, agent)
                recall_index.begin_again(conn)

            await self._write(forget)
        self._kept.clear()
        await self._follow(float("inf"))
        agents, turns = await self._ask(recall_index.figures, agent)
        return Reindexed(agent=agent, turns=turns, agents=agents)

    async def _follow(self, patience_seconds: float) -> None:
        """Index new changes of the log for at most ``patience_seconds``. Raises nothing."""
        deadline = trio.current_time() + patience_seconds
        while True:
            try:
                more = await self._step()
            except Refused as refused:
                if not self._trouble:
                    logger.warning("recall.behind %s; it will be retried", refused.text)
                self._trouble = refused.text
                self._behind = True
                return
            if self._trouble:
                logger.info("recall.caught_up")
                self._trouble = ""
            self._behind = more
            if not more or trio.current_time() >= deadline:
                return

    async def _step(self) -> bool:
        at = await self._ask(recall_index.progress)
        found = await self.log.reader.read(history.changes, at)
        if found.upto != at or found.turns:
            await self._write(turn_index.put_turns, found.turns, found.upto)
        for space in found.spaces:
            await self._drop_gone(space=space)
        for agent in found.agents:
            self._kept.pop(agent, None)
            if self.embeddings is not None:
                await trio.to_thread.run_sync(self.embeddings.forget, agent)
            await self._write(turn_index.forget_kept, agent)
            await self._drop_gone(agent=agent)
        return found.more

    async def _drop_gone(self, *, space: str | None = None, agent: str | None = None) -> None:
        """Erase indexed turns that are not in the log: of a space, of an agent, or all."""
        after = 0
        while places := await self._ask(turn_index.suspects, space=space, agent=agent, after=after):
            after = places[-1].id
            if gone := await self.log.reader.read(history.gone, places):
                await self._write(turn_index.forget_turns, [one.id for one in gone])
        await self._write(recall_index.scrub)

    async def _ask(self, question: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._run(lambda index: index.ask(lambda conn: question(conn, *args, **kwargs)), self._threads)

    async def _write(self, change: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        async with self._writing:
            return await self._run(lambda index: index.change(lambda conn: change(conn, *args, **kwargs)), None)

    async def _run(self, job: Callable[[Index], T], limiter: trio.CapacityLimiter | None) -> T:
        """Run ``job`` in a thread; rebuild a broken index, and retry once. Raises Refused.

        After a cancellation, the thread finishes before Cancelled is raised.
        """
        try:
            index = await self._opened()
            try:
                return await trio.to_thread.run_sync(job, index, limiter=limiter)
            except IndexBroken as broken:
                await self._throw_away(str(broken))
                return await trio.to_thread.run_sync(job, await self._opened(), limiter=limiter)
        except (IndexBroken, IndexUnwritable) as error:
            text = f"history index unavailable: {error}"
            raise Refused("storage_full", text, f"check the disk of {os.path.dirname(self.path)}") from error

    async def _opened(self) -> Index:
        async with self._opening:
            if self._index is None:
                log = self.log.reader.now(history.log_name)
                self._index = await trio.to_thread.run_sync(Index, self.path, log)
                if self._index.why_empty:
                    logger.info("recall.made %s: %s", self.path, self._index.why_empty)
            return self._index

    async def _throw_away(self, why: str) -> None:
        async with self._opening:
            logger.warning("recall.remade %s: %s", self.path, why)
            self._index = None
            self._kept.clear()
            await trio.to_thread.run_sync(recall_index.remove, self.path)


def _put_memory(conn: Connection, agent: str, memory: Memory) -> _IndexedMemory:
    texts = [(one.entry, remembered(one.entry).text) for one in memory.kept]
    rows = [KeptText(entry.key, entry.tier, sha256(text.encode()).digest(), text) for entry, text in texts]
    turn_index.put_kept(conn, agent, rows)
    return _IndexedMemory(memory, {entry.key: place for place, (entry, _) in enumerate(texts)})


def _beside(place: TurnPlace | None, texts: Mapping[TurnPlace, HistoryTurn]) -> HistoryTurn | None:
    found = None if place is None else texts.get(place)
    return None if found is None else _cut(found, BESIDE_CHARACTERS)


def _cut(turn: HistoryTurn, limit: int, words: Sequence[str] = ()) -> HistoryTurn:
    # The limit is shared among the texts, so that each call keeps its result.
    share = max(limit // (1 + 2 * len(turn.calls)), 120)
    calls = tuple(
        replace(one, input=excerpt(one.input, words, share), output=one.output and excerpt(one.output, words, share))
        for one in turn.calls
    )
    return replace(turn, text=excerpt(turn.text, words, share if calls else limit), calls=calls)
