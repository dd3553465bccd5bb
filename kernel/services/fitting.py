"""Asks a process of its own whether an answer fits a schema, and waits no longer than that can take."""

import logging
import subprocess
import sys
from typing import Final

import msgspec
import trio

logger = logging.getLogger(__name__)

PATIENCE_SECONDS: Final = 20.0
"""For a machine that is busy with other things: the process ends itself after a few seconds of work."""
TOO_LONG: Final = "whether it fits could not be found out in time"


class _Said(msgspec.Struct, frozen=True):
    why: str | None


_decoder: Final = msgspec.json.Decoder(_Said)


async def misfit(schema: bytes, text: str) -> str | None:
    """Why ``text`` does not fit ``schema`` (JSON); None where it does. Cancellation kills the process."""
    asked = msgspec.json.encode({"schema": msgspec.Raw(schema), "text": text})
    command = [sys.executable, "-I", "-m", "kernel.workflows.fit"]
    with trio.move_on_after(PATIENCE_SECONDS):
        done = await trio.run_process(
            command, stdin=asked, capture_stdout=True, stderr=subprocess.DEVNULL, check=False, env={}
        )
        try:
            return _decoder.decode(done.stdout).why
        except msgspec.DecodeError:
            logger.warning("output.unjudged exit code %d", done.returncode)
    return TOO_LONG
