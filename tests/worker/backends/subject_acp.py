"""The ACP backend, as the contract suite sees it: a small agent of our own, gemini-cli, and opencode's ACP mode."""

import json
from pathlib import Path
from typing import Any, Final

from tests.worker.backends import fake_acp
from tests.worker.backends.subject import ProgramSubject
from tests.worker.scripted_api import Call

_BY_END: Final = "tokens are told once, at the end of its work"
_NOT_METERED: Final = "nobody knows where its requests go, so a budget of tokens with it is refused"
_NO_CAUSE: Final = "it names no cause: it is tried again, and fails in the end"
_ANEW: Final = "it writes over a session that it takes up, so it gets a new one, and is told what was done"
_NO_WORD: Final = "it does not say so; its model is not offered the tools"
_LAZY: Final = "it may connect only when it needs a tool, so that nobody can tell"


def _shell(command: str) -> Call:
    return Call("shell", json.dumps({"command": command}), id="call_shell")


def _fields(url: str) -> dict[str, Any]:
    return {"model": "acp", "provider": None, "env": {"FAKE_ACP_KEY": f"key@{url}"}}


ACP: Final = ProgramSubject(
    name="acp",
    version="",
    binary="agent",
    arguments=("--load",),
    daemon_prefix="daemon-",
    shell_call=_shell,
    fields=_fields,
    fake=Path(fake_acp.__file__),
    talks=True,
    lacks={
        "own_server_missing": _NO_WORD,
        "budget": _NOT_METERED,
        "budget_held": _NOT_METERED,
        "daemon_unreachable": _LAZY,
    },
    weaker={"usage": _BY_END},
)


def _gemini_shell(command: str) -> Call:
    return Call("run_shell_command", json.dumps({"command": command, "description": "a test"}), id="call_shell")


def _gemini_fields(url: str) -> dict[str, Any]:
    variables = {"GEMINI_API_KEY": "sk-secret", "GOOGLE_GEMINI_BASE_URL": url}
    return {"backend": "acp", "model": "gemini-2.5-pro", "provider": None, "env": variables}


GEMINI: Final = ProgramSubject(
    name="gemini",
    version="0.61.0",
    binary="gemini",
    arguments=("--acp",),
    package="@google/gemini-cli",
    daemon_prefix="mcp_daemon_",
    shell_call=_gemini_shell,
    fields=_gemini_fields,
    real="node_modules/@google/gemini-cli/bundle/gemini.js",
    talks=True,
    lacks={
        "session_lost": "it takes up none, so none is lost",
        "own_servers": "what a tool gives that is a number alone it takes for something else, and fails",
        "own_server_missing": _NO_WORD,
        "daemon_unreachable": _LAZY,
    },
    weaker={"resume": _ANEW, "continued": _ANEW, "preempted": _ANEW},
)


def _opencode_shell(command: str) -> Call:
    return Call("bash", json.dumps({"command": command, "description": "a test"}), id="call_shell")


def _opencode_fields(url: str) -> dict[str, Any]:
    model = {"limit": {"context": 200_000, "output": 8_000}}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{url}/v1", "apiKey": "sk-secret"},
        "models": {"scripted": model},
    }
    return {
        "backend": "acp",
        "model": "scripted/scripted",
        "provider": None,
        "files": {"OPENCODE_CONFIG": json.dumps({"provider": {"scripted": provider}})},
    }


OPENCODE_ACP: Final = ProgramSubject(
    name="opencode-acp",
    version="1.18.33",
    binary="opencode",
    arguments=("acp",),
    folder="opencode",
    daemon_prefix="daemon_",
    shell_call=_opencode_shell,
    fields=_opencode_fields,
    real="node_modules/opencode-linux-x64/bin/opencode",
    talks=True,
    lacks={"own_server_missing": _NO_WORD, "daemon_unreachable": _LAZY},
    weaker={"bad_key": _NO_CAUSE, "throttled": _NO_CAUSE, "unknown_model": _NO_CAUSE},
)


def _claude_shell(command: str) -> Call:
    return Call("Bash", json.dumps({"command": command, "description": "a test"}), id="call_shell")


def _claude_fields(url: str) -> dict[str, Any]:
    variables = {"ANTHROPIC_API_KEY": "sk-secret", "ANTHROPIC_BASE_URL": url}
    return {"backend": "acp", "model": "acp", "provider": None, "env": variables}


CLAUDE_ACP: Final = ProgramSubject(
    name="claude-agent-acp",
    version="0.49.0",
    binary="claude-agent-acp",
    package="@agentclientprotocol/claude-agent-acp",
    daemon_prefix="mcp__daemon__",
    shell_call=_claude_shell,
    fields=_claude_fields,
    talks=True,
    lacks={
        "own_server_missing": _NO_WORD,
        "daemon_unreachable": _LAZY,
        "unknown_model": "it names no cause and not its provider's words: it is tried again, and fails in the end",
    },
    weaker={"bad_key": _NO_CAUSE, "throttled": _NO_CAUSE, "overloaded_twice": _NO_CAUSE},
)
