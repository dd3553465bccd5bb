"""Requests that commands make: lists, page by page, and actions, a POST for each thing that a command names."""

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from interface.cli.context import Context
from interface.cli.exits import Exit
from interface.client import Client, new_key, quoted
from interface.failure import Failure

View = Callable[..., list[str]]
Document = dict[str, Any]
"""protocol.api.document.Page as JSON."""
LONGEST: Final = 1000
"""Maximum number of rows in one answer of the kernel."""


class Listing(NamedTuple):
    """Field of a list in its document, the parameter for its ``next``, and the order of its rows."""

    field: str
    parameter: str
    newest_last: bool = False
    """Whether further pages contain older rows, which precede the others."""


RUNS: Final = Listing("runs", "before")
DEAD: Final = Listing("instructions", "before")
QUEUE: Final = Listing("instructions", "after")
INBOX: Final = Listing("deliveries", "after")
ENTRIES: Final = Listing("entries", "after")
EXCHANGES: Final = Listing("exchanges", "after")
PENDING: Final = Listing("approvals", "after")
NEEDS: Final = Listing("items", "after")
RULES: Final = Listing("rules", "after")
PROPOSALS: Final = Listing("proposals", "before")
PROPOSALS_OF_RUN: Final = Listing("proposals", "after")
TASKS: Final = Listing("tasks", "after")
FEEDBACK: Final = Listing("feedback", "before", newest_last=True)
RESOURCES: Final = Listing("resources", "before")
DOCUMENTS: Final = Listing("documents", "after")
VERSIONS: Final = Listing("versions", "before")
SUGGESTIONS: Final = Listing("suggestions", "after")
GRANTS: Final = Listing("grants", "after")
AUDIT: Final = Listing("rows", "before")
MESSAGES: Final = Listing("messages", "before", newest_last=True)


def count_flag(parser: argparse.ArgumentParser, default: int | None = LONGEST, what: str = "number of entries") -> None:
    """Add ``-n``, for every command that lists; without a ``default``, all rows are listed."""
    usual = "all" if default is None else default
    parser.add_argument("-n", type=_count, default=default, metavar="N", help=f"{what} (default: {usual}; 0: all)")


def show_list(context: Context, path: str, listing: Listing, view: View, query: Mapping[str, str] | None = None) -> int:
    """Print the first ``-n`` rows of the list at ``path``; report omitted rows on stderr."""
    document = fetch_list(context.kernel(), path, listing, context.args.n, query or {})
    context.answer(json.dumps(document, ensure_ascii=False).encode(), view)
    tell_rest(context, document, listing)
    return 0


def fetch_list(client: Client, path: str, listing: Listing, count: int, query: Mapping[str, str]) -> Document:
    """Return the document at ``path`` with its first ``count`` rows (0: all), from several requests if necessary."""
    document: Document = {}
    rows: list[Any] = []
    following: str | None = None
    while True:
        left = LONGEST if count == 0 else min(count - len(rows), LONGEST)
        more = {} if following is None else {listing.parameter: following}
        document = json.loads(client.get(path, {**query, "limit": str(left), **more}))
        found: list[Any] = document[listing.field]
        rows = [*found, *rows] if listing.newest_last else [*rows, *found]
        following = document.get("next")
        if following is None or len(rows) == count:
            return {**document, listing.field: rows}


def tell_rest(context: Context, document: Document, listing: Listing) -> None:
    """Print the total number of rows if not all are shown."""
    if document.get("next") is not None:
        context.out.note(f"{len(document[listing.field]):,} of {document['total']:,} (-n 0 for all)")


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise argparse.ArgumentTypeError(f"{text!r} is not a valid number of rows; use 0 (all), 1, 2, ...")
    return int(text)


Row = dict[str, Any]
"""Changed object as JSON."""
NOTHING: Final[Mapping[str, object]] = {}


def act(
    context: Context,
    path: str,
    ids: Sequence[str],
    view: Callable[..., list[str]],
    body: Mapping[str, object] = NOTHING,
    *,
    client: Client | None = None,
    remark: Callable[[Client, Row], str | None] | None = None,
) -> int:
    """POST ``body`` to ``path`` and print the answer. Returns the exit code; raises Failure.

    With ``ids``, a request is sent for each id, which replaces ``{}`` in ``path``. All ids are tried. The results are
    printed as one list, named like the path segment before the id, and the first refusal is raised at the end.

    Args:
        client: a client that the command has already used.
        remark: text for stderr about one result.
    """
    client = client or context.kernel()
    if not ids:
        return context.answer(client.post(path, body, key=new_key()), view)
    changed: list[Row] = []
    refusals: list[Failure] = []
    for name in dict.fromkeys(ids):
        try:
            changed.append(json.loads(client.post(path.format(quoted(name)), body, key=new_key())))
        except Failure as failure:
            refusals.append(failure)
    if not context.args.json or not refusals:
        kind = path.partition("/{}")[0].rpartition("/")[2]
        document = {"schema": f"awk/{kind}/1", kind: changed}
        context.answer(json.dumps(document, ensure_ascii=False).encode(), view)
    for remarked in () if remark is None else (remark(client, row) for row in changed):
        if remarked is not None:
            context.out.note(f"note: {remarked}")
    for refusal in refusals[1:]:
        context.out.error(refusal)
    if refusals:
        raise refusals[0]
    return Exit.OK


def left_behind_lines(told: Mapping[str, object]) -> list[str]:
    """Return the notice in the answer to a message or a start, if any."""
    count = told.get("left_behind")
    if not isinstance(count, int) or not count:
        return []
    files = "1 file is" if count == 1 else f"{count} files are"
    return [f"note: {files} not committed, and an agent that works on a node goes without (git commit)"]
