"""The memory of an agent: keys and what is known of them, in YAML files of its folder ``memory/``. Pure.

A file is a mapping. ``auth: JWT with refresh tokens`` is an entry for the agent alone; one that says more is a
mapping itself, with ``value`` and any of ``visibility``, ``tier`` and ``source`` (who wrote it, if not a person).
``core.yaml``, ``working.yaml`` and ``archive.yaml`` hold the entries of their tier; a file of another name is a topic
that people keep together, whose entries are ``working`` unless they say otherwise.

Knows nothing of YAML's syntax: a document comes as mappings, lists and texts (every scalar a text).
"""

import json
from collections.abc import Mapping
from typing import Final, Literal, NamedTuple, cast

from protocol.yaml_text import Value, entry

Tier = Literal["core", "working", "archive"]
Visibility = Literal["private", "shareable", "public"]

TIERS: Final[tuple[Tier, ...]] = ("core", "working", "archive")
VISIBILITIES: Final[tuple[Visibility, ...]] = ("private", "shareable", "public")
DEFAULT_TIER: Final[Tier] = "working"
SUFFIX: Final = ".yaml"
KEY_LIMIT: Final = 128
VALUE_LIMIT: Final = 64 * 1024
_KEYS: Final = frozenset({"value", "tier", "visibility", "source"})


class Entry(NamedTuple):
    """One thing the agent knows. ``source`` is empty where a person wrote it."""

    key: str
    value: str
    tier: Tier = DEFAULT_TIER
    visibility: Visibility = "private"
    source: str = ""


class EntryRejected(ValueError):
    """A key or value that cannot be kept. The text says why."""


def check_entry(new: Entry) -> Entry:
    """``new``, if it can be kept. Raises EntryRejected."""
    if not new.key or new.key != new.key.strip() or not new.key.isprintable() or len(new.key) > KEY_LIMIT:
        raise EntryRejected(f"{new.key[:40]!r} is not a key: one line of 1 to {KEY_LIMIT} printable characters")
    if not new.value.strip():
        raise EntryRejected("the value is empty")
    if len(new.value) > VALUE_LIMIT:
        raise EntryRejected(f"the value is longer than {VALUE_LIMIT} characters: write a note")
    return new


def file_of(tier: Tier) -> str:
    """The file in which a new entry of ``tier`` is written."""
    return f"{tier}{SUFFIX}"


def tier_of(file: str) -> Tier:
    """The tier of the entries of ``file`` that do not say another one."""
    for tier in TIERS:
        if file == file_of(tier):
            return tier
    return DEFAULT_TIER


def entries_of(document: object, file: str) -> tuple[list[Entry], list[str]]:
    """The entries of one file, and what is wrong with it; what is wrong is left out."""
    if document is None:
        return [], []
    if not isinstance(document, Mapping):
        return [], ["is no mapping of keys to what is known"]
    found = [_entry(str(key), value, file) for key, value in cast("Mapping[object, object]", document).items()]
    return [one for one in found if isinstance(one, Entry)], [one for one in found if isinstance(one, str)]


def written(one: Entry, file: str) -> list[str]:
    """The lines of an entry in ``file``: as short as what it says."""
    return entry(one.key, value_of(one, file))


def value_of(one: Entry, file: str) -> Value:
    """What stands after the key of an entry in ``file``."""
    said = {
        "tier": one.tier if one.tier != tier_of(file) else "",
        "visibility": one.visibility if one.visibility != "private" else "",
        "source": one.source,
    }
    more = {name: text for name, text in said.items() if text}
    return {"value": one.value, **more} if more else one.value


def matches(one: Entry, query: str) -> bool:
    """Whether every word of ``query`` occurs in the entry, whatever its case."""
    text = f"{one.key}\n{one.value}".casefold()
    return all(word in text for word in query.casefold().split())


def _entry(key: str, value: object, file: str) -> Entry | str:
    tier = tier_of(file)
    if not isinstance(value, Mapping) or "value" not in value:
        return Entry(key, _text(value), tier)
    said = cast("Mapping[str, object]", value)
    unknown = ", ".join(sorted(set(map(str, said)) - _KEYS))
    if unknown:
        return f"{key}: unknown {unknown}; an entry has {', '.join(sorted(_KEYS))}"
    tier_said, visibility = said.get("tier", tier), said.get("visibility", "private")
    if tier_said not in TIERS or visibility not in VISIBILITIES:
        return f"{key}: tier is one of {', '.join(TIERS)}, visibility one of {', '.join(VISIBILITIES)}"
    return Entry(key, _text(said["value"]), tier_said, visibility, _text(said.get("source", "")))


def _text(value: object) -> str:
    """A value as text: what is no text itself, as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
