"""``awk show``: print a run (as report, timeline, graph or web page), or an instruction with its prompt and steps."""

import argparse
import json
from functools import partial
from typing import Any, Final

from interface.cli.commands.channel import message_lines
from interface.cli.context import Context
from interface.cli.output import Screen, decode, escape, one_line, table
from interface.cli.parsing import archive_flag, flag, json_flag
from interface.cli.requests import ENTRIES, EXCHANGES, count_flag, show_list
from interface.cli.targets import RUN
from interface.cli.timeline_view import GRAPHS, graph_lines, timeline_lines
from interface.cli.transcript_view import entry_lines, unanswered_lines, usage_text
from interface.client import quoted
from interface.failure import Failure
from protocol.api.instructions import InstructionInfo, PromptReport
from protocol.api.runs import RunReport
from protocol.api.timeline import Timeline
from protocol.instruction import Usage
from protocol.names import number_of

NEWEST: Final = 20
"""Maximum number of displayed failed calls, and of displayed approval requests; ``--json`` lists all."""
_OF_RUN: Final = {"timeline": "/timeline", "graph": "/graph", "html": "/timeline"}
"""Path of the document of a run, by view."""
_OF_INSTRUCTION: Final = ("prompt", "steps", "wire")
_STATUS_STYLES: Final = {"done": "green", "running": "cyan"}


def configure_show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", metavar="RUN|INSTRUCTION", nargs="+", help="runs (r12, review:main), instructions (i7)")
    flag(parser, "--prompt", about="for an instruction: print the prompt of the model")
    flag(parser, "--steps", about="for an instruction: print each model and tool call")
    flag(parser, "--wire", about="for an instruction: print recorded model requests and responses")
    flag(parser, "--full", about="with --steps: print arguments and results in full")
    count_flag(parser, what="with --steps or --wire: number of first rows")
    flag(parser, "--timeline", about="for a run: draw the work of each agent over time")
    parser.add_argument("--graph", choices=tuple(GRAPHS), help="for a run: print the graph of its messages")
    parser.add_argument("--html", metavar="FILE", help="for a run: write a web page with its timeline to FILE")
    flag(parser, "--force", about="with --html: replace an existing file")
    archive_flag(parser)
    json_flag(parser)


def run_show(context: Context) -> int:
    """Print each object; with ``--json``, one document per line."""
    if context.args.html and len(context.args.ids) > 1:
        raise Failure("usage", "--html requires exactly one run")
    for place, name in enumerate(context.args.ids):
        if place and not context.args.json:
            context.out.lines([""])
        show_object(context, name)
    return 0


def show_object(context: Context, name: str) -> int:
    """Print the run or instruction ``name``, or the requested view of it."""
    args = context.args
    views = [view for view in (*_OF_RUN, *_OF_INSTRUCTION) if getattr(args, view)]
    is_instruction = number_of(name, "i") is not None
    if len(views) > 1:
        raise Failure("usage", f"--{views[0]} cannot be combined with --{views[1]}")
    for flag_name, needed in (("force", "html"), ("full", "steps")):
        if getattr(args, flag_name) and not getattr(args, needed):
            raise Failure("usage", f"--{flag_name} requires --{needed}")
    if views and is_instruction == (views[0] in _OF_RUN):
        needs = "a run (r12, or review:main)" if is_instruction else "an instruction (i7)"
        raise Failure("usage", f"--{views[0]} requires {needs}, not {name!r}")
    if args.prompt:
        return context.answer(context.kernel().get(f"/instructions/{name}/prompt"), prompt_lines)
    if args.steps:
        return show_list(context, f"/instructions/{name}/entries", ENTRIES, partial(step_lines, full=args.full))
    if args.wire:
        return show_list(context, f"/instructions/{name}/wire", EXCHANGES, wire_lines)
    if is_instruction:
        return context.answer(context.kernel().get(f"/instructions/{name}"), instruction_lines)
    return _show_run(context, name, *views)


def _show_run(context: Context, name: str, view: str = "") -> int:
    run_name = name.removeprefix("@")
    run_name = run_name if ":" in run_name or RUN.fullmatch(name) else f"{run_name}:main"
    try:
        document = context.kernel().get(f"/runs/{quoted(run_name)}{_OF_RUN.get(view, '')}")
    except Failure as failure:
        if failure.code != "not_found" or not failure.http_status:
            raise
        text = f"no run, instruction or workflow named {name[:100]!r}"
        raise Failure("not_found", text, "list runs: awk runs", http_status=failure.http_status) from failure
    if view == "html":
        from interface.cli.run_page import write_run_page  # noqa: PLC0415  (other views do without)

        found = decode(document, Timeline)
        return context.answer(write_run_page(context, found, report_lines(found.report, Screen())), page_lines)
    if view == "graph":
        return context.answer(document, graph_lines, GRAPHS[context.args.graph])
    return context.answer(document, timeline_lines if view else run_lines)


def page_lines(written: dict[str, Any], _screen: Screen) -> list[str]:
    return [f"{one_line(written['file'])}: {written['bytes']:,} bytes"]


def run_lines(report: RunReport, screen: Screen) -> list[str]:
    said = [line for message in report.messages for line in message_lines(message, screen)]
    return [*said, *report_lines(report, screen)]


def report_lines(report: RunReport, screen: Screen, *, left: bool = False) -> list[str]:
    status = screen.style(report.status, _STATUS_STYLES.get(report.status, "red"))
    counts = ", ".join(f"{count} {name}" for name, count in report.instructions.items() if count)
    verdict = [f"verdict {one_line(report.verdict)}"] if report.verdict else []
    failed = ", ".join(f"{count} of {one_line(tool)}" for tool, count in report.failed_calls.items())
    calls = [f"calls that failed: {failed}"] if failed else []
    parts = [f"instructions: {counts or 'none'}", *verdict, *calls, _used(report.usage)]
    trees = [f"in working trees of their own: awk diff {one_line(report.id)}, awk merge {one_line(report.id)}"]
    name = one_line(f"{report.id} {report.run}")
    return [f"{name} {status} in {report.duration_seconds:.1f} s; {'; '.join(parts)}", *(trees if left else ())]


def _used(usage: Usage) -> str:
    told = usage_text(usage.input_tokens + usage.cache_write_tokens, usage.output_tokens, usage.cost_usd)
    return f"{told}, {usage.cache_read_tokens:,} read from the cache" if usage.cache_read_tokens else told


def instruction_lines(info: InstructionInfo, screen: Screen) -> list[str]:
    why = f" ({info.error_class}: {info.cause})" if info.cause else ""
    facts = {
        "agent": info.agent,
        "space": info.space,
        "lane": info.lane,
        "status": info.status + why,
        "model": info.model,
        "waits": wait_text(info),
        "messages": ", ".join(info.message_ids),
        "continues": info.continues or "",
        "usage": _used(info.usage),
        "prompt": " + ".join(info.prompt_manifest),
    }
    lines = [screen.style(one_line(info.id), "bold")]
    lines += [f"  {name:<9} {one_line(value)}" for name, value in facts.items() if value]
    if info.attempts:
        rows: list[list[str]] = []
        for attempt in info.attempts:
            steps = sum(step.attempt == attempt.n for step in info.steps)
            ended = (attempt.ended_at or "-", attempt.outcome or "-", attempt.exit or "-")
            models = ", ".join(one.model for one in attempt.models)
            rows.append(
                [str(attempt.n), str(attempt.epoch), attempt.started_at, *ended, attempt.node, models, str(steps)]
            )
        header = ["ATTEMPT", "EPOCH", "STARTED", "ENDED", "OUTCOME", "EXIT", "NODE", "MODEL", "STEPS"]
        # Without a node, all work ran on the kernel's machine; one model is shown above.
        hidden = {place for place, least in ((6, 1), (7, 2)) if len({row[place] for row in rows} - {""}) < least}
        header, *rows = [[cell for place, cell in enumerate(row) if place not in hidden] for row in (header, *rows)]
        lines += ["", *table(header, rows, screen)]
    # The last calls that failed or were not run, with the text that the model received.
    failed = [(step.n, call) for step in info.steps for call in step.failed]
    calls = [f"  step {n}  {one_line(call.tool)}  {call.why}: {one_line(call.text)}" for n, call in failed]
    lines += ["", "calls that failed:", *calls[-NEWEST:]] if calls else []
    lines += requested_lines(info)
    # Standard error of the last worker that failed.
    told = next((attempt for attempt in reversed(info.attempts) if attempt.stderr_tail), None)
    if told is not None:
        tail = escape(str(told.stderr_tail)).rstrip("\n").split("\n")
        lines += ["", f"attempt {told.n} wrote to its standard error:", *(f"  {line}" for line in tail)]
    if info.handover is not None:
        note = info.handover
        parts = {"done": (note.done,), "next": (note.next,), "open": note.open, "files": note.files}
        lines += ["", f"handover notes, {note.at}:"]
        lines += [f"  {name:<5}  {one_line(text)}" for name, texts in parts.items() for text in texts]
    return [*lines, "", *_text(info.text)] if info.text else lines


def step_lines(found: dict[str, Any], screen: Screen, *, full: bool = False) -> list[str]:
    lines = [line for entry in found["entries"] for line in entry_lines(entry, screen, full=full)]
    if found["next"] is None:
        lines += unanswered_lines(found, screen)
    return lines or ["nothing was done yet"]


def wire_lines(found: dict[str, Any], screen: Screen) -> list[str]:
    lines: list[str] = []
    for one in found["exchanges"]:
        status = "no response" if one["status"] is None else f"status {one['status']}"
        head = f"#{one['n']} attempt {one['attempt']}, {one['at']}, {one['model']}, {status}, {one['ms']} ms"
        lines += ["", screen.style(one_line(head), "bold")]
        for body in (one["request"], one["response"]):
            text = body if isinstance(body, str) else json.dumps(body, indent=2, ensure_ascii=False)
            lines += ["", *_text(text)] if body is not None else []
    return lines[1:] or ["nothing was recorded: set recording: on for the agent or the project"]


def wait_text(info: InstructionInfo) -> str:
    """Return the reason, deadline and remedy of a wait; "" if there is none."""
    if info.approval and info.waits_for == "approval":
        name = info.approval
        return f"approval {name} until {info.approval_expires}: awk needs {name}, awk approve {name}"
    if info.waits_for == "person":
        return f"an answer: awk show --prompt {info.id}, awk answer {info.id} TEXT"
    if info.standing not in ("time", "person"):
        return info.waits_for or ""
    if info.unasked:
        return f"{info.waits_for}: {info.unasked}, then restart --kernel from that shell"
    return f"{info.waits_for} until {info.until or 'a person acts'}"


def requested_lines(info: InstructionInfo) -> list[str]:
    if not info.approvals:
        return []
    unheard = "never run" if info.standing == "ended" else "not run yet: no attempt has heard of it"
    shown = [
        f"  {one.id}  {one_line(one.tool)}  {one.state}"
        + (f", {unheard}" if one.state == "granted" and not one.heard else "")
        for one in info.approvals
    ]
    left_out = len(shown) - NEWEST
    earlier = [f"  {left_out} earlier ones: --json lists them"] if left_out > 0 else []
    return ["", "approvals:", *earlier, *shown[-NEWEST:]]


def prompt_lines(prompt: PromptReport, screen: Screen) -> list[str]:
    shown = [*_text(prompt.system)]
    for message in prompt.messages:
        shown += ["", screen.style(f"{message.role}:", "bold"), *_text(message.text)]
    if prompt.parts:
        rows = [[one.name, str(one.tokens), one.trust, one.kept.replace("_", " "), one.source] for one in prompt.parts]
        shown += ["", *table(["PART", "TOKENS", "TRUST", "SHOWN", "SOURCE"], rows, screen)]
    return shown


def _text(text: str) -> list[str]:
    return escape(text).rstrip("\n").split("\n") if text else []
