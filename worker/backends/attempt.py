"""One attempt that another program makes: found, started, followed to its end, and its end told.

The kernel asks for nothing here but what it asks of every worker. That the program keeps the conversation itself is why
entries are a record only: a later attempt names its session, and says what is new.
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

from protocol.backends import ACP, BACKENDS, MAX_LOGIN_BYTES, BackendSpec
from protocol.errors import UNREACHED
from protocol.ipc import Error, Go, Result, Start
from protocol.tools import AUTH_REQUEST, SENDING
from worker.attempt import error_frame
from worker.backends import backend
from worker.backends.entry_recorder import BOOK_SECONDS, EntryRecorder, ended_between_turns
from worker.backends.meter import metered
from worker.backends.private_files import absent, opened
from worker.backends.process import BackendProcess, Slipped, launched
from worker.conversation import Conversation, TooLarge
from worker.daemon_mcp import DaemonMcp
from worker.io.trio_io import TrioIO
from worker.kernel_link import KernelLink, LinkLost, StopRequested, WorkerIO, secrets_of
from worker.models.model import Failed
from worker.tool import PermissionAnswer

SECRET_CHARACTERS: Final = 8
"""What stands in a login is taken for a secret from this length on."""
PART_SECONDS: Final = 2.0
"""For a program that is to end early to stop what it does, and to say what that has cost."""
MAX_SECRETS: Final = 64
"""Of a login, as it was lent; and of all that it was renewed to, those of the last."""


async def attempt(start: Start, link: KernelLink, waits: WorkerIO, *, env: Mapping[str, str]) -> Result | Error | None:
    """The terminal frame; None where nobody is left to hear it. ``env`` is what the program's tools may see."""
    conversation = Conversation(start)
    link.hide(secrets_of(start), LoginSecrets(start).now)
    try:
        return await _work(start, conversation, link, env)
    except (LinkLost, StopRequested):
        return None
    except (Failed, TooLarge) as error:
        frame = error_frame(error, conversation)
        return msgspec.structs.replace(frame, text=link.shown(frame.text))
    except Exception as error:  # noqa: BLE001  (the boundary: a bug of ours becomes a crash the kernel can name)
        traceback.print_exc()
        return Error(cause="crash", text=f"the worker failed: {type(error).__name__}: {error}")


class LoginSecrets:
    """What people are not shown of the login that a program works with, and renews; nothing without one."""

    def __init__(self, start: Start) -> None:
        login = BACKENDS[start.backend].login
        self._path = None if login is None or not start.login else Path(start.session_dir) / login.private
        self._seen: tuple[int, int, int] | None = None
        self._lent: dict[str, str] = {}
        self._known: dict[str, str] = {}

    def now(self) -> Mapping[str, str]:
        """Those that it has, or had: an old token may be good for a while yet. The file is read where it changed."""
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
    """Yield what stands in the JSON of ``path`` and may be a secret. Nothing where it is none. Raises OSError.

    No token has a space in it; who could have sentences hidden could hide what it does.
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
    if (server := absent(start.mcp_servers, env.get("PATH", ""), start.cwd)) is not None:
        text = f"there is no program {start.mcp_servers[server].command!r}"
        raise backend.unserved(spec.title, server, text, cause="spawn_permanent")
    # The session to resume. Raises Failed where it was made in another directory: it would see other files there.
    kept = next((one for one in reversed(start.entries) if one.kind == "session" and one.session), None)
    message, anew = backend.first_prompt(conversation), ""
    if kept is not None:
        if kept.note not in (None, start.cwd) or str(kept.session).startswith("-"):  # else it is taken for an option
            raise Failed("session_lost", f"its session belongs to {kept.note}, and the work is now in {start.cwd}")
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
    teller = EntryRecorder(conversation, link, start, job.session)
    await teller.tell_interrupted()
    # The address that the program's requests are metered on their way to; None where they are not metered.
    address: str | None = None
    if start.backend == ACP:
        address = module.endpoint(job)
    elif start.provider is not None and (official := getattr(module, "METERED", None)) is not None:
        # A login may be good at another address than a key is; where nobody names one, its program knows.
        address = start.provider.base_url or (None if start.login else official.get(start.provider.dialect))
    if address is None and start.allowance is not None and start.backend == ACP:
        text = "its requests cannot be counted on the way, so a budget of tokens cannot hold"
        raise Failed("invalid", f"{start.command[0]}: {text}: limit wall_time, or choose another backend")
    if address is None:
        program: backend.CliBackend = module.open(job)
        return await _run(program, spec, program.launch(), start, teller)
    outcome: Result | Failed | LinkLost | TooLarge
    async with metered(address, start.limits, teller.may_ask) as meter:
        teller.meter = meter
        try:
            program = module.open(msgspec.structs.replace(job, endpoint=meter.url))
            outcome = await _run(program, spec, program.launch(), start, teller)
        except (Failed, LinkLost, TooLarge) as error:
            outcome = error  # raised outside of the meter's nursery, which would wrap it
    if not isinstance(outcome, Result):
        raise outcome
    return outcome


async def _run(
    program: backend.CliBackend, spec: BackendSpec, launch: backend.Launch, start: Start, teller: EntryRecorder
) -> Result:
    """Follow the program to its end, which this brings about where it does not come by itself."""
    process = await launched(launch, start)
    ended: Result | Failed | LinkLost | TooLarge
    async with trio.open_nursery() as nursery:
        nursery.start_soon(process.attend)
        async with trio.open_nursery() as asking:
            told = ProgramInput(process, start, asking)
            try:
                ended = await _follow(program, process, teller, told)
            except (Failed, LinkLost, TooLarge) as error:
                ended = error  # raised outside of the nursery, which would wrap it
            finally:
                asking.cancel_scope.cancel()
                await teller.close()  # a program may take longer to end than this worker is given
                await told.part(program, teller)
                await teller.close()
                await process.aclose()
                await teller.close()
    if not isinstance(ended, Result):
        raise ended
    if ended.status == "done" and spec.daemon_check == "yes" and not teller.reached:
        raise Failed("network", f"{spec.title} did not reach the kernel's tools, whatever it says", code=UNREACHED)
    return ended


class ProgramInput:
    """Tells a program that talks what its backend wants it told, and asks in ``nursery`` for what it wants leave for.

    Leave is asked of the kernel as every permission prompt does: the call waits there until somebody has decided. Where
    nobody can be asked, the answer is no.
    """

    def __init__(self, process: BackendProcess, start: Start, nursery: trio.Nursery) -> None:
        self._process = process
        self._start = start
        self._nursery = nursery
        self._origin = secrets.token_hex(8)
        self._asked = 0
        self._words: Callable[[], bytes] = bytes

    async def take(self, event: backend.Say | backend.PermissionNeeded | backend.Parting) -> None:
        """Do what ``event`` says. Raises Failed where the program does not read."""
        match event:
            case backend.Say(data=data):
                await self._process.say(data)
            case backend.PermissionNeeded():
                self._asked += 1
                # Known again by a later attempt by what it says, as calls are of every client that names none.
                self._nursery.start_soon(self._ask, event, f"{SENDING}{self._origin}.{self._asked}")
            case backend.Parting(words=words):
                self._words = words

    async def part(self, program: backend.CliBackend, teller: EntryRecorder) -> None:
        """Tell a program that is to end early to stop, and book what it says that it has spent. Bounded."""
        words = self._words()
        if not words or teller.over:
            return
        spent: list[backend.SubagentUsage] = []
        with trio.move_on_after(PART_SECONDS, shield=True), suppress(Failed):
            await self._process.say(words)
            over = False
            while not over and (line := await self._process.line()) is not None:
                events = () if callable(line) else tuple(program.read(line))
                spent += (one for one in events if isinstance(one, backend.SubagentUsage))
                over = any(isinstance(one, backend.LastEvent) for one in events)
        # Not within the limit: what is taken from the meter has to be booked.
        with trio.move_on_after(BOOK_SECONDS, shield=True), suppress(Failed, LinkLost, TooLarge):
            for one in spent:
                await teller.tell(one)

    async def _ask(self, ask: backend.PermissionNeeded, key: str) -> None:
        kernel = DaemonMcp(self._start.mcp.url, self._start.token, TrioIO())
        granted, words = False, "nobody could be asked"
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
        self._process.slip(partial(ask.then, granted, words))


async def _follow(
    program: backend.CliBackend, process: BackendProcess, teller: EntryRecorder, told: ProgramInput
) -> Result:
    """Tell all it says, until it has ended or has to. Raises Failed, LinkLost, TooLarge."""
    with teller.going_on:
        while (line := await _next(process, teller.pauses)) is not None:
            teller.pauses = None
            await teller.alive()
            for event in line() if callable(line) else program.read(line):
                if isinstance(event, backend.Say | backend.PermissionNeeded | backend.Parting):
                    await told.take(event)
                elif (stopped := await teller.tell(event)) is not None:
                    return stopped
            if teller.over:
                process.over()
        return program.conclude(await process.ended())
    assert teller.ended is not None, "it says why it does not go on"
    return teller.ended


async def _next(process: BackendProcess, pauses: backend.BackingOff | None) -> bytes | Slipped | None:
    """The next line. Raises Failed where it has waited for too long."""
    if pauses is None:
        return await process.line()
    with trio.move_on_after(pauses.seconds):
        return await process.line()
    raise pauses.why
