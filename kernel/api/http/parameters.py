"""The query parameters of every route: what is refused and parsed, and what OpenAPI says of them."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from kernel.api.recalled import QUERY_CHARACTERS, READ_LIMIT, SEARCH_LIMIT
from kernel.store.messages import DELIVERIES_LIMIT
from kernel.store.recall_index import CANDIDATES
from kernel.store.rows import LONGEST
from protocol.api.kernel import GROUPED_BY
from protocol.errors import Refused
from protocol.instruction import LARGEST
from protocol.tasks import TASK_STATES


class Parameter(msgspec.Struct, frozen=True):
    """One query parameter: a text, one of ``words``, or a whole number from ``low`` to ``high``."""

    description: str
    low: int | None = None
    high: int = LARGEST
    words: tuple[str, ...] = ()

    def check(self, name: str, text: str) -> None:
        """Raise Refused (bad_request) unless ``text`` is a value of the parameter ``name``."""
        if self.words and text not in self.words:
            raise Refused("bad_request", f"{name} must be {' or '.join(self.words)}")
        if self.low is None:
            return
        if not (text.isascii() and text.isdecimal() and len(text) <= 16 and self.low <= int(text) <= self.high):
            raise Refused("bad_request", f"{name} must be a whole number from {self.low} to {self.high}")

    @property
    def schema(self) -> dict[str, Any]:
        """The parameter as JSON Schema."""
        if self.low is not None:
            return {"type": "integer", "minimum": self.low, "maximum": self.high}
        only = {"const": self.words[0]} if len(self.words) == 1 else {"enum": list(self.words)}
        return {"type": "string", **(only if self.words else {})}


Parameters = Mapping[str, Parameter]

_BOOLEAN: Final = ("true", "false", "1", "0")
_SPACE: Final = Parameter("Space, such as review:main or dm:alice.")
_AGENT: Final = Parameter("Name of an agent.")
_RUN: Final = Parameter("Id of a run, such as r12; without it the newest.")
_WAIT: Final = Parameter("Whether the answer waits until the work has ended.", words=_BOOLEAN)
_FORCE: Final = Parameter("Also remove what would be lost.", words=_BOOLEAN)
_OPEN: Final = Parameter("Only those that are open.", words=("open",))
_QUERY: Final = Parameter(f"Words to search for, at most {QUERY_CHARACTERS} characters.")
_NUMBER: Final = Parameter("Sequence number or version.", low=0)
_FORMAT: Final = {"format": Parameter("Format of the archive.", words=("jsonl", "md"))}
_TIMES: Final = {
    "since": Parameter("Start of the period, such as 2026-11-21 or 2026-11-21T08:00:00Z."),
    "until": Parameter("End of the period, in the same form."),
}
_MILLISECONDS: Final = {
    "since": Parameter("Start of the period, in milliseconds since 1970.", low=0),
    "until": Parameter("End of the period, in milliseconds since 1970.", low=0),
}


def _limit(most: int = LONGEST) -> Parameter:
    return Parameter("Maximum number of rows.", low=1, high=most)


_AFTER: Final = {"limit": _limit(), "after": Parameter("Value of next on the previous page: start after it.")}
_BEFORE: Final = {"limit": _limit(), "before": Parameter("Value of next on the previous page: start before it.")}
_PIECE: Final = {
    "offset": Parameter("First character.", low=0),
    "limit": Parameter("Maximum number of characters.", low=1),
}
_STOPPED: Final = {
    "wait": _WAIT,
    "signal": Parameter("Signal that ended the client.", words=("INT", "TERM", "HUP", "PIPE")),
}
_ABOUT: Final = {"space": _SPACE, "agent": _AGENT}
_NONE: Final[Parameters] = MappingProxyType({})

_QUERIES: Final[Mapping[str, Parameters]] = MappingProxyType(
    {
        "GET /health": {
            "nonce": Parameter("Text to prove the knowledge of the token with."),
            "token": Parameter("Number of a token that was created: 3 of k3.", low=0),
        },
        "GET /status": _ABOUT,
        "GET /usage": {
            **_ABOUT, **_MILLISECONDS, "by": Parameter(f"Group by one or two of {', '.join(GROUPED_BY)}.")
        },
        "POST /agents/<name>/stop": {"wait": _WAIT},
        "GET /agents/<name>/queue": _AFTER,
        "GET /agents/<name>/inbox": {**_AFTER, "limit": _limit(DELIVERIES_LIMIT), "space": _SPACE},
        "GET /audit": {**_BEFORE, "agent": _AGENT},
        "GET /agents/<name>/thread": {**_TIMES, "space": _SPACE, "limit": _limit(READ_LIMIT), "before": _NUMBER},
        "GET /agents/<name>/thread/search": {
            **_TIMES,
            "query": _QUERY,
            "limit": _limit(SEARCH_LIMIT),
            "offset": Parameter("Number of results to skip.", low=0),
            "vectors": Parameter("Search with vectors, or without them.", words=_BOOLEAN),
        },
        "GET /agents/<name>/memory/search": {
            "query": _QUERY,
            "limit": _limit(CANDIDATES),
            "archive": Parameter("Search the archive tier as well.", words=_BOOLEAN),
        },
        "GET /agents/<name>/memory": {**_AFTER, "key": Parameter("Key of one entry."), "query": _QUERY},
        "GET /ps": {"all": Parameter("Include agents of workflows that have ended.", words=_BOOLEAN)},
        "GET /needs": _AFTER,
        "DELETE /workflows/<name>": _STOPPED,
        "DELETE /workflows/<name>/<tag>": _STOPPED,
        "GET /runs": {
            **_BEFORE,
            "workflow": Parameter("Name of a workflow."),
            "tag": Parameter("Tag of a workflow."),
            "status": Parameter("Status of the runs, such as done."),
            "since": _MILLISECONDS["since"],
        },
        "GET /runs/<run>/export": _FORMAT,
        "GET /spaces/<space>/export": _FORMAT,
        "GET /runs/<run>/merge": {"id": Parameter("Id of a merge, such as g3."), "wait": _WAIT},
        "GET /instructions": {**_AFTER, "space": _SPACE},
        "GET /instructions/<id>/entries": {"limit": _limit(), "after": _NUMBER},
        "GET /dead": _BEFORE,
        "GET /feedback": _BEFORE,
        "GET /approvals": _AFTER,
        "GET /approvals/rules": _AFTER,
        "GET /proposals": {**_BEFORE, "state": _OPEN},
        "GET /spaces/<space>/proposals": _AFTER,
        "GET /resources": _BEFORE,
        "GET /spaces/<space>/resources": _BEFORE,
        "GET /resources/<id>": _PIECE,
        "GET /spaces/<space>/resources/<id>": _PIECE,
        "GET /spaces/<space>/tasks": {
            **_AFTER,
            "state": Parameter("State of the tasks.", words=TASK_STATES),
            "for": Parameter("Member that a task is for, or that has claimed it."),
        },
        "GET /spaces/<space>/channel": {
            "limit": _limit(), "since": _NUMBER, "before": _NUMBER, "agent": _AGENT, "run": _RUN
        },
        "POST /spaces/<space>/clear": {"run": _RUN, "force": _FORCE},
        "GET /spaces/<space>/diff": {
            "agent": _AGENT, "run": _RUN, "patch": Parameter("Include the changed lines.", words=_BOOLEAN)
        },
        "GET /spaces": {"run": _RUN},
        "GET /spaces/<space>/documents": {**_AFTER, "after": Parameter("Path of a document: start after it.")},
        "GET /spaces/<space>/documents/<path:path>": {"version": Parameter("Version of the document.", low=1)},
        "PUT /spaces/<space>/documents/<path:path>": {"from": _NUMBER},
        "DELETE /spaces/<space>/documents/<path:path>": {"reason": Parameter("Reason, for the history.")},
        "GET /spaces/<space>/document-history/<path:path>": _BEFORE,
        "GET /spaces/<space>/document-diff/<path:path>": {"from": _NUMBER, "to": _NUMBER},
        "GET /spaces/<space>/suggestions": {**_AFTER, "state": _OPEN},
        "GET /grants": {**_AFTER, "space": _SPACE},
        "GET /worktrees": {"run": _RUN},
        "DELETE /nodes/<name>": {"force": Parameter("Remove a node that has work.", words=_BOOLEAN)},
        "GET /events": {
            **_ABOUT,
            "since": Parameter("Sequence number of the last event that was read.", low=0),
            "follow": Parameter("Whether the stream stays open for new events.", words=_BOOLEAN),
            "type": Parameter("Types of events, with commas between them."),
            "instruction": Parameter("Id of an instruction, such as i7."),
        },
    }
)  # fmt: skip


def parameters_of(method: str, path: str) -> Parameters:
    """Return the query parameters of a route."""
    return _QUERIES.get(f"{method} {path}", _NONE)


def check_query(method: str, path: str, query: Mapping[str, str]) -> None:
    """Raise Refused (bad_request) for a parameter that the route does not have, or a value that it does not take."""
    known = parameters_of(method, path)
    for name, text in query.items():
        if name not in known:
            hint = f"parameters: {', '.join(sorted(known))}" if known else "this route has no parameters"
            raise Refused("bad_request", f"{method} {path} has no parameter {name[:40]!r}", hint)
        known[name].check(name, text)
