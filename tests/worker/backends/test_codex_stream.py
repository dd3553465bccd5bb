"""What codex's lines and its record of a thread mean."""

import json
import os
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from protocol.errors import Cause
from protocol.instruction import Usage
from protocol.text import decoded
from tests.worker.backends.codex_lines import command, completed, heard, turns
from worker.backends import backend
from worker.backends.codex_stream import CodexLine, Count, Thread, TokenCount, turn_failure


def test_calls_that_run_at_once_are_one_reply() -> None:
    events = heard(
        {"type": "item.completed", "item": {"id": "m", "type": "agent_message", "text": "Both."}},
        command("a", done=False),
        command("b", done=False),
        command("b", done=True),
        command("a", done=True),
        command("c", done=False),
        command("c", done=True),
        completed(30, 10, 5),
    )
    first, second, last = turns(events)
    assert (first.text, [call.id for call in first.calls]) == ("Both.", ["a", "b"])
    assert [call.id for call in second.calls] == ["c"]
    assert (last.calls, last.usage) == ((), Usage(input_tokens=20, output_tokens=5, cache_read_tokens=10))
    assert [event.call_id for event in events if isinstance(event, backend.ToolEnded)] == ["b", "a", "c"]
    assert events[-1] == backend.LastEvent()


def test_a_tool_that_never_said_it_began_is_told_all_the_same() -> None:
    change = {"id": "f", "type": "file_change", "changes": [{"path": "a", "kind": "add"}], "status": "failed"}
    events = heard({"type": "item.completed", "item": change})
    assert [type(event) for event in events] == [backend.ReplyEnded, backend.ToolEnded]
    assert isinstance(events[1], backend.ToolEnded)
    assert events[1].is_error


def test_a_warning_is_no_failure_and_a_thought_no_reply() -> None:
    events = heard(
        {"type": "item.completed", "item": {"id": "0", "type": "error", "message": "no metadata"}},
        {"type": "item.completed", "item": {"id": "1", "type": "reasoning", "text": "hm"}},
        {"type": "error", "message": "Reconnecting... 1/5"},
        command("a", done=False),
    )
    assert events == [backend.ActivityChanged("tool command_execution", tool=True)]


def test_a_thread_that_begins_has_its_servers() -> None:
    assert heard({"type": "thread.started", "thread_id": "t"}) == [
        backend.SessionStarted("t"),
        backend.DaemonConnected(),
    ]


@pytest.mark.parametrize(
    ("booked", "expected"),
    [
        (Usage(), Usage(input_tokens=40, output_tokens=20, cache_read_tokens=4)),
        (Usage(input_tokens=20, output_tokens=10), Usage(input_tokens=20, output_tokens=10, cache_read_tokens=4)),
        (Usage(input_tokens=99, output_tokens=99, cache_read_tokens=99), Usage()),
    ],
)
def test_what_was_booked_is_not_booked_again(booked: Usage, expected: Usage) -> None:
    assert turns(heard(completed(44, 4, 20), booked=booked))[0].usage == expected


def sessions(home: Path) -> Path:
    """Where codex keeps the records of threads of a day."""
    folder = home / "sessions/2026/11/21"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def counted(*, read: int, cached: int, written: int) -> str:
    """A line of the record that a thread has spent so much by then."""
    total = {"input_tokens": read, "cached_input_tokens": cached, "output_tokens": written, "total_tokens": 1}
    info = {"total_token_usage": total, "last_token_usage": {}}
    return json.dumps({"type": "event_msg", "payload": {"type": "token_count", "info": info}}) + "\n"


@pytest.mark.promise("P11")
def test_each_reply_is_booked_as_far_as_the_record_of_the_thread_counts_by_then(tmp_path: Path) -> None:
    path = sessions(tmp_path) / "rollout-2026-11-21T10-00-00-t-1.jsonl"
    thread = Thread(Usage(input_tokens=5, output_tokens=1), TokenCount(tmp_path).count)

    def told(*lines: dict[str, Any]) -> list[backend.Event]:
        return [
            event
            for one in lines
            if (line := decoded(json.dumps(one).encode(), CodexLine))
            for event in thread.take(line)
        ]

    def replied(name: str) -> Usage | None:
        return turns(told(command(name, done=False), command(name, done=True)))[0].usage

    told({"type": "thread.started", "thread_id": "t-1"})
    assert replied("a") is None, "there is no record yet"
    whole = counted(read=45, cached=10, written=6)
    path.write_text("no count\n" + counted(read=25, cached=0, written=3) + whole[:30])
    assert replied("b") == Usage(input_tokens=20, output_tokens=2)
    assert replied("c") is None
    path.write_text("no count\n" + counted(read=25, cached=0, written=3) + whole + '{"token_count": 7}\n')
    assert replied("d") == Usage(input_tokens=10, output_tokens=3, cache_read_tokens=10)
    assert turns(told(completed(55, 10, 9)))[0].usage == Usage(input_tokens=10, output_tokens=3)


@pytest.mark.promise("P27")
def test_what_a_turn_that_failed_has_spent_is_booked(tmp_path: Path) -> None:
    record = sessions(tmp_path) / "rollout-2026-11-21T10-00-00-t-1.jsonl"
    record.write_text(counted(read=25, cached=0, written=3))
    failed = {"type": "turn.failed", "error": {"message": "no"}}
    events = heard({"type": "thread.started", "thread_id": "t-1"}, failed, counted=TokenCount(tmp_path).count)
    assert events[2:] == [backend.SubagentUsage(Usage(input_tokens=25, output_tokens=3)), backend.LastEvent()]


@pytest.mark.promise("P15")
def test_what_its_programs_put_in_place_of_a_record_is_neither_followed_nor_waited_for(tmp_path: Path) -> None:
    folder = sessions(tmp_path)
    (tmp_path / "theirs").write_text(counted(read=25, cached=0, written=3))
    (folder / "rollout-1-t-1.jsonl").symlink_to(tmp_path / "theirs")
    os.mkfifo(folder / "rollout-2-t-1.jsonl")
    assert TokenCount(tmp_path).count("t-1") is None


@pytest.mark.promise("P9")
def test_a_record_that_is_one_endless_line_is_neither_kept_nor_read_again(tmp_path: Path) -> None:
    path = sessions(tmp_path) / "rollout-1-t-1.jsonl"
    with path.open("wb") as file:
        for _ in range(32):
            file.write(b"x" * 1024 * 1024)
    tally = TokenCount(tmp_path)
    tracemalloc.start()
    assert tally.count("t-1") is None
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16 * 1024 * 1024
    with path.open("a") as file:
        file.write("\n" + counted(read=25, cached=0, written=3))
    assert tally.count("t-1") == Count(input_tokens=25, output_tokens=3)


def record(home: Path, info: object, thread: str = "t-1") -> None:
    """The record of a thread whose last turn failed so."""
    began = {"type": "event_msg", "payload": {"type": "task_started"}}
    ended = {
        "type": "event_msg",
        "payload": {"type": "task_complete", "error": {"message": "x", "codex_error_info": info}},
    }
    lines = [json.dumps(began), "garbage, and not the last line", json.dumps(ended), '{"type": "task_complete']
    (sessions(home) / f"rollout-2026-11-21T10-00-00-{thread}.jsonl").write_text("\n".join(lines), "utf-8")


@pytest.mark.parametrize(
    ("info", "cause", "status"),
    [
        ("context_window_exceeded", "context_overflow", None),
        ("usage_limit_exceeded", "quota", None),
        ("rate_limit_exceeded", "rate_limited", None),
        ("server_overloaded", "overloaded", None),
        ("model_not_found", "invalid", None),
        ({"http_connection_failed": {"http_status_code": 401}}, "auth", 401),
        ({"http_connection_failed": {"http_status_code": 402}}, "quota", 402),
        ({"http_connection_failed": {"http_status_code": 529}}, "overloaded", 529),
        ({"http_connection_failed": {"http_status_code": None}}, "network", None),
        ({"response_too_many_failed_attempts": {"http_status_code": 429}}, "rate_limited", 429),
    ],
)
def test_a_failure_is_known_by_the_code_in_its_record(
    tmp_path: Path, info: object, cause: Cause, status: int | None
) -> None:
    record(tmp_path, info)
    found = turn_failure(tmp_path, "t-1", "unexpected status 418 I'm a teapot")
    assert (found.cause, found.status) == (cause, status)


@pytest.mark.parametrize(
    ("message", "cause", "status"),
    [
        ("unexpected status 401 Unauthorized: bad key, url: http://x/v1/responses", "auth", 401),
        ("exceeded retry limit, last status: 429 Too Many Requests", "rate_limited", 429),
        ("stream disconnected before completion: the words", "network", None),
        ("Incomplete response returned, reason: max_output_tokens", "max_tokens", None),
        ('{"error": {"code": "context_length_exceeded"}}', "context_overflow", 400),
        ('{"error": {"message": "what"}}', "invalid", 400),
        ("words of a later version", "overloaded", None),
    ],
)
def test_without_a_record_its_fixed_sentences_have_to_do(
    tmp_path: Path, message: str, cause: Cause, status: int | None
) -> None:
    found = turn_failure(tmp_path, "t-1", message)
    assert (found.cause, found.status) == (cause, status)
