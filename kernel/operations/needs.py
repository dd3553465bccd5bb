"""Needs: the list of work that is blocked until a person acts, and its length for ``ps`` and ``status``."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

import apsw
import msgspec

from kernel.agents.sections import host_of, outgoing_unit, signing_key
from kernel.agents.trust import ProjectTrust
from kernel.operations.context import ProcessControl, ProjectFiles, StoreAccess
from kernel.operations.operation import Forward, ToolFront, operation, page_of
from kernel.policy.needs import count, needs
from kernel.policy.open_items import SilentStep, Snapshot, UntrustedSchedules, target_of
from kernel.source.safe_paths import root_fault
from kernel.store import timers
from kernel.store.needs import dead, snapshot
from kernel.store.rows import LONGEST, RowPage
from kernel.store.transaction import rfc3339
from kernel.workflows.schedules import Scheduled, schedules
from protocol.api.approvals import NeedList
from protocol.names import place_of

NAMED_FILES: Final = 5


async def list_needs(asked: Forward, store: StoreAccess, files: ProjectFiles, processes: ProcessControl) -> NeedList:
    """List work that is blocked until a person acts, with commands that settle each need.

    Dead-lettered instructions come last because they can be many; ``next`` is the number of items returned so far.
    """
    untrusted = _by_file(await untrusted_schedules(store, files.trust))
    hosts, unsigned = _webhooks(files)
    lost = root_fault(str(files.catalog.root)) or ""
    page, now_ms = page_of(asked, "n"), store.now_ms()
    silent = silent_steps(processes, now_ms)

    def read(conn: apsw.Connection) -> NeedList:
        state = msgspec.structs.replace(snapshot(conn, now_ms, untrusted, hosts, unsigned), lost=lost, silent=silent)
        skipped = page.after or 0
        pressing = needs(state)
        shown = pressing[skipped : skipped + page.limit]
        rest = RowPage(page.limit - len(shown), max(skipped - len(pressing), 0))
        shown = (*shown, *needs(Snapshot(dead=dead(conn, rest))))
        total, given = count(state), skipped + len(shown)
        return NeedList(items=shown, total=total, next=f"n{given}" if shown and given < total else None)

    return await store.reader.read(read)


async def number(
    store: StoreAccess, files: ProjectFiles, processes: ProcessControl, waiting: Sequence[Scheduled]
) -> int:
    """Return the number of needs. ``waiting`` are the untrusted schedules."""
    lost = root_fault(str(files.catalog.root)) is not None
    hosts, unsigned = _webhooks(files)
    now_ms = store.now_ms()
    silent = len(silent_steps(processes, now_ms))
    return count(await store.reader.read(snapshot, now_ms, _by_file(waiting), hosts, unsigned)) + lost + silent


def _webhooks(files: ProjectFiles) -> tuple[dict[str, str], dict[str, str]]:
    """Return the hosts of the webhooks and the faults of their secrets, by digest."""
    hooks = {outgoing_unit(hook).digest: hook for hook in files.catalog.kept_project().webhooks}
    keys = {digest: signing_key(hook.secret, files.environ) for digest, hook in hooks.items()}
    unsigned = {digest: key for digest, key in keys.items() if isinstance(key, str)}
    return {digest: host_of(hook.url) for digest, hook in hooks.items()}, unsigned


def silent_steps(processes: ProcessControl, now_ms: int) -> tuple[SilentStep, ...]:
    """Return the running steps without output for longer than ``timeouts.quiet``."""
    return tuple(
        SilentStep(
            id=leased.instruction,
            name=leased.name,
            space=place_of(leased.space),
            run=leased.run,
            since=rfc3339((now_ms // 1000 - round(elapsed.silent_s)) * 1000),
            doing=live.doing,
            target=target_of(leased.name, None if leased.space.startswith("dm:") else place_of(leased.space)),
        )
        for live in processes.attempts.activity().values()
        if (elapsed := live.elapsed) is not None and elapsed.is_quiet and (leased := live.leased) is not None
    )


def _by_file(waiting: Sequence[Scheduled]) -> tuple[UntrustedSchedules, ...]:
    counts = Counter(one.file for one in waiting)
    return tuple(UntrustedSchedules(file=file, count=number) for file, number in counts.items())


async def untrusted_schedules(store: StoreAccess, trust: ProjectTrust) -> list[Scheduled]:
    """Return the schedules that are inactive because they are not trusted."""
    if trust.everything:
        return []
    declared = await store.reader.read(timers.declared)
    consents = tuple(trust.kept())
    return [one for one in schedules(declared.agents, declared.workflows) if not one.trusted(consents)]


def untrusted_notice(waiting: Sequence[Scheduled]) -> str | None:
    """Return a notice about untrusted schedules with the command to trust them, or None."""
    if not waiting:
        return None
    files = tuple(dict.fromkeys(one.file for one in waiting))
    named = " ".join(files[:NAMED_FILES]) if len(files) <= NAMED_FILES else ""
    many, they = (f"{len(waiting)} schedules do", "them") if len(waiting) > 1 else ("1 schedule does", "it")
    return f"{many} not run until you trust {they} (look at {they} and keep {they}: {f'awk trust {named}'.rstrip()})"


OPERATIONS = (operation(list_needs, "GET /needs", manage=ToolFront("needs_list", limits=(100, LONGEST))),)
