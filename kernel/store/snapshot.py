"""Snapshots of the database: taken beside a running kernel, verified, and adapted to a project.

A snapshot contains all commits up to its start. It is untrusted input: before any query on its
tables, its schema is compared with the expected one.
"""

import os
from contextlib import closing
from typing import Any, Final, NamedTuple, cast

import apsw
import msgspec

from kernel.store.holdings import FORGETTING, PARKING
from kernel.store.schema import BASE, CONVERTED, CannotOpen, migrate, migrations, shape_digest, why_not_convertible
from protocol.names import AGENT_BRANCHES
from protocol.standby import LATEST
from protocol.voting import Binds

TERM_GAP: Final = 1_000_000
"""Minimum number of skipped terms: more starts than the original kernel, which may still run, can reach meanwhile."""
ID_GAP: Final = 10_000
"""Number of skipped ids after a restore, so that ids that the original used after the backup are not used again."""
_READ: Final = apsw.SQLITE_OPEN_READWRITE
"""Readers of a database in WAL mode write to its shared-memory index."""
_BUSY_MS: Final = 10_000


class SnapshotRefused(Exception):
    """The snapshot cannot be taken or is not valid. The text gives the reason."""


class SnapshotMark(NamedTuple):
    """State of a snapshot: schema, numbers of the newest event and message, time of that event."""

    schema: int
    event: int
    message: int
    at_ms: int


class SnapshotTree(NamedTuple):
    """Working tree in a snapshot: its branch and last commit."""

    run: int
    agent: str
    branch: str
    tip: str


TAKE: Final = "VACUUM INTO ?"
_PRIVATE: Final = "PRAGMA secure_delete = ON"
_VERSION: Final = "PRAGMA user_version"
_CHECK: Final = "PRAGMA integrity_check(1)"
SCHEMA: Final = "SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY type, name"
TABLES: Final = "SELECT name FROM sqlite_schema WHERE type = 'table'"
MARK: Final = """
SELECT (SELECT coalesce(max(seq), 0) FROM events), (SELECT coalesce(max(seq), 0) FROM messages),
  coalesce((SELECT at_ms FROM events ORDER BY seq DESC LIMIT 1), 0)
"""


def open_beside(path: str) -> apsw.Connection:
    """Open a database, to which a kernel may be writing, for reading. Raises apsw.Error."""
    logged = os.path.exists(f"{path}-wal")
    connection = apsw.Connection(path, flags=_READ)
    connection.set_busy_timeout(_BUSY_MS)
    # The log of a killed kernel is left to the next one; without a log, none is left behind.
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, int(logged))
    return connection


def take_snapshot(source: str, target: str) -> SnapshotMark:
    """Copy the database at ``source``, also while a kernel writes, to the new file ``target``. Blocks.

    Return the state of the copy, without credentials and deleted data. Raises SnapshotRefused.
    """
    try:
        with closing(open_beside(source)) as reading:
            reading.execute(TAKE, (target,)).fetchall()
        with closing(apsw.Connection(target, flags=_READ)) as copy:
            copy.execute(_PRIVATE).fetchall()
            forget(copy)
    except apsw.Error as error:
        raise SnapshotRefused(f"{source} cannot be copied: {error}") from error
    return check_snapshot(target)


def forget(connection: apsw.Connection) -> list[str]:
    """Delete the rows that no copy may contain. Return texts that tell people what was deleted."""
    there = {str(name) for (name,) in connection.execute(TABLES)}
    done: list[str] = []
    for one in FORGETTING:
        if one.table in there:
            connection.execute(one.deleting("1"))
            done += [f"{connection.changes()} of {one.table}: {one.restored}"] if connection.changes() else []
    return done


def check_snapshot(path: str) -> SnapshotMark:
    """Read and verify a whole snapshot. Return its state. Blocks. Raises SnapshotRefused."""
    scripts = migrations()
    try:
        with closing(closed_connection(path)) as connection:
            found = int(connection.execute(_VERSION).get or 0)
            if found > max(scripts):
                text = f"its schema is {found}, newer than this program's {max(scripts)}: upgrade agent-worker first"
                raise SnapshotRefused(text)
            if 0 < found < BASE and found not in CONVERTED:
                raise SnapshotRefused(why_not_convertible(found))
            made = apsw.Connection(":memory:")
            for number in range(BASE, found + 1):
                made.execute(scripts[number].read_text()).fetchall()
            shape = _shape(connection)
            if not (shape_digest(shape) == CONVERTED[found] if found in CONVERTED else shape == _shape(made) != []):
                raise SnapshotRefused("its schema is not agent-worker's: it was created or changed by another program")
            broken = str(connection.execute(_CHECK).get)
            if broken != "ok":
                raise SnapshotRefused(f"the database is damaged: {broken[:200]}")
            event, message, at_ms = cast("tuple[int, int, int]", connection.execute(MARK).fetchone())
            if not 0 <= at_ms <= LATEST * 1000:
                raise SnapshotRefused("its last event has an invalid time")
            return SnapshotMark(found, event, message, at_ms)
    except apsw.Error as error:
        raise SnapshotRefused(f"the database cannot be read: {error}") from error


def closed_connection(path: str) -> apsw.Connection:
    """Open an untrusted database; its triggers and unsafe functions do not run. Raises apsw.Error."""
    connection = apsw.Connection(path, flags=_READ)
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
    return connection


def _shape(connection: apsw.Connection) -> list[tuple[str, str, str]]:
    rows = cast("list[tuple[str, str, str]]", connection.execute(SCHEMA).fetchall())
    return [(kind, name, " ".join(sql.split())) for kind, name, sql in rows]


TREES: Final = """
SELECT run, name, branch, tip FROM worktrees
WHERE state IN ('planned', 'made', 'kept') ORDER BY 1, 2
"""
FOLDERS: Final = "SELECT DISTINCT mirror FROM workflows WHERE mirror IS NOT NULL ORDER BY 1"


def trees_of(path: str) -> tuple[SnapshotTree, ...]:
    """Return the working trees in a snapshot; none if its schema is older than working trees."""
    with closing(closed_connection(path)) as connection:
        if ("worktrees",) not in connection.execute(TABLES).fetchall():
            return ()
        return tuple(SnapshotTree(*cast("SnapshotTree", row)) for row in connection.execute(TREES).fetchall())


def folders_of(path: str) -> tuple[str, ...]:
    """Return the project's folders to which the snapshot's kernel mirrored workflows."""
    with closing(closed_connection(path)) as connection:
        return tuple(str(folder) for (folder,) in connection.execute(FOLDERS).fetchall())


# Definitions of agents without a file: their unvouched work is open, or failed for lack of trust.
UNTRUSTED: Final = """
SELECT DISTINCT a.definition FROM agents AS a CROSS JOIN instructions AS i ON i.agent = a.key
WHERE a.origin <> 'file' AND a.definition IS NOT NULL AND i.vouched IS NULL AND (i.ended_ms IS NULL
    OR (i.state IN ('failed', 'dead') AND i.cause = 'untrusted' AND i.dismissed = 0))
  AND NOT EXISTS (SELECT 1 FROM workflows AS w WHERE w.id = i.run AND w.vouched <> x'5b5d')
"""


def untrusted_definitions(path: str) -> tuple[bytes, ...]:
    """Return the definitions without a file in the database at ``path`` whose work waits for trust.

    Raises apsw.Error.
    """
    if not os.path.exists(path):
        return ()
    with closing(open_beside(path)) as connection:
        return tuple(bytes(cast("bytes", definition)) for (definition,) in connection.execute(UNTRUSTED))


# Invalidate tokens of the original's attempts before the next kernel ends these attempts.
FENCE: Final = "UPDATE attempts SET token_hash = randomblob(32)"
# Since the copy, the original may have leased work to nodes: the next kernel waits for all agents
# that may run on a node (kernel.store.transitions.recovery).
AWAY: Final = "UPDATE agents SET fenced_until_ms = -1 WHERE node <> '' OR needs IS NOT NULL"
# The original kernel did not crash: the copy was made while it ran.
STOPPED: Final = """
UPDATE boots SET stopped_ms = at_ms WHERE id = (SELECT max(id) FROM boots) AND stopped_ms IS NULL
"""
SKIP_IDS: Final = """
UPDATE sqlite_sequence SET seq = (max(seq, CASE name WHEN 'events' THEN (SELECT coalesce(max(seq), 0) FROM events)
  WHEN 'messages' THEN (SELECT coalesce(max(seq), 0) FROM messages)
  WHEN 'instructions' THEN (SELECT coalesce(max(id), 0) FROM instructions) ELSE 0 END) / :gap + 2) * :gap;
UPDATE decision_numbers SET newest = (newest / :gap + 2) * :gap
"""
REDO: Final = "DELETE FROM mirrors"
REDO_RUNS: Final = "INSERT INTO mirrors (space, seq) SELECT DISTINCT space, 0 FROM workflows WHERE mirror IS NOT NULL"
REDO_DIRECT: Final = """
INSERT INTO mirrors (space, seq) SELECT 'dm:' || key, 0 FROM agents WHERE origin = 'file'
"""
TIMES: Final = """
SELECT t.name || '.' || c.name, format('SELECT 1 FROM "%w" WHERE "%w" NOT BETWEEN ? AND ?', t.name, c.name)
FROM sqlite_schema t, pragma_table_info(t.name) c WHERE t.type = 'table' AND c.name GLOB '*_ms'
"""
YEARS_MS: Final = (-62_135_596_800_000, 253_402_300_799_999)
UNLEFT: Final = "DELETE FROM document_mirrors"
MOVE_TREE: Final = "UPDATE worktrees SET path = ?, repository = ?, git_dir = '' WHERE run = ? AND agent = ?"
ALL_TREES: Final = "SELECT run, agent, path, repository, git_dir, branch, folder, base || tip FROM worktrees"
MOVE_LANDINGS: Final = "UPDATE landings SET repository = ? WHERE repository <> ?"


# The time in milliseconds distinguishes the terms of several copies of one log.
RAISE_TERM: Final = """
UPDATE boots SET term = max(term + ?1, ?2, ?3 + ?1) WHERE id = (SELECT max(id) FROM boots)
"""
HIGHEST_TERM: Final = "SELECT coalesce(max(term), 0) FROM boots"


class TreePlaces(NamedTuple):
    """Folder of working trees in the original (``then``) and here; the git directory here."""

    then: str
    now: str
    repository: str


def term_of(path: str) -> int:
    """Return the highest term in a database that no kernel uses; 0 if unreadable or without one."""
    try:
        with closing(open_beside(path)) as connection:
            return int(connection.execute(HIGHEST_TERM).get or 0)
    except apsw.Error:
        return 0


REFUSAL: Final = "echo 'not run: this command came with a restored database (see awk restore --trust)' >&2; exit 1"
RUNS: Final = "SELECT id, definition FROM workflows"
DISARM: Final = "UPDATE workflows SET definition = ? WHERE id = ?"


def _park(connection: apsw.Connection) -> list[str]:
    done: list[str] = []
    for one in PARKING:
        connection.execute(one.park, (REFUSAL,) if "?1" in one.park else ())
        done += [f"{connection.changes()} of {one.table}: {one.restored}"] if connection.changes() else []
    changed = 0
    for number, definition in connection.execute(RUNS).fetchall():
        found = msgspec.json.decode(cast("bytes", definition), type=dict[str, Any])
        place = found.get("workspace")
        steps: dict[str, Any] = place if isinstance(place, dict) else {}
        if found.pop("deliver", None) or steps.get("setup") or steps.get("teardown"):
            steps |= {"setup": [{"shell": REFUSAL}] if steps.get("setup") else [], "teardown": []}
            connection.execute(DISARM, (msgspec.json.encode(found), number))
            changed += 1
    return [*done, f"{changed} of workflows: no setup of trees, no merge at the end"] if changed else done


def fit_snapshot(
    path: str, places: TreePlaces, *, now_ms: int, term: int = 0, trusted: bool = False
) -> tuple[str, ...]:
    """Adapt the verified snapshot at ``path`` to become the database of this project. Blocks.

    The database gets the newest schema, unused ids, and a term above the original's and ``term``.
    Attempts' tokens become invalid, mirror files are rewritten, and paths of trees are changed. If
    not ``trusted``, consents are deleted. Return texts about deleted data. Raises SnapshotRefused.
    """
    try:
        with closing(closed_connection(path)) as connection:
            migrate(connection, path)
            connection.execute("BEGIN IMMEDIATE")
            done = forget(connection) + ([] if trusted else _park(connection))
            for statement in (FENCE, AWAY, STOPPED):
                connection.execute(statement)
            connection.execute(RAISE_TERM, (TERM_GAP, now_ms, term))
            connection.execute(SKIP_IDS, {"gap": ID_GAP})
            for statement in (REDO, REDO_RUNS, REDO_DIRECT, UNLEFT):
                connection.execute(statement)
            _check_values(connection)
            _move_trees(connection, places)
            connection.execute(MOVE_LANDINGS, (places.repository, places.repository))
            connection.execute("COMMIT")
            return tuple(done)
    except (apsw.Error, CannotOpen, msgspec.MsgspecError) as error:
        raise SnapshotRefused(f"the database cannot be fitted to this project: {error}") from error


def _check_values(connection: apsw.Connection) -> None:
    """Raise SnapshotRefused for an invalid time, MsgspecError for an invalid effect of a vote."""
    for column, outside in connection.execute(TIMES).fetchall():
        if connection.execute(cast("str", outside), YEARS_MS).fetchone():
            raise SnapshotRefused(f"{column} has a time outside the years 1 to 9999")
    for (binds,) in connection.execute("SELECT binds FROM ballots WHERE binds IS NOT NULL"):
        msgspec.json.decode(cast("bytes", binds), type=Binds)


def _move_trees(connection: apsw.Connection, places: TreePlaces) -> None:
    """Change the paths of trees to this project's. Raises SnapshotRefused for outer paths."""
    rows = cast("list[tuple[int, str, str, str, str, str, str, str]]", connection.execute(ALL_TREES).fetchall())
    for run, agent, path, repository, git_dir, branch, folder, commits in rows:
        inside = path.removeprefix(f"{places.then}/")
        parts = (*inside.split("/"), *branch.split("/"), *filter(None, [folder]))
        plain = all(part not in ("", ".", "..") for name in parts for part in name.split("/"))
        if inside == path or inside.count("/") < 2 or not plain:
            raise SnapshotRefused(f"a working tree of r{run} is outside of the folder of working trees: {path[:200]!r}")
        if not branch.startswith(f"{AGENT_BRANCHES}/") or commits.strip("0123456789abcdef"):
            raise SnapshotRefused(f"a working tree of r{run} is of no branch or commit of an agent: {branch[:200]!r}")
        moved = f"{places.now}/{inside}"
        ours = git_dir == "" or os.path.normpath(git_dir).startswith(f"{places.repository}/worktrees/")
        if moved != path or repository != places.repository or not ours:
            connection.execute(MOVE_TREE, (moved, places.repository, run, agent))
