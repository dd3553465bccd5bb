"""The ACP backend, as the contract suite sees it: a small agent of our own, gemini-cli, and opencode's ACP mode."""

import hashlib
import json
import tempfile
from pathlib import Path
from typing import Any, Final

from tests.worker.backends import fake_acp
from tests.worker.backends.subject import ProgramSubject
from tests.worker.scripted_api import Call

_BY_END: Final = "tokens are told once, at the end of its work"
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
        "budget_held": "its requests go to its vendor alone: it is stopped as soon as a reply is told",
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
    lacks={"own_server_missing": _NO_WORD},
    weaker={
        "success": "it does not tell the arguments of its calls",
        "usage": _BY_END,
        "daemon_unreachable": _KERNEL_SEES,
    },
)


def _opencode_shell(command: str) -> Call:
    return Call("bash", json.dumps({"command": command, "description": "a test"}), id="call_shell")


def _written(text: str) -> str:
    """A file of the user's with this in it."""
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    file = Path(tempfile.gettempdir()) / f"agent-worker-opencode-{digest}.json"
    file.write_text(text, "utf-8")
    return str(file)


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
        "env": {"OPENCODE_CONFIG": _written(json.dumps({"provider": {"scripted": provider}}))},
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
    lacks={"own_server_missing": _NO_WORD},
    weaker={
        "usage": _BY_END,
        "daemon_unreachable": _KERNEL_SEES,
    },
)
