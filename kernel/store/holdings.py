"""Holdings: one row per table, which describes its contents, their owner, and their deletion.

The rows generate the statements that clear a space, delete a run or an agent, rename an agent, and
take or restore a snapshot. A table without a row fails tests/kernel/store/test_holdings.py.
"""

from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

Place = Literal["", "space", "base", "home", "home_space", "work", "instruction", "ballot", "task", "document"]
"""Column that leads to the space of a row; ``work``: the row is an instruction."""
# Temporary tables with the spaces and the work that a statement applies to.
_SPACES: Final = "SELECT value FROM cleared"
_LISTED: Final = {
    "work": "SELECT value FROM work",
    "instruction": "SELECT value FROM work",
    "ballot": "SELECT id FROM ballots WHERE space IN (SELECT value FROM cleared)",
    "task": "SELECT id FROM tasks WHERE space IN (SELECT value FROM cleared)",
    "document": "SELECT id FROM documents WHERE space IN (SELECT value FROM cleared)",
}
_MOVED: Final = frozenset({"space", "home", "work"})
DELETE: Final = "DELETE"


class Holding(NamedTuple):
    """Contents of one table.

    ``clear``: how a clear erases the rows of a space that match ``only``: DELETE, or assignments. ``ends``: rows are
    deleted with the last run of their space. ``agents``: columns with agents' keys; if ``owned``, a row is deleted with
    the agent in the first one. ``names``: columns with the name of that agent, or of a personal space's agent.
    ``text``: columns with texts of people and models. ``restored``: what a restore does to the rows. ``forget``: copies
    omit the rows. ``park``: statement for an untrusted copy; ``?1`` is a command that refuses.
    """

    table: str
    place: Place = ""
    clear: str = ""
    only: str = ""
    ends: bool = False
    agents: tuple[str, ...] = ()
    owned: bool = False
    names: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    restored: str = "believed"
    park: str = ""
    forget: bool = False

    def in_spaces(self) -> str:
        """Return the SQL condition for the table's rows in the listed spaces."""
        column = "id" if self.place == "work" else self.place
        return f"{column} IN ({_LISTED.get(self.place, _SPACES)})"

    def clearing(self) -> str:
        """Return the statement that erases the texts of the listed spaces."""
        act = ("DELETE FROM", self.table) if self.clear == DELETE else ("UPDATE", self.table, "SET", self.clear)
        return " ".join((*act, "WHERE", self.in_spaces(), *(("AND", self.only) if self.only else ())))

    def deleting(self, condition: str) -> str:
        """Return the statement that deletes rows that match ``condition``."""
        return " ".join(("DELETE FROM", self.table, "WHERE", condition))

    def renaming(self) -> Iterator[str]:
        """Yield statements that rename agent ``old`` to ``new``, space ``here`` to ``there``."""
        names = [f"{name} = iif({name} = :old, :new, {name})" for name in self.names]
        moves = [(key, ":old", ":new") for key in self.agents]
        moves += [("home" if self.place == "home" else "space", ":here", ":there")] if self.place in _MOVED else []
        for column, before, after in moves:
            changed = ", ".join((f"{column} = {after}", *names))
            yield " ".join(("UPDATE OR REPLACE", self.table, "SET", changed, "WHERE", column, "=", before))


_RESULT: Final = """result_text = '', manifest = NULL, prefix = NULL, vouched = NULL, entries = 0, aside = 0,
  carried_steps = 0"""
_OUTCOME: Final = "outcome = CAST(json_remove(CAST(outcome AS TEXT), '$.output', '$.why', '$.files') AS BLOB)"
_UNAPPROVED: Final = "DELETE FROM approvals WHERE state = 'granted' AND told = 0"
_UNCHECKED: Final = "UPDATE tasks SET command = ?1 WHERE command <> ?1 AND state IN ('open', 'ready', 'claimed')"
_REFUSED: Final = """
UPDATE landings SET state = 'refused', ended_ms = requested_ms,
  outcome = CAST('{"why":"it came with a restored database"}' AS BLOB)
WHERE state IN ('requested', 'merging', 'checked')
"""
_STOPPED: Final = """
UPDATE agents SET state = 'error', reason = 'it came with a restored database: look at it, then reset it'
WHERE origin = 'ephemeral'
"""
# Their consents were given in another project; calls of such runs need the approvals of their files.
_AGREED_RUNS: Final = """
UPDATE workflows SET vouched = x'5b5d', approval = NULL WHERE vouched <> x'5b5d' OR approval IS NOT NULL
"""
_AGREED: Final = "UPDATE instructions SET vouched = NULL WHERE vouched IS NOT NULL"

# A row that refers to another comes before it.
HOLDINGS: Final = (
    Holding("entries", "instruction", DELETE, text=("body",)),
    Holding("effects", "instruction", DELETE, text=("result",)),
    Holding("handovers", "instruction", DELETE, text=("body",)),
    Holding(
        "attempts", "instruction", "stderr_tail = NULL", "stderr_tail IS NOT NULL", text=("stderr_tail",),
        restored="ended: tokens are void",
    ),
    Holding("quotas", "instruction"),
    Holding("exchanges", "instruction", DELETE, text=("model",)),
    Holding(
        "approvals", "space", DELETE, ends=True, agents=("agent",), names=("name",),
        text=("tool", "input", "why", "reason"), restored="asked again", park=_UNAPPROVED,
    ),
    Holding("resources", "space", DELETE, ends=True, names=("author",)),
    Holding(
        "statuses", "space", DELETE, ends=True, agents=("agent",), owned=True, text=("task", "state", "metadata"),
    ),
    Holding("feedback", "space", DELETE, ends=True, names=("author",), text=("text",)),
    # The keys of given entries are retained until the run is deleted; the query is text.
    Holding(
        "audit", "space", "query = ''", "query <> ''", ends=True, agents=("owner", "receiver"), owned=True,
        names=("owner_name", "receiver_name"), text=("query", "given", "note"),
    ),
    Holding(
        "decisions", "space", DELETE, ends=True, agents=("owner",), owned=True,
        text=("subject", "content", "reason", "decision_reason"),
    ),
    Holding("soul_versions", agents=("agent",), owned=True, text=("body", "diff", "reason")),
    Holding("guard_jobs", "space", DELETE, ends=True, text=("evidence", "call")),
    Holding("votes", "ballot", DELETE, ends=True, text=("choice", "reason")),
    Holding("electors", "ballot", DELETE, ends=True, text=("name",)),
    Holding(
        "ballots", "space", DELETE, ends=True, agents=("creator_key",), names=("creator",),
        text=("name", "title", "description", "options", "winner", "reason", "salt", "binds"),
    ),
    Holding("task_needs", "task", DELETE, ends=True),
    Holding(
        "tasks", "space", DELETE, ends=True, text=("key", "title", "text", "files", "command", "result", "reason"),
        restored="checks do not run", park=_UNCHECKED,
    ),
    Holding(
        "landings", "space", _OUTCOME, ends=True, text=("terms", "outcome"), restored="refused", park=_REFUSED,
    ),
    Holding(
        "creations", "space", "rule = '', sender = '', spec = x'7b7d', state = iif(made IS NULL, 'refused', state)",
        "spec <> x'7b7d'", ends=True, names=("sender",), text=("rule", "spec"), restored="not started",
        park="UPDATE creations SET state = 'refused' WHERE state = 'planned'",
    ),
    Holding("held_rules", "space", DELETE, ends=True, agents=("author_key",), text=("proposal", "spec", "occasion")),
    # Rules of a workflow's file are not messages of the space.
    Holding("rules", "space", DELETE, "author <> 'system'", ends=True, agents=("author_key",), text=("name", "spec")),
    Holding("document_versions", "document", DELETE, ends=True, text=("reason", "undo")),
    Holding("documents", "space", DELETE, ends=True, text=("file", "content")),
    Holding("document_owners", "space", ends=True, text=("pattern",)),
    Holding("document_mirrors", text=("file",), restored="rebuilt"),
    Holding(
        "grants", "space", ends=True, agents=("agent", "giver_key"), owned=True, names=("name", "giver"),
        restored="void", park="DELETE FROM grants WHERE revoked_ms IS NULL",
    ),
    Holding("worktrees", "space", ends=True, agents=("agent",), text=("why", "note"), restored="relocated"),
    Holding("timers", "home", ends=True, agents=("agent",), owned=True, text=("schedule",)),
    Holding("members", "space", ends=True, agents=("agent",)),
    Holding("mirrors", "space", ends=True, restored="rebuilt"),
    Holding("subspaces", "base", ends=True, agents=("opener_key",), names=("opener",)),
    Holding("spending", agents=("agent",)),
    Holding("crashes", agents=("agent",), owned=True),
    Holding(
        "approval_rules", agents=("agent",), owned=True, text=("tool", "pattern"), restored="void",
        park="DELETE FROM approval_rules",
    ),
    Holding(
        "agents", "home_space", text=("definition", "reason"), restored="an ephemeral one waits for a reset",
        park=_STOPPED,
    ),
    Holding("deliveries", "space", agents=("agent",), names=("name",)),
    Holding(
        "instructions", "work", _RESULT, agents=("agent",), names=("name",),
        text=("result_text", "manifest", "vouched"), restored="continued without consent", park=_AGREED,
    ),
    Holding(
        "workflows", "space", "params = x'7b7d', held_kickoff = NULL", text=("definition", "params", "held_kickoff"),
        restored="continued without consent", park=_AGREED_RUNS,
    ),
    Holding(
        "messages", "space", "text = '', cleared = 1", "cleared = 0 AND text <> ''", names=("sender", "addressed"),
        text=("text",),
    ),
    Holding("events", "space", names=("agent",), text=("data",)),
    Holding("blobs", text=("body",)),
    Holding("idempotency", text=("response",), restored="void", park="DELETE FROM idempotency"),
    Holding("tokens", text=("name", "agents"), restored="forgotten", forget=True),
    Holding("nodes", text=("settings",), restored="void", park="DELETE FROM nodes"),
    *(
        Holding(table)
        for table in (
            "boots", "breakers", "kept", "webhooks", "webhook_retries", "followers", "counters", "model_spending",
            "project_identity", "decision_numbers",
        )
    ),
)  # fmt: skip
OF_INSTRUCTION: Final = tuple(one.deleting("instruction = ?") for one in HOLDINGS if one.place == "instruction")
OF_AGENT: Final = tuple(one.deleting(f"{one.agents[0]} = ?") for one in HOLDINGS if one.owned)
RENAMING: Final = tuple(statement for one in HOLDINGS for statement in one.renaming())
FORGETTING: Final = tuple(one for one in HOLDINGS if one.forget)
PARKING: Final = tuple(one for one in HOLDINGS if one.park)
