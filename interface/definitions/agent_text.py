"""The text of a new agent file, from keys and values. The loader judges what it says."""

from collections.abc import Mapping
from typing import Any, Final

from protocol.yaml_writer import Value, document

_ORDER: Final = ("model", "backend", "provider", "prompt", "soul")
_MOCK: Final = "mock"


def agent_text(keys: Mapping[str, Value]) -> str:
    """The keys as a file has them, those that people look for first."""
    ordered = {key: keys[key] for key in (*_ORDER, *keys) if key in keys}
    return document(ordered)


def completed(name: str, keys: Mapping[str, Value]) -> dict[str, Value]:
    """``keys`` with what the loader asks for and nobody gave: a prompt, or the script of a mock."""
    model = str(keys.get("model", ""))
    plays = keys.get("backend") == _MOCK or model.startswith(f"{_MOCK}/")
    if plays and "mock" not in keys:
        return {**keys, "mock": [{"text": f"I am {name}. Write what I do into .agents/{name}.yaml, under mock."}]}
    if not plays and "prompt" not in keys:
        soul = keys.get("soul")
        role = soul.get("role") if isinstance(soul, Mapping) else None
        what = f", {role}" if isinstance(role, str) and role else ""
        return {**keys, "prompt": {"system": f"You are {name}{what}."}}
    return dict(keys)


def merged(keys: Mapping[str, Value], said: Mapping[str, Value]) -> dict[str, Value]:
    """``keys`` with what was ``said`` in their place; a soul is added to, trait by trait."""
    old, new = keys.get("soul"), said.get("soul")
    soul = {**old, **new} if isinstance(old, Mapping) and isinstance(new, Mapping) else None
    return {**keys, **said, **({"soul": soul} if soul else {})}


def keys_of_definition(definition: Mapping[str, Any]) -> dict[str, Value]:
    """The keys of a file that says what ``definition`` (as the kernel tells it) is."""
    return {key: value for key, value in definition.items() if key not in {"name", "entry"} and value is not None}
