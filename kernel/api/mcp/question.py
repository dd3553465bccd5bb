"""A question to a colleague: asked here, and answered in the asker's conversation once the colleague has ended."""

from typing import Annotated

import msgspec

from kernel.api.context import Services
from kernel.api.mcp.tool import Ask, Caller
from kernel.rule.draft import Draft
from kernel.store.commits.append import append


class Question(Ask, frozen=True, kw_only=True):
    """Arguments of ask_agent."""

    agent: Annotated[str, msgspec.Meta(min_length=1, max_length=64, description="Whom: a name of team_members.")]
    query: Annotated[str, msgspec.Meta(min_length=1, description="All they need to know. It wakes nobody else.")]


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """Who was asked, and the instruction it became. The answer is not in here."""

    agent: str
    instruction_id: str
    message_id: str
    note: str


async def ask(services: Services, caller: Caller, asked: Question) -> Asked:
    """Give a colleague the question as work of their own. A repeated call of the same key asks nobody again."""
    identity = caller.identity
    name = asked.agent.removeprefix("@").lower()
    draft = Draft(
        kind="said",
        space=identity.space,
        sender=identity.name,
        text=asked.query,
        to=(name,),
        mentions=(),
        author=caller.author,
        asks=True,
    )
    appended = await services.writer.commit(append, draft, call_key=caller.call_key)
    (instruction,) = appended.instruction_ids
    note = f"{name} is asked; the answer, or why there is none, follows as the next message to you"
    return Asked(agent=name, instruction_id=instruction, message_id=appended.message_id, note=note)
