"""``awk doc`` and ``resource``: the documents of a workflow, and the long texts that messages refer to."""

import argparse
import json
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from interface.cli.command_parser import Subcommand, Subcommands, text_of
from interface.cli.context import Context
from interface.cli.output import Screen, decode, escape, one_line, table
from interface.cli.parsing import Arguments, archive_flag, argument, switch
from interface.cli.requests import DOCUMENTS, RESOURCES, SUGGESTIONS, VERSIONS, act, count_flag, show_list
from interface.cli.targets import target, workflow_target
from interface.client import new_key, quoted
from protocol.api.messages import ResourceList
from protocol.documents import (
    DocumentBlame,
    DocumentChanged,
    DocumentDiff,
    DocumentHistory,
    DocumentInfo,
    DocumentList,
    SuggestionList,
    SuggestionMade,
)

DOC_VERBS: Final = Subcommands(
    "doc",
    (
        Subcommand("list", "List the documents of a workflow"),
        Subcommand("read", "Print a document or one of its versions"),
        Subcommand("write", "Replace the text of a document"),
        Subcommand("append", "Append text to a document"),
        Subcommand("create", "Create a document"),
        Subcommand("delete", "Delete a document but retain its history"),
        Subcommand("history", "List the versions of a document, latest first"),
        Subcommand("diff", "Show the changes of a version"),
        Subcommand("blame", "Show the author and version of each line"),
        Subcommand("suggestions", "List suggested changes"),
        Subcommand("accept", "Accept a suggestion, merged with later changes, as the latest version"),
        Subcommand("reject", "Reject a suggestion"),
    ),
)


def _version(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise argparse.ArgumentTypeError(f"{text!r} is not a valid version number")
    return int(text)


_WORKFLOW: Final = argument(
    "target", metavar="@WORKFLOW[:TAG]", help="workflow; the documents of its latest run are used"
)
_FILE: Final = argument("file", metavar="DOCUMENT", help="path of the document")
_NAMED: Final = argument("file", metavar="DOCUMENT", help="path of the document, such as findings/auth.md")
_REASON: Final = argument("--reason", metavar="TEXT", default="", help="reason, stored with the version")
_SUGGESTION: Final = (
    _WORKFLOW,
    argument("id", metavar="SUGGESTION", help="id of the suggestion, such as s3"),
    argument("--reason", metavar="TEXT", default="", help="reason, visible to the members"),
)
_BASE: Final = "base version of the text; later changes are merged, or the write fails on a conflict"


def _with_text(about: str) -> Arguments:
    return (_WORKFLOW, _NAMED, argument("text", metavar="TEXT", help=about), _REASON)


ARGUMENTS: Final[Mapping[str, Arguments]] = {
    "doc list": (_WORKFLOW, count_flag, archive_flag),
    "doc read": (
        _WORKFLOW,
        argument("file", metavar="DOCUMENT", nargs="?", help="path of the document (default: entry document)"),
        argument("--version", type=_version, metavar="N", help="number of the version (default: the latest)"),
        archive_flag,
    ),
    "doc write": (
        *_with_text("complete text, or - to read standard input"),
        argument("--if-version", type=_version, metavar="N", help=_BASE),
    ),
    "doc append": _with_text("text to append on a new line, or - to read standard input"),
    "doc create": _with_text("text, or - to read standard input"),
    "doc delete": (
        _WORKFLOW,
        _NAMED,
        argument("--if-version", type=_version, metavar="N", help="delete only if this is the latest version"),
        _REASON,
    ),
    "doc history": (_WORKFLOW, _FILE, count_flag, archive_flag),
    "doc diff": (
        _WORKFLOW,
        _FILE,
        argument("--from", dest="since", type=_version, metavar="N", help="first version (default: previous)"),
        argument("--to", dest="until", type=_version, metavar="N", help="second version (default: latest)"),
    ),
    "doc blame": (_WORKFLOW, _FILE),
    "doc suggestions": (
        _WORKFLOW,
        switch("--all", about="include suggestions that were accepted or rejected"),
        count_flag,
        archive_flag,
    ),
    "doc accept": _SUGGESTION,
    "doc reject": _SUGGESTION,
    "resource list": (
        argument("target", metavar="TARGET", nargs="?", help="only resources of this workflow or agent"),
        count_flag,
    ),
    "resource get": (
        argument("id", metavar="RESOURCE", help="id of the resource: the text after resource: in a message"),
        argument("--offset", type=int, default=0, metavar="N", help="first character (default: 0)"),
        argument("--limit", type=int, metavar="N", help="maximum number of characters (default: all)"),
        archive_flag,
    ),
    "resource add": (
        argument("target", metavar="TARGET", help="workflow (@review) or agent that can read the resource"),
        argument("message", metavar="TEXT", help="text, or - to read standard input"),
        argument("--type", metavar="TYPE", default="text/plain", help="media type (default: text/plain)"),
    ),
}


def run_doc_list(context: Context) -> int:
    return show_list(context, _path(context, "documents"), DOCUMENTS, documents_lines)


def documents_lines(found: DocumentList, screen: Screen) -> list[str]:
    rows = [
        [
            f"{row.file}{' *' if row.entry else ''}",
            str(row.version),
            f"{row.size:,}",
            row.owner or "-",
            row.author or "-",
            row.at or "-",
        ]
        for row in found.documents
    ]
    electing = [f"{found.electing} elects the owner: no agent can write before its end"] if found.electing else []
    return [*table(["FILE", "VERSION", "BYTES", "OWNER", "BY", "AT"], rows, screen), *electing]


def run_doc_read(context: Context) -> int:
    client = context.kernel()
    file: str | None = context.args.file
    if file is None:
        file = decode(client.get(_path(context, "documents"), {"limit": "1"}), DocumentList).entry
    version = {} if context.args.version is None else {"version": str(context.args.version)}

    def lines(body: bytes, _screen: Screen) -> list[str]:
        text = decode(body, DocumentInfo).content
        return escape(text.removesuffix("\n")).split("\n") if text else []

    return context.answer(client.get(_path(context, "documents", file), version), lines)


def run_doc_write(context: Context) -> int:
    since = context.args.if_version
    return _put(context, {} if since is None else {"from": str(since)})


def run_doc_append(context: Context) -> int:
    body = {"content": text_of(context, context.args.text), "reason": context.args.reason}
    return act(context, _path(context, "documents", context.args.file), (), changed_lines, body)


def run_doc_create(context: Context) -> int:
    return _put(context, {}, {"If-None-Match": "*"})


def run_doc_delete(context: Context) -> int:
    match = {} if context.args.if_version is None else {"If-Match": f'"{context.args.if_version}"'}
    reason = {"reason": context.args.reason} if context.args.reason else {}
    path = _path(context, "documents", context.args.file)
    return context.answer(context.kernel().delete(path, reason, match), changed_lines)


def _put(context: Context, query: dict[str, str], match: dict[str, str] | None = None) -> int:
    body = {"content": text_of(context, context.args.text), "reason": context.args.reason}
    path = _path(context, "documents", context.args.file)
    return context.answer(context.kernel().put(path, body, query, match or {}), changed_lines)


def changed_lines(one: DocumentChanged, _screen: Screen) -> list[str]:
    how = " (nothing changed)" if one.unchanged else " (merged with later changes)" if one.merged else ""
    return [one_line(f"{one.file}: version {one.version}{how}")]


def run_doc_history(context: Context) -> int:
    path = _path(context, "document-history", context.args.file)
    return show_list(context, path, VERSIONS, history_lines)


def history_lines(found: DocumentHistory, screen: Screen) -> list[str]:
    rows = [
        [
            str(row.version),
            row.action,
            row.author,
            row.instruction or "-",
            row.run or "-",
            f"+{row.added} -{row.removed}",
            row.at,
            row.reason or "",
        ]
        for row in found.versions
    ]
    return table(["VERSION", "HOW", "BY", "INSTRUCTION", "RUN", "LINES", "AT", "WHY"], rows, screen)


def run_doc_diff(context: Context) -> int:
    given = {"from": context.args.since, "to": context.args.until}
    query = {name: str(number) for name, number in given.items() if number is not None}

    def lines(body: bytes, _screen: Screen) -> list[str]:
        text = decode(body, DocumentDiff).diff
        return escape(text.removesuffix("\n")).split("\n") if text else ["no difference"]

    path = _path(context, "document-diff", context.args.file)
    return context.answer(context.kernel().get(path, query), lines)


def run_doc_blame(context: Context) -> int:
    path = _path(context, "document-blame", context.args.file)
    return context.answer(context.kernel().get(path), blame_lines)


def blame_lines(found: DocumentBlame, _screen: Screen) -> list[str]:
    rows = found.lines
    columns = [(str(row.version), row.author, row.instruction or "-", row.run or "-") for row in rows]
    widths = [max((len(row[place]) for row in columns), default=0) for place in range(4)]
    return [
        f"{'  '.join(word.ljust(width) for word, width in zip(row, widths, strict=True))}  {one_line(line.text)}"
        for row, line in zip(columns, rows, strict=True)
    ]


def run_doc_suggestions(context: Context) -> int:
    query = {} if context.args.all else {"state": "open"}
    return show_list(context, _path(context, "suggestions"), SUGGESTIONS, suggestions_lines, query)


def suggestions_lines(found: SuggestionList, screen: Screen) -> list[str]:
    rows = [
        [row.id, row.file, str(row.since), row.author, row.state, row.at, row.reason or ""] for row in found.suggestions
    ]
    return (
        table(["ID", "FILE", "SINCE", "BY", "STATE", "AT", "WHY"], rows, screen) if rows else ["nothing is suggested"]
    )


def _decide(context: Context, what: str) -> int:
    def lines(body: bytes, _screen: Screen) -> list[str]:
        one = decode(body, SuggestionMade)
        became = "" if one.accepted_version is None else f", version {one.accepted_version}"
        return [one_line(f"{one.id}: {one.state}, {one.file}{became}")]

    path = f"{_path(context, 'suggestions')}/{quoted(context.args.id)}/{what}"
    return act(context, path, (), lines, {"reason": context.args.reason})


run_doc_accept = partial(_decide, what="accept")
run_doc_reject = partial(_decide, what="reject")


def _path(context: Context, what: str, file: str | None = None) -> str:
    path = f"/spaces/{quoted(workflow_target(context.args.target).space)}/{what}"
    return path if file is None else f"{path}/{'/'.join(map(quoted, file.split('/')))}"


RESOURCE_VERBS: Final = Subcommands(
    "resource",
    (
        Subcommand("list", "List the resources of all spaces or of one space"),
        Subcommand("get", "Print a resource unchanged"),
        Subcommand("add", "Store a text as a resource and print its id"),
    ),
)


def run_resource_list(context: Context) -> int:
    wanted: str | None = context.args.target
    path = "/resources" if wanted is None else f"/spaces/{quoted(target(wanted).space)}/resources"
    return show_list(context, path, RESOURCES, resources_lines)


def resources_lines(listed: ResourceList, screen: Screen) -> list[str]:
    found = listed.resources
    rows = [[one.id, one.space, one.author, one.type, f"{one.characters:,}", one.at] for one in found]
    titles = ["ID", "SPACE", "FROM", "TYPE", "CHARACTERS", "AT"]
    return table(titles, rows, screen, right=frozenset({"CHARACTERS"})) if rows else ["no resources"]


def run_resource_get(context: Context) -> int:
    query = {"offset": str(context.args.offset)}
    if context.args.limit is not None:
        query["limit"] = str(context.args.limit)
    body = context.kernel().get(f"/resources/{quoted(context.args.id)}", query)
    if context.wants_json:
        context.out.document(body)
    else:
        context.out.content(str(json.loads(body)["content"]))
    return 0


def run_resource_add(context: Context) -> int:
    asked = {"content": text_of(context, context.args.message), "type": context.args.type}
    path = f"/spaces/{quoted(target(context.args.target).space)}/resources"
    return context.answer(context.kernel().post(path, asked, key=new_key()), kept_lines)


def kept_lines(told: dict[str, Any], _screen: Screen) -> list[str]:
    return [one_line(f"resource:{told['id']}")]
