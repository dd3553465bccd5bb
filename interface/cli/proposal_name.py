"""How a proposal is named on a command line: ``release@review[:tag]``, or ``release`` where only one is called so."""

import argparse
import json
from collections.abc import Mapping
from typing import Any, Final

from interface.cli.context import Context
from interface.client import Client, new_key, quoted
from interface.failure import Failure
from protocol.names import split_space
from protocol.target import Target, TargetRejected, parse_target

_LOOKS: Final = "proposals are called like release, or release@review[:tag]; proposal list shows them"
_SHOWN: Final = 8
_CUT: Final = 40
"""Characters of a wrong name that are said again."""


def proposal_argument(parser: argparse.ArgumentParser, dest: str = "id") -> None:
    """PROPOSAL."""
    text = "as proposal list shows it (release@review); its id alone where only one is called so"
    parser.add_argument(dest, metavar="PROPOSAL", help=text)


def full_name(name: str, space: str) -> str:
    """How the proposal ``name`` of ``space`` is typed."""
    workflow, tag = split_space(space)
    return str(Target(name, workflow, tag))


def change(context: Context, what: str, body: Mapping[str, object]) -> bytes:
    """``what`` (vote, cancel) is done with the proposal that the words name. Returns its document. Raises Failure."""
    named = parsed(context.args.id)
    client = context.kernel()
    return client.post(f"{path_of(client, named)}/{what}", body, key=new_key())


def parsed(text: str) -> Target:
    """``text`` as the name of a proposal. Raises Failure (usage)."""
    try:
        found = parse_target(text)
    except TargetRejected as error:
        raise Failure("usage", f"{text[:_CUT]!r} does not name a proposal", _LOOKS) from error
    if found.agent is None:
        raise Failure("usage", f"{text[:_CUT]!r} is a workflow, and names no proposal of it", _LOOKS)
    return found


def path_of(client: Client, named: Target) -> str:
    """Where the kernel has it; it is looked for where its name leaves out the workflow. Raises Failure."""
    name = str(named.agent)
    space = named.space if named.workflow is not None else _space_of(client, name)
    return f"/spaces/{quoted(space)}/proposals/{quoted(name)}"


def _space_of(client: Client, name: str) -> str:
    rows: list[dict[str, Any]] = json.loads(client.get("/proposals"))["proposals"]
    same = [row for row in rows if row["id"] == name]
    found = [row for row in same if row["state"] == "open"] or same
    spaces = list(dict.fromkeys(str(row["space"]) for row in found))
    if not spaces:
        known = {str(row["id"]): str(row["space"]) for row in reversed(rows)}
        import difflib  # noqa: PLC0415  (only a slip needs it)

        close = difflib.get_close_matches(name, known, n=1)
        raise Failure(
            "not_found",
            f"there is no proposal {name[:_CUT]!r}",
            f"did you mean {full_name(close[0], known[close[0]])}?" if close else "proposal list shows them",
        )
    if len(spaces) > 1:
        which = ", ".join(full_name(name, space) for space in spaces[:_SHOWN])
        raise Failure("usage", f"{len(spaces)} workflows have a proposal {name[:_CUT]!r}", f"say which: {which}")
    return spaces[0]
