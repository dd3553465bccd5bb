"""The backends that need no other program, as the contract suite sees them: the built-in loop, and the mock."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from protocol.agent import Rule
from tests.worker.backends.subject import Move, Quiet, Refuse, Reply, Shell, Tell, Use
from tests.worker.fake_kernel import sdk_start
from tests.worker.scripted_api import Call


@dataclass(frozen=True)
class Sdk:
    name: str = "sdk"
    version: str = ""
    program: bool = False
    weaker: Mapping[str, str] = field(default_factory=dict)
    lacks: Mapping[str, str] = field(default_factory=dict)

    def start(self, moves: tuple[Move, ...], url: str) -> dict[str, Any]:
        made = sdk_start("anthropic", url, tools=("bash",))
        return {name: getattr(made, name) for name in ("backend", "model", "provider", "tools")}

    def daemon_tool(self, name: str) -> str:
        return name

    def own_tool(self, name: str) -> str:
        return f"mcp__own__{name}"

    def shell(self, command: str) -> Call:
        return Call("bash", json.dumps({"command": command}), id="call_shell")


@dataclass(frozen=True)
class Mock(Sdk):
    """A script without a model: moves become its actions."""

    name: str = "mock"

    def start(self, moves: tuple[Move, ...], url: str) -> dict[str, Any]:
        return {"backend": "mock", "mock": (msgspec.convert({"do": [_action(move) for move in moves]}, Rule),)}

    def shell(self, command: str) -> Call:
        return Call("shell", json.dumps({"command": command}))


def _action(move: Move) -> dict[str, Any]:
    match move:
        case Reply(text=text):
            return {"text": text}
        case Tell(message=message):
            spent = {"input_tokens": move.input_tokens, "output_tokens": move.output_tokens}
            return {"tool": "channel_send", "args": {"message": message}, "usage": spent}
        case Shell(command=command):
            return {"shell": command}
        case Use(tool=tool, args=args):
            return {"tool": MOCK.own_tool(tool), "args": json.loads(args)}
        case Refuse(status=status):
            return {"error": {"http_status": status, "times": 1}}
        case Quiet():
            return {"sleep": 600}


_TOLD: Final = "the model gets the reason instead of the tools, and may continue without them"
SDK: Final = Sdk(weaker={"own_program_missing": _TOLD, "own_server_missing": _TOLD})
MOCK: Final = Mock(
    lacks={
        "system_prompt": "it has no model",
        "usage": "it books the figures of its script",
        "refused_permission": "its script is trusted as a whole",
        "own_program_missing": "its script names its calls",
        "own_server_missing": "its script names its calls",
    }
)
