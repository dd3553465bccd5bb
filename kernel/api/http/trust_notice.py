"""Notice of schedules that do not run because nobody trusts them, for the reports that people look at."""

from typing import Final

from kernel.api.context import ProjectTrust, StoreAccess
from kernel.store import timers
from kernel.workflows.schedules import schedules

_NAMED: Final = 5
UNREAD: Final = "there are so many agents' files that they are still being read; who gets a message is read at once"


async def untrusted_notice(store: StoreAccess, trust: ProjectTrust) -> str | None:
    """The schedules that wait for trust, and the command that grants it; None where none waits."""
    if trust.everything:
        return None
    declared = await store.reader.read(timers.declared)
    consents = tuple(trust.kept())
    waiting = [one for one in schedules(declared.agents, declared.workflows) if not one.trusted(consents)]
    if not waiting:
        return None
    files = tuple(dict.fromkeys(one.file for one in waiting))
    named = " ".join(files[:_NAMED]) if len(files) <= _NAMED else ""
    many, they = (f"{len(waiting)} schedules do", "them") if len(waiting) > 1 else ("1 schedule does", "it")
    return f"{many} not run until you trust {they} (look at {they} and keep {they}: {f'awk trust {named}'.rstrip()})"
