"""Commands that change one thing by a POST and show what it is now."""

import argparse
import json
from collections.abc import Callable, Sequence
from typing import Any, Final

from interface.cli.agents import agent_path
from interface.cli.context import Context
from interface.cli.exits import Exit
from interface.cli.parsing import json_flag, target_argument
from interface.cli.targets import target
from interface.client import Client, new_key, quoted
from interface.failure import Failure
from protocol.names import number_of
from protocol.target import Target

Row = dict[str, Any]
NOTHING: Final[dict[str, object]] = {}


def target_change(parser: argparse.ArgumentParser) -> None:
    """TARGET."""
    target_argument(parser)
    json_flag(parser)


def change_target(context: Context, what: str) -> int:
    """``what`` (pause, resume, continue) of an agent or a workflow."""
    asked = target(context.args.target)
    client = context.kernel()
    answer = client.post(_path(client, asked, what), NOTHING, key=new_key())
    return context.answer(answer, "changed")


def change_agent(context: Context, asked: Target, what: str) -> int:
    """``what`` (reset, restart) of an agent."""
    client = context.kernel()
    return context.answer(client.post(agent_path(client, asked, what), NOTHING, key=new_key()), "changed")


def _path(client: Client, asked: Target, what: str) -> str:
    if asked.agent is not None:
        return agent_path(client, asked, what)
    return f"/workflows/{quoted(str(asked.workflow))}/{quoted(asked.tag)}/{what}"


def ids_argument(parser: argparse.ArgumentParser) -> None:
    """ID..."""
    parser.add_argument("ids", metavar="ID", nargs="+", help="an instruction (i7)")
    json_flag(parser)


def change_instructions(
    context: Context, what: str, body: object = NOTHING, remark: Callable[[Client, Row], str | None] | None = None
) -> int:
    """``what`` (cancel, retry, promote) of each instruction; all are tried, the first refusal is told at the end.

    ``remark`` may have something to say of one that was changed.
    """
    ids: Sequence[str] = dict.fromkeys(context.args.ids)  # type: ignore[assignment]
    wrong = next((name for name in ids if number_of(name, "i") is None), None)
    if wrong is not None:
        raise Failure("usage", f"{wrong[:60]!r} is not the id of an instruction", "ids look like i7: see queue or dead")
    client = context.kernel()
    changed: list[Row] = []
    refusals: list[Failure] = []
    for name in ids:
        try:
            changed.append(json.loads(client.post(f"/instructions/{quoted(name)}/{what}", body, key=new_key())))
        except Failure as failure:
            refusals.append(failure)
    if not context.args.json or not refusals:
        document = {"schema": "awk/instructions/1", "instructions": changed}
        context.answer(json.dumps(document, ensure_ascii=False).encode(), "instructions")
    for said in () if remark is None else (remark(client, row) for row in changed):
        if said is not None:
            context.out.note(f"note: {said}")
    for refusal in refusals[1:]:
        context.out.error(refusal)
    if refusals:
        raise refusals[0]
    return Exit.OK
