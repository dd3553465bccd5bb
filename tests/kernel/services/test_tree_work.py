"""What an agent leaves in its working tree, where the store cannot take the word of it."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from kernel.services import completion
from kernel.services.tree_work import TreeWork
from kernel.store.transitions.lease import Leased
from kernel.workflows.branches import Tip
from protocol.errors import Refused

TREE = SimpleNamespace(state="made", commits="auto", run=1, note="", path="/t", head="", ahead=0)
LEASED = cast("Leased", SimpleNamespace(run=1, agent="alice", name="alice", space="w:main", instruction="i1"))


class Refusing:
    """A writer that refuses the first jobs."""

    def __init__(self, code: str, times: int) -> None:
        self.code = code
        self.left = times
        self.written = 0

    async def commit(self, *_job: object, **_named: object) -> None:
        """Refuse it, or count it."""
        if self.left:
            self.left -= 1
            raise Refused(self.code, "not now")
        self.written += 1


def work(writer: Refusing) -> TreeWork:
    """One tree, which is always committed to the same commit."""

    def no_box(_tree: object) -> None:
        """Nobody is confined."""

    async def commit(*_given: object, **_named: object) -> Tip:
        return Tip("c" * 40, 1)

    def now(*_asked: object) -> Any:
        return TREE

    parts: Any = {
        "trees": SimpleNamespace(box=no_box),
        "branches": SimpleNamespace(commit=commit),
        "reader": SimpleNamespace(now=now),
        "writer": writer,
    }
    return TreeWork(**parts)


@pytest.mark.promise("P32")
async def test_a_full_disk_behind_the_commit_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The work is done; it must not fail for a word about its tree."""
    monkeypatch.setattr(completion, "FIRST_PAUSE_SECONDS", 0.01)
    writer = Refusing("storage_full", 2)
    await work(writer).finish(LEASED)
    assert (writer.left, writer.written) == (0, 1)


@pytest.mark.promise("P32")
async def test_nothing_that_the_store_says_of_the_tree_fails_the_work() -> None:
    """Neither of the word of the commit, nor of the line that tells of it."""
    await work(Refusing("not_found", 2)).finish(LEASED)
