"""Claude Code, as the contract suite sees it."""

import json
from typing import Any, Final

from protocol.ipc import Provider
from tests.worker.backends.subject import ProgramSubject
from tests.worker.scripted_api import Call


def _shell(command: str) -> Call:
    return Call("Bash", json.dumps({"command": command, "description": "a test"}), id="call_shell")


def _fields(url: str) -> dict[str, Any]:
    provider = Provider(name="scripted", dialect="anthropic", base_url=url, api_key="sk-secret")
    return {"model": "claude-sonnet-4-5", "provider": provider}


CLAUDE: Final = ProgramSubject(
    name="claude", version="2.1.329", binary="claude", daemon_prefix="mcp__daemon__", shell_call=_shell, fields=_fields
)
