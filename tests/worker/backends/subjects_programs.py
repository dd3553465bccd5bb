"""The programs as the contract suite sees them: CLIs, a small ACP agent of our own, and programs that speak ACP."""

import json
from pathlib import Path
from typing import Any, Final

from protocol.ipc import Provider
from tests.worker.backends import fake_acp, fake_cursor
from tests.worker.backends.subject import ProgramSubject


def _provider(model: str, dialect: Any, path: str = "") -> Any:
    def fields(url: str) -> dict[str, Any]:
        url = f"{url}{path}"
        provider = Provider(name="scripted", dialect=dialect, base_url=url, api_key="sk-secret", compatible=True)
        return {"model": model, "provider": provider}

    return fields


_BY_END: Final = "tokens are reported once, at the end of its work"
_NOT_METERED: Final = "the destination of its requests is unknown, so a budget of tokens is refused"
_NO_CAUSE: Final = "it reports no cause: it is retried, and finally fails"
_ANEW: Final = "it overwrites a resumed session, so it gets a new one with a list of finished steps"
_NO_WORD: Final = "it does not report this; its model does not get the tools"
_GATEWAY: Final = "the gateway counts its tokens, and holds its requests back"
_LAZY: Final = "it may connect only when it needs a tool, so this cannot be detected"
_LATE: Final = "its requests go to its vendor only, and their cost is reported at the end"

CLAUDE: Final = ProgramSubject(
    name="claude",
    version="2.1.329",
    binary="claude",
    daemon_prefix="mcp__daemon__",
    shell_tool="Bash",
    described=True,
    fields=_provider("claude-sonnet-4-5", "anthropic"),
)

CODEX: Final = ProgramSubject(
    name="codex",
    version="0.169.0",
    binary="codex",
    daemon_prefix="mcp__daemon__",
    shell_tool="exec_command",
    shell_word="cmd",
    fields=_provider("scripted", "openai", "/v1"),
    real="node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex",
    keeps={"session/sessions/*/*/*/rollout-*.jsonl": '"task_complete"'},
    unrecorded=frozenset({"budget"}),
    weaker={
        "budget": _GATEWAY,
        "usage": "in a recording the tokens of a reply come with it or the next one; in production the gateway counts",
        "resume": "an interrupted reply is not booked, because its provider has not reported the cost",
        "refused_permission": "only the model learns what its sandbox refuses",
    },
)

OPENCODE: Final = ProgramSubject(
    name="opencode",
    version="1.18.33",
    binary="opencode",
    daemon_prefix="daemon_",
    shell_tool="bash",
    described=True,
    fields=_provider("scripted", "openai", "/v1"),
    real="node_modules/opencode-linux-x64/bin/opencode",
    keeps={"run-*/opencode.listed": ""},
    weaker={"throttled": "it retries five times before it reports"},
)

CURSOR: Final = ProgramSubject(
    name="cursor",
    version=fake_cursor.VERSION,
    binary="cursor-agent",
    daemon_prefix="daemon-",
    fields=lambda url: {
        "model": "composer-2",
        "provider": Provider(name="cursor", dialect="cursor", api_key=f"key@{url}"),
    },
    fake=Path(fake_cursor.__file__),
    lacks={"own_server_missing": "it does not report this; its model does not get the tools", "budget": _LATE},
    weaker={
        "usage": "tokens are reported once, at the end of its work, and never of an interrupted attempt",
        "bad_key": _NO_CAUSE,
        "throttled": _NO_CAUSE,
        "overloaded_twice": _NO_CAUSE,
        "unknown_model": _NO_CAUSE,
        "daemon_unreachable": "it does not report this; the kernel sees that it never connected",
        "session_lost": "it silently starts a new one, which is ended; one call may have been charged",
    },
)

ACP: Final = ProgramSubject(
    name="acp",
    version="",
    binary="agent",
    arguments=("--load",),
    daemon_prefix="daemon-",
    fields=lambda url: {"model": "acp", "provider": None, "env": {"FAKE_ACP_KEY": f"key@{url}"}},
    fake=Path(fake_acp.__file__),
    talks=True,
    lacks={"own_server_missing": _NO_WORD, "budget": _NOT_METERED, "daemon_unreachable": _LAZY},
    weaker={"usage": _BY_END},
)


def _acp_fields(vendor: str, address: str, model: str = "acp") -> Any:
    def fields(url: str) -> dict[str, Any]:
        variables = {f"{vendor}_API_KEY": "sk-secret", f"{address}_BASE_URL": url}
        return {"backend": "acp", "model": model, "provider": None, "env": variables}

    return fields


GEMINI: Final = ProgramSubject(
    name="gemini",
    version="0.61.0",
    binary="gemini",
    arguments=("--acp",),
    package="@google/gemini-cli",
    daemon_prefix="mcp_daemon_",
    shell_tool="run_shell_command",
    described=True,
    fields=_acp_fields("GEMINI", "GOOGLE_GEMINI", "gemini-2.5-pro"),
    real="node_modules/@google/gemini-cli/bundle/gemini.js",
    talks=True,
    lacks={
        "usage": _GATEWAY,
        "session_lost": "it resumes none, so none is lost",
        "own_servers": "it misreads a result that is only a number, and fails",
        "own_server_missing": _NO_WORD,
        "daemon_unreachable": _LAZY,
    },
    weaker={"budget": _GATEWAY, "resume": _ANEW, "continued": _ANEW, "preempted": _ANEW},
)


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
    shell_tool="bash",
    described=True,
    fields=_opencode_fields,
    real="node_modules/opencode-linux-x64/bin/opencode",
    talks=True,
    lacks={"usage": _GATEWAY, "own_server_missing": _NO_WORD, "daemon_unreachable": _LAZY},
    weaker={"budget": _GATEWAY, "bad_key": _NO_CAUSE, "throttled": _NO_CAUSE, "unknown_model": _NO_CAUSE},
)


CLAUDE_ACP: Final = ProgramSubject(
    name="claude-agent-acp",
    version="0.49.0",
    binary="claude-agent-acp",
    package="@agentclientprotocol/claude-agent-acp",
    daemon_prefix="mcp__daemon__",
    shell_tool="Bash",
    described=True,
    fields=_acp_fields("ANTHROPIC", "ANTHROPIC"),
    talks=True,
    lacks={
        "own_server_missing": _NO_WORD,
        "daemon_unreachable": _LAZY,
        "unknown_model": "it reports neither cause nor its provider's message: it is retried, and finally fails",
    },
    weaker={
        "budget": _GATEWAY,
        "usage": _BY_END,
        "bad_key": _NO_CAUSE,
        "throttled": _NO_CAUSE,
        "overloaded_twice": _NO_CAUSE,
    },
)
