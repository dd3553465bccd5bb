"""The ACP backend, as the contract suite sees it: a small agent of our own, gemini-cli, and opencode's ACP mode."""

import json
from pathlib import Path
from typing import Any, Final

from tests.worker.backends import fake_acp
from tests.worker.backends.subject import ProgramSubject
from tests.worker.scripted_api import Call

_BY_END: Final = "tokens are told once, at the end of its work"
_TO_ITS_VENDOR: Final = "its requests go to its vendor alone: it is stopped as soon as a reply is told"
_NO_CAUSE: Final = "it names no cause: it is tried again, and fails in the end"
_ANEW: Final = "it writes over a session that it takes up, so it gets a new one, and is told what was done"
_NO_WORD: Final = "it does not say so; its model is not offered the tools"
_KERNEL_SEES: Final = "it does not say so; the kernel sees that nobody came"


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
    lacks={"own_server_missing": _NO_WORD},
    weaker={
        "usage": _BY_END,
        "budget_held": _TO_ITS_VENDOR,
        "daemon_unreachable": _KERNEL_SEES,
    },
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
        "usage": f"{_BY_END}, and what came from a cache as if it had not",
        "session_lost": "it takes up none, so none is lost",
        "own_servers": "what a tool gives that is a number alone it takes for something else, and fails",
        "own_server_missing": _NO_WORD,
    },
    weaker={
        "resume": _ANEW,
        "continued": _ANEW,
        "preempted": _ANEW,
        "budget_held": _TO_ITS_VENDOR,
        "daemon_unreachable": _KERNEL_SEES,
    },
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
    lacks={
        "usage": "of several replies it tells the tokens of the last one alone",
        "own_server_missing": _NO_WORD,
    },
    weaker={
        "bad_key": _NO_CAUSE,
        "throttled": _NO_CAUSE,
        "unknown_model": _NO_CAUSE,
        "budget_held": _TO_ITS_VENDOR,
        "daemon_unreachable": _KERNEL_SEES,
    },
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
)
