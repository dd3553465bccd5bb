"""Schedules that do not run because nobody agreed to them: what to say of them where people look."""

from typing import Final

from kernel.api.context import Services
from kernel.store import timers
from kernel.workflows.schedules import schedules

_NAMED: Final = 5


async def untrusted_notice(services: Services) -> str | None:
    """Which schedules wait for consent, and how to give it; None where none does."""
    if services.trusted:
        return None
    declared = await services.reader.read(timers.declared)
    consents = tuple(services.kept())
    waiting = [one for one in schedules(declared.agents, declared.workflows) if not one.trusted(consents)]
    if not waiting:
        return None
    files = tuple(dict.fromkeys(one.file for one in waiting))
    named = " ".join(files[:_NAMED]) if len(files) <= _NAMED else ""
    many, they = (f"{len(waiting)} schedules do", "them") if len(waiting) > 1 else ("1 schedule does", "it")
    return f"{many} not run until you trust {they} (look at {they} and keep {they}: {f'awk trust {named}'.rstrip()})"
