"""Cursor, as the contract suite sees it: a stand-in by its documented format, for it needs an account to run at all."""

import json
from pathlib import Path
from typing import Any, Final

from protocol.ipc import Provider
from tests.worker.backends import fake_cursor
from tests.worker.backends.subject import ProgramSubject
from tests.worker.scripted_api import Call


def _shell(command: str) -> Call:
    return Call("shell", json.dumps({"command": command}), id="call_shell")


def _fields(url: str) -> dict[str, Any]:
    return {"model": "composer-2", "provider": Provider(name="cursor", dialect="cursor", api_key=f"key@{url}")}


_NO_CAUSE: Final = "it names no cause: it is tried again, and fails in the end"
_LATE: Final = "its requests go to its vendor alone, and what they cost is told when all is over"

CURSOR: Final = ProgramSubject(
    name="cursor",
    version=fake_cursor.VERSION,
    binary="cursor-agent",
    daemon_prefix="daemon-",
    shell_call=_shell,
    fields=_fields,
    fake=Path(fake_cursor.__file__),
    lacks={
        "own_server_missing": "it does not say so; its model is not offered the tools",
        "budget": _LATE,
        "budget_held": _LATE,
    },
    weaker={
        "usage": "tokens are told once, at the end of its work; what a cut attempt spent is never told",
        "bad_key": _NO_CAUSE,
        "throttled": _NO_CAUSE,
        "overloaded_twice": _NO_CAUSE,
        "unknown_model": _NO_CAUSE,
        "daemon_unreachable": "it does not say so; the kernel sees that nobody came",
        "session_lost": "it begins a new one without a word; that is ended, and one call may have been paid for",
    },
)
