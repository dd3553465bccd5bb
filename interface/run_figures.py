"""Figures of one run out of its archive: hops, the share of coordination, rework. Pure."""

import json
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from protocol.comparison import Coordination, Figures, Rework

_FOR_COLLEAGUES: Final = frozenset(
    {
        "channel_send", "channel_read", "my_inbox", "my_inbox_ack", "team_members", "ask_agent", "memory_ask",
        "my_status_set", "handover_write", "share_with", "proposal_define", "proposal_invoke", "proposal_list",
        "team_vote", "space_create", "space_members", "auth_grant", "tree_take",
    }
)  # fmt: skip
"""Tools that are there because there are others."""
_PREFIXES: Final = ("team_proposal_", "team_task_")
_KINDS: Final = frozenset({"input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"})


def figures_of(took: Figures, lines: Iterable[str | bytes], members: frozenset[str]) -> Figures:
    """Add to what a run ``took`` what its archive (``format=jsonl``) shows; its agents are called ``members``."""
    hops = said = to_others = retries = rejected = returned = tokens = of_others = 0
    for line in lines:
        told = json.loads(line)
        row: dict[str, Any] = told.get("row") or {}
        match told["part"]:
            case "channel":
                hops = max(hops, row["hops"])
                if row["from"] in members:
                    said += 1
                    to_others += any(name in members and name != row["from"] for name in row["to"])
            case "instructions":
                retries += max(0, len(row["attempts"]) - 1)
            case "votes":
                rejected += row["type"] == "approval" and row["winner"] == "no"
            case "run":
                returned += len((row.get("delivery") or {}).get("returned_to", ()))
            case "transcript":
                entry = row["entry"]
                used = tokens_of(entry.get("usage") or {})
                tokens += used
                calls = [call["tool"] for call in entry["calls"]]
                of_others += used * any(map(is_for_colleagues, calls))
            case _:
                pass
    return msgspec.structs.replace(
        took,
        hops=hops,
        messages=said,
        coordination=Coordination(messages=_part(to_others, said), tokens=_part(of_others, tokens)),
        rework=Rework(retries=retries, returned=returned, rejected=rejected),
    )


def is_for_colleagues(tool: str) -> bool:
    """Return whether ``tool`` is one that there is because there are others."""
    return tool in _FOR_COLLEAGUES or tool.startswith(_PREFIXES)


def tokens_of(usage: dict[str, Any]) -> int:
    """All tokens, as budgets count."""
    return sum(int(usage.get(kind) or 0) for kind in _KINDS)


def _part(some: int, of: int) -> float:
    return round(some / of, 4) if of else 0.0
