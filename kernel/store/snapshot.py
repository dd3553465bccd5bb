"""Snapshots of the database: taken beside a kernel that writes, judged before one is believed, and fitted to a project.

A snapshot is complete to the commit at which it began. It is read as what anybody may have written: its schema is
compared with ours before any query on its tables.
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
"""Terms that are left out at least: more starts than the original, which may still run, can come to meanwhile."""
ID_GAP: Final = 10_000
"""Ids that are left out after a restore: those that the original gave after the backup are not given again."""
_READ: Final = apsw.SQLITE_OPEN_READWRITE
"""Readers of a database in WAL mode write to its index of the log."""
_BUSY_MS: Final = 10_000


class SnapshotRefused(Exception):
    """It cannot be taken, or is none of ours. The text says why."""


class SnapshotMark(NamedTuple):
    """The point up to which a snapshot is complete: its schema, newest event and message, and the time of the first."""

    schema: int
    event: int
    message: int
    at_ms: int


class SnapshotTree(NamedTuple):
    """A working tree that a snapshot knows: its branch, and the last commit there."""

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
    """A connection to a database that a kernel may be writing, to read from. Raises apsw.Error."""
    logged = os.path.exists(f"{path}-wal")
    connection = apsw.Connection(path, flags=_READ)
    connection.set_busy_timeout(_BUSY_MS)
    # The log of a kernel that died is for the next one to copy back; where there is none, none is left.
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, int(logged))
    return connection


def take_snapshot(source: str, target: str) -> SnapshotMark:
    """Copy the database at ``source``, which a kernel may be writing, to the new file ``target``. Blocks.

    Raises SnapshotRefused. No credential is in the copy, nor the rest of what was removed.
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
    """Delete the rows that no copy may have. Returns what was deleted, for people."""
    there = {str(name) for (name,) in connection.execute(TABLES)}
    done: list[str] = []
    for one in FORGETTING:
        if one.table in there:
            connection.execute(one.deleting("1"))
            done += [f"{connection.changes()} of {one.table}: {one.restored}"] if connection.changes() else []
    return done


def check_snapshot(path: str) -> SnapshotMark:
    """Return what the snapshot at ``path`` is complete to. Blocks: all of it is read. Raises SnapshotRefused."""
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
                raise SnapshotRefused("its tables are not those of agent-worker: it was made or changed by others")
            broken = str(connection.execute(_CHECK).get)
            if broken != "ok":
                raise SnapshotRefused(f"the database is damaged: {broken[:200]}")
            event, message, at_ms = cast("tuple[int, int, int]", connection.execute(MARK).fetchone())
            if not 0 <= at_ms <= LATEST * 1000:
                raise SnapshotRefused("its last event is of a time that there is not")
            return SnapshotMark(found, event, message, at_ms)
    except apsw.Error as error:
        raise SnapshotRefused(f"the database cannot be read: {error}") from error


def closed_connection(path: str) -> apsw.Connection:
    """A connection on which nothing that stands in the file is run. Raises apsw.Error."""
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
    """The working trees that the snapshot at ``path`` knows; none where its schema is older than they are."""
    with closing(closed_connection(path)) as connection:
        if ("worktrees",) not in connection.execute(TABLES).fetchall():
            return ()
        return tuple(SnapshotTree(*cast("SnapshotTree", row)) for row in connection.execute(TREES).fetchall())


def folders_of(path: str) -> tuple[str, ...]:
    """The folders of the project to which the snapshot's kernel wrote what is said in workflows."""
    with closing(closed_connection(path)) as connection:
        return tuple(str(folder) for (folder,) in connection.execute(FOLDERS).fetchall())


# Agents without a file, with work that was agreed to by nobody, and that is open or ended for that.
UNTRUSTED: Final = """
SELECT DISTINCT a.definition FROM agents AS a CROSS JOIN instructions AS i ON i.agent = a.key
WHERE a.origin <> 'file' AND a.definition IS NOT NULL AND i.vouched IS NULL AND (i.ended_ms IS NULL
    OR (i.state IN ('failed', 'dead') AND i.cause = 'untrusted' AND i.dismissed = 0))
  AND NOT EXISTS (SELECT 1 FROM workflows AS w WHERE w.id = i.run AND w.vouched <> x'5b5d')
"""


def untrusted_definitions(path: str) -> tuple[bytes, ...]:
    """Return definitions that only the database at ``path`` has, and whose work waits for trust. Raises apsw.Error."""
    if not os.path.exists(path):
        return ()
    with closing(open_beside(path)) as connection:
        return tuple(bytes(cast("bytes", definition)) for (definition,) in connection.execute(UNTRUSTED))


# No token of an attempt of the original is one here, also before the next kernel has ended these.
FENCE: Final = "UPDATE attempts SET token_hash = randomblob(32)"
# The original may have given nodes more work than the copy knows of: whoever may be on one is waited for when the next
# kernel starts (kernel.store.transitions.recovery).
AWAY: Final = "UPDATE agents SET fenced_until_ms = -1 WHERE node <> '' OR needs IS NOT NULL"
# Its kernel did not die: it is only that the copy was made while it ran.
STOPPED: Final = """
UPDATE boots SET stopped_ms = at_ms WHERE id = (SELECT max(id) FROM boots) AND stopped_ms IS NULL
"""
SKIP_IDS: Final = "UPDATE sqlite_sequence SET seq = (seq / ?1 + 2) * ?1"
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


# Also where several copies of one log are put in place of it: each begins at its own time, in milliseconds.
RAISE_TERM: Final = """
UPDATE boots SET term = max(term + ?1, ?2, ?3 + ?1) WHERE id = (SELECT max(id) FROM boots)
"""
HIGHEST_TERM: Final = "SELECT coalesce(max(term), 0) FROM boots"


class TreePlaces(NamedTuple):
    """The folder of working trees in the original and here, and the git directory of the project here."""

    then: str
    now: str
    repository: str


def term_of(path: str) -> int:
    """The highest term in the database at ``path``, which no kernel uses; 0 where it cannot be read, or has none."""
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
    """Make the snapshot at ``path``, which was checked, the start of a kernel of this project. Blocks.

    Raises SnapshotRefused. The snapshot gets the newest schema, ids never used before, and a term above the original's
    and ``term``. Tokens of attempts are void, mirrored files are written again, and working trees lie in this project's
    state only. Unless its owner ``trusted`` it, consents are dropped. Returns what was removed or parked, for people.
    """
    try:
        with closing(closed_connection(path)) as connection:
            migrate(connection, path)
            connection.execute("BEGIN IMMEDIATE")
            done = forget(connection) + ([] if trusted else _park(connection))
            for statement in (FENCE, AWAY, STOPPED):
                connection.execute(statement)
            connection.execute(RAISE_TERM, (TERM_GAP, now_ms, term))
            connection.execute(SKIP_IDS, (ID_GAP,))
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
    """Raise SnapshotRefused for a time, and MsgspecError for the effect of a vote, that no kernel can read."""
    for column, outside in connection.execute(TIMES).fetchall():
        if connection.execute(cast("str", outside), YEARS_MS).fetchone():
            raise SnapshotRefused(f"{column} has a time outside the years 1 to 9999")
    for (binds,) in connection.execute("SELECT binds FROM ballots WHERE binds IS NOT NULL"):
        msgspec.json.decode(cast("bytes", binds), type=Binds)


def _move_trees(connection: apsw.Connection, places: TreePlaces) -> None:
    """Have each tree below our folder of trees, whatever path it says. Raises SnapshotRefused where it leads out."""
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
