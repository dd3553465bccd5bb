"""opencode, as the contract suite sees it: OpenAI's Chat Completions."""

import json
from typing import Any, Final

from protocol.ipc import Provider
from tests.worker.backends.subject import ProgramSubject
from tests.worker.scripted_api import Call


def _shell(command: str) -> Call:
    return Call("bash", json.dumps({"command": command, "description": "a test"}), id="call_shell")


def _fields(url: str) -> dict[str, Any]:
    provider = Provider(name="scripted", dialect="openai", base_url=f"{url}/v1", api_key="sk-secret")
    return {"model": "scripted", "provider": provider}


OPENCODE: Final = ProgramSubject(
    name="opencode",
    version="1.18.33",
    binary="opencode",
    daemon_prefix="daemon_",
    shell_call=_shell,
    fields=_fields,
    real="node_modules/opencode-linux-x64/bin/opencode",
    keeps={"run-*/opencode.listed": ""},
    weaker={"throttled": "it asks again by itself, five times, before it tells"},
)
