"""What gets in an agent's way, said to the people who run it."""

from typing import Annotated, Final

import msgspec

from kernel.api.context import Services
from kernel.api.mcp.tool import Ask, Caller
from kernel.store.commits.feedback import say_of_work

LIMIT: Final = 20_000
"""Characters."""


class Feedback(Ask, frozen=True, kw_only=True):
    """Arguments of feedback_submit."""

    text: Annotated[str, msgspec.Meta(min_length=1, max_length=LIMIT, description="What was in your way, and when.")]


class Noted(msgspec.Struct, frozen=True, kw_only=True):
    """It is kept."""

    id: str


async def submit(services: Services, caller: Caller, asked: Feedback) -> Noted:
    """Keep it. A repeated call of the same key adds nothing."""
    row = await services.writer.commit(say_of_work, asked.text, caller.author, call_key=caller.call_key)
    return Noted(id=row.id)
