"""Conversion of Claude Code's agent files (``.claude/agents/x.md``) to our agent files, with a list of lost settings.

The front matter is often invalid YAML (a description that contains ``: ``). It is then read line by line.
"""

import os
import re
from collections.abc import Mapping
from typing import Final, NamedTuple, cast

from interface.failure import Failure
from interface.safe_dir import SafeDir
from protocol.text import shown_name
from protocol.yaml_edit import NotYaml, read
from protocol.yaml_writer import Value

_FRONT: Final = re.compile(
    r"\ufeff?---[ \t]*\r?\n(?P<front>.*?)^---[ \t]*(?:\r?\n|\Z)(?P<body>.*)", re.DOTALL | re.MULTILINE
)
_KEY: Final = re.compile(r"(?P<key>[A-Za-z][A-Za-z_-]*):[ \t]*(?P<value>.*)")
_PARTS: Final = re.compile(r"(?:[^,(]|\([^()]*\)?)+")
_TAKEN: Final = frozenset({"name", "description", "model", "tools"})
_TOOLS: Final = {"Bash": "bash", **dict.fromkeys(("Read", "Grep", "Glob", "LS", "Edit", "MultiEdit", "Write"), "files")}
"""Tools of Claude Code, and the value of the key ``tools`` that enables the same ability here."""
_CHANGING: Final = frozenset({"Edit", "MultiEdit", "Write"})
_HOME: Final = ".claude"
_MODELS: Final = frozenset({"sonnet", "opus", "haiku"})
"""Model names that agent files accept unchanged."""


class Translated(NamedTuple):
    """Keys of an agent file, and a sentence about each setting without counterpart (``lost``)."""

    keys: dict[str, Value]
    lost: tuple[str, ...]


def translate(path: str, name: str) -> Translated:
    """Convert the Claude Code file at ``path`` to an agent ``name``. Raises Failure."""
    try:
        folder, file = os.path.split(os.path.realpath(path))
        with SafeDir.open(folder, folder) as place:
            text = place.read(file)
    except FileNotFoundError:
        raise Failure("not_found", f"{shown_name(path)}: no such file") from None
    except (OSError, ValueError) as error:
        raise Failure("usage", f"{shown_name(path)} cannot be read: {error}") from error
    keys, lost = translated(*parts_of(text, path), name)
    if _HOME in os.path.abspath(path).split(os.sep):
        keys["backend"] = "claude"
    return Translated(keys, lost)


def parts_of(text: str, path: str, *, bare: bool = False) -> tuple[dict[str, object], str]:
    """Return the front matter and the prompt in ``text`` of the file at ``path``. Raises Failure.

    ``bare``: the file needs no front matter.
    """
    match = _FRONT.match(text)
    if match is None and not bare:
        raise Failure("usage", f"{path} has no front matter between --- lines", "use an agent file of Claude Code")
    front, body = ("", text) if match is None else match.group("front", "body")
    try:
        data = read(front)
    except NotYaml:
        data = None
    if not body.strip():
        raise Failure("usage", f"{path} has no prompt")
    body = body.replace("\r\n", "\n").strip("\n")
    return cast("dict[str, object]", data) if isinstance(data, dict) else _by_lines(front), f"{body}\n"


def translated(front: Mapping[str, object], prompt: str, name: str) -> Translated:
    """Convert front matter and ``prompt`` to an agent ``name``."""
    keys: dict[str, Value] = {"prompt": {"system": prompt}}
    lost = [f"{key}: {_shown(value)} has no counterpart yet" for key, value in front.items() if key not in _TAKEN]
    # Split at commas outside parentheses. A restricted tool such as Bash(git:*) has no counterpart.
    asked = [word for part in _PARTS.findall(_shown(front.get("tools"))) if (word := part.strip())]
    ours = list(dict.fromkeys(_TOOLS[word] for word in asked if word in _TOOLS))
    if ours:
        keys["tools"] = ours
    lost += [f"tools: {word} has no counterpart" for word in asked if word not in _TOOLS]
    if "files" in ours and not _CHANGING.intersection(asked):
        lost.append("tools: files also allows edit and write; approval: deny refuses them")
    description = _shown(front.get("description"))
    if description:
        keys["soul"] = {"description": description}
    model = _shown(front.get("model"))
    if model in _MODELS or "/" in model:
        keys["model"] = model
    elif model.startswith("claude-"):
        keys["model"] = f"anthropic/{model}"
    elif model:
        lost.append(f"model: {model} means nothing here; name one with -m")
    if _shown(front.get("name")) not in {"", name}:
        lost.append(f"name: {_shown(front.get('name'))} is called {name} here")
    return Translated(keys, tuple(lost))


def _by_lines(front: str) -> dict[str, object]:
    found: dict[str, object] = {}
    last = ""
    for line in front.splitlines():
        match = _KEY.fullmatch(line)
        if match is not None:
            last = match["key"]
            found[last] = match["value"].strip()
        elif last and line.strip():
            found[last] = f"{found[last]}\n{line.strip()}".strip()
    return found


def _shown(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(_shown, cast("list[object]", value)))
    return value.strip() if isinstance(value, str) else "" if value is None else str(value)
