"""``awk events``, ``logs`` and ``attach``: all events, the log lines for operators, or the live output of agents.

``attach`` also asks about calls that wait for approval, if it has a terminal. Ctrl-C ends ``attach`` but no work.
``logs --previous`` shows the last finished attempt of an agent, or the log lines of the previous kernel process.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any, Final

from interface.cli import event_view
from interface.cli.commands.channel import message_lines
from interface.cli.context import Context
from interface.cli.exits import Exit
from interface.cli.output import one_line
from interface.cli.parsing import TARGET, Arguments, argument, jsonl_flag, switch, target_argument
from interface.cli.prompts import can_ask, decide_in_place
from interface.cli.requests import PENDING, count_flag, fetch_list
from interface.cli.targets import matches, target
from interface.cli.transcript_view import StepReader, entry_lines, who_of
from interface.client import ServerEvent, quoted
from interface.event_follow import CONNECTED, Follower
from interface.failure import Failure, Unreachable
from protocol.names import name_of
from protocol.target import Target


def run_events(context: Context) -> int:
    event_view.show(context, None, lambda event: True)
    return Exit.OK


SHOWN: Final = (
    "worker.",
    "attempt.",
    "instruction.",
    "approval.",
    "agent.",
    "workflow.",
    "worktree.",
    "definition.",
    "kernel.",
    "lagged",
    "gap",
)
"""Prefixes of the event types that ``logs`` shows."""
LEVELS: Final = ("debug", "info", "warning", "error")
"""Levels of protocol.ipc.Log, the most severe last."""
ARGUMENTS: Final[Mapping[str, Arguments]] = {
    "events": (event_view.configure,),
    "logs": (
        argument("targets", metavar="TARGET", nargs="*", help=f"{TARGET} (default: all)"),
        switch("--previous", about="only the previous attempt; without TARGET, the previous kernel process"),
        argument("--level", choices=LEVELS, help="minimum level of log lines"),
        partial(count_flag, default=None, what="number of latest lines"),
        event_view.configure,
    ),
    "attach": (target_argument, jsonl_flag),
}


def run_logs(context: Context) -> int:
    asked = [target(text) for text in context.args.targets]
    spaces = {None if one.workflow is None else one.space for one in asked}
    space = spaces.pop() if len(spaces) == 1 else None
    level = LEVELS.index(context.args.level or LEVELS[0])

    def wanted(event: event_view.Event) -> bool:
        logged = str(event["type"]).startswith(SHOWN) and is_of(event, *asked)
        return logged and LEVELS.index(event_view.level_of(event)) >= level

    if not context.args.previous:
        shown = event_view.show(context, space, wanted)
    else:
        if context.args.follow:
            raise Failure("usage", "-f cannot follow a finished process", "leave out -f or --previous")
        if len(asked) > 1:
            raise Failure("usage", "--previous requires one TARGET or none", "run the command for each TARGET")
        part = previous_attempt if asked else previous_kernel
        shown = event_view.show_part(context, space, wanted, part)
    for one in asked if len(asked) > 1 or not shown else ():
        check_known(context, one)
    return Exit.OK


def check_known(context: Context, asked: Target) -> None:
    """Raise Failure if the target does not exist. An existing target may have no entries."""
    if asked.workflow is not None:
        context.kernel().get(f"/spaces/{quoted(asked.space)}/members")
    else:
        context.kernel().get(f"/agents/{quoted(str(asked.agent))}")


def is_of(event: event_view.Event, *asked: Target) -> bool:
    """Return whether ``event`` concerns one of the targets, if any."""
    return matches(asked, name_of(str(event.get("agent") or "")), event.get("space"))


def previous_attempt(events: Sequence[event_view.Event]) -> tuple[int, ...]:
    """Return the positions in ``events`` of the log lines of the latest finished attempt, if any."""
    ended = next((event for event in reversed(events) if event["type"] == "attempt.ended"), None)
    if ended is None:
        return ()
    wanted = attempt_of(ended)
    own = [place for place, event in enumerate(events) if event.get("instruction") == ended.get("instruction")]
    named = [(place, attempt_of(events[place])) for place in own if attempt_of(events[place])]
    first = next(place for place, attempt in named if attempt == wanted)
    after = next((place for place, attempt in named if place > first and attempt != wanted), len(events))
    return tuple(place for place in own if first <= place < after)


def previous_kernel(events: Sequence[event_view.Event]) -> tuple[int, ...]:
    """Return the positions in ``events`` of the log lines of the previous kernel process; empty if there was none."""
    starts = [0, *(place for place, event in enumerate(events) if event["type"] == "kernel.started")]
    return tuple(range(starts[-2], starts[-1])) if len(starts) > 1 else ()


def attempt_of(event: event_view.Event) -> str:
    return str((event.get("data") or {}).get("attempt") or "")


_TOOL: Final = "tool "
"""Prefix of a worker's progress text while it runs a tool."""
_TOLD: Final = ("approval.", "attempt.ended", "instruction.ended", "instruction.leased", "workflow.", "lagged", "gap")
"""Prefixes of the event types that ``attach`` shows as log lines."""
_KEPT_CHARACTERS: Final = 1_000_000
"""Maximum length of a streamed reply. A longer one is printed again when it is complete."""


def run_attach(context: Context) -> int:
    asked = target(context.args.target)
    check_known(context, asked)
    query = {} if asked.workflow is None else {"space": str(asked.space)}
    follower = Follower(connect=context.find_kernel, query=query, clock=context.clock, say=context.out.note)
    watch = Watch(context, asked)
    try:
        for received in follower:
            if received == CONNECTED:
                name = one_line(context.args.target)
                context.out.note(f"attached to {name}; Ctrl-C detaches without stopping the work")
                watch.ask_about_waiting()
            elif received.data:
                event = json.loads(received.data)
                if is_of(event, asked):
                    watch.show(received, event)
    finally:
        watch.end_line()
    return Exit.OK


class Watch:
    """Printer for followed agents: text as it streams, calls and results."""

    def __init__(self, context: Context, asked: Target) -> None:
        self._context = context
        self._asked = asked
        self._steps = StepReader(context)
        self._questions: set[str] = set()
        """Approvals already shown to the user, who can decide them later by id."""
        self._written: dict[str, str] = {}
        """Printed text of each unfinished reply, by instruction."""
        self._writing: str | None = None
        """Instruction whose text is in the last, unfinished line; None if that line is complete."""

    def show(self, received: ServerEvent, event: dict[str, Any]) -> None:
        """Print an event of a followed agent; events without visible content are omitted."""
        out = self._context.out
        entry = self._steps.entry(event)
        if self._context.args.jsonl:
            if entry is not None:
                event["data"]["entry"] = entry
            out.document(json.dumps(event, ensure_ascii=False))
            return
        who, kind, data = who_of(event), str(event["type"]), event.get("data") or {}
        if kind == "delta":
            self._write(str(event.get("instruction")), who, str(data.get("text", "")), lagged="lagged" in data)
        elif kind == "progress" and str(data.get("what", "")).startswith(_TOOL):
            self._lines([out.screen.style(f"{who}runs {one_line(str(data['what']).removeprefix(_TOOL))}", "dim")])
        elif entry is not None:
            written = self._written.pop(str(event["instruction"]), None) if entry["kind"] == "reply" else None
            self._lines(entry_lines(entry, out.screen, who=who, said=written is None or written != entry["text"]))
        elif kind == "message":
            message = event_view.message_of(event_view.event_of(received.data))
            self._lines([] if message is None else message_lines(message, out.screen))
        elif kind.startswith(_TOLD):
            self._written.pop(str(event.get("instruction")), None)
            told = event_view.event_of(received.data)
            self._lines([event_view.event_line(told, out.screen)])
            wanted = event_view.asked_line(told, self._context.program, can_approve=True)
            if told.type == "approval.requested" and can_ask(self._context):
                self._ask(str(told.data["id"]))
            elif wanted is not None:
                out.note(wanted)

    def ask_about_waiting(self) -> None:
        """Ask about approvals that are already pending, if the user can answer."""
        if self._context.args.jsonl or not can_ask(self._context):
            return
        try:
            with closing(self._context.find_kernel()) as client:
                waiting = fetch_list(client, "/approvals", PENDING, 0, {})["approvals"]
        except (Failure, Unreachable) as error:
            self._context.out.note(one_line(f"note: pending approvals are not available: {error}"))
            return
        for row in waiting:
            if is_of(row, self._asked) and (self._asked.workflow is None or row["space"] == str(self._asked.space)):
                self._ask(str(row["id"]))

    def _ask(self, approval: str) -> None:
        if approval not in self._questions:
            self._questions.add(approval)
            self.end_line()
            decide_in_place(self._context, approval)

    def end_line(self) -> None:
        """End a partially written line."""
        if self._writing is not None:
            self._writing = None
            self._context.out.text("\n")

    def _lines(self, lines: list[str]) -> None:
        if lines:
            self.end_line()
            self._context.out.lines(lines)

    def _write(self, instruction: str, who: str, text: str, *, lagged: bool) -> None:
        seen = self._written.get(instruction, "")
        self._written[instruction] = "\0" if lagged or len(seen) > _KEPT_CHARACTERS else seen + text
        if self._writing != instruction:
            self.end_line()
            self._context.out.lines([f"{who}writes:"])
            self._context.out.text("    ")
            self._writing = instruction
        self._context.out.text(text.replace("\n", "\n    "))
