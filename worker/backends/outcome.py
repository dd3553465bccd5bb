"""What is the same for all programs when they end without having said how. Pure."""

import signal

from protocol.errors import UNSERVED
from worker.backends.program import Ended
from worker.models.errors import Failed


def unfinished(title: str, ended: Ended) -> Failed:
    """The failure of one that left before it was done: a crash, or a breach of its own format."""
    said = f": {ended.stderr}" if ended.stderr else ""
    text = f"{title} ended with {_exit(ended)} before it said that it was done{said}"
    return Failed("protocol" if ended.code == 0 else "crash", text)


def unserved(title: str, server: str, why: str) -> Failed:
    """The failure of one that would work without the tools of an MCP server that its agent's file gives it."""
    return Failed("network", f"{title} has no MCP server {server}: {why}", code=UNSERVED)


def _exit(ended: Ended) -> str:
    if ended.signal is None:
        return f"exit code {ended.code}"
    try:
        return signal.Signals(ended.signal).name
    except ValueError:
        return f"signal {ended.signal}"
