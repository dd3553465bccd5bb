"""Timelines of runs: bars of instructions, reasons of failures, and the graph of messages."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kernel.policy.timeline import AttemptRow, SentMessage, StepRow, WorkRow, bars_of, graph_of, newest, why_of
from protocol.api.timeline import TimelineBar

WORK = WorkRow(7, "alice", "done", None, None, "mock/x", 1_000, 9_000)


def bars(work: WorkRow, attempts: list[AttemptRow], steps: Sequence[StepRow] = ()) -> list[Any]:
    """Bars with times in ms."""
    found = bars_of(work, attempts, steps, lambda ms: f"{ms:06}")
    return [replace(one, at=int(one.at), until=one.until and int(one.until)) for one in found]


def attempt(epoch: int, started_ms: int, ended_ms: int | None, outcome: str | None = "done") -> AttemptRow:
    return AttemptRow(7, epoch, started_ms, ended_ms, outcome)


def step(k: int, at_ms: int, duration_ms: int | None = None, tool: str | None = None, **more: Any) -> StepRow:
    return StepRow(7, 1, k, at_ms, duration_ms, tool, bool(more.get("failed")), None)


@pytest.mark.parametrize(
    ("work", "attempts", "waits"),
    [
        (WORK, [attempt(1, 1_050, 9_000)], []),
        (WORK, [attempt(1, 2_000, 9_000)], [(1_000, 2_000, "queued")]),
        (WORK, [attempt(1, 1_000, 2_000, "network"), attempt(2, 5_000, 9_000)], [(2_000, 5_000, "network")]),
        (WORK._replace(state="cancelled"), [attempt(1, 1_000, 2_000, "yielded")], [(2_000, 9_000, "yielded")]),
        (WORK._replace(state="running", ended_ms=None), [attempt(1, 1_000, None, None)], []),
        (WORK._replace(state="queued", ended_ms=None), [], [(1_000, None, "queued")]),
        (
            WORK._replace(state="waiting", waits_for="approval", ended_ms=None),
            [attempt(1, 1_000, 2_000, "yielded")],
            [(2_000, None, "approval")],
        ),
    ],
)
def test_an_instruction_waits_when_no_attempt_runs(work: WorkRow, attempts: list[AttemptRow], waits: list[Any]) -> None:
    found = [(bar.at, bar.until, bar.label) for bar in bars(work, attempts) if bar.kind == "wait"]
    assert found == waits


def test_a_call_without_a_duration_starts_at_the_end_of_the_one_before() -> None:
    steps = [step(0, 3_000), step(1, 4_000, tool="bash", failed=True), step(2, 6_000, 500)]
    found = bars(WORK, [attempt(1, 1_000, 9_000)], steps)
    calls = [(bar.kind, bar.at, bar.until, bar.label, bar.step, bar.failed) for bar in found if bar.step]
    assert calls == [
        ("model", 1_000, 3_000, "mock/x", 1, False),
        ("tool", 3_000, 4_000, "bash", 2, True),
        ("model", 5_500, 6_000, "mock/x", 3, False),
    ]


def test_an_attempt_that_did_not_yield_or_finish_has_failed() -> None:
    outcomes = {"done": False, "yielded": False, "incomplete": False, "network": True, "crash": True, None: False}
    for outcome, failed in outcomes.items():
        (bar,) = bars(WORK, [attempt(1, 1_000, 9_000, outcome)])
        assert (bar.label, bar.failed) == (outcome or "", failed)


times = st.integers(0, 10_000)


@given(st.lists(st.tuples(times, times), max_size=6), st.lists(st.tuples(times, st.none() | times), max_size=12), times)
def test_calls_are_within_their_attempt_and_waits_are_beside_all(
    spans: list[tuple[int, int]], calls: list[tuple[int, int | None]], enqueued_ms: int
) -> None:
    points = sorted(point for span in spans for point in span)
    attempts = [attempt(n + 1, points[2 * n], points[2 * n + 1]) for n in range(len(spans))]
    first = points[:2] if points else [0, 0]
    steps = [
        step(k, min(max(at, first[0]), first[1]), took) for k, (at, took) in enumerate(sorted(calls, key=str)) if spans
    ]
    work = WORK._replace(enqueued_ms=min([enqueued_ms, *points]), ended_ms=None if not points else points[-1])
    found = bars(work, attempts, steps)
    assert all(bar.until is None or bar.at <= bar.until for bar in found)
    assert all(first[0] <= bar.at and (bar.until or 0) <= first[1] for bar in found if bar.step is not None)
    for wait in (bar for bar in found if bar.kind == "wait"):
        assert all(one.started_ms >= (wait.until or 2**60) or (one.ended_ms or 0) <= wait.at for one in attempts)


@given(st.lists(st.tuples(times, st.none() | times)), st.integers(1, 9))
def test_old_calls_are_left_out_before_attempts(drawn: list[tuple[int, int | None]], limit: int) -> None:
    kept = newest([TimelineBar("tool", f"{at:06}", None, "i7", step, "", False) for at, step in drawn], limit)
    assert len(kept) == min(limit, len(drawn))
    assert [bar.at for bar in kept] == sorted(bar.at for bar in kept)
    assert sum(bar.step is None for bar in kept) == min(limit, sum(step is None for _, step in drawn))


@pytest.mark.parametrize(
    ("status", "limited_by", "works", "why"),
    [
        ("done", None, [WORK], None),
        ("running", None, [WORK._replace(state="failed")], None),
        ("running", "hops", [WORK], "the run reached a limit: hops"),
        ("failed", None, [WORK, WORK._replace(state="failed", cause="auth")], "i7 of alice is failed: auth"),
        ("failed", None, [WORK._replace(state="dead")] * 3, "i7 of alice is dead; 2 more"),
        ("incomplete", "budget", [WORK], "the run reached a limit: budget"),
        ("failed", None, [WORK._replace(state="waiting", waits_for="paused")], "the remaining work is paused"),
        ("timeout", None, [WORK], "the time limit of the run was reached"),
        ("rejected", None, [], "the vote rejected the result"),
        ("cancelled", None, [], "the run was stopped"),
        ("failed", None, [], None),
    ],
)  # fmt: skip
def test_a_run_that_did_not_succeed_says_why(status: str, limited_by: str, works: list[WorkRow], why: str) -> None:
    assert why_of(status, limited_by, works) == why


def test_each_recipient_of_a_message_is_an_edge_of_the_graph() -> None:
    sent = ("user", "alice bob", "go, @Bob"), ("alice", "bob", "hi"), ("alice", "", "alone @bob")
    nodes, edges = graph_of(SentMessage(*one) for one in sent)
    assert [(one.name, one.messages) for one in nodes] == [("alice", 2), ("user", 1), ("bob", 0)]
    assert {(one.sender, one.to): (one.messages, one.mentions) for one in edges} == {
        ("user", "alice"): (1, 0),
        ("user", "bob"): (1, 1),
        ("alice", "bob"): (1, 0),
    }
