"""Actions: a POST to the kernel for each thing that a command names, then the state that it led to."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from interface.cli.context import Context
from interface.cli.exits import Exit
from interface.client import Client, new_key, quoted
from interface.failure import Failure

Row = dict[str, Any]
"""One thing that was changed, as JSON."""
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
    """POST ``body`` to ``path`` and print what comes back. Returns the exit code; raises Failure.

    With ``ids`` it is sent once for each, which stands for ``{}`` in ``path``. All are tried; what was changed is one
    list, named like the segment before them, and the first refusal is raised at the end.

    Args:
        client: a kernel that the command has asked something before.
        remark: text for stderr about one that was changed.
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
    """The note in the answer to a message or a start; none where there is nothing to say."""
    count = told.get("left_behind")
    if not isinstance(count, int) or not count:
        return []
    files = "1 file is" if count == 1 else f"{count} files are"
    return [f"note: {files} not committed, and an agent that works on a node goes without (git commit)"]
