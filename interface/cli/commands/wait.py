"""``awk wait``: wait until an agent, workflow, run or instruction is idle, done or blocked; starts no kernel.

The wait is level-triggered: the state is queried after every connect, ping and relevant event, so a restart of the
kernel loses no change. The command exits with 7 if only a person can continue the work.
"""

import argparse
import json
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from interface.cli.command_parser import duration
from interface.cli.context import Context
from interface.cli.exits import Exit
from interface.cli.output import Screen, one_line
from interface.cli.parsing import json_flag
from interface.cli.targets import RUN, target
from interface.client import PING, Client, quoted
from interface.event_follow import CONNECTED, ENDED, Expired, Follower
from interface.failure import Failure, Unreachable
from protocol.target import Target

INSTRUCTION: Final = re.compile(r"i\d{1,18}", re.ASCII)
MOVING: Final = frozenset({"delta", "progress", "instruction.step", "worker.log"})
"""Events of continuing work, which cannot end a wait."""
_PAGE: Final = "1000"


class Standing(NamedTuple):
    """Snapshot of a target's state; ``note`` describes the state for the user."""

    idle: bool
    done: bool
    needs: bool
    note: str


def configure_wait(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar="TARGET", help="alice, alice@review, @review:tag, r12 or i7")
    about = "idle: no work is left; done: the run, instruction or workflow has ended; needs: a person must act"
    parser.add_argument("--for", dest="goal", choices=("idle", "done", "needs"), required=True, help=about)
    parser.add_argument("--timeout", type=duration, metavar="D", help="maximum time to wait (10s, 5m; exit code 124)")
    json_flag(parser)


def run_wait(context: Context) -> int:
    args = context.args
    standing_of = subject(args.target)
    if args.goal == "done" and isinstance(standing_of, OfAgent) and standing_of.target.agent is not None:
        hint = f"awk wait {args.target} --for idle"
        raise Failure("usage", f"{args.target} is an agent, which can be idle but not done", hint)
    deadline = None if args.timeout is None else context.clock.now() + args.timeout
    follower = Follower(connect=context.kernel, query={}, clock=context.clock, say=context.out.note, deadline=deadline)
    last = Standing(idle=False, done=False, needs=False, note="nothing was heard of it")
    try:
        for event in follower:
            if event not in (CONNECTED, PING) and event.type in MOVING:
                continue
            assert follower.client is not None
            try:
                last = standing_of(follower.client)
            except Unreachable:
                continue  # the stream breaks as well, and the query is repeated after its next connect
            if getattr(last, args.goal) or last.needs:
                return told(context, last, Exit.OK if getattr(last, args.goal) else Exit.UNTRUSTED)
    except Expired:
        pass
    return told(context, last, Exit.TIMEOUT)


def told(context: Context, last: Standing, code: Exit) -> int:
    document = {"schema": "awk/wait/1", "target": context.args.target, "for": context.args.goal, **last._asdict()}
    context.answer(json.dumps({**document, "reached": code == Exit.OK}).encode(), wait_lines)
    return code


def wait_lines(body: bytes, _screen: Screen) -> list[str]:
    said: Mapping[str, Any] = json.loads(body)
    return [one_line(f"{said['target']}: {said['note']}")]


class OfInstruction(NamedTuple):
    """Query for the state of an instruction."""

    id: str

    def __call__(self, client: Client) -> Standing:
        """Return the current state. Raises Failure (not_found), Unreachable."""
        info = json.loads(client.get(f"/instructions/{self.id}"))
        ended = info["status"] in ENDED
        return Standing(ended, ended, info.get("standing") == "person", str(info["status"]))


class OfRun(NamedTuple):
    """Query for the state of a run."""

    id: str

    def __call__(self, client: Client) -> Standing:
        """Return the current state. Raises Failure (not_found), Unreachable."""
        status = str(json.loads(client.get(f"/runs/{self.id}"))["status"])
        waits = any(item["run"] == self.id for item in needs(client))
        return Standing(status != "running", status != "running", waits, status)


class OfAgent(NamedTuple):
    """Query for the state of one agent, or of all members of a workflow."""

    target: Target

    def __call__(self, client: Client) -> Standing:
        """Return the state of agents: idle if no work runs or waits. Raises Failure, Unreachable."""
        name, space = self.target.agent, None if self.target.workflow is None else str(self.target.space)
        query = {key: value for key, value in (("space", space), ("agent", name)) if value is not None}
        if json.loads(client.get("/status", query))["state"] == "down":
            return Standing(idle=True, done=name is None, needs=False, note="stopped")
        keys = [str(name)]
        if space is not None:
            members = json.loads(client.get(f"/spaces/{quoted(space)}/members"))["members"]
            keys = [str(row["agent"] or row["name"]) for row in members if name in (None, row["name"])]
        # Not by ps: the name in its rows depends on the space in which the agent currently works.
        busy = [key for key in keys if json.loads(client.get(f"/agents/{quoted(key)}/queue", {"limit": "1"}))["total"]]
        waits = any(space in (None, item["space"]) and name in (None, item["agent"]) for item in needs(client))
        return Standing(not busy, False, waits, f"{', '.join(busy)} running" if busy else "idle")


def subject(text: str) -> OfInstruction | OfRun | OfAgent:
    """Return the query for ``text``. Raises Failure (bad_target)."""
    if INSTRUCTION.fullmatch(text):
        return OfInstruction(text)
    return OfRun(text) if RUN.fullmatch(text) else OfAgent(target(text))


def needs(client: Client) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    after: str | None = ""
    while after is not None:
        page = json.loads(client.get("/needs", {"limit": _PAGE, **({"after": after} if after else {})}))
        found += page["items"]
        after = page["next"]
    return found
