"""Calls that wait for the guard's model: before a memory is written, and for a summary of what a colleague may know.

Neither holds a commit meanwhile, and without an answer each goes on as if there were no model.
"""

from kernel.agents.memory_search import QUERY_CHARACTERS
from kernel.operations.context import MemoryAccess, StoreAccess
from kernel.operations.operation import Actor
from kernel.policy.curation import (
    NEAR,
    Given,
    Summary,
    Verdict,
    ask_question,
    may_judge,
    summable,
    summed_up,
    verdict,
    write_question,
)
from kernel.store import audit
from kernel.store.transitions.guarding import Question
from protocol.agent_memory import Entry
from protocol.errors import Refused
from protocol.memory_files import Memory
from protocol.names import place_of


async def judged(
    actor: Actor, entry: Entry, call: str, known: Memory, store: StoreAccess, memory: MemoryAccess
) -> Verdict | None:
    """The change that the guard's model makes of ``entry``, which is in the audit then. None: it is written as asked.

    It is shown what of ``known`` the agent itself may see here, and trusts no less. The same ``call`` has one answer.
    """
    identity = actor.agent
    settings = memory.guard.settings(identity.space)
    if settings.model is None or not settings.llm_curation:
        return None
    here, text = place_of(identity.space), f"{entry.key} {entry.value[:QUERY_CHARACTERS]}"

    def shown(one: Entry) -> bool:
        return one.space_only in (None, here) and may_judge(one, entry)

    try:
        found = await memory.history.find(identity.agent, known, text, NEAR, counts=shown)
        near = [known.kept[one.place].entry for one in found.ranked]
    except Refused:
        near = []  # the index is of no use just now
    question = Question(purpose="write", text=write_question(entry, near), call=f"{identity.instruction}/{call}")
    job = await memory.guard.ask(identity, settings, question)
    change = None if job is None else verdict(job.text, entry)
    if job is not None and change is not None:
        await store.writer.commit(audit.record_verdict, job.id, change, entry, author=actor.attempt)
    return change


async def summary_of(actor: Actor, query: str, given: tuple[Given, ...], memory: MemoryAccess) -> Summary | None:
    """The words of the guard's model for the first of ``given``, as many as it can be shown. None: there are none."""
    settings = memory.guard.settings(actor.agent.space)
    shown = given[: summable(given)]
    if settings.model is None or not shown:
        return None
    question = Question(purpose="ask", text=ask_question(query, shown))
    job = await memory.guard.ask(actor.agent, settings, question)
    return summed_up(None if job is None else job.text, shown)
