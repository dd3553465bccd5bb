"""Homes of programs go with what was said there, and when nothing in them can be resumed any more."""

from pathlib import Path

import pytest

from kernel.services.retention import Retention
from kernel.services.working_directory import CliHomes
from kernel.store.transitions.close import close
from tests.kernel.store.running_store import open_store

DAY_MS = 24 * 3600 * 1000


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Homes of alice in two places, and of bob in one."""
    for home in ("alice/dm+alice", "alice/review+main", "bob@review+main/review+main"):
        (tmp_path / home / "claude").mkdir(parents=True)
        (tmp_path / home / "claude" / "session.jsonl").write_text("words")
    return tmp_path


def left(root: Path) -> list[str]:
    """What is there."""
    return sorted(path.parent.relative_to(root).as_posix() for path in root.glob("*/*/claude"))


@pytest.mark.parametrize(
    ("agent", "space", "kept"),
    [
        ("alice", None, ["bob@review+main/review+main"]),
        (None, "review:main", ["alice/dm+alice"]),
        ("alice", "review:main", ["alice/dm+alice", "bob@review+main/review+main"]),
        ("bob@review:main", None, ["alice/dm+alice", "alice/review+main"]),
        ("carol", None, ["alice/dm+alice", "alice/review+main", "bob@review+main/review+main"]),
    ],
)
async def test_they_go_with_their_agent_and_with_their_space(
    root: Path, agent: str | None, space: str | None, kept: list[str]
) -> None:
    await CliHomes(root).forget(agent, space)
    assert left(root) == kept
    assert "going" not in str(sorted(root.glob("*/*")))  # noqa: ASYNC240  (a look at a folder)


@pytest.mark.promise("XF05")
async def test_no_link_leads_out(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "precious").write_text("mine")
    (root / "alice/dm+alice/claude/link").symlink_to(outside)
    (root / "alice" / "linked").symlink_to(outside)
    await CliHomes(root).forget("alice", None)
    assert (outside / "precious").read_text() == "mine"


@pytest.mark.promise("P10")
async def test_old_ones_are_swept_and_those_in_use_are_not(root: Path, tmp_path: Path) -> None:
    async with open_store(str(tmp_path / "store.db")) as store:
        await store.agents("alice")
        old = (await store.said("dm:alice", "work")).instruction_ids[0]
        await store.take(old)
        await store.writer.commit(close, old, 1, status="incomplete", text="")
        kept_days = 30
        retention = Retention(log=store.log, kept_seconds=lambda: kept_days * DAY_MS / 1000, homes=CliHomes(root))
        await retention.sweep()
        assert left(root) == ["alice/dm+alice"]
        store.clock.now_ms += (kept_days + 1) * DAY_MS
        await retention.sweep()
        assert left(root) == []
