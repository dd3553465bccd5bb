"""Commands that steer work: each posts one action for what it names, and prints the state that this led to.

``pause``, ``resume`` and ``continue`` take an agent or a workflow, ``reset`` and ``restart`` an agent, ``answer``,
``cancel``, ``retry`` and ``promote`` instructions. ``stop`` takes any of the former, or the kernel, as
``restart --kernel`` does: these wait until its process is gone, not only its port, so that nothing of it runs when they
return.
"""

import argparse
import json
import os
import select
import signal
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final, Literal

from interface.cli.act import NOTHING, Row, act
from interface.cli.bulk import bulk_flags, change_many, chosen
from interface.cli.command_parser import duration
from interface.cli.context import Context
from interface.cli.exits import Exit
from interface.cli.output import Screen, decode, one_line
from interface.cli.parsing import all_projects_flag, json_flag, target_argument, trust_flag
from interface.cli.prompts import agrees, can_ask
from interface.cli.targets import agent_path, agent_target, target
from interface.client import Client, new_key, quoted
from interface.clock import Clock
from interface.discovery import Endpoint, Hanging, prove
from interface.failure import Failure, Unreachable
from protocol.api.agents import AgentChanged
from protocol.api.instructions import InstructionsChanged
from protocol.api.workflows import WorkflowRow
from protocol.names import number_of
from protocol.target import Target

_PAUSE_SECONDS: Final = 0.02


class ExitWait:
    """Made while the kernel has just proved itself, so the pid is its own; then told to wait.

    On Linux a pidfd names the process itself: it cannot come to mean another (fault PF12). Elsewhere, and for a
    kernel that only the environment names, the end of its answers has to do.
    """

    def __init__(self, endpoint: Endpoint, clock: Clock) -> None:
        self._endpoint = endpoint
        self._clock = clock
        if endpoint.pid <= 0 or not hasattr(os, "pidfd_open"):
            self._process = None
        else:
            try:
                self._process = os.pidfd_open(endpoint.pid)
            except OSError:
                self._process = None

    def wait(self, seconds: float) -> bool:
        """Return whether it was gone within ``seconds``."""
        if self._process is None:
            deadline = self._clock.now() + seconds
            while self._clock.now() < deadline:
                try:
                    prove(self._endpoint).connection.close()
                except Unreachable:
                    return True
                self._clock.pause(_PAUSE_SECONDS)
            return False
        try:
            poll = select.poll()
            poll.register(self._process, select.POLLIN)
            return bool(poll.poll(seconds * 1000))
        finally:
            os.close(self._process)


DEFAULT_GRACE_SECONDS: Final = 10.0
LADDER_SECONDS: Final = 25.0
"""The time a kernel may take beyond the grace: kill what is left, checkpoint, go."""


def configure_target(parser: argparse.ArgumentParser) -> None:
    target_argument(parser)
    json_flag(parser)


configure_pause = configure_resume = configure_continue = configure_reset = configure_target


def act_on_target(context: Context, what: str) -> int:
    """Post ``what`` (pause, resume, continue) to an agent or a workflow."""
    asked = target(context.args.target)
    client = context.kernel()
    if asked.agent is not None:
        path = agent_path(client, asked, what)
    else:
        path = f"/workflows/{quoted(str(asked.workflow))}/{quoted(asked.tag)}/{what}"
    return act(context, path, (), changed_lines, client=client)


def act_on_agent(context: Context, what: str) -> int:
    asked = agent_target(context.args.target)
    client = context.kernel()
    return act(context, agent_path(client, asked, what), (), changed_lines, client=client)


run_pause = partial(act_on_target, what="pause")
run_resume = partial(act_on_target, what="resume")
run_continue = partial(act_on_target, what="continue")
run_reset = partial(act_on_agent, what="reset")


def changed_lines(body: bytes, _screen: Screen) -> list[str]:
    if b'"schema":"awk/agent-state/1"' not in body:
        row = decode(body, WorkflowRow)
        return [one_line(f"@{row.name}:{row.tag} is {'paused' if row.paused else row.state}")]
    agent = decode(body, AgentChanged)
    name = agent.name if agent.space is None else f"{agent.name}@{agent.space}"
    until = f" until {agent.until}" if agent.until else ""
    why = f" ({agent.reason})" if agent.reason else ""
    goes_on = f"; goes on: {', '.join(agent.instructions)}" if agent.instructions else ""
    return [one_line(f"{name} is {agent.state}{until}{why}{goes_on}")]


def configure_instructions(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", metavar="ID", nargs="+", help="an instruction (i7)")
    json_flag(parser)


configure_promote = configure_instructions


def configure_cancel(parser: argparse.ArgumentParser) -> None:
    bulk_flags(parser)
    parser.add_argument("--queued", action="store_true", help="only what no worker is at: what runs goes on")
    parser.add_argument("--yes", action="store_true", help="do not ask about many")


def configure_retry(parser: argparse.ArgumentParser) -> None:
    bulk_flags(parser)
    parser.add_argument("--all", action="store_true", help="all that dead lists")
    parser.add_argument("--fresh", action="store_true", help="from the beginning; what its calls did may happen twice")


def run_cancel(context: Context) -> int:
    many = chosen(context)
    if many is not None:
        return change_many(context, "cancel", many)
    return act(context, "/instructions/{}/cancel", instruction_ids(context), instructions_lines)


def configure_answer(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", metavar="ID", nargs=1, help="an instruction that waits for a person (i7), as in needs")
    parser.add_argument("message", metavar="TEXT", help="what you say; - reads it from standard input")
    parser.add_argument("--as", dest="name", metavar="AGENT", help="refuse it where somebody else is asked by now")
    json_flag(parser)


def run_answer(context: Context) -> int:
    body = {"text": context.message(), **({} if context.args.name is None else {"as": context.args.name})}
    return act(context, "/instructions/{}/answer", instruction_ids(context), instructions_lines, body)


def configure_reassign(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", metavar="ID", nargs=1, help="an instruction that waits for a person (i7), as in needs")
    parser.add_argument("to", metavar="AGENT", help="a member of its workspace: a person, or a model, which begins")
    json_flag(parser)


def run_reassign(context: Context) -> int:
    return act(
        context, "/instructions/{}/reassign", instruction_ids(context), instructions_lines, {"to": context.args.to}
    )


def run_retry(context: Context) -> int:
    many = chosen(context)
    body: Mapping[str, object] = {"fresh": context.args.fresh}
    if many is not None:
        return change_many(context, "retry", {**many, **body})
    return act(context, "/instructions/{}/retry", instruction_ids(context), instructions_lines, body)


def run_promote(context: Context) -> int:
    def earlier(client: Client, row: Row) -> str | None:
        space = str(row["space"])
        named = row["agent"] if space.startswith("dm:") else f"{row['agent']}@{space}"
        try:
            queue = json.loads(client.get(agent_path(client, target(named), "queue")))["instructions"]
        except Failure:
            return None  # it was moved; that nobody can say what is before it is no failure
        urgent = [str(one["id"]) for one in queue if one["lane"] == "immediate"]
        older = [name for name in urgent if int(name[1:]) < int(row["id"][1:])]
        return f"{row['id']} comes after {', '.join(older)}: they are as urgent, and older" if older else None

    return act(context, "/instructions/{}/promote", instruction_ids(context), instructions_lines, remark=earlier)


def instruction_ids(context: Context) -> list[str]:
    """The words of the command. Raises Failure (usage) for one that is not the id of an instruction."""
    ids: list[str] = context.args.ids
    wrong = next((name for name in ids if number_of(name, "i") is None), None)
    if wrong is not None:
        raise Failure("usage", f"{wrong[:60]!r} is not the id of an instruction", "ids look like i7: see queue or dead")
    return ids


def instructions_lines(told: InstructionsChanged, _screen: Screen) -> list[str]:
    return [one_line(f"{one.id} {one.status} ({one.agent}, {one.lane})") for one in told.instructions]


def configure_stop(parser: argparse.ArgumentParser) -> None:
    targets = "alice, @review[:tag] or alice@review[:tag] (default: all)"
    parser.add_argument("targets", metavar="TARGET", nargs="*", help=targets)
    parser.add_argument(
        "--grace", type=duration, metavar="D", help="how long running work may take to end (default: 10s)"
    )
    parser.add_argument("--now", action="store_true", help="no grace")
    parser.add_argument("--no-wait", action="store_true", help="do not wait until their processes have ended")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    all_projects_flag(parser, "the kernels of all your projects")


def run_stop(context: Context) -> int:
    grace = DEFAULT_GRACE_SECONDS if context.args.grace is None else context.args.grace
    if context.args.all_projects:
        if context.args.targets:
            raise Failure("usage", "-A stops whole kernels, and no single target", "name the project with --project")
        from interface.cli.commands.projects import stop_all  # noqa: PLC0415  (most stop one kernel)

        seconds = 0.0 if context.args.now else grace

        def end(client: Client) -> bool:
            gone = ExitWait(client.endpoint, context.clock)
            with suppress(Unreachable):  # it may be going already
                client.post("/shutdown", {"grace": seconds}, key=new_key())
            return context.args.no_wait or gone.wait(seconds + LADDER_SECONDS)

        return stop_all(context, lambda asked: agrees(context, asked), end, seconds + LADDER_SECONDS)
    if context.args.targets:
        return stop_targets(context, [target(text) for text in context.args.targets])
    try:
        client = context.find_kernel()
    except Unreachable as error:
        context.out.note(context.why_down(error))
        return Exit.OK
    except Hanging as hanging:
        return kill_kernel(context, hanging)
    if not context.args.yes and can_ask(context):
        busy = [row["name"] for row in json.loads(client.get("/ps"))["agents"] if row["state"] == "running"]
        if busy:
            context.out.ask(f"{', '.join(busy)} running; stop anyway? [y/N] ")
            if context.stdin.readline().strip().lower() not in {"y", "yes"}:
                raise Failure("failed", "nothing was stopped")
    if context.args.no_wait:
        client.post("/shutdown", {"grace": 0.0 if context.args.now else grace}, key=new_key())
    else:
        stop_kernel(context, client, 0.0 if context.args.now else grace)
    context.out.lines(["stopping" if context.args.no_wait else "stopped"])
    return Exit.OK


def kill_kernel(context: Context, hanging: Hanging) -> int:
    """Kill a kernel that does not answer, if no grace was asked for. Raises Hanging."""
    if not context.args.now or hanging.endpoint is None:
        raise hanging
    gone = ExitWait(hanging.endpoint, context.clock)
    os.kill(hanging.endpoint.pid, signal.SIGKILL)
    if not gone.wait(LADDER_SECONDS):
        raise hanging
    context.out.lines([f"killed {hanging.endpoint.pid}"])
    return Exit.OK


def stop_targets(context: Context, targets: list[Target]) -> int:
    """Stop all of them, now; then wait for each until nothing of it is left. Raises Failure."""
    if context.args.now or context.args.grace is not None:
        raise Failure("usage", "--grace and --now are for the kernel; workflows and agents are stopped at once")
    client = context.kernel()
    wait = not context.args.no_wait
    stops = [(asked, *_stop_request(client, asked)) for asked in targets]
    posts = [path for _asked, method, path in stops if method == "POST"]
    if wait and len(posts) > 1:
        for path in posts:  # so that they end at the same time, and not one after the other
            client.post(f"{path}?wait=false", NOTHING, key=new_key())
    for asked, method, path in stops:
        query = "" if wait else "?wait=false"
        if method == "DELETE":
            client.delete(path + query)
        else:
            client.post(path + query, NOTHING, key=new_key())
        context.out.lines([f"{'stopped' if wait else 'stopping'} {asked}"])
    return Exit.OK


def _stop_request(client: Client, asked: Target) -> tuple[Literal["DELETE", "POST"], str]:
    """Return the request that stops it. Raises Failure (unknown_agent)."""
    if asked.workflow is not None and asked.agent is None:
        return "DELETE", f"/workflows/{quoted(asked.workflow)}/{quoted(asked.tag)}"
    if asked.workflow is not None:
        return "POST", agent_path(client, asked, "stop")
    # An agent that ``new`` made is gone then; one with a file does no work until it is resumed.
    name = str(asked.agent)
    agents: list[dict[str, Any]] = json.loads(client.get("/agents"))["agents"]
    found = next((row for row in agents if row["name"] == name), None)
    if found is None:
        names = ", ".join(str(row["name"]) for row in agents) or "none"
        raise Failure("unknown_agent", f"there is no agent {name}", f"agents here: {names}")
    return ("DELETE", f"/agents/{quoted(name)}") if found["ephemeral"] else ("POST", f"/agents/{quoted(name)}/stop")


def stop_kernel(context: Context, client: Client, grace: float) -> None:
    """Ask the kernel to go, and return once it has gone. Raises Failure (timeout)."""
    exit_wait = ExitWait(client.endpoint, context.clock)
    with suppress(Unreachable):  # it may be going already
        client.post("/shutdown", {"grace": grace}, key=new_key())
    client.close()
    if not exit_wait.wait(grace + LADDER_SECONDS):
        raise Failure("timeout", "the kernel has not ended", f"see its log, or: {context.program} stop --now")


def configure_restart(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar="TARGET", nargs="?", help="alice or alice@review[:tag]")
    parser.add_argument("--kernel", action="store_true", help="the kernel: what runs goes on after its last entry")
    trust_flag(parser)
    json_flag(parser)


def run_restart(context: Context) -> int:
    if (context.args.target is None) != context.args.kernel:
        try:
            agents = json.loads(context.find_kernel().get("/agents"))["agents"]
            hint = f"agents here: {', '.join(str(row['name']) for row in agents) or 'none'}"
        except (Failure, Unreachable):
            hint = f"for example {context.program} restart alice"
        raise Failure("usage", "restart one agent, or the kernel with --kernel", hint)
    if context.args.kernel:
        from interface.cli.commands.status import status_lines  # noqa: PLC0415  (only the kernel has a status)

        # Agents made with new end, as with every clean stop.
        stop_kernel(context, context.kernel(), DEFAULT_GRACE_SECONDS)
        client = context.started_kernel(*(["--trust"] if context.trusts else []))
        return context.answer(client.get("/status"), status_lines)
    return act_on_agent(context, "restart")
