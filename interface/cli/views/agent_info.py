"""What an agent is: the facts, how much it knows, and its definition."""

import json
from typing import Any, Final

from interface.cli.escape import escape, one_line
from interface.cli.output import Screen
from protocol.yaml_text import block

_SANDBOX: Final = {
    "off": "off: what it runs can do what you can do",
    "on": "on: what it runs sees its project and the system, and nothing else of yours",
    "missing": "on, but bubblewrap is not installed: it is refused work",
}


def lines(body: bytes, screen: Screen) -> list[str]:
    """Facts first, then the definition as a file would have it."""
    info: dict[str, Any] = json.loads(body)
    reason = f" ({info['reason']})" if info.get("reason") else ""
    until = f" until {info['until']}" if info.get("until") else ""
    facts = {
        "file": info["file"] or "none: it lives until the kernel stops",
        "state": f"{info['state']}{until}{reason}",
        "workspaces": ", ".join(info.get("workspaces") or ()) or "none",
        "sandbox": _SANDBOX.get(str(info.get("sandbox")), str(info.get("sandbox"))),
        "limits": _limits(info["definition"].get("limits") or {}),
        **_context(info.get("context")),
    }
    definition = {key: value for key, value in info["definition"].items() if key not in {"name", "entry"}}
    return [
        screen.style(one_line(info["name"]), "bold"),
        *(f"  {name + ':':<12} {one_line(text)}" for name, text in facts.items()),
        "",
        *(escape(line) for line in block(definition)),
    ]


def _limits(limits: dict[str, Any]) -> str:
    """What ends an attempt that uses more, with all that it starts."""
    memory, processes = limits.get("memory"), limits.get("processes")
    said = [f"{memory / 2**20:.0f} MiB of memory" if memory else "", f"{processes} processes" if processes else ""]
    return ", ".join(filter(None, said)) or "none"


def _context(counts: dict[str, Any] | None) -> dict[str, str]:
    if counts is None:
        return {}
    memory = ", ".join(f"{count} {tier}" for tier, count in counts["memory"].items() if count)
    todo = counts["todo"]
    return {
        "context": str(counts["dir"]),
        "memory": memory or "nothing",
        "notes": str(counts["notes"]),
        "todo": f"{todo['open']} open, {todo['done']} done",
    }
