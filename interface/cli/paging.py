"""Lists that may not fit one answer of the kernel: as many rows as are wanted, and a word on stderr about the rest."""

import argparse
import json
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from interface.cli.context import Context
from interface.client import Client

View = Callable[..., list[str]]
Document = dict[str, Any]
"""One protocol.api.document.Page, as JSON."""
LONGEST: Final = 1000
"""Rows that the kernel gives at once."""


class Listing(NamedTuple):
    """The field of a list in its document, the parameter that its ``next`` goes into, and the end that comes first."""

    field: str
    parameter: str
    newest_last: bool = False
    """A page that follows is older, and comes before the rows there are."""


RUNS: Final = Listing("runs", "before")
DEAD: Final = Listing("instructions", "before")
QUEUE: Final = Listing("instructions", "after")
INBOX: Final = Listing("deliveries", "after")
ENTRIES: Final = Listing("entries", "after")
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


def count_flag(parser: argparse.ArgumentParser, default: int | None = LONGEST, what: str = "the first N") -> None:
    """``-n``, which every command that lists has; without a ``default`` all are listed."""
    usual = "all" if default is None else default
    parser.add_argument("-n", type=_count, default=default, metavar="N", help=f"{what} (default: {usual}; 0: all)")


def show_list(context: Context, path: str, listing: Listing, view: View, query: Mapping[str, str] | None = None) -> int:
    """Print the first rows of the list at ``path``, as many as ``-n`` says; what is left out is told on stderr."""
    document = fetch_list(context.kernel(), path, listing, context.args.n, query or {})
    context.answer(json.dumps(document, ensure_ascii=False).encode(), view)
    tell_rest(context, document, listing)
    return 0


def fetch_list(client: Client, path: str, listing: Listing, count: int, query: Mapping[str, str]) -> Document:
    """The document at ``path`` with its first ``count`` rows (0: all), from as many answers as that takes."""
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
    """Say how many rows there are, where not all are shown."""
    if document.get("next") is not None:
        context.out.note(f"{len(document[listing.field]):,} of {document['total']:,} (-n 0 for all)")


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of rows: 0 (all), 1, 2, ...")
    return int(text)
