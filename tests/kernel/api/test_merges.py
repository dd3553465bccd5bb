"""POST and GET /runs/:run/merge: people ask, once for each key, and see what comes of it."""

from pathlib import Path

import pytest

from kernel.store.transitions import landings
from kernel.store.transitions.landings import begin_landings, landing_refused, landings_merged
from protocol.api.runs import MergeOutcome
from tests.builders.api import ServedKernel, serve_kernel

ON_MAIN = "UPDATE workflows SET began_on = 'main'"
ON_AGENTS = "UPDATE workflows SET began_on = 'awk/review/r1/alice'"


async def started(kernel: ServedKernel, *, trees: bool = True) -> None:
    """The run r1, as if its agents had working trees."""
    assert (await kernel.ask("POST", "/workflows", {"workflow": "review"})).status == 201
    if trees:
        await kernel.plan_trees()


async def test_a_merge_is_asked_for_once_and_followed_to_its_end(tmp_path: Path) -> None:
    """202 and its state; the same key is the same merge; GET shows the newest, or the one; events tell of both ends."""
    async with serve_kernel(tmp_path) as kernel:
        await started(kernel)
        keyed = kernel.headers(Idempotency_Key="k1")
        first = await kernel.ask("POST", "/runs/r1/merge", {"into": "main", "check": "make"}, headers=keyed)
        again = await kernel.ask("POST", "/runs/r1/merge", {"into": "main", "check": "make"}, headers=keyed)
        assert (first.status, again.json) == (202, first.json)
        assert {name: first.json[name] for name in ("id", "run", "state", "into", "check")} == {
            "id": "g1", "run": "r1", "state": "requested", "into": "main", "check": "make",
        }  # fmt: skip
        store = kernel.services.store
        [begun] = await store.writer.commit(begin_landings, store.reader.now(landings.unfinished))
        await store.writer.commit(landing_refused, begun, MergeOutcome(why="red", files=("a.txt",)))
        ended = await kernel.ask("GET", "/runs/review:main/merge?wait=true")
        assert (ended.json["state"], ended.json["why"], ended.json["files"]) == ("refused", "red", ["a.txt"])
        await kernel.ask("POST", "/runs/r1/merge", {"into": "dev"})
        assert (await kernel.get("/runs/r1/merge"))["into"] == "dev"
        assert (await kernel.get("/runs/r1/merge?id=g1"))["into"] == "main"
        assert (await kernel.ask("GET", "/runs/r1/merge?id=g9")).status == 404
        await kernel.ask("POST", "/workflows", {"workflow": "review", "tag": "other"})
        assert (await kernel.ask("GET", "/runs/r2/merge?id=g1")).status == 404, "it is of another run"


@pytest.mark.promise("P33")
async def test_a_merge_that_has_ended_does_not_begin_again(tmp_path: Path) -> None:
    async with serve_kernel(tmp_path) as kernel:
        await started(kernel)
        await kernel.ask("POST", "/runs/r1/merge", {"into": "main"})
        store = kernel.services.store
        [begun] = await store.writer.commit(begin_landings, store.reader.now(landings.unfinished))
        await store.writer.commit(landings_merged, [begun])
        await store.writer.commit(landing_refused, begun, MergeOutcome(why="too late"))
        assert await store.writer.commit(begin_landings, [begun]) == ()
        assert (await kernel.get("/runs/r1/merge"))["state"] == "merged"


async def test_what_cannot_be_merged_is_refused_at_once(tmp_path: Path) -> None:
    async with serve_kernel(tmp_path) as kernel:
        await started(kernel, trees=False)
        none = await kernel.ask("POST", "/runs/r1/merge", {"into": "main"})
        assert (none.status, "git: worktree" in none.json["detail"]) == (400, True)
        await kernel.plan_trees()
        unknown = await kernel.ask("POST", "/runs/r1/merge")
        assert (unknown.status, unknown.json["hint"]) == (400, "name the branch to merge into: --into BRANCH")
        for name in ("a..b", "-f", "x.lock", "a b", "refs//x", "HEAD", ""):
            assert (await kernel.ask("POST", "/runs/r1/merge", {"into": name})).status == 400, name
        for name in ("a\N{RIGHT-TO-LEFT OVERRIDE}b", "a\N{NO-BREAK SPACE}b", "a\x9bb", "\N{ZERO WIDTH SPACE}"):
            answer = await kernel.ask("POST", "/runs/r1/merge", {"into": name})
            assert (answer.status, answer.json["detail"].isascii()) == (400, True), ascii(name)
        for name in ("awk/review/r1/alice", "AWK/review"):
            answer = await kernel.ask("POST", "/runs/r1/merge", {"into": name})
            assert (answer.status, name in answer.json["detail"]) == (400, True), name
        await kernel.writer.commit(lambda tx: tx.write(ON_AGENTS, ()))
        answer = await kernel.ask("POST", "/runs/r1/merge")
        assert (answer.status, "of an agent" in answer.json["detail"], "--into" in answer.json["hint"]) == (
            400,
            True,
            True,
        )
        assert (await kernel.ask("POST", "/runs/r7/merge", {"into": "main"})).status == 404
        assert (await kernel.ask("GET", "/runs/r1/merge")).status == 404
        await kernel.writer.commit(lambda tx: tx.write(ON_MAIN, ()))
        dry = await kernel.ask("POST", "/runs/r1/merge", {"dry_run": True})
        assert (dry.status, dry.json["state"], dry.json["into"]) == (200, "possible", "main")
        assert (await kernel.ask("GET", "/runs/r1/merge")).status == 404
        kernel.below.append(True)
        assert (await kernel.ask("POST", "/runs/r1/merge", {"into": "main"})).status == 403


async def test_what_a_run_did_is_checked_once_it_has_ended(tmp_path: Path) -> None:
    async with serve_kernel(tmp_path) as kernel:
        await started(kernel, trees=False)
        assert (await kernel.ask("POST", "/runs/r1/check", {"check": "true"})).refusal == (400, "bad_request")
        assert (await kernel.ask("DELETE", "/workflows/review/main")).status == 200
        assert (await kernel.ask("POST", "/runs/r1/check", {"check": "true"})).json == {
            "schema": "awk/check/1", "run": "r1", "ok": True, "why": "", "output": "",
        }  # fmt: skip
        red = (await kernel.ask("POST", "/runs/r1/check", {"check": "false"})).json
        assert (red["ok"], red["why"], red["output"]) == (False, "the check failed: exit code 1", "review:main free")
        (tmp_path / "project" / ".agents" / "alice.yaml").unlink()
        gone = (await kernel.ask("POST", "/runs/r1/check", {"check": "false"})).json
        assert gone["output"] == "review:main confined"
        for wrong in ({"check": ""}, {"check": "x" * 4001}, {}):
            assert (await kernel.ask("POST", "/runs/r1/check", wrong)).status == 400
        assert (await kernel.ask("POST", "/runs/r9/check", {"check": "true"})).status == 404
