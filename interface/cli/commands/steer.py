"""How the kernel calls the agent that a target means: one that lives inside a workflow has a key of its own.

Commands that change one thing by a POST and show what it is now.

``awk cancel``: instructions are taken back, also those that run.

``awk continue``: the limits of a workflow, or the budget of an agent, once more.

``awk pause``: an agent or a workflow begins nothing; what runs gives way after its next entry.

``awk promote``: an instruction is done before those of other lanes; within a lane the oldest is first.

``awk reset``: an agent gets work again, whatever kept it from it.

``awk restart``: an agent goes on in a new worker, or the kernel in a new process.

``awk resume``: after a pause or a stop, or where an agent waits for its provider or a key.

``awk retry``: what failed or is dead is tried again, after its last finished entry.

``awk stop``: workflows and agents; without a target everything, and the kernel.

An agent or a workflow that was changed, as it is now.

Instructions that were changed, one line for each.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec

from interface.cli.commands.status import status_lines
from interface.cli.context import Context
from interface.cli.exits import Exit
from interface.cli.output import Screen, one_line
from interface.cli.parsing import duration, json_flag, target_argument, trust_flag
from interface.cli.targets import target
from interface.client import Client, new_key, quoted
from interface.exit_wait import ExitWait
from interface.failure import Failure, Unreachable
from protocol.api.agents import AgentChanged
from protocol.api.instructions import InstructionsChanged
from protocol.api.workflows import WorkflowRow
from protocol.names import number_of
from protocol.target import Target


def agent_target(text: str) -> Target:
    """``text`` as a target that names an agent. Raises Failure (bad_target)."""
    asked = target(text)
    if asked.agent is None:
        raise Failure("bad_target", f"{text!r} names no agent", f"name one: alice{text}")
    return asked


def agent_path(client: Client, asked: Target, what: str) -> str:
    """The path of ``what`` (queue, reset, ...) of the agent. Raises Failure where it is no participant."""
    # An agent that a workflow refers to has one queue for all its spaces, an inline one a queue of its own.
    if asked.workflow is None:
        key = str(asked.agent)
    else:
        members: list[dict[str, Any]] = json.loads(client.get(f"/spaces/{quoted(asked.space)}/members"))["members"]
        found = next((row for row in members if row["name"] == asked.agent), None)
        if found is None:
            names = ", ".join(str(row["name"]) for row in members)
            raise Failure("not_a_participant", f"{asked.agent} is not in {asked.space}", f"there are: {names}")
        key = str(found.get("agent") or asked.agent)
    return f"/agents/{quoted(key)}/{what}"


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
    if asked.agent is not None:
        path = agent_path(client, asked, what)
    else:
        path = f"/workflows/{quoted(str(asked.workflow))}/{quoted(asked.tag)}/{what}"
    answer = client.post(path, NOTHING, key=new_key())
    return context.answer(answer, changed_lines)


def change_agent(context: Context, asked: Target, what: str) -> int:
    """``what`` (reset, restart) of an agent."""
    client = context.kernel()
    return context.answer(client.post(agent_path(client, asked, what), NOTHING, key=new_key()), changed_lines)


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
        context.answer(json.dumps(document, ensure_ascii=False).encode(), instructions_lines)
    for said in () if remark is None else (remark(client, row) for row in changed):
        if said is not None:
            context.out.note(f"note: {said}")
    for refusal in refusals[1:]:
        context.out.error(refusal)
    if refusals:
        raise refusals[0]
    return Exit.OK


configure_cancel = configure_promote = ids_argument
configure_pause = configure_resume = configure_continue = target_change


def run_cancel(context: Context) -> int:
    """End each of them."""
    return change_instructions(context, "cancel")


def run_continue(context: Context) -> int:
    """Let go on what a limit held back."""
    return change_target(context, "continue")


def run_pause(context: Context) -> int:
    """Hold its work back."""
    return change_target(context, "pause")


def run_promote(context: Context) -> int:
    """Move each of them to the most urgent lane, and say what is before it there."""
    return change_instructions(context, "promote", remark=_behind)


def _behind(client: Client, row: Row) -> str | None:
    """What is done before it all the same. That it cannot be said is no failure."""
    space = str(row["space"])
    named = row["agent"] if space.startswith("dm:") else f"{row['agent']}@{space}"
    try:
        queue = json.loads(client.get(agent_path(client, target(named), "queue")))["instructions"]
    except Failure:
        return None
    older = [one["id"] for one in queue if one["lane"] == "immediate" and _number(one["id"]) < _number(row["id"])]
    return f"{row['id']} comes after {', '.join(older)}: they are as urgent, and older" if older else None


def _number(name: str) -> int:
    return int(name[1:])


def configure_reset(parser: argparse.ArgumentParser) -> None:
    """TARGET."""
    target_argument(parser)
    json_flag(parser)


def run_reset(context: Context) -> int:
    """Clear its error, crashes, backoff and pause, and let it ask its provider again."""
    return change_agent(context, agent_target(context.args.target), "reset")


def run_resume(context: Context) -> int:
    """Let its work go on."""
    return change_target(context, "resume")


def configure_retry(parser: argparse.ArgumentParser) -> None:
    """ID... and how much of it again."""
    ids_argument(parser)
    parser.add_argument("--fresh", action="store_true", help="from the beginning; what its calls did may happen twice")


def run_retry(context: Context) -> int:
    """Put each of them back into its lane."""
    return change_instructions(context, "retry", {"fresh": context.args.fresh})


DEFAULT_GRACE_SECONDS: Final = 10.0
LADDER_SECONDS: Final = 25.0
"""What a kernel may take beyond the grace: kill what is left, checkpoint, go."""


def configure_stop(parser: argparse.ArgumentParser) -> None:
    """[TARGET...] and how gently."""
    targets = "alice, @review[:tag] or alice@review[:tag] (default: all)"
    parser.add_argument("targets", metavar="TARGET", nargs="*", help=targets)
    parser.add_argument(
        "--grace", type=duration, metavar="D", help="how long running work may take to end (default: 10s)"
    )
    parser.add_argument("--now", action="store_true", help="no grace")
    parser.add_argument("--yes", action="store_true", help="do not ask")


def run_stop(context: Context) -> int:
    """Return once it is gone."""
    if context.args.targets:
        return _stop_targets(context, [target(text) for text in context.args.targets])
    try:
        client = context.find_kernel()
    except Unreachable as error:
        context.out.note(context.why_down(error))
        return Exit.OK
    if not _may_stop(context, client):
        raise Failure("failed", "nothing was stopped")
    grace = DEFAULT_GRACE_SECONDS if context.args.grace is None else context.args.grace
    stop_kernel(context, client, 0.0 if context.args.now else grace)
    context.out.lines(["stopped"])
    return Exit.OK


def stop_kernel(context: Context, client: Client, grace: float) -> None:
    """Ask it to go, and return once it has gone. Raises Failure (timeout)."""
    departure = ExitWait(client.endpoint, context.clock)
    with suppress(Unreachable):  # it may be going already
        client.post("/shutdown", {"grace": grace}, key=new_key())
    client.close()
    if not departure.wait(grace + LADDER_SECONDS):
        raise Failure("timeout", "the kernel has not ended", f"see its log, or: {context.program} stop --now")


def _may_stop(context: Context, client: Client) -> bool:
    """Ask where a person can answer and work is running."""
    if context.args.yes or context.out.unattended or not (context.stdin.isatty() and context.out.is_terminal):
        return True
    busy = [row["name"] for row in json.loads(client.get("/ps"))["agents"] if row["state"] == "running"]
    if not busy:
        return True
    context.out.ask(f"{', '.join(busy)} running; stop anyway? [y/N] ")
    return context.stdin.readline().strip().lower() in {"y", "yes"}


def _stop_targets(context: Context, targets: list[Target]) -> int:
    if context.args.now or context.args.grace is not None:
        raise Failure("usage", "--grace and --now are for the kernel; workflows and agents are stopped at once")
    client = context.kernel()
    for asked in targets:
        if asked.workflow is not None:
            _stop_workflow(client, asked)
        else:
            _stop_agent(client, str(asked.agent))
        context.out.lines([f"stopped {asked}"])
    return Exit.OK


def _stop_workflow(client: Client, asked: Target) -> None:
    if asked.agent is not None:
        client.post(agent_path(client, asked, "stop"), NOTHING, key=new_key())
        return
    client.delete(f"/workflows/{quoted(str(asked.workflow))}/{quoted(asked.tag)}")


def _stop_agent(client: Client, name: str) -> None:
    """What ``new`` made is gone then; an agent with a file does no work until it is resumed, and its queue is kept."""
    agents: list[dict[str, Any]] = json.loads(client.get("/agents"))["agents"]
    found = next((row for row in agents if row["name"] == name), None)
    if found is None:
        names = ", ".join(str(row["name"]) for row in agents) or "none"
        raise Failure("unknown_agent", f"there is no agent {name}", f"agents here: {names}")
    if found["ephemeral"]:
        client.delete(f"/agents/{quoted(name)}")
    else:
        client.post(f"/agents/{quoted(name)}/stop", NOTHING, key=new_key())


def configure_restart(parser: argparse.ArgumentParser) -> None:
    """TARGET or --kernel."""
    parser.add_argument("target", metavar="TARGET", nargs="?", help="alice or alice@review[:tag]")
    parser.add_argument("--kernel", action="store_true", help="the kernel: what runs goes on after its last entry")
    trust_flag(parser)
    json_flag(parser)


def run_restart(context: Context) -> int:
    """Return once it is back."""
    if (context.args.target is None) != context.args.kernel:
        raise Failure("usage", "restart one agent, or the kernel with --kernel", _candidates(context))
    if context.args.kernel:
        # Agents made with new end, as with every clean stop.
        stop_kernel(context, context.kernel(), DEFAULT_GRACE_SECONDS)
        client = context.started_kernel(*(["--trust"] if context.trusts else []))
        return context.answer(client.get("/status"), status_lines)
    return change_agent(context, agent_target(context.args.target), "restart")


def _candidates(context: Context) -> str:
    """The agents that could be meant, where a kernel runs."""
    try:
        agents = json.loads(context.find_kernel().get("/agents"))["agents"]
    except (Failure, Unreachable):
        return f"for example {context.program} restart alice"
    return f"agents here: {', '.join(str(row['name']) for row in agents) or 'none'}"


def changed_lines(body: bytes, _screen: Screen) -> list[str]:
    """One line: which, its state, and what goes on now."""
    if b'"schema":"awk/agent-state/1"' not in body:
        row = msgspec.json.decode(body, type=WorkflowRow)
        return [one_line(f"@{row.name}:{row.tag} is {'paused' if row.paused else row.state}")]
    agent = msgspec.json.decode(body, type=AgentChanged)
    name = agent.name if agent.space is None else f"{agent.name}@{agent.space}"
    until = f" until {agent.until}" if agent.until else ""
    why = f" ({agent.reason})" if agent.reason else ""
    goes_on = f"; goes on: {', '.join(agent.instructions)}" if agent.instructions else ""
    return [one_line(f"{name} is {agent.state}{until}{why}{goes_on}")]


def instructions_lines(body: bytes, _screen: Screen) -> list[str]:
    """Its id, state and lane."""
    return [
        one_line(f"{one.id} {one.status} ({one.agent}, {one.lane})")
        for one in msgspec.json.decode(body, type=InstructionsChanged).instructions
    ]
