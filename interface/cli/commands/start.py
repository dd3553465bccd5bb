"""``awk start``, ``stop``, ``restart`` and ``upgrade`` of the kernel, workflows and agents.

``stop`` and ``restart --kernel`` return when the kernel process has exited, not just closed its port. ``upgrade``
returns when another version of the kernel has taken over the work, or has failed to do so.
"""

import json
import os
import select
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, Literal

from interface.cli.command_parser import duration
from interface.cli.context import Context
from interface.cli.exits import Exit
from interface.cli.output import Screen, one_line
from interface.cli.parsing import AGENT, TARGET, Arguments, argument, json_flag, switch, trust_flag, workflow_flags
from interface.cli.prompts import agrees, can_ask, confirm, with_trust
from interface.cli.requests import NOTHING, left_behind_lines
from interface.client import Client, new_key, quoted
from interface.clock import Clock
from interface.discovery import Hanging, KernelEndpoint, given_endpoint, is_locked, prove, recorded_endpoint
from interface.failure import Failure, Unreachable

if TYPE_CHECKING:
    from protocol.target import Target

_PASSED_ON: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_TO: Final = "virtual environment or program of the new version (default: the installed one)"
ARGUMENTS: Final[Mapping[str, Arguments]] = {
    "start": (
        argument("workflow", metavar="FILE|NAME", nargs="?", help="workflow to start (default: only the kernel)"),
        workflow_flags,
        switch("--foreground", about="run in the foreground and log to stderr"),
    ),
    "stop": (
        argument("targets", metavar="TARGET", nargs="*", help=f"{TARGET} (default: all work and the kernel)"),
        argument("--grace", type=duration, metavar="D", help="time for running work to finish (default: 10s)"),
        switch("--now", about="stop running work immediately"),
        switch("--no-wait", about="return without waiting for processes to exit"),
        switch("--yes", about="stop without confirmation"),
        switch("-A", "--all-projects", about="stop the kernels of all your projects"),
    ),
    "restart": (
        argument("target", metavar="TARGET", nargs="?", help=AGENT),
        switch("--kernel", about="restart the kernel; unfinished work continues"),
        trust_flag,
        json_flag,
    ),
    "upgrade": (
        argument("--to", metavar="PATH", help=_TO),
        switch("--status", about="print the result of the last upgrade"),
        json_flag,
    ),
}


def run_start(context: Context) -> int:
    if context.params and context.args.workflow is None:
        raise Failure("usage", "parameters after -- require a workflow")
    workflow = None if context.args.workflow is None else context.workflow(context.args.workflow)
    if context.args.foreground:
        return run_in_foreground(context, workflow)
    if workflow is None and context.args.trust:
        with suppress(Unreachable):
            context.find_kernel().close()
            again = f"to trust the project's files: {context.program} stop, then {context.program} start --trust"
            context.out.note(f"note: --trust has no effect on the running kernel; {again}")
    client = context.started_kernel(*_flags(context, workflow))
    context.out.lines([f"kernel {client.endpoint.pid or ''} at http://{client.endpoint.address.authority}"])
    if workflow is not None:
        _start_workflow(context, client, workflow)
    return Exit.OK


def run_in_foreground(context: Context, workflow: str | None) -> int:
    from interface.autostart import Starter, command, kernel_environment  # noqa: PLC0415  (needs subprocess)

    try:
        running = context.find_kernel()
    except Unreachable:
        pass
    else:
        text = f"a kernel already runs (pid {running.endpoint.pid})"
        raise Failure("already_running", text, f"stop it first: {context.program} stop")
    environ = kernel_environment(context.environ, context.project)
    argv = command(context.project, "--foreground", *_flags(context, workflow))
    with subprocess.Popen(argv, cwd=context.project.root, env=environ, umask=0o077, process_group=0) as kernel:
        passed_on = pass_on_signals(kernel)
        try:
            starter = Starter(context.project, context.environ, context.clock, context.out.note, child=kernel)
            client = starter.client()
            if workflow is not None:
                _start_workflow(context, client, workflow)
            client.close()
        except (Failure, Unreachable):
            if not passed_on:  # otherwise the kernel handles the signal that arrived during startup
                kernel.terminate()
                raise
        # Wait for the kernel's exit code. As process 1 of a container, this process also has to reap all orphans.
        while os.getpid() == 1 and kernel.returncode is None:
            pid, status = os.waitpid(-1, 0)
            if pid == kernel.pid:
                kernel.returncode = os.waitstatus_to_exitcode(status)
        code = kernel.wait()
    return code if code >= 0 else 128 - code


def _flags(context: Context, workflow: str | None) -> tuple[str, ...]:
    """Return the flags of the kernel. With a workflow, ``--trust`` applies to its start only, not to the kernel."""
    return ("--trust",) if workflow is None and context.trusts else ()


def _start_workflow(context: Context, client: Client, workflow: str) -> None:
    body = {"workflow": workflow, "tag": context.args.tag, "params": context.params, "trust": context.trusts}
    body |= {"update": True} if context.args.update else {}
    body |= {"continue": True} if context.args.go_on else {}

    def post(asked: Mapping[str, object]) -> bytes:
        return client.post("/workflows", asked, key=new_key(), wait_seconds=None)

    row: dict[str, Any] = json.loads(with_trust(context, body, post))
    context.out.notes(left_behind_lines(row))
    members = ", ".join(str(name) for name in row.get("members", ()))
    context.out.lines([one_line(f"{row['name']}:{row['tag']} runs: {members}")])


def pass_on_signals(kernel: "subprocess.Popen[bytes]") -> list[int]:
    """Forward received signals to the kernel, which has its own process group. Return the list of forwarded signals."""
    passed_on: list[int] = []

    def pass_on(number: int, frame: FrameType | None) -> None:
        passed_on.append(number)
        kernel.send_signal(number)

    for number in _PASSED_ON:
        signal.signal(number, pass_on)
    return passed_on


_EXIT_PAUSE_SECONDS: Final = 0.02


class ExitWait:
    """Wait for the exit of a kernel that has just proved its identity, so its pid is valid.

    On Linux, a pidfd identifies the process even if its pid is reused (fault PF12). Elsewhere, and for a kernel that
    only the environment names, the wait ends when the kernel no longer answers.
    """

    def __init__(self, endpoint: KernelEndpoint, clock: Clock) -> None:
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
        """Return whether the kernel exited within ``seconds``."""
        if self._process is None:
            deadline = self._clock.now() + seconds
            while self._clock.now() < deadline:
                try:
                    prove(self._endpoint).connection.close()
                except Unreachable:
                    return True
                self._clock.pause(_EXIT_PAUSE_SECONDS)
            return False
        try:
            poll = select.poll()
            poll.register(self._process, select.POLLIN)
            return bool(poll.poll(seconds * 1000))
        finally:
            os.close(self._process)


DEFAULT_GRACE_SECONDS: Final = 10.0
LADDER_SECONDS: Final = 25.0
"""Time for a kernel to exit after the grace period: kill remaining processes, write a checkpoint, exit."""


def run_stop(context: Context) -> int:
    grace = DEFAULT_GRACE_SECONDS if context.args.grace is None else context.args.grace
    if context.args.all_projects:
        if context.args.targets:
            hint = "use --project to stop a target of another project"
            raise Failure("usage", "-A and TARGET cannot be combined", hint)
        from interface.cli.commands.projects import stop_all  # noqa: PLC0415  (most stop one kernel)

        seconds = 0.0 if context.args.now else grace

        def end(client: Client) -> bool:
            gone = ExitWait(client.endpoint, context.clock)
            with suppress(Unreachable):  # it may be going already
                client.post("/shutdown", {"grace": seconds}, key=new_key())
            return context.args.no_wait or gone.wait(seconds + LADDER_SECONDS)

        return stop_all(context, lambda asked: agrees(context, asked), end, seconds + LADDER_SECONDS)
    if context.args.targets:
        return stop_targets(context)
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
            confirm(context, f"{', '.join(busy)} running; stop anyway?", "nothing was stopped")
    if context.args.no_wait:
        client.post("/shutdown", {"grace": 0.0 if context.args.now else grace}, key=new_key())
    else:
        stop_kernel(context, client, 0.0 if context.args.now else grace)
    context.out.lines(["stopping" if context.args.no_wait else "stopped"])
    return Exit.OK


def kill_kernel(context: Context, hanging: Hanging) -> int:
    """Kill a kernel that does not respond, if no grace was requested. Raises Hanging."""
    if not context.args.now or hanging.endpoint is None:
        raise hanging
    gone = ExitWait(hanging.endpoint, context.clock)
    os.kill(hanging.endpoint.pid, signal.SIGKILL)
    if not gone.wait(LADDER_SECONDS):
        raise hanging
    context.out.lines([f"killed {hanging.endpoint.pid}"])
    return Exit.OK


def stop_targets(context: Context) -> int:
    """Stop all targets, then wait until each has stopped. Raises Failure."""
    from interface.cli.targets import target  # noqa: PLC0415  (takes msgspec)

    targets = [target(text) for text in context.args.targets]
    if context.args.now or context.args.grace is not None:
        raise Failure("usage", "--grace and --now only apply to the kernel")
    client = context.kernel()
    wait = not context.args.no_wait
    stops = [(asked, *_stop_request(client, asked)) for asked in targets]
    posts = [path for _asked, method, path in stops if method == "POST"]
    if wait and len(posts) > 1:
        for path in posts:  # request all stops first, so that the targets stop at the same time
            client.post(f"{path}?wait=false", NOTHING, key=new_key())
    for asked, method, path in stops:
        query = "" if wait else "?wait=false"
        if method == "DELETE":
            client.delete(path + query)
        else:
            client.post(path + query, NOTHING, key=new_key())
        context.out.lines([f"{'stopped' if wait else 'stopping'} {asked}"])
    return Exit.OK


def _stop_request(client: Client, asked: "Target") -> tuple[Literal["DELETE", "POST"], str]:
    """Return the request that stops the target. Raises Failure (unknown_agent)."""
    if asked.workflow is not None and asked.agent is None:
        return "DELETE", f"/workflows/{quoted(asked.workflow)}/{quoted(asked.tag)}"
    if asked.workflow is not None:
        from interface.cli.targets import agent_path  # noqa: PLC0415  (takes msgspec)

        return "POST", agent_path(asked, "stop")
    # An agent created with ``new`` is deleted; one with a file does no work until it is resumed.
    name = str(asked.agent)
    agents: list[dict[str, Any]] = json.loads(client.get("/agents"))["agents"]
    found = next((row for row in agents if row["name"] == name), None)
    if found is None:
        names = ", ".join(str(row["name"]) for row in agents) or "none"
        raise Failure("unknown_agent", f"agent {name} not found", f"agents here: {names}")
    return ("DELETE", f"/agents/{quoted(name)}") if found["ephemeral"] else ("POST", f"/agents/{quoted(name)}/stop")


def stop_kernel(context: Context, client: Client, grace: float) -> None:
    """Stop the kernel and wait for its exit. Raises Failure (timeout)."""
    exit_wait = ExitWait(client.endpoint, context.clock)
    with suppress(Unreachable):  # it may be going already
        client.post("/shutdown", {"grace": grace}, key=new_key())
    client.close()
    if not exit_wait.wait(grace + LADDER_SECONDS):
        hint = f"see its log, or kill it: {context.program} stop --now"
        raise Failure("timeout", "the kernel is still running", hint)


def run_restart(context: Context) -> int:
    if (context.args.target is None) != context.args.kernel:
        try:
            agents = json.loads(context.find_kernel().get("/agents"))["agents"]
            hint = f"agents here: {', '.join(str(row['name']) for row in agents) or 'none'}"
        except (Failure, Unreachable):
            hint = f"for example: {context.program} restart alice"
        raise Failure("usage", "TARGET or --kernel is required", hint)
    if context.args.kernel:
        from interface.cli.commands.status import status_lines  # noqa: PLC0415  (only the kernel has a status)

        # Agents created with ``new`` are deleted, as with every clean stop.
        stop_kernel(context, context.kernel(), DEFAULT_GRACE_SECONDS)
        client = context.started_kernel(*(["--trust"] if context.trusts else []))
        return context.answer(client.get("/status"), status_lines)
    from interface.cli.commands.steer import act_on_agent  # noqa: PLC0415  (msgspec, which a start does without)

    return act_on_agent(context, "restart")


PATIENCE_SECONDS: Final = 240.0
"""Time for the test of the new version, the pause of running work, and a rollback; each has a limit."""
_PAUSE_SECONDS: Final = 0.1
_ANEW: Final = "the kernel was restarted during the upgrade"
_HINT: Final = "see kernel.log"
_OVER: Final = ("done", "failed", "none")


def run_upgrade(context: Context) -> int:
    if context.args.status and context.args.to is not None:
        raise Failure("usage", "--status and --to cannot be combined", "leave out --to")
    client = context.kernel()
    if context.args.status:
        return context.answer(client.get("/upgrade"), upgrade_lines)
    to = context.args.to
    body = {} if to is None else {"to": os.path.abspath(os.path.join(context.cwd, os.path.expanduser(to)))}
    asked = json.loads(client.post("/upgrade", body, key=new_key()))
    told = _ended(context, client, asked["id"])  # the new version has the same port and token
    document: dict[str, Any] = json.loads(told)
    if document["state"] == "done":
        return context.answer(told, upgrade_lines)
    if context.wants_json:
        context.out.document(told)
        return Exit.FAILED
    raise Failure("failed", str(document["reason"]), "the previous version continues; running work was not affected")


def _ended(context: Context, client: Client, upgrade: str) -> bytes:
    deadline = context.clock.now() + PATIENCE_SECONDS
    while context.clock.now() < deadline:
        try:
            told = client.get("/upgrade")
        except Unreachable:  # the kernel restarts, unless it was killed
            if not given_endpoint(context.environ):  # token and lock pass from one version to the next
                newer = recorded_endpoint(context.project)
                if newer is not None and newer.token != client.endpoint.token:
                    raise Failure("failed", _ANEW, _HINT) from None
                if not is_locked(context.project):
                    hint = f"{context.program} start; {_HINT}"
                    raise Failure("no_kernel", "the kernel ended during the upgrade", hint) from None
        else:
            found = json.loads(told)
            if found["id"] != upgrade:
                raise Failure("failed", _ANEW, _HINT)
            if found["state"] in _OVER:
                return told
        context.clock.pause(_PAUSE_SECONDS)
    raise Failure("timeout", "the result of the upgrade is unknown", f"check again: {context.program} upgrade --status")


def upgrade_lines(told: dict[str, Any], _screen: Screen) -> list[str]:
    way = f"{told['before']} to {told['to']}"
    match told["state"]:
        case "none":
            return [one_line(f"version {told['before']}; it was not upgraded since it was started")]
        case "done":
            waited = f"longest wait: {told['waited_seconds']:.2f} s"
            count = told["attempts"]
            went_on = f"{count} attempt{'' if count == 1 else 's'} continued"
            return [one_line(f"upgraded from {way}: {went_on}, {waited}")]
        case "failed":
            return [one_line(f"not upgraded from {way}: {told['reason']}")]
        case state:
            return [one_line(f"from {way}: {state}")]
