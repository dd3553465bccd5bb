"""``awk channel``, ``clear``, ``export`` and ``import``: messages of a space and their archives."""

import json
import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import closing
from functools import partial
from typing import Any, Final

import msgspec

from interface.cli.context import Context
from interface.cli.exits import Exit
from interface.cli.output import Screen, escape, one_line
from interface.cli.parsing import Arguments, archive_flag, argument, json_flag, jsonl_flag, switch
from interface.cli.prompts import can_ask, confirm
from interface.cli.requests import MESSAGES, Listing, act, count_flag, fetch_list, tell_rest
from interface.cli.targets import RUN, concerns, target
from interface.client import quoted
from interface.event_follow import CONNECTED, Follower
from interface.failure import Failure, Unreachable
from osfiles.atomic_write import replacing
from protocol import message as protocol_message
from protocol.api.agents import Cleared
from protocol.api.messages import Channel
from protocol.message import FACT_KINDS, SYSTEM
from protocol.target import Target

DEFAULT_COUNT: Final = 50
SINCE: Final = Listing("messages", "since")
FORMATS: Final = ("jsonl", "md")
_SOURCE: Final = "run (r12), workflow with all its runs (@review[:tag]), or agent (alice: its direct messages)"
ARGUMENTS: Final[Mapping[str, Arguments]] = {
    "channel": (
        argument("target", metavar="TARGET", nargs="?", help="@review[:tag], alice or alice@review"),
        argument("--run", metavar="RUN", help="only messages of this run (r12)"),
        partial(count_flag, default=DEFAULT_COUNT, what="number of latest messages"),
        switch("-f", "--follow", about="print new messages as they arrive"),
        archive_flag,
        json_flag,
        jsonl_flag,
    ),
    "clear": (
        argument("target", metavar="RUN|TARGET", help=_SOURCE),
        argument("--run", metavar="RUN", help="for a workflow: only this run (r12; default: all runs)"),
        switch("--yes", about="clear without confirmation"),
        switch("--force", about="also delete unmerged or uncommitted work"),
        json_flag,
    ),
    "export": (
        argument("target", metavar="RUN|TARGET", help=_SOURCE),
        argument("--format", choices=FORMATS, default=FORMATS[0], help="jsonl for awk import, or md (default: jsonl)"),
        argument("-o", "--output", metavar="FILE", help="output file (default: standard output)"),
        switch("--json", about="with -o: print one JSON document that describes the file"),
    ),
    "import": (argument("archive", metavar="FILE", help="archive from awk export (jsonl)"), json_flag),
}

Message = dict[str, Any]
"""protocol.message.Message as JSON."""


def show(context: Context, space: str, only: str | None = None, run: str | None = None) -> int:
    """Print the last messages of ``space``, only of agent ``only`` or of ``run`` if given."""
    if context.args.follow and context.args.json:
        raise Failure("usage", "-f and --json cannot be combined", "use --jsonl")
    if context.args.follow and (run is not None or context.args.archive is not None):
        raise Failure("usage", "-f cannot follow a finished run or an archive", "leave out -f, or --run and --archive")
    query = {name: value for name, value in (("agent", only), ("run", run)) if value is not None}
    if context.args.follow:
        return _follow(context, space, only, query)
    document = fetch_list(context.kernel(), _path(space), MESSAGES, context.args.n, query)
    if context.args.jsonl:
        for message in document["messages"]:
            context.out.document(_dump(message))
    else:
        context.answer(_dump(document).encode(), messages_lines)
    tell_rest(context, document, MESSAGES)
    return Exit.OK


def _path(space: str) -> str:
    return f"/spaces/{quoted(space)}/channel"


def _follow(context: Context, space: str, only: str | None, query: Mapping[str, str]) -> int:
    """Print stored and new messages. The stream opens before the query: no gap, and seq identifies duplicates."""
    context.kernel().get(_path(space), {"limit": "1"})  # raises Failure if the space does not exist
    filters = {"space": space, "type": "message"}
    follower = Follower(connect=context.find_kernel, query=filters, clock=context.clock, say=context.out.note)
    shown: int | None = None
    for event in follower:
        messages: list[Message] = []
        if event == CONNECTED:
            # Query the last messages or, after a reconnect, all messages since the last printed one.
            assert follower.client is not None
            listing, count, since = (
                (MESSAGES, context.args.n, {}) if shown is None else (SINCE, 0, {"since": str(shown)})
            )
            try:
                messages = fetch_list(follower.client, _path(space), listing, count, {**query, **since})["messages"]
            except Unreachable:
                messages = []  # the stream breaks as well, and the query is repeated after its next connect
        elif event.type == "message":
            messages = [json.loads(event.data)["data"]]
        for message in messages:
            if shown is None or message["seq"] > shown:
                shown = message["seq"]
                if only is None or concerns(message, only):
                    if context.args.jsonl:
                        context.out.document(_dump(message))
                    else:
                        said = msgspec.convert(message, type=protocol_message.Message)
                        context.out.lines(message_lines(said, context.out.screen))
    return Exit.OK


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def messages_lines(channel: Channel, screen: Screen) -> list[str]:
    said = [line for message in channel.messages for line in message_lines(message, screen)]
    return said or [f"no messages in {one_line(channel.space)}"]


def message_lines(message: protocol_message.Message, screen: Screen) -> list[str]:
    """Return the lines of a message, further lines indented; empty for internal facts."""
    if message.kind in FACT_KINDS:
        return []
    silent = [name for name in message.to if f"@{name}" not in message.text.lower()]
    to = f" -> {', '.join(silent)}" if silent else ""  # recipients that the text does not mention
    ours = message.sender == SYSTEM
    who = screen.style(one_line(f"{message.sender}{to}:"), "dim" if ours else "bold")
    first, *rest = escape("(cleared)" if message.cleared else message.text).rstrip("\n").split("\n")
    return [f"{who} {first}".rstrip(), *(f"  {line}".rstrip() for line in rest)]


def run_channel(context: Context) -> int:
    asked = target(context.args.target or _only_target(context))
    only = asked.agent if asked.workflow is not None else None
    return show(context, asked.space, only, context.args.run)


def _only_target(context: Context) -> str:
    """Return the default target: the only running workflow, or else the only agent. Raises Failure."""
    client = context.kernel()
    running = [row for row in json.loads(client.get("/workflows"))["workflows"] if row["state"] == "running"]
    names = [str(Target(None, row["name"], row["tag"])) for row in running]
    names = names or [row["name"] for row in json.loads(client.get("/agents"))["agents"]]
    client.close()
    if len(names) != 1:
        hint = f"one of: {', '.join(names)}" if names else "create an agent: awk agent create NAME -m MODEL"
        raise Failure("usage", "TARGET is missing", hint)
    return names[0]


def run_clear(context: Context) -> int:
    named: str = context.args.target
    run: str | None = context.args.run
    if RUN.fullmatch(named) and run in (None, named):
        run = named
        named = f"@{json.loads(context.kernel().get(f'/runs/{named}'))['run']}"
    asked = target(named)
    if asked.workflow is not None and asked.agent is not None:
        hint = f"clear the channel: @{asked.workflow}:{asked.tag}"
        raise Failure("bad_target", f"{asked.agent} has no separate space in a workflow", hint)
    if run is not None and asked.workflow is None:
        raise Failure("usage", f"--run requires a workflow, but {asked} is an agent")
    name = str(asked) if run is None else f"{asked} in {run}"
    if not (context.args.yes or can_ask(context)):
        text = f"clearing {name} needs confirmation, because deleted messages cannot be restored"
        raise Failure("usage", text, "confirm with --yes")
    confirm(context, f"delete all messages and results of {name} permanently?", "nothing was cleared")
    said = [*([] if run is None else [f"run={quoted(run)}"]), *(["force=1"] if context.args.force else [])]
    query = f"?{'&'.join(said)}" if said else ""
    return act(context, f"/spaces/{quoted(asked.space)}/clear{query}", (), cleared_lines)


def cleared_lines(done: Cleared, _screen: Screen) -> list[str]:
    lines = [f"cleared {done.space}: {done.messages} messages, {done.instructions} instructions"]
    if done.worktrees or done.worktrees_kept:
        kept = f", {done.worktrees_kept} kept (awk worktree prune says why)" if done.worktrees_kept else ""
        lines.append(f"working trees: {done.worktrees} removed{kept}")
    return [one_line(line) for line in lines]


_ENDS: Final = (b'{"part":"end"', b"End of the archive: ")


def run_export(context: Context) -> int:
    if context.args.json and context.args.output is None:
        hint = "leave out --json, or give -o FILE"
        raise Failure("usage", "--json requires -o: an archive has one JSON document per line", hint)
    named, output = context.args.target, context.args.output
    if RUN.fullmatch(named):
        path = f"/runs/{named}/export"
    else:
        asked = target(named)
        if asked.workflow is not None and asked.agent is not None:
            hint = f"export the workflow: @{asked.workflow}:{asked.tag}"
            raise Failure("bad_target", f"{asked.agent} has no separate space in a workflow", hint)
        path = f"/spaces/{quoted(asked.space)}/export"
    pieces = context.kernel().pieces(path, {"format": context.args.format})
    if output is None:
        for lines in _whole(pieces):
            if context.args.format == "md":
                context.out.text(lines.decode("utf-8", "replace"))
            else:
                context.out.document(lines)
        return 0
    size = _write(os.path.join(context.cwd, output), _whole(pieces))
    report = {"file": output, "of": named, "format": context.args.format, "bytes": size}
    if context.args.json:
        context.out.document(json.dumps({"schema": "awk/export/1", **report}, ensure_ascii=False))
    else:
        context.out.lines([escape(f"{one_line(output)}: {size:,} bytes")])
    return 0


def _whole(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the lines of an archive. Raises Failure if the archive's last line is missing."""
    rest = last = b""
    for piece in pieces:
        lines, newline, more = piece.rpartition(b"\n")
        if not newline:
            rest += more
            continue
        yield (whole := rest + lines + newline)
        last, rest = whole[whole.rfind(b"\n", 0, -1) + 1 :], more
    if rest or not last.startswith(_ENDS):
        raise Failure("failed", "the archive is incomplete: the kernel stopped sending data", "try again")


def _write(path: str, lines: Iterator[bytes]) -> int:
    """Write the archive atomically, readable only by its owner. Return its size in bytes."""
    try:
        with replacing(path) as file:
            return sum(map(file.write, lines))
    except OSError as error:
        raise Failure("failed", f"{one_line(path)} cannot be written: {error.strerror or error}") from error


def run_import(context: Context) -> int:
    from interface.cli.archive import Archive  # noqa: PLC0415  (export does without)

    named = context.args.archive
    with closing(Archive(os.path.join(context.cwd, named))) as found:
        head = found.head
        runs = [found.read(row) for row in found.rows["run"]]
    if context.args.json:
        told = [{key: run[key] for key in ("id", "run", "status", "exit_code")} for run in runs]
        about = {"of": head.of, "space": head.space, "at": head.at, "version": head.version, "bytes": found.bytes}
        document = {"schema": "awk/import/1", "file": named, **about, "runs": told, "rows": found.counts}
        context.out.document(json.dumps(document, ensure_ascii=False))
        return 0
    rows = ", ".join(f"{count:,} of {part}" for part, count in found.counts.items() if part != "run") or "nothing"
    lines = [f"archive of {head.of}, written at {head.at}: {rows}"]
    lines += [f"{run['id']}  {run['run']}  {run['status']}  exit code {run['exit_code']}" for run in runs]
    of = f"--archive {shlex.quote(named)}"
    if runs:
        lines += [f"awk show {runs[-1]['id']} {of}", f"awk channel @{head.space} {of}"]
    else:
        lines.append(f"awk channel {head.space.partition(':')[2]} {of}")
    context.out.lines(map(one_line, lines))
    return 0
