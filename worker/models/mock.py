"""The mock model, which plays a script: the same loop and the same stored entries, without a provider.

The position in the script is computed from the entries: each reply is one action, except replies that
record a scripted failure. So a script can resume at any point, without counters in memory.
"""

import math
import os
import re
import select
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec

from protocol.agent import Action, MockExit, Rule
from protocol.instruction import Usage
from protocol.ipc import Entry, Start, ToolCall
from worker.conversation import Conversation
from worker.io.poll import PollIO
from worker.kernel_link import WorkerIO
from worker.models.model import Failed, StreamSink, cause_of
from worker.tool import BACKGROUND, ToolOutcome

_VARIABLE: Final = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")

Values = Mapping[str, str]


def choose(rules: tuple[Rule, ...], text: str) -> tuple[int, Rule, Values] | None:
    """Return number and rule of the first match for ``text``, and the rule's values. Raises Failed (bad pattern)."""
    for number, rule in enumerate(rules):
        if rule.when is None:
            return number, rule, {"message.text": text}
        try:
            match = re.search(rule.when, text)
        except re.error as error:
            text = f"mock rule {number}: {rule.when!r} is not a regular expression: {error}"
            raise Failed("invalid", text) from error
        if match:
            numbered = {f"match.{i}": group or "" for i, group in enumerate((match[0], *match.groups()))}
            named = {f"match.{name}": group or "" for name, group in match.groupdict().items()}
            return number, rule, {"message.text": text, **numbered, **named}
    return None


def fill(action: Action, values: Values) -> Action:
    """Replace the variables of ``action``; values are not expanded again. Raises Failed (unknown name)."""
    error = action.error
    return msgspec.structs.replace(
        action,
        text=_filled(action.text, values),
        shell=_filled(action.shell, values),
        args=_filled(action.args, values),
        error=msgspec.structs.replace(error, text=_filled(error.text, values)) if error else None,
    )


def _filled(value: Any, values: Values) -> Any:
    match value:
        case str() if "${{" in value:
            unknown = [name for name in _VARIABLE.findall(value) if name not in values]
            if unknown:
                known = ", ".join(sorted(values))
                raise Failed("invalid", f"mock script: ${{{{ {unknown[0]} }}}} is unknown; available: {known}")
            return _VARIABLE.sub(lambda match: values[match[1]], value)
        case list():
            return [_filled(item, values) for item in value]
        case dict():
            return {key: _filled(item, values) for key, item in value.items()}
        case _:
            return value


SHELL: Final = "shell"
"""Name of the call for a ``shell`` action of a script."""


def is_script(start: Start) -> bool:
    """Return whether the work of ``start`` plays a script instead of asking a model."""
    return start.backend == "mock" or (start.provider is not None and start.provider.dialect == "mock")


def kill_self(how: MockExit) -> None:
    """End this process as ``how`` demands: by a signal, or at once with an exit code."""
    if how.signal is not None:
        os.kill(os.getpid(), signal.Signals[f"SIG{how.signal.upper().removeprefix('SIG')}"])
    os._exit(how.code or 0)


class MockModel:
    """Model that plays the first rule whose ``when`` matches the instruction. Without a match, its reply is empty."""

    def __init__(
        self,
        rules: tuple[Rule, ...],
        counts: Mapping[str, int],
        waits: WorkerIO,
        die: Callable[[MockExit], None] = kill_self,
    ) -> None:
        self._rules = rules
        self._counts = counts
        self._waits = waits
        self._die = die
        self._armed: tuple[str, Action] | None = None

    async def reply(self, conversation: Conversation, allowance: int | None, live: StreamSink) -> Entry:
        """Return the next action as a reply. Raises Failed for a scripted failure, or an invalid script."""
        if self._armed is not None:
            self._fail(*self._armed)
        k = conversation.next_k
        chosen = choose(self._rules, conversation.source_text)
        if chosen is None:
            return Entry(k=k, kind="reply", stop_reason="end_turn")
        number, rule, values = chosen
        index = _place(number, rule.do, conversation, self._counts)
        if index == len(rule.do):
            return Entry(k=k, kind="reply", stop_reason="end_turn")
        key, action = f"{number}.{index}", fill(rule.do[index], values)
        if action.error is not None or action.exit is not None:
            # Fail at once; or, if failures are counted, first store a reply that records it, and fail on the next call.
            if _times(action) is None:
                self._fail(key, action)
            self._armed = (key, action)
            return Entry(k=k, kind="reply", stop_reason="fired", note=key)
        if action.sleep is not None:
            await live.progress("sleeping")
            await self._waits.sleep(action.sleep)
        if action.text:
            await live.delta(action.text)
        # One action as a reply. The last one ends the turn after its call; the others continue it.
        last = index + 1 == len(rule.do)
        name, args = action.tool, action.args or {}
        if name is None and action.shell is not None:
            name, args = SHELL, {"command": action.shell} | ({"background": True} if action.background else {})
        encoded = msgspec.Raw(msgspec.json.encode(args))
        calls = () if name is None else (ToolCall(id=f"mock-{k}", name=name, args=encoded),)
        usage = None if action.usage is None else Usage(**msgspec.structs.asdict(action.usage))
        stop = "end_turn" if last else "tool_use" if calls else "pause_turn"
        return Entry(k=k, kind="reply", stop_reason=stop, text=action.text or "", calls=calls, usage=usage)

    async def aclose(self) -> None:
        """Do nothing: the mock has no connection."""

    def _fail(self, key: str, action: Action) -> None:
        self._armed = None
        if action.exit is not None:
            self._die(action.exit)
        error = action.error
        if error is None:
            raise Failed("crash", "the scripted exit did not stop the process", fired=key)
        raise Failed(
            cause_of(error.http_status, (error.code,) if error.code else ()),
            error.text or "scripted failure",
            http_status=error.http_status,
            retry_after_seconds=error.retry_after,
            code=error.code,
            fired=key,
        )


def _times(action: Action) -> int | None:
    failure = action.error or action.exit
    return failure.times if failure is not None else None


def _place(number: int, actions: tuple[Action, ...], conversation: Conversation, counts: Mapping[str, int]) -> int:
    played = conversation.step_count
    for index, action in enumerate(actions):
        if action.error is not None or action.exit is not None:
            key, times = f"{number}.{index}", _times(action)
            fired = sum(step.reply.note == key for step in conversation.steps if step.reply.stop_reason == "fired")
            if times is None or max(fired, counts.get(key, 0)) < times:
                return index
        elif played == 0:
            return index
        else:
            played -= 1
    return len(actions)


OUTPUT_LIMIT_BYTES: Final = 256 * 1024
"""Maximum stored output. More output is read and dropped, so that the command does not block."""
_LINGER_SECONDS: Final = 1.0
"""Time to read after the shell has exited: a process outside of its group may keep the pipe open forever."""
_ROUND_SECONDS: Final = 0.05
"""Interval of checks whether the shell has exited, on systems without a descriptor for that (macOS)."""
_CHUNK_BYTES: Final = 64 * 1024
_SHELL: Final = "/bin/sh"
Confine = Callable[[Sequence[str]], tuple[str, ...]]
"""Returns the command line that runs a command in its sandbox."""
_IGNORED: Final = (signal.SIGPIPE, signal.SIGXFSZ)
"""Signals that Python ignores, and that commands must not ignore."""


class Shell:
    """Runs ``/bin/sh -c``. Standard output and error are one stream; standard input is empty."""

    def __init__(
        self, *, desk: PollIO, cwd: str, env: dict[str, str], idempotency_key: str, confine: Confine = tuple
    ) -> None:
        self._desk = desk
        self._confine = confine
        self._cwd = cwd
        self._env = env
        self._idempotency_key = idempotency_key

    async def run(self, name: str, args: dict[str, Any], key: str) -> ToolOutcome:
        """Run ``args["command"]``. A non-zero exit code is no error. A stop or a timeout kills the process group.

        With ``args["background"]``, return when the command has started; it keeps running.
        """
        if args.get("background"):
            text = str(args.get("command", ""))
            nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
            try:
                return ToolOutcome(BACKGROUND.format(pid=self._start(text, key, nowhere)))
            except OSError as error:
                return ToolOutcome(f"{name} could not start: {error}", True)
            finally:
                os.close(nowhere)
        read, write = os.pipe()
        try:
            command = _Command(self._start(str(args.get("command", "")), key, write))
        except OSError as error:
            os.close(read)
            return ToolOutcome(f"{name} could not start: {error}", True)
        finally:
            os.close(write)
        output = _Output(read)
        try:
            try:
                # Read its output until it has exited.
                while not command.ended():
                    fds = [fd for fd in (command.fd, output.fd) if fd is not None]
                    until = math.inf if command.fd is not None else time.monotonic() + _ROUND_SECONDS
                    if output.fd in self._desk.wait(*fds, until=until):
                        output.take()
            finally:
                command.kill()
            # Read the rest of the output.
            end = time.monotonic() + _LINGER_SECONDS
            while output.fd is not None and time.monotonic() < end:
                if self._desk.wait(output.fd, until=end):
                    output.take()
        finally:
            os.close(read)
        code = command.code or 0
        kept = bytes(output.kept)
        text = kept[:OUTPUT_LIMIT_BYTES].decode("utf-8", "replace")
        if len(kept) > OUTPUT_LIMIT_BYTES:
            text += f"\n[... output over {OUTPUT_LIMIT_BYTES} bytes left out ...]"
        return ToolOutcome(text if code == 0 else f"{text}[exit {code}]", code != 0)

    def _start(self, text: str, key: str, output: int) -> int:
        """Return the pid of a shell that runs ``text`` as leader of a new session. Raises OSError."""
        env = {**self._env, "AGENT_IDEMPOTENCY_KEY": f"{self._idempotency_key}:{key}"}
        files: list[tuple[Any, ...]] = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)]
        files += [(os.POSIX_SPAWN_DUP2, output, fd) for fd in (1, 2)]
        here = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.chdir(self._cwd)  # posix_spawn cannot set a directory
            argv = self._confine((_SHELL, "-c", text))
            # not subprocess: it imports threading, whose hook copies 110 pages at each fork
            return os.posix_spawn(
                argv[0], argv, env, file_actions=files, setsid=True, setsigdef=_IGNORED, setsigmask=()
            )
        finally:
            os.fchdir(here)
            os.close(here)


class _Command:
    """A running shell that leads its session. ``fd`` becomes readable at its exit; None on some systems."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.code: int | None = None
        self.fd: int | None = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None

    def ended(self) -> bool:
        """Return whether the shell has exited; then ``code`` is set."""
        if self.code is None:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            self.code = os.waitstatus_to_exitcode(status) if pid else None
        return self.code is not None

    def kill(self) -> None:
        """Kill the shell's process group, and wait _LINGER_SECONDS at most for its exit. Call it once, at the end."""
        with suppress(ProcessLookupError):
            os.killpg(self._pid, signal.SIGKILL)
        end = time.monotonic() + _LINGER_SECONDS
        while not self.ended() and time.monotonic() < end:
            select.select([] if self.fd is None else [self.fd], [], [], _ROUND_SECONDS)
        if self.fd is not None:
            os.close(self.fd)


class _Output:
    """The output of a command, up to the limit. ``fd`` is None after the end of the output."""

    def __init__(self, fd: int) -> None:
        self.fd: int | None = fd
        self.kept = bytearray()

    def take(self) -> None:
        assert self.fd is not None, "called when readable"
        chunk = os.read(self.fd, _CHUNK_BYTES)
        self.kept += chunk[: max(OUTPUT_LIMIT_BYTES + 1 - len(self.kept), 0)]
        if not chunk:
            self.fd = None
