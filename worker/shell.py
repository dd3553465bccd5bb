"""The mock's ``shell``: a command in the agent's working directory. At-least-once: a resumed script runs it again.

The process group dies with the call; what left the group is the keeper's to kill.
"""

import os
import signal
import subprocess
from contextlib import suppress
from typing import Any, Final

import trio

from worker.tool import Outcome

OUTPUT_LIMIT_BYTES: Final = 256 * 1024
"""Output beyond this is read and dropped, so that the command does not block on its pipe."""
_LINGER_SECONDS: Final = 1.0
"""How long the pipe may stay open after the shell ended: a process that left the group may hold it for ever."""


class Shell:
    """Runs ``/bin/sh -c``. Standard output and error are one stream; standard input is empty."""

    def __init__(self, *, cwd: str, env: dict[str, str], idempotency_key: str) -> None:
        self._cwd = cwd
        self._env = env
        self._idempotency_key = idempotency_key

    async def run(self, name: str, args: dict[str, Any], key: str) -> Outcome:
        """Run ``args["command"]``. A non-zero exit is recorded, not raised. Cancellation kills the group."""
        env = {**self._env, "AGENT_IDEMPOTENCY_KEY": f"{self._idempotency_key}:{key}"}
        read_fd, write_fd = os.pipe()
        async with trio.lowlevel.FdStream(read_fd) as output:
            try:
                process = await trio.lowlevel.open_process(
                    ["/bin/sh", "-c", str(args.get("command", ""))],
                    stdin=subprocess.DEVNULL,
                    stdout=write_fd,
                    stderr=write_fd,
                    cwd=self._cwd,
                    env=env,
                    start_new_session=True,
                )
            except OSError as error:
                return Outcome(f"{name} could not start: {error}", True)
            finally:
                os.close(write_fd)
            return await _follow(process, output)


async def _follow(process: trio.Process, output: trio.abc.ReceiveStream) -> Outcome:
    kept, ended = bytearray(), trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_drain, output, kept, ended)
        try:
            await process.wait()
        finally:
            await _kill_group(process)
        with trio.move_on_after(_LINGER_SECONDS):
            await ended.wait()
        nursery.cancel_scope.cancel()
    return _outcome(process.returncode or 0, bytes(kept))


async def _drain(output: trio.abc.ReceiveStream, kept: bytearray, ended: trio.Event) -> None:
    async for chunk in output:
        kept += chunk[: max(OUTPUT_LIMIT_BYTES + 1 - len(kept), 0)]
    ended.set()


async def _kill_group(process: trio.Process) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with trio.CancelScope(shield=True), trio.move_on_after(_LINGER_SECONDS):
        await process.wait()


def _outcome(code: int, output: bytes) -> Outcome:
    text = output[:OUTPUT_LIMIT_BYTES].decode("utf-8", "replace")
    if len(output) > OUTPUT_LIMIT_BYTES:
        text += f"\n[... output over {OUTPUT_LIMIT_BYTES} bytes left out ...]"
    return Outcome(text if code == 0 else f"{text}[exit {code}]", code != 0)
