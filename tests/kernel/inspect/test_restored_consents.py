"""Restored databases are data: what they claim was agreed to counts only with ``--trust``, and tokens never."""

from pathlib import Path

import apsw
import msgspec
import pytest

from kernel.inspect.backup import backup, restore
from kernel.store.holdings import HOLDINGS
from kernel.store.snapshot import REFUSAL
from protocol.discovery import DATABASE
from tests.kernel.inspect.copied_store import AT
from tests.kernel.inspect.test_backup import LATER, Place, filled, hostile_database, rewritten

PLANTED = """
INSERT INTO tokens (name, scope, agents, digest, created_ms) VALUES ('evil', 'approve', 'alice', x'00', 0);
INSERT INTO approval_rules (tool, pattern, created_by, created_ms) VALUES ('bash', '*', 'user', 0);
INSERT INTO nodes (name, settings, created_ms) VALUES ('gpu', '{"via":"command","command":"touch PWN"}', 0);
INSERT INTO idempotency VALUES ('admin', 'k', x'00', 200, x'7b7d', 0);
INSERT INTO grants (space, agent, name, scope, giver, given_ms)
VALUES ('review:main', 'alice', 'alice', 'auth', 'user', 0);
INSERT INTO approvals (instruction, epoch, agent, name, space, tool, input, digest, why, state, requested_ms,
  expires_ms, waits_ms, held)
VALUES (1, 1, 'alice', 'alice', 'dm:alice', 'bash', x'7b7d', x'00', '', 'granted', 0, 0, 0, 0);
UPDATE instructions SET vouched = CAST('["k runs: touch PWN"]' AS BLOB);
INSERT INTO agents (key, name, origin, definition, backend, model, state)
VALUES ('tmp', 'tmp', 'ephemeral', CAST('{"name":"tmp","mock":[{"shell":"touch PWN"}]}' AS BLOB),
  'mock', 'mock/m', 'active');
INSERT INTO workflows (name, tag, space, mode, file, definition, params, vouched, state, started_ms, hops_limit,
  instructions_limit, approval, attended) VALUES ('review', 'main', 'review:main', 'start', '.workflows/review.yaml',
  CAST('{"deliver":{},"name":"review","agents":{},"workspace":{"git":"worktree","setup":[{"shell":"touch PWN"}],
    "teardown":[{"shell":"touch PWN"}]},"deliver":{"check":"touch PWN"}}' AS BLOB),
  x'7b7d', CAST('["setup"]' AS BLOB), 'running', 0, 8, 8, 'auto', 1);
INSERT INTO tasks (space, n, title, text, files, command, vouched, confined, state, creator, hops, created_ms)
VALUES ('review:main', 1, 't', '', x'5b5d', 'touch PWN', 1, 0, 'ready', 'system', 0, 0);
INSERT INTO landings (run, space, repository, state, branch, terms, delivers, after, requested_ms)
VALUES (1, 'review:main', '/r', 'requested', 'main', CAST('{"check":"touch PWN"}' AS BLOB), 1, 0, 0);
INSERT INTO creations (space, root, depth, rule, sender, verb, spec, state, at_ms)
VALUES ('review:main', 'review:main', 1, 'next', 'user', 'start_workflow', x'7b7d', 'planned', 0);
"""


@pytest.fixture
async def hostile(tmp_path: Path) -> str:
    """A backup with every kind of consent and command that a database can carry."""
    place = Place(tmp_path / "original")
    await filled(place, "one")
    backup(place.root, place.state, str(tmp_path / "b.zip"), now=AT)
    return str(rewritten(tmp_path / "b.zip", tmp_path / "hostile.zip", hostile_database(PLANTED)))


def rows(place: Place, question: str) -> list[tuple[object, ...]]:
    connection = apsw.Connection(str(place.state / DATABASE))
    try:
        return list(connection.execute(question))
    finally:
        connection.close()


def commands(place: Place) -> int:
    """The places in which the planted command is left where something runs it without asking."""
    found = rows(
        place, "SELECT definition FROM workflows UNION ALL SELECT terms FROM landings WHERE state <> 'refused'"
    )
    found += rows(place, "SELECT command FROM tasks UNION ALL SELECT settings FROM nodes")
    return sum("PWN" in (one.decode() if isinstance(one, bytes) else str(one)) for (one,) in found)


@pytest.mark.promise("P76")
async def test_consents_and_commands_of_a_restored_database_do_not_count(hostile: str, tmp_path: Path) -> None:
    place = Place(tmp_path / "here")
    told = restore(place.root, place.state, hostile, now=LATER)
    for table in ("tokens", "approval_rules", "nodes", "idempotency", "grants"):
        assert rows(place, f"SELECT * FROM {table}") == [], table
    assert rows(place, "SELECT state FROM approvals WHERE state = 'granted'") == []
    assert rows(place, "SELECT DISTINCT vouched FROM instructions") == [(None,)]
    assert rows(place, "SELECT vouched, approval FROM workflows") == [(b"[]", None)]
    assert rows(place, "SELECT state FROM agents WHERE key = 'tmp'") == [("error",)]
    assert rows(place, "SELECT state FROM landings UNION SELECT state FROM creations") == [("refused",)]
    assert rows(place, "SELECT command FROM tasks") == [(REFUSAL,)]
    assert commands(place) == 0
    ((definition,),) = rows(place, "SELECT definition FROM workflows")
    assert isinstance(definition, bytes)
    assert msgspec.json.decode(definition)["workspace"]["git"] == "worktree"
    [note] = [one for one in told.notes if one.startswith("not restored")]
    for table in ("tokens", *(one.table for one in HOLDINGS if one.park)):
        assert f"1 of {table}: " in note, table


@pytest.mark.parametrize("step", ["setup", "teardown"])
async def test_each_step_of_a_restored_workspace_is_parked(hostile: str, tmp_path: Path, step: str) -> None:
    """Also if it is the only step."""
    only = f'{{"workspace":{{"git":"worktree","{step}":[{{"shell":"touch PWN"}}]}}}}'
    change = hostile_database(f"UPDATE workflows SET definition = CAST('{only}' AS BLOB)")
    place = Place(tmp_path / "here")
    restore(place.root, place.state, str(rewritten(Path(hostile), tmp_path / "only.zip", change)), now=LATER)
    assert commands(place) == 0


async def test_a_backup_that_its_owner_trusts_keeps_consents_and_no_token(hostile: str, tmp_path: Path) -> None:
    place = Place(tmp_path / "here")
    told = restore(place.root, place.state, hostile, now=LATER, trusted=True)
    assert rows(place, "SELECT * FROM tokens") == []
    assert rows(place, "SELECT count(*) FROM grants") == rows(place, "SELECT count(*) FROM approval_rules") == [(1,)]
    assert commands(place) == 4
    assert "not restored: 1 of tokens: forgotten" in told.notes
