"""What takes room and nobody needs: told and removed from a real state, with a tree of git and a store."""

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kernel.services import prune as service
from kernel.services.prune import Prune
from kernel.store.transaction import Transaction
from protocol.api.kernel import PruneGroup, PruneReport, PruneRequest
from tests.kernel.git.git_project import at
from tests.kernel.services.landing_project import NOW_MS, Died
from tests.kernel.services.test_worktree_sweep import Swept, swept

pytestmark = pytest.mark.promise("P83")

OLD_SECONDS = NOW_MS // 1000 - 2 * 24 * 3600
ENDED = '{"state": "decided"}'
GOES = [
    ("unfinished", "the rest of aside-1"),
    ("logs", "log kernel.log.1"),
    ("aside", "state set aside old"),
    ("comparisons", "copies of comparison c1"),
    ("attempts", "attempt i1-1"),
]
STAYS = {
    "state set aside link": "is a link",
    "state set aside new": "younger than a day",
    "copies of comparison c2": "has not ended",
    "copies of comparison c3": "it is in use",
    "copies of comparison c4": "younger than a day",
    "copies of comparison c5": "may still be in use",
    "copies of comparison c6": "may still be in use",
    "attempt i2-1": "it is in use",
    "attempt i3-1": "younger than an hour",
    "attempt i4-1": "is a link",
}


@contextmanager
def _filled(state: Path, outside: Path) -> Generator[None]:
    files = {
        "agent-worker.db": "", "kernel.log": "now", "kernel.log.1": "then", "kernel.log.2": "somebody's",
        "aside/old/agent-worker.db": "x" * 5000, "aside/new/agent-worker.db": "x", "pruned/aside-1/rest": "x",
        "comparisons/c1/comparison.json": ENDED, "comparisons/c2/comparison.json": '{"state": "interrupted"}',
        "comparisons/c3/comparison.json": ENDED, "comparisons/c3/lock": "", "comparisons/c4/comparison.json": ENDED,
        "comparisons/c5/comparison.json": "[", "comparisons/mine/comparison.json": ENDED, "comparisons/c6/x": "",
        "run/i1-1/alive": "", "run/i2-1/alive": "", "run/i3-1/alive": "", "run/.spare-1/x": "", "run/warm/x": "",
    }  # fmt: skip
    for name in ("c1/base", "c1/run-2", "c1/archive", "c2/solo", "c3/base", "c4/base", "c5/base", "c6/base"):
        files[f"comparisons/{name}/a"] = "x"
    files |= {"comparisons/c7/comparison.json": ENDED, "comparisons/c1/run-2.jsonl": "x"}
    outside.mkdir()
    (outside / "precious").write_text("mine")
    for name, text in files.items():
        (state / name).parent.mkdir(parents=True, exist_ok=True)
        (state / name).write_text(text)
    (state / "comparisons/c6/comparison.json").symlink_to(state / "comparisons/c1/comparison.json")
    for link in ("aside/link", "run/i4-1", "aside/old/out"):
        (state / link).symlink_to(outside)
    for place in (*state.glob("aside/*"), *state.glob("comparisons/*"), *state.glob("run/*")):
        young = place.name in ("new", "c4", "i3-1")
        seconds = NOW_MS // 1000 if young else OLD_SECONDS
        os.utime(place, (seconds, seconds), follow_symlinks=False)
    with (state / "comparisons/c3/lock").open() as one, (state / "run/i2-1/alive").open() as other:
        for file in (one, other):
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _all(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def _of(it: Swept, state: Path) -> Prune:
    return Prune(state, it.place.reader, it.place.writer, it.sweep, lambda: True, lambda: NOW_MS)


def _leave_free_pages(tx: Transaction) -> None:
    tx.conn.execute("CREATE TABLE junk (x); INSERT INTO junk VALUES (zeroblob(4000000)); DROP TABLE junk")


async def _asked(prune: Prune, *what: PruneGroup, dry_run: bool = False) -> PruneReport:
    return await prune.prune(PruneRequest(what=what, dry_run=dry_run))


async def test_what_a_dry_run_tells_of_is_what_goes_and_all_else_stays(tmp_path: Path) -> None:
    state, outside = tmp_path / "state", tmp_path / "outside"
    async with swept(tmp_path) as it:
        with _filled(state, outside):
            prune = _of(it, state)
            work = at(it.tree(), "work.txt")
            work.write_text("nowhere else")
            assert "younger" not in (await _asked(prune, "trees")).kept[0].kept_because
            assert work.read_text() == "nowhere else"
            work.unlink()
            await it.place.writer.commit(_leave_free_pages)
            before = _all(tmp_path)
            told = await _asked(prune, dry_run=True)
            assert (_all(tmp_path), it.tree().state) == (before, "kept")

            done = await _asked(prune)
            rows = [(row.group, row.what) for row in done.removed]
            assert rows == [(row.group, row.what) for row in told.removed]
            assert rows == [("trees", f"{it.tree().branch} of r1"), *GOES, ("database", "free pages")]
            assert done.total_bytes == sum(row.bytes for row in done.removed) > 4_000_000
            kept = {row.what: row.kept_because for row in done.kept}
            assert kept.keys() == STAYS.keys()
            assert [what for what, why in STAYS.items() if why not in kept[what]] == []
            assert (it.tree().state, at(it.tree()).exists()) == ("gone", False)
            gone = {"kernel.log.1", "aside/old", "comparisons/c1/base", "comparisons/c1/run-2", "run/i1-1", "pruned"}
            left = {name.removeprefix("state/") for name in before if name.startswith("state/")}
            assert set(_all(state)) == {
                name for name in left if not any(name == one or name.startswith(f"{one}/") for one in gone)
            }
            assert _all(outside) == ["precious"]
            again = await _asked(prune)
            assert (again.removed, again.total_bytes) == ((), 0)


def test_a_prune_that_is_killed_leaves_nothing_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state, outside = tmp_path / "state", tmp_path / "outside"

    def die(_point: str) -> None:
        raise Died

    with _filled(state, outside):
        monkeypatch.setattr(service, "fault_point", die)
        with pytest.raises(Died):
            service.prune_files(str(state), "aside", NOW_MS, dry_run=False)
        monkeypatch.undo()
        assert not (state / "aside/old").exists()
        assert len(list(state.glob("pruned/aside-*/agent-worker.db"))) == 1
        ended = service.prune_files(str(state), "unfinished", NOW_MS, dry_run=False)
        assert ([why for _, why in ended], (state / "pruned").exists()) == (["", ""], False)
        (state / "pruned").symlink_to(outside)
        [(one, why)] = service.prune_files(str(state), "unfinished", NOW_MS, dry_run=False)
        assert (one.what, "links are not followed" in why) == ("pruned", True)
        decided = service.prune_files(str(state), "comparisons", NOW_MS, dry_run=False)
        assert "could not be deleted completely" in decided[0][1]
        assert _all(outside) == ["precious"]
        assert (state / "comparisons/c1/base").exists()
