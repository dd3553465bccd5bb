"""Recall: keeps the index of agents' histories beside the log, and answers what they search for and read again.

It follows the log after its commits, in threads, at most a tenth of the time; a question has it look at once, so that
what was said just now is found. Nothing waits for it, and nothing is lost with its file: whatever is wrong with that
is told, and it is made anew. Where its disk is full it stays behind, says so, and catches up later.
"""

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Concatenate, Final, NamedTuple, ParamSpec, TypeVar

import msgspec
import trio

from kernel.policy.recall import RERANKED, Ranked, RankedPlaces, asked_words, excerpt, fused, rank, remembered
from kernel.services.embeddings import EmbeddingClient, NoEndpoint, NoVectors, closeness_to, said_in
from kernel.store import history, recall_index, turn_index
from kernel.store.database import Connection
from kernel.store.feed import Wake
from kernel.store.recall_index import Index, IndexBroken, IndexUnwritable
from kernel.store.turn_index import KeptText, TurnFilter, TurnPlace
from kernel.store.writer import StoreLog
from protocol.agent_memory import Entry, Tier
from protocol.api.history import HistoryCall, HistoryFound, HistoryHit, HistoryPage, HistoryTurn, Reindexed
from protocol.errors import Refused
from protocol.memory_files import Memory

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

FILE: Final = "recall-index.db"
"""In the state directory."""
WAKING: Final = frozenset({"message", "instruction.ended", "attempt.ended", "space.cleared", "agent.changed"})
GATHER_SECONDS: Final = 1.0
"""From the first of what is new to the look: whoever asks meanwhile has it looked for at once."""
SHARE: Final = 9.0
"""How many times as long as a look took it rests before the next."""
LONGEST_REST_SECONDS: Final = 5.0
RETRY_SECONDS: Final = 30.0
PATIENCE_SECONDS: Final = 2.0
"""A question waits so long for what is not indexed yet."""
TIDY_SECONDS: Final = 24 * 3600.0
"""Between two looks for what is not in the log any more."""
HIT_CHARACTERS: Final = 2000
BESIDE_CHARACTERS: Final = 600
READ_CHARACTERS: Final = 4000
TIERS: Final[tuple[Tier, ...]] = ("core", "working")
"""Tiers of memory that are searched unless others are asked for."""


class _Known(NamedTuple):
    """The memory of an agent that is in the index, and the place of each key in it."""

    memory: Memory
    places: Mapping[str, int]


class Recall(msgspec.Struct, eq=False, kw_only=True):
    """Follows the log into the index (one task), and answers questions from it."""

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
    """What keeps it from writing, as was told."""
    _kept: dict[str, _Known] = {}
    """What is in the index of what agents keep, as it was given last."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Follow until cancelled."""
        task_status.started()
        tidy_at = trio.current_time() + GATHER_SECONDS
        while True:
            self.wake.clear()
            began = trio.current_time()
            await self._follow(float("inf"))
            if began >= tidy_at:
                tidy_at = began + TIDY_SECONDS
                await self._tidy()
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
        """The turns of ``agent`` (its key) that answer ``query`` best, each with those beside it. Raises Refused.

        ``vectors``: with them or not at all, or without; None: with them where that was shown to find more.
        """
        asked = asked_words(query)
        if not asked:
            raise Refused("bad_request", f"{query[:40]!r} has no word that can be found", "give words that were said")
        await self._follow(PATIENCE_SECONDS)
        wanted_vectors = vectors
        if vectors is None:
            wanted_vectors = self.embeddings is not None and self.embeddings.proven(agent)
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
                if one.place in texts  # and was not removed just now
            ),
            total=len(best),
            next=offset + limit if offset + limit < len(best) else None,
            common=common,
            behind=self._behind,
            ranked="vectors" if used else "words",
        )

    async def _closest(
        self, agent: str, query: str, best: Sequence[turn_index.RankedTurn]
    ) -> tuple[turn_index.RankedTurn, ...]:
        """``best`` ranked with vectors, too; those that are not known are asked for and kept. Raises NoVectors."""
        if self.embeddings is None:
            raise NoEndpoint("this kernel has none")
        endpoint = self.embeddings.endpoint()
        if not best:
            return ()
        found = {one.place.id: one for one in best}
        known = await self._ask(turn_index.vectors_of, endpoint.id, found)
        texts = await self.log.reader.read(
            history.texts, agent, [one.place for one in best if one.place.id not in known]
        )
        said = [said_in(turn) for turn in texts.values()]
        asked, *others = await self.embeddings.vectors(endpoint, [query, *said])
        new = {place: vector.tobytes() for place, vector in zip(texts, others, strict=True)}
        if new:
            with suppress(Refused):  # nothing can be kept: they are asked for again next time
                await self._write(turn_index.put_vectors, endpoint.id, list(new.items()))
        known |= {place.id: vector for place, vector in new.items()}
        closeness = await trio.to_thread.run_sync(closeness_to, asked, known, limiter=self._threads)
        both = fused({one.place.id: one.score for one in best}, closeness)
        return tuple(found[turn]._replace(score=score) for turn, score in both)

    async def read(self, wanted: TurnFilter, limit: int, before: int | None = None) -> HistoryPage:
        """The newest turns of an agent, or those before one, oldest first. Raises Refused."""
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
        """Of all that ``agent`` keeps, what of ``tiers`` answers ``query`` best and ``counts``. Raises Refused.

        The same memory is the same object: it is compared with what is in the index otherwise.
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
        """Remove from the index what was removed from the log: once this returns no byte of it is there."""
        await self._follow(float("inf"))

    async def purge(
        self, agent: str | None, *, messages: Iterable[int] = (), instructions: Iterable[int] = (), kept: bool = False
    ) -> int:
        """Remove these messages and the steps of these instructions from what ``agent`` (None: anybody) can find.

        ``kept``: what it keeps is indexed anew at the next question, too. No byte is left. Returns how many turns.
        """

        def remove(conn: Connection) -> int:
            numbers = [("message", number) for number in messages] + [("step", number) for number in instructions]
            turns = [
                turn
                for kind, number in numbers
                for turn in turn_index.turns_of(conn, agent, "message" if kind == "message" else "step", number)
            ]
            removed = turn_index.forget_turns(conn, turns)
            if kept and agent is not None:
                turn_index.forget_kept(conn, agent)
            recall_index.scrub(conn)
            return removed

        if kept and agent is not None:
            self._kept.pop(agent, None)
        return await self._write(remove)

    async def reindex(self, agent: str | None) -> Reindexed:
        """Make the index anew: all of it, or what it has of ``agent``. Raises Refused (storage_full)."""
        if agent is None:
            async with self._writing:
                await self._throw_away("it was asked for")
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
        """Take up what is new in the log, for so long at most. Raises nothing."""
        deadline = trio.current_time() + patience_seconds
        while True:
            try:
                more = await self._step()
            except Refused as refused:
                if not self._trouble:
                    logger.warning("recall.behind %s; it is tried again", refused.text)
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
        """One batch. Returns whether there is more. Raises Refused."""
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
        """Remove what is not in the log any more, of a space, of an agent, or of all; and every byte of it."""
        after = 0
        removed = 0
        while places := await self._ask(turn_index.suspects, space=space, agent=agent, after=after):
            after = places[-1].id
            if gone := await self.log.reader.read(history.gone, places):
                removed += await self._write(turn_index.forget_turns, [one.id for one in gone])
        if removed or space is not None or agent is not None:
            await self._write(recall_index.scrub)

    async def _tidy(self) -> None:
        with suppress(Refused):
            await self._drop_gone()
            await self._write(recall_index.scrub)

    async def _ask(self, question: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._run(lambda index: index.ask(lambda conn: question(conn, *args, **kwargs)), self._threads)

    async def _write(self, change: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        async with self._writing:
            return await self._run(lambda index: index.change(lambda conn: change(conn, *args, **kwargs)), None)

    async def _run(self, job: Callable[[Index], T], limiter: trio.CapacityLimiter | None) -> T:
        """Run ``job`` in a thread; where the index is broken, once more on a new one. Raises Refused (storage_full).

        Cancellation: the thread finishes first, then Cancelled is raised.
        """
        try:
            index = await self._opened()
            try:
                return await trio.to_thread.run_sync(job, index, limiter=limiter)
            except IndexBroken as broken:
                await self._throw_away(str(broken))
                return await trio.to_thread.run_sync(job, await self._opened(), limiter=limiter)
        except (IndexBroken, IndexUnwritable) as error:
            text = f"the index of what was said cannot be used: {error}"
            raise Refused("storage_full", text, f"see to the disk of {os.path.dirname(self.path)}") from error

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


def _put_memory(conn: Connection, agent: str, memory: Memory) -> _Known:
    texts = [(one.entry, remembered(one.entry).text) for one in memory.kept]
    rows = [KeptText(entry.key, entry.tier, sha256(text.encode()).digest(), text) for entry, text in texts]
    turn_index.put_kept(conn, agent, rows)
    return _Known(memory, {entry.key: place for place, (entry, _) in enumerate(texts)})


def _beside(place: TurnPlace | None, texts: Mapping[TurnPlace, HistoryTurn]) -> HistoryTurn | None:
    found = None if place is None else texts.get(place)
    return None if found is None else _cut(found, BESIDE_CHARACTERS)


def _cut(turn: HistoryTurn, limit: int, asked: Iterable[str] = ()) -> HistoryTurn:
    """``turn`` in at most about ``limit`` characters: each of its texts has its share, so that no call loses its
    result."""
    words = frozenset(asked)
    share = max(limit // (1 + 2 * len(turn.calls)), 120)
    calls = tuple(
        HistoryCall(
            tool=one.tool,
            input=excerpt(one.input, words, share),
            output=None if one.output is None else excerpt(one.output, words, share),
        )
        for one in turn.calls
    )
    return HistoryTurn(
        id=turn.id,
        at=turn.at,
        space=turn.space,
        sender=turn.sender,
        to=turn.to,
        text=excerpt(turn.text, words, limit if not calls else share),
        calls=calls,
    )
