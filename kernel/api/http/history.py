"""An agent's history and memory as people search and read them; and the index of it made anew."""

import trio

from kernel.api.http.route import Request
from kernel.api.recalled import QUERY_CHARACTERS, SEARCHED_TIERS, recalled, time_of
from kernel.operations.context import MemoryAccess, ProjectFiles, StoreAccess
from kernel.operations.places import agent_key, known_space
from kernel.store import agents
from kernel.store.turn_index import END, TurnFilter
from protocol.agent_files import MemoryReport
from protocol.agent_memory import TIERS
from protocol.api.history import HistoryFound, HistoryPage, Reindexed
from protocol.errors import Refused
from protocol.memory_eval import VectorTrial, VectorTrialRequest
from protocol.names import AgentKey


async def thread(call: Request[None], store: StoreAccess, files: ProjectFiles, memory: MemoryAccess) -> HistoryPage:
    """GET /agents/:name/thread?space=&since=&until=&limit=&before=: its turns, the newest; oldest of a page first."""
    key = _known(call.args["name"], store, files)
    space = None if "space" not in call.query else known_space(store, files, call.query["space"])
    since, until = time_of(call.query.get("since"), 0), time_of(call.query.get("until"), END)
    before = call.number("before", 0) if "before" in call.query else None
    limit = call.number("limit", 20)
    return await memory.history.read(TurnFilter(key, since, until, space), limit, before)


async def search_thread(
    call: Request[None], store: StoreAccess, files: ProjectFiles, memory: MemoryAccess
) -> HistoryFound:
    """GET /agents/:name/thread/search?query=&since=&until=&limit=&offset=&vectors=: those that answer it best."""
    return await memory.history.search(
        _known(call.args["name"], store, files),
        _query(call),
        limit=call.number("limit", 20),
        offset=call.number("offset", 0),
        since_ms=time_of(call.query.get("since"), 0),
        until_ms=time_of(call.query.get("until"), END),
        vectors=call.flag("vectors", default=None),
    )


async def keep_trial(
    call: Request[VectorTrialRequest], store: StoreAccess, files: ProjectFiles, memory: MemoryAccess
) -> VectorTrial:
    """POST /agents/:name/thread/trial {questions, words, vectors}: what vectors were measured to be worth for it."""
    key = _known(call.args["name"], store, files)
    return await trio.to_thread.run_sync(memory.vectors.trial, key, call.body)


async def search_memory(
    call: Request[None], store: StoreAccess, files: ProjectFiles, memory: MemoryAccess
) -> MemoryReport:
    """GET /agents/:name/memory/search?query=&limit=&archive=1: what it keeps that answers it best."""
    key = _known(call.args["name"], store, files)
    place = files.contexts.place(key, store.reader.now(agents.row, key))
    limit = call.number("limit", 10)
    tiers = TIERS if call.flag("archive") else SEARCHED_TIERS
    return await recalled(memory, files.contexts, place, _query(call), limit, tiers)


async def reindex(_call: Request[None], memory: MemoryAccess) -> Reindexed:
    """POST /reindex: the index of all agents, made anew."""
    return await memory.history.reindex(None)


async def reindex_agent(
    call: Request[None], store: StoreAccess, files: ProjectFiles, memory: MemoryAccess
) -> Reindexed:
    """POST /agents/:name/reindex: what the index has of it, made anew."""
    return await memory.history.reindex(_known(call.args["name"], store, files))


def _query(call: Request[None]) -> str:
    text = call.query.get("query", "")
    if not text.strip() or len(text) > QUERY_CHARACTERS:
        raise Refused("bad_request", f"query must be 1 to {QUERY_CHARACTERS} characters", "?query=what+was+said")
    return text


def _known(name: str, store: StoreAccess, files: ProjectFiles) -> AgentKey:
    """The key of an agent that there is, or was. Raises Refused (unknown_agent)."""
    key = agent_key(store, name)
    if store.reader.now(agents.row, key) is None:
        files.catalog.agent(name)
    return key
