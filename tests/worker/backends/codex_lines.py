"""Lines as codex writes them, and what they mean."""

import json
from collections.abc import Callable, Iterable
from typing import Any

from protocol.instruction import Usage
from protocol.text import decoded
from worker.backends.backend import Event, ReplyEnded
from worker.backends.codex_stream import CodexLine, Count, Thread

Counted = Callable[[str], Count | None]


def heard(*lines: dict[str, Any], booked: Usage | None = None, counted: Counted = lambda _: None) -> list[Event]:
    thread = Thread(booked or Usage(), counted)
    parsed = [line for one in lines if (line := decoded(json.dumps(one).encode(), CodexLine)) is not None]
    return [event for line in parsed for event in thread.take(line)]


def command(id_: str, done: bool) -> dict[str, Any]:
    item = {
        "id": id_,
        "type": "command_execution",
        "command": f"echo {id_}",
        "aggregated_output": "",
        "exit_code": None,
    }
    ended = {"aggregated_output": f"{id_}\n", "exit_code": 0, "status": "completed"}
    return {"type": "item.completed" if done else "item.started", "item": item | (ended if done else {})}


def completed(input_tokens: int, cached: int, output: int) -> dict[str, Any]:
    """The end of a turn; counts are the thread's."""
    usage = {"input_tokens": input_tokens, "cached_input_tokens": cached, "output_tokens": output}
    return {"type": "turn.completed", "usage": usage}


def turns(events: Iterable[Event]) -> list[ReplyEnded]:
    return [event for event in events if isinstance(event, ReplyEnded)]
