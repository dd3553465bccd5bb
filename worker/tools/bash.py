"""``bash``: a command line in the agent's working directory. At-least-once: its caller keeps an interrupted one from
being run again.
"""

import shutil
from typing import Annotated, Any, Final

import msgspec

from protocol.tools import BUILT_IN
from worker.subprocesses import Subprocesses
from worker.tool import BACKGROUND, Arguments, BadArguments, BuiltinTool, Outcome, read_arguments, tool_spec
from worker.tools.command import HEAD_BYTES, TAIL_BYTES, Command, run

DEFAULT_SECONDS: Final = 120.0
KEY_VARIABLE: Final = "AGENT_IDEMPOTENCY_KEY"
"""Names the call: the same on every attempt, so that a command can tell a repetition."""
_SHELLS: Final = ("bash", "sh")


class BashArguments(Arguments, frozen=True, kw_only=True):
    """Arguments of bash."""

    command: Annotated[str, msgspec.Meta(min_length=1, description="The command line, for bash -c.")]
    timeout_seconds: Annotated[float, msgspec.Meta(gt=0, description="When it is killed; 120 if unset.")] | None = None
    background: Annotated[
        bool,
        msgspec.Meta(description="Return at once, and let it run until the attempt ends: for a server to be tested."),
    ] = False


class Bash:
    """Runs command lines. Each is a shell of its own: a ``cd`` or a variable is gone with it."""

    def __init__(
        self, programs: Subprocesses, *, idempotency_key: str, longest_seconds: float, seconds: float = DEFAULT_SECONDS
    ) -> None:
        self._programs = programs
        self._idempotency_key = idempotency_key
        self._longest = longest_seconds
        self._seconds = seconds
        path = programs.env().get("PATH")
        self._shell = next((found for name in _SHELLS if (found := shutil.which(name, path=path))), "/bin/sh")

    async def run(self, name: str, args: dict[str, Any], key: str) -> Outcome:
        """Run one. Cancellation kills its group, unless it was to stay in the background."""
        try:
            asked = read_arguments(BashArguments, name, args)
        except BadArguments as error:
            return error.outcome
        words = (self._shell, "-c", asked.command)
        env = {KEY_VARIABLE: f"{self._idempotency_key}:{key}"}
        if asked.background:
            # Start one that outlives its call. It ends with the attempt.
            try:
                pid = await self._programs.leave(words, env)
            except (OSError, ValueError) as error:
                return Outcome(f"{words[0]} could not be started: {error}", True)
            return Outcome(BACKGROUND.format(pid=pid))
        seconds = min(asked.timeout_seconds or self._seconds, self._longest)
        return await run(self._programs, Command(words=words, env=env, seconds=seconds))


def bash(programs: Subprocesses, *, idempotency_key: str, longest_seconds: float) -> BuiltinTool:
    """The tool. ``longest_seconds`` bounds what a call may ask for."""
    about = (
        "Run a command line in the working directory. It reads nothing, and what it says on both streams comes back, "
        f"shortened in the middle over {(HEAD_BYTES + TAIL_BYTES) // 1024} KiB. Each call is a shell of its own, and "
        "what it leaves in the background ends with it: a server that later calls need is started by background: true."
    )
    hand = Bash(programs, idempotency_key=idempotency_key, longest_seconds=longest_seconds)
    return BuiltinTool(hand=hand, spec=tool_spec("bash", about, BashArguments), read_only=BUILT_IN["bash"].read_only)
