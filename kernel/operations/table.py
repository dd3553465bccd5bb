"""OPERATIONS: the rows of all modules. Rows with a command are exported to interface/verbs.json.

scripts/generate writes this file for the CLI, which so imports nothing of the kernel.
"""

import json
from collections.abc import Iterator
from typing import Any, Final, Literal, get_args, get_origin

import msgspec

from kernel.operations import (
    agents,
    approvals,
    archives,
    documents,
    events,
    grants,
    history,
    instructions,
    mediation,
    memory,
    merges,
    messages,
    messaging,
    needs,
    nodes,
    overview,
    own_memory,
    page,
    processes,
    proposals,
    resources,
    rules,
    runs,
    souls,
    spaces,
    system,
    tasks,
    tokens,
    trees,
    unblock,
    webhooks,
    workflows,
)
from kernel.operations.operation import Operation
from protocol.names import GLOBAL

OPERATIONS: Final[tuple[Operation, ...]] = (
    *system.OPERATIONS,
    *page.OPERATIONS,
    *agents.OPERATIONS,
    *processes.OPERATIONS,
    *souls.OPERATIONS,
    *needs.OPERATIONS,
    *runs.OPERATIONS,
    *overview.OPERATIONS,
    *workflows.OPERATIONS,
    *messaging.OPERATIONS,
    *messages.OPERATIONS,
    *instructions.OPERATIONS,
    *unblock.OPERATIONS,
    *approvals.OPERATIONS,
    *events.OPERATIONS,
    *proposals.OPERATIONS,
    *rules.OPERATIONS,
    *tasks.OPERATIONS,
    *documents.OPERATIONS,
    *resources.OPERATIONS,
    *spaces.OPERATIONS,
    *trees.OPERATIONS,
    *archives.OPERATIONS,
    *merges.OPERATIONS,
    *grants.OPERATIONS,
    *history.OPERATIONS,
    *memory.OPERATIONS,
    *own_memory.OPERATIONS,
    *mediation.OPERATIONS,
    *nodes.OPERATIONS,
    *webhooks.OPERATIONS,
    *tokens.OPERATIONS,
)


_TARGET: Final = {
    "names": ["target"],
    "field": "space",
    "how": {"metavar": "@WORKFLOW[:TAG]", "help": "workflow; its latest run is used"},
}


_OPTIONAL: Final = {**_TARGET, "how": {**_TARGET["how"], "nargs": "?", "default": f"@{GLOBAL}"}}  # type: ignore[dict-item]


def verbs_text() -> str:
    """Return the text of interface/verbs.json: each command by its words."""
    verbs = {row.cli.words: _verb(row) for row in OPERATIONS if row.cli is not None}
    return json.dumps(verbs, indent=1, ensure_ascii=False) + "\n"


def _verb(row: Operation) -> dict[str, Any]:
    assert row.cli is not None
    return {
        "help": row.cli.help,
        "method": row.method,
        "path": row.path.replace("<path:", "<"),
        "view": row.cli.view,
        **({"lists": row.cli.lists} if row.cli.lists else {}),
        "arguments": list(_arguments(row)),
    }


def _arguments(row: Operation) -> Iterator[dict[str, Any]]:
    assert row.cli is not None
    fields = {one.encode_name: one for one in msgspec.structs.fields(row.request)}
    if "space" in row.variables and "space" not in row.cli.arguments:
        yield _TARGET
    for name, text in row.cli.arguments.items():
        if name == "space":
            yield _OPTIONAL if text == "?" else _TARGET
            continue
        metavar, _, about = text.partition(" ")
        many = metavar.endswith("...")
        how: dict[str, Any] = {"metavar": metavar.removesuffix("..."), "help": about}
        if name in row.variables:
            yield {
                "names": ["ids" if many else name],
                "field": name,
                "how": {**how, **({"nargs": "+"} if many else {})},
            }
            continue
        names = [f"--{name.replace('_', '-')}"]
        yield {"names": names, "field": name, "how": _flag(fields[name], {"dest": name, **how})}


def _flag(field: msgspec.structs.FieldInfo, how: dict[str, Any]) -> dict[str, Any]:
    """Return the keywords of argparse's add_argument for a flag, as JSON with names of types."""
    kinds = list(_plain(field.type))
    if bool in kinds:
        return {"dest": how["dest"], "action": "store_true", "help": f"{how['metavar']} {how['help']}"}
    words = [word for kind in kinds if get_origin(kind) is Literal for word in get_args(kind)]
    if words:
        return {"dest": how["dest"], "choices": words, "help": f"{how['metavar']} {how['help']}"}
    if any(get_origin(kind) in (tuple, list) for kind in kinds):
        return {**how, "action": "append", "default": []}
    how |= {"type": "int"} if int in kinds else {}
    return {**how, "default": field.default} if field.default not in (None, msgspec.NODEFAULT) else how


def _plain(kind: Any) -> Iterator[Any]:
    if get_origin(kind) in (tuple, list, Literal) or not get_args(kind):
        yield kind
        return
    for part in get_args(kind):
        yield from () if isinstance(part, msgspec.Meta) else _plain(part)
