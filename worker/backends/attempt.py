"""Execution of one attempt by a CLI program: start it, follow its output until it exits, and report the result.

For the kernel this is a worker like any other. The program stores the conversation itself, so a later attempt
resumes its session and sends only new messages. Entries are only a record.
"""

import os
import secrets
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec
import trio

from protocol.backends import BACKENDS, MAX_LOGIN_BYTES
from protocol.errors import UNREACHED
from protocol.ipc import Error, Go, Result, Start
from protocol.tools import AUTH_REQUEST, SENDING
from worker.attempt import error_frame
from worker.backends import backend
from worker.backends.entry_recorder import BOOK_SECONDS, EntryRecorder, ended_between_turns
from worker.backends.private_files import missing_server, opened
from worker.backends.process import BackendProcess, InjectedEvents, launched
from worker.conversation import Conversation, TooLarge
from worker.daemon_mcp import DaemonMcp
from worker.io.trio_io import TrioIO
from worker.kernel_link import KernelLink, LinkLost, StopRequested, WorkerIO, secrets_of
from worker.models.model import Failed
from worker.tool import PermissionAnswer

SECRET_CHARACTERS: Final = 8
"""Minimum length at which a value in a login file is treated as a secret."""
PART_SECONDS: Final = 2.0
"""Time for a program that is stopped early to finish and report its usage."""
MAX_SECRETS: Final = 64
"""Maximum number of secrets in the original login file, and additionally in renewed ones."""


async def attempt(start: Start, link: KernelLink, waits: WorkerIO, *, env: Mapping[str, str]) -> Result | Error | None:
    """Run the attempt; return its terminal frame, or None if the kernel has exited. ``env`` is for its tools."""
    conversation = Conversation(start)
    link.hide(secrets_of(start), LoginSecrets(start).now)
    try:
        return await _work(start, conversation, link, env)
    except (LinkLost, StopRequested):
        return None
    except (Failed, TooLarge) as error:
        frame = error_frame(error, conversation)
        return msgspec.structs.replace(frame, text=link.shown(frame.text))
    except Exception as error:  # noqa: BLE001  (process boundary: report a bug as a crash that the kernel can classify)
        traceback.print_exc()
        return Error(cause="crash", text=f"the worker failed: {type(error).__name__}: {error}")


class LoginSecrets:
    """Secrets in a program's login file, also in earlier versions of it, to hide in all output."""

    def __init__(self, start: Start) -> None:
        login = BACKENDS[start.backend].login
        self._path = None if login is None or not start.login else Path(start.session_dir) / login.private
        self._seen: tuple[int, int, int] | None = None
        self._lent: dict[str, str] = {}
        self._known: dict[str, str] = {}

    def now(self) -> Mapping[str, str]:
        """Return all secrets so far: an old token may stay valid. Reads the file only if it has changed."""
        if self._path is None:
            return {}
        with suppress(OSError):
            found = os.lstat(self._path)
            seen = found.st_ctime_ns, found.st_size, found.st_ino
            if seen != self._seen:
                self._seen = seen
                secrets = dict.fromkeys(islice(_texts(self._path), MAX_SECRETS), "[login]")
                renewed = {name: known for name, known in self._known.items() if name not in secrets} | secrets
                self._lent = self._lent or secrets
                self._known = self._lent | dict(list(renewed.items())[-MAX_SECRETS:])
        return self._known


def _texts(path: Path) -> Iterator[str]:
    """Yield texts in the JSON file ``path`` that may be secrets; nothing if it is not JSON. Raises OSError.

    Texts with spaces are left out: tokens contain none, and hiding sentences could hide the agent's actions.
    """
    with opened(path) as file:
        data = file.read(MAX_LOGIN_BYTES)
    with suppress(msgspec.DecodeError, RecursionError):
        parts: list[object] = [msgspec.json.decode(data)]
        while parts:
            part = parts.pop()
            if isinstance(part, dict):
                parts += part.values()
            elif isinstance(part, list):
                parts += part
            elif isinstance(part, str) and len(part) >= SECRET_CHARACTERS and part.split() == [part]:
                yield part


async def _work(start: Start, conversation: Conversation, link: KernelLink, env: Mapping[str, str]) -> Result:
    ended = ended_between_turns(conversation, start.limits, Go(k=-1, allowance=start.allowance))
    if ended is not None:
        return ended
    spec = BACKENDS[start.backend]
    if (server := missing_server(start.mcp_servers, env.get("PATH", ""), start.cwd)) is not None:
        text = f"program {start.mcp_servers[server].command!r} not found"
        raise backend.unserved(spec.title, server, text, cause="spawn_permanent")
    # The session to resume. Raises Failed if it was created in another directory, which has other files.
    kept = next((one for one in reversed(start.entries) if one.kind == "session" and one.session), None)
    message, anew = backend.first_prompt(conversation), ""
    if kept is not None:
        # A leading dash would be parsed as an option.
        if kept.note not in (None, start.cwd) or str(kept.session).startswith("-"):
            raise Failed("session_lost", f"the session belongs to {kept.note}, but the attempt runs in {start.cwd}")
        message = backend.resume_prompt(conversation, start.granted)
        anew = backend.anew_prompt(conversation, start.granted)
    job = backend.BackendJob(
        start=start,
        binary=start.command[0],
        message=message,
        session=None if kept is None else kept.session,
        anew=anew,
        place=Path(start.attempt_dir),
        home=Path(start.session_dir),
        env=env,
        max_turns=start.limits.max_steps - conversation.own_step_count,
    )
    module = import_module(f"worker.backends.{start.backend}")
    recorder = EntryRecorder(conversation, link, start, job.session)
    await recorder.record_interrupted()
    program: backend.CliBackend = module.open(job)
    process = await launched(program.launch(), start)
    outcome: Result | Failed | LinkLost | TooLarge
    async with trio.open_nursery() as nursery:
        nursery.start_soon(process.attend)
        async with trio.open_nursery() as asking:
            told = ProgramInput(process, start, asking)
            try:
                outcome = await _follow(program, process, recorder, told)
            except (Failed, LinkLost, TooLarge) as error:
                outcome = error  # raised outside of the nursery, which would wrap it in a group
            finally:
                asking.cancel_scope.cancel()
                await told.part(program, recorder)
                await process.aclose()
    if not isinstance(outcome, Result):
        raise outcome
    if outcome.status == "done" and spec.daemon_check == "yes" and not recorder.reached:
        raise Failed("network", f"{spec.title} did not connect to the kernel's tools", code=UNREACHED)
    return outcome


class ProgramInput:
    """Writes to the stdin of a running CLI program, and answers its permission requests in tasks of ``nursery``.

    The kernel decides each request, and the program waits for the answer. If the kernel is unreachable, the answer is
    no.
    """

    def __init__(self, process: BackendProcess, start: Start, nursery: trio.Nursery) -> None:
        self._process = process
        self._start = start
        self._nursery = nursery
        self._origin = secrets.token_hex(8)
        self._asked = 0
        self._words: Callable[[], bytes] = bytes

    async def take(self, event: backend.InputReady | backend.PermissionNeeded | backend.FarewellInput) -> None:
        """Process ``event``. Raises Failed if the program does not read its input."""
        match event:
            case backend.InputReady(data=data):
                await self._process.say(data)
            case backend.PermissionNeeded():
                self._asked += 1
                # The key lets a later attempt recognize the same request, as for calls of all clients without ids.
                self._nursery.start_soon(self._ask, event, f"{SENDING}{self._origin}.{self._asked}")
            case backend.FarewellInput(words=words):
                self._words = words

    async def part(self, program: backend.CliBackend, recorder: EntryRecorder) -> None:
        """Ask a program that is stopped early to finish, and record the usage that it reports, in limited time."""
        words = self._words()
        if not words or recorder.over:
            return
        spent: list[backend.SubagentUsage] = []
        with trio.move_on_after(PART_SECONDS, shield=True), suppress(Failed):
            await self._process.say(words)
            over = False
            while not over and (line := await self._process.line()) is not None:
                events = () if callable(line) else tuple(program.read(line))
                spent += (one for one in events if isinstance(one, backend.SubagentUsage))
                over = any(isinstance(one, backend.LastEvent) for one in events)
        with trio.move_on_after(BOOK_SECONDS, shield=True), suppress(Failed, LinkLost, TooLarge):
            for one in spent:
                await recorder.record(one)

    async def _ask(self, ask: backend.PermissionNeeded, key: str) -> None:
        kernel = DaemonMcp(self._start.mcp.url, self._start.token, TrioIO())
        granted, words = False, "no one could be asked"
        try:
            asked = await kernel.run(AUTH_REQUEST, {"tool": ask.tool, "input": ask.input}, key)
            answer = PermissionAnswer(reason=asked.text)
            if not asked.is_error:
                answer = msgspec.json.decode(asked.text, type=PermissionAnswer)
            granted, words = answer.decision == "granted", answer.reason
        except (Failed, msgspec.DecodeError, RecursionError) as error:
            words = f"{words}: {error}"
        finally:
            await kernel.aclose()
        self._process.inject(partial(ask.then, granted, words))


async def _follow(
    program: backend.CliBackend, process: BackendProcess, recorder: EntryRecorder, told: ProgramInput
) -> Result:
    while (line := await _next(process, recorder.pauses)) is not None:
        recorder.pauses = None
        await recorder.alive()
        for event in line() if callable(line) else program.read(line):
            if isinstance(event, backend.InputReady | backend.PermissionNeeded | backend.FarewellInput):
                await told.take(event)
            elif (stopped := await recorder.record(event)) is not None:
                return stopped
        if recorder.over:
            process.over()
    return program.conclude(await process.ended())


async def _next(process: BackendProcess, pauses: backend.BackingOff | None) -> bytes | InjectedEvents | None:
    """Return the next line or events; None at the end. Raises Failed if the program paused for too long."""
    if pauses is None:
        return await process.line()
    with trio.move_on_after(pauses.seconds):
        return await process.line()
    raise pauses.why
