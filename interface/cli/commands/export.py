"""``awk export`` and ``import``: a run or a space as one file, and such a file looked at without a kernel."""

import argparse
import json
import os
import shlex
from collections.abc import Iterator
from contextlib import closing
from typing import Final

from interface.cli.context import Context
from interface.cli.output import escape, one_line
from interface.cli.parsing import json_flag
from interface.cli.targets import RUN, target
from interface.client import quoted
from interface.failure import Failure
from osfiles.atomic_write import replacing

FORMATS: Final = ("jsonl", "md")
_ENDS: Final = (b'{"part":"end"', b"End of the archive: ")


def configure_export(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "target", metavar="RUN|TARGET", help="a run (r12), all runs of @review[:tag], or what alice was told directly"
    )
    parser.add_argument(
        "--format", choices=FORMATS, default=FORMATS[0], help="jsonl, which import reads; md, a page for people"
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="write it there, whole or not at all")
    parser.add_argument("--json", action="store_true", help="with -o: print one JSON document about the file")


def run_export(context: Context) -> int:
    if context.args.json and context.args.output is None:
        raise Failure("usage", "an archive is one JSON document a line, not one", "leave out --json, or give -o FILE")
    named, output = context.args.target, context.args.output
    if RUN.fullmatch(named):
        path = f"/runs/{named}/export"
    else:
        asked = target(named)
        if asked.workflow is not None and asked.agent is not None:
            hint = f"export the workflow: @{asked.workflow}:{asked.tag}"
            raise Failure("bad_target", f"{asked.agent} has no space of its own in a workflow", hint)
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
    """Yield what comes as whole lines. Raises Failure where the last of them is not the end."""
    rest = last = b""
    for piece in pieces:
        lines, newline, more = piece.rpartition(b"\n")
        if not newline:
            rest += more
            continue
        yield (whole := rest + lines + newline)
        last, rest = whole[whole.rfind(b"\n", 0, -1) + 1 :], more
    if rest or not last.startswith(_ENDS):
        raise Failure("failed", "the archive broke off: the kernel could not read on", "try again")


def _write(path: str, lines: Iterator[bytes]) -> int:
    """Write all of it beside ``path``, and then in its place. Readable by its owner: it is private talk."""
    try:
        with replacing(path) as file:
            return sum(map(file.write, lines))
    except OSError as error:
        raise Failure("failed", f"{one_line(path)} cannot be written: {error.strerror or error}") from error


def configure_import(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("archive", metavar="FILE", help="what awk export wrote (jsonl)")
    json_flag(parser)


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
        lines.append(f"awk peek {head.space.partition(':')[2]} {of}")
    context.out.lines(map(one_line, lines))
    return 0
