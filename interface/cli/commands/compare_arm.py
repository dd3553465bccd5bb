"""One run of a comparison and the check of its result, in a copy of the project with a separate kernel."""

import argparse
import json
import shutil
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from interface.cli.commands.start import stop_kernel
from interface.cli.context import Context, Streams
from interface.cli.exits import Exit, Interrupted
from interface.cli.run_stream import Run
from interface.client import Client, ServerEvent, new_key
from interface.event_follow import Expired
from interface.failure import Failure, Unreachable
from osfiles.atomic_write import replacing
from protocol.comparison import ComparedRun, ComparedTerms, Coordination, Figures, Rework
from protocol.instruction import TOKEN_KINDS

CANCEL_SECONDS: Final = 30.0
"""Time for a cancelled run to end."""
_OPEN: Final = frozenset({"requested", "merging", "checked"})
COULD_NOT_WORK: Final = frozenset({Exit.CREDENTIALS, Exit.UNTRUSTED, Exit.NO_KERNEL, Exit.BAD_CONFIGURATION})
"""Exit codes of runs that could not work at all. They do not count for or against their arm."""
Keep = Callable[[ComparedRun], None]


class ArmRun:
    """Run of one arm in the project copy ``project``. ``keep`` stores the progress, so that the run can be resumed."""

    def __init__(self, context: Context, terms: ComparedTerms, run: ComparedRun, project: str, keep: Keep) -> None:
        args = argparse.Namespace(**{**vars(context.args), "project": project, "json": False})
        streams = Streams(
            context.program, context.stdin, context.out, context.environ, context.clock, context.system_awk
        )
        self._context = Context(streams, args, terms.request.params, context.cwd)
        self._terms = terms
        self._run = run
        self._keep = keep
        self._trusts = context.trusts
        self._name = f"{terms.solo.name}:{terms.request.tag}"
        self._running = Run(self._context, key=run.key, name=None if run.id is None else self._name, id_=run.id)

    def play(self, archive: str) -> ComparedRun:
        """Start or resume the run, check its result, and write all to ``archive``. Returns the finished run.

        Raises Interrupted if the run was cancelled. It then does not count, but its cost is recorded.
        """
        try:
            known = self._run.id is not None
            request = msgspec.structs.replace(self._terms.request, trust=self._trusts)
            if self._run.arm == "solo":
                request = msgspec.structs.replace(request, exit_code_from=None)
            asked = {key: value for key, value in msgspec.to_builtins(request).items() if value is not None}
            self._follow(self._running.resume(None) if known else self._running.begin(asked))
            self._judge(archive)
        except Interrupted as interrupted:
            self._cancel(interrupted.exit_code)
            raise
        finally:
            self._context.close()
        return self._run

    def remove(self) -> None:
        """Delete the project copy and the state of its kernel, which has stopped."""
        shutil.rmtree(self._context.project.state, ignore_errors=True)

    def stop(self) -> None:
        """Stop the kernel if it runs."""
        try:
            stop_kernel(self._context, self._context.find_kernel(), 0.0)
        except Unreachable:
            pass
        finally:
            self._context.close()

    def _follow(self, events: Iterable[ServerEvent]) -> None:
        for event in events:
            if event.type == "accepted":
                self._note(id=self._running.id)
            elif event.type == "result":
                report = json.loads(event.data)
                usage, seconds = report["usage"], float(report["duration_seconds"])
                took = Figures(tokens=tokens_of(usage), cost_usd=usage["cost_usd"], seconds=seconds)
                self._note(status=report["status"], exit_code=int(report["exit_code"]), figures=took)
                return
        raise Unreachable("the report of the run is missing")

    def _judge(self, archive: str) -> None:
        terms, run = self._terms, self._run
        if run.exit_code in COULD_NOT_WORK:
            return
        client = self._context.started_kernel()
        names = terms.solo.members if run.arm == "team" else (terms.solo.agent,)
        with replacing(archive, 0o666, beside=f"{archive}.new", sync=False) as file:
            file.writelines(client.pieces(f"/runs/{run.id}/export", {"format": "jsonl"}))
        with open(archive, encoding="utf-8") as lines:
            shown = figures_of(run.figures, lines, frozenset(names))
        why = self._merged(client) if terms.solo.trees and terms.check is not None else ""
        success: bool | None = None
        if terms.check is not None and not why:
            told = json.loads(
                client.post(f"/runs/{run.id}/check", {"check": terms.check}, key=new_key(), wait_seconds=None)
            )
            why = str(told["why"])
        if terms.check is not None:
            success = not why
        self._note(state="done", archive=archive, success=success, why=why, figures=shown)

    def _merged(self, client: Client) -> str:
        """Merge the agents' working trees, so that the check sees all changes. Returns why this failed, or ""."""
        path = f"/runs/{self._run.id}/merge"
        answer = json.loads(client.post(path, {"check": ""}, key=new_key()))
        while answer["state"] in _OPEN:
            answer = json.loads(client.get(path, {"id": str(answer["id"]), "wait": "true"}, wait_seconds=None))
        return str(answer["why"] or "it cannot be merged") if answer["state"] == "refused" else ""

    def _cancel(self, exit_code: Exit) -> None:
        note = self._context.out.note
        note("note: stopping the run; press Ctrl-C again to leave it")
        if self._running.cancel(self._name, exit_code):
            try:
                self._follow(self._running.resume(self._context.clock.now() + CANCEL_SECONDS))
            except Expired:
                note(f"note: it has not ended after {CANCEL_SECONDS:.0f} s")
            except (Failure, Unreachable) as error:
                note(f"note: no report of it: {error}")
        self._note(state="dropped", why="interrupted")

    def _note(self, **changes: Any) -> None:
        self._run = msgspec.structs.replace(self._run, **changes)
        self._keep(self._run)


_FOR_COLLEAGUES: Final = frozenset(
    {
        "channel_send", "channel_read", "my_inbox", "my_inbox_ack", "team_members", "ask_agent", "memory_ask",
        "my_status_set", "handover_write", "share_with", "rule_define", "rule_invoke", "rule_list",
        "team_vote", "space_create", "space_members", "auth_grant", "tree_take",
    }
)  # fmt: skip
"""Tools for coordination, which an agent without colleagues does not have."""
_PREFIXES: Final = ("team_proposal_", "team_task_")


def figures_of(took: Figures, lines: Iterable[str | bytes], members: frozenset[str]) -> Figures:
    """Return ``took`` (usage) with figures counted in the lines of an archive; ``members`` are the run's agents."""
    hops = said = to_others = retries = rejected = returned = tokens = of_others = 0
    for line in lines:
        told = json.loads(line)
        row: dict[str, Any] = told.get("row") or {}
        match told["part"]:
            case "channel":
                hops = max(hops, row["hops"])
                if row["from"] in members:
                    said += 1
                    to_others += any(name in members and name != row["from"] for name in row["to"])
            case "instructions":
                retries += max(0, len(row["attempts"]) - 1)
            case "votes":
                rejected += row["type"] == "approval" and row["winner"] == "no"
            case "run":
                returned += len((row.get("delivery") or {}).get("returned_to", ()))
            case "transcript":
                entry = row["entry"]
                used = tokens_of(entry.get("usage") or {})
                tokens += used
                calls = [call["tool"] for call in entry["calls"]]
                of_others += used * any(map(is_for_colleagues, calls))
            case _:
                pass
    return msgspec.structs.replace(
        took,
        hops=hops,
        messages=said,
        coordination=Coordination(messages=_ratio(to_others, said), tokens=_ratio(of_others, tokens)),
        rework=Rework(retries=retries, returned=returned, rejected=rejected),
    )


def is_for_colleagues(tool: str) -> bool:
    """Return whether only an agent with colleagues has ``tool``."""
    return tool in _FOR_COLLEAGUES or tool.startswith(_PREFIXES)


def tokens_of(usage: dict[str, Any]) -> int:
    return sum(int(usage.get(kind) or 0) for kind in TOKEN_KINDS)


def _ratio(some: int, of: int) -> float:
    return round(some / of, 4) if of else 0.0
