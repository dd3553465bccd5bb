"""Codex, as the contract suite sees it: OpenAI's Responses API."""

import json
from typing import Any, Final

from protocol.ipc import Provider
from tests.worker.backends.subject import ProgramSubject
from tests.worker.scripted_api import Call


def _shell(command: str) -> Call:
    return Call("exec_command", json.dumps({"cmd": command}), id="call_shell")


def _fields(url: str) -> dict[str, Any]:
    provider = Provider(name="scripted", dialect="openai", base_url=f"{url}/v1", api_key="sk-secret")
    return {"model": "scripted", "provider": provider}


CODEX: Final = ProgramSubject(
    name="codex",
    version="0.169.0",
    binary="codex",
    daemon_prefix="mcp__daemon__",
    shell_call=_shell,
    fields=_fields,
    real="node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex",
    keeps={"session/sessions/*/*/*/rollout-*.jsonl": '"task_complete"'},
    weaker={
        "usage": "the tokens of a reply are told with it, or with the next one: limits act a reply late at most",
        "resume": "what it asked for when it was cut is booked with the next attempt, without the reply that was cut",
        "refused_permission": "what its sandbox refuses is told to the model alone",
    },
)
