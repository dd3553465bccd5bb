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
    unrecorded=frozenset({"budget", "budget_held"}),
    weaker={
        "usage": "in a recording the tokens of a reply come with it or with the next one; at work it is metered",
        "resume": "a reply that was cut before its end is booked by nobody, for its provider has not said what it cost",
        "refused_permission": "what its sandbox refuses is told to the model alone",
    },
)
