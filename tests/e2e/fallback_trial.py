"""Agents with two models, of which the first fails at a random request: ``python -m tests.e2e.fallback_trial``.

Both providers are scripted servers that answer by the conversation they are sent: a request with ``n`` replies gets
step ``n``. So a reply that is lost or told twice changes what is asked next, and a command that runs twice
leaves two lines.
"""

import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from tests.project import Project, empty_project
from tests.worker.scripted_api import Call, Events, Fail, Move, Request, Say, ScriptedApi

FAR: Final = {"retry-after": "3600"}
CREDIT: Final = {
    "type": "error",
    "error": {"type": "invalid_request_error", "message": "Your credit balance is too low to access the API"},
}
FAILURES: Final[dict[str, tuple[tuple[Move, str, bool], ...]]] = {
    "anthropic": (
        (Fail(400, CREDIT), "quota", False),
        (Fail(429, {"error": {"type": "rate_limit_error", "message": "slow down"}}, FAR), "rate_limit", True),
        (Fail(429, {"error": {"type": "rate_limit_error", "message": "slow down"}},
              {"anthropic-ratelimit-tokens-remaining": "0",
               "anthropic-ratelimit-tokens-reset": "2099-01-01T00:00:00Z"}), "rate_limit", True),
        (Fail(404, {"error": {"type": "not_found_error", "message": "model: model-1"}}), "model", False),
        (Fail(529, {"error": {"type": "overloaded_error", "message": "overloaded"}}), "unavailable", False),
        (Events((), cut=True), "unavailable", False),
    ),
    "openai": (
        (Fail(429, {"error": {"code": "insufficient_quota", "message": "no credit"}}), "quota", False),
        (Fail(429, {"error": {"code": "rate_limit_exceeded", "message": "slow down"}}, FAR), "rate_limit", True),
        (Fail(429, {"error": {"code": "rate_limit_exceeded", "message": "slow down"}},
              {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "2h0m0s"}), "rate_limit", True),
        (Fail(404, {"error": {"code": "model_not_found", "message": "no such model"}}), "model", False),
        (Fail(410, {"error": {"message": "retired"}}), "model", False),
        (Fail(503, {"error": {"message": "unavailable"}}), "unavailable", False),
    ),
}  # fmt: skip
"""Answers of a failing provider, with the cause and whether the event names a time."""
APIS: Final = ("anthropic", "openai", "responses")


@dataclass(frozen=True)
class Case:
    """One run: the APIs of both providers, the number of steps, and the request at which the first fails for good."""

    number: int
    apis: tuple[str, str]
    steps: int
    fails_at: int
    move: Move
    cause: str
    timed: bool

    @classmethod
    def drawn(cls, number: int, chance: random.Random) -> "Case":
        """Case ``number``; the causes and APIs come in turn, the rest is drawn."""
        apis = APIS[number % 3], APIS[number // 3 % 3]
        failures = FAILURES["anthropic" if apis[0] == "anthropic" else "openai"]
        steps = chance.randint(1, 4)
        move, cause, timed = failures[number // 9 % len(failures)]
        return cls(number, apis, steps, chance.randint(0, steps), move, cause, timed)

    def files(self, root: Path) -> str:
        """The lines of the run's command output."""
        return (root / f"out-{self.number}").read_text() if (root / f"out-{self.number}").exists() else ""


class Providers(ScriptedApi):
    """Both providers of all cases, by path: ``/NUMBER/0/...`` is the first of a case."""

    def __init__(self, cases: Iterable[Case], *, interrupted: bool = False) -> None:
        super().__init__()
        self._interrupted = interrupted
        """A kernel may die: a command that may have begun is then told as interrupted, and not run again."""
        self.cases = {case.number: case for case in cases}
        self.asked_by: dict[int, list[tuple[int, int]]] = {number: [] for number in self.cases}
        """Requests of each case: its provider, and the step that it asked for."""

    def take(self, request: Request) -> Move:
        _, number, side, *_ = request.path.split("/")
        case, step = self.cases[int(number)], replies_in(request.body)
        self.asked_by[case.number].append((int(side), step))
        if side == "0" and step >= case.fails_at:
            return case.move
        tokens = 100 if side == "1" else 10
        if step == case.steps:
            return Say(text=f"done {case.number}", input_tokens=tokens, output_tokens=tokens)
        told = results_in(request.body)
        assert len(told) == step, request.body
        assert self._interrupted or told == [f"ran {case.number} {one}" for one in range(step)], request.body
        command = f"echo {step} >> out-{case.number}; echo ran {case.number} {step}"
        # Ids that another provider refuses, and that come twice.
        call = Call("bash", json.dumps({"command": command}), id=f"functions.bash:{step % 2}")
        return Say(text=f"step {step}", calls=(call,), thinking="hm", input_tokens=tokens, output_tokens=tokens)


def replies_in(body: dict[str, Any]) -> int:
    """The number of replies that a request repeats: each has one call."""
    turns = body.get("messages") or body.get("input") or []
    chat = sum(len(turn.get("tool_calls") or ()) for turn in turns)
    blocks = sum(block["type"] == "tool_use" for turn in turns for block in _blocks(turn))
    return int(chat + blocks + sum(turn.get("type") == "function_call" for turn in turns))


def results_in(body: dict[str, Any]) -> list[str]:
    """The results of commands that a request repeats, by the ids of their calls, which must fit."""
    asked: list[str] = []
    found: list[str] = []
    for turn in body.get("messages") or body.get("input") or []:
        asked += [call["id"] for call in turn.get("tool_calls") or ()]
        asked += [block["id"] for block in _blocks(turn) if block["type"] == "tool_use"]
        asked += [turn["call_id"]] if turn.get("type") == "function_call" else []
        said = [(block["tool_use_id"], block["content"]) for block in _blocks(turn) if block["type"] == "tool_result"]
        said += [(turn["tool_call_id"], turn["content"])] if turn.get("role") == "tool" else []
        said += [(turn["call_id"], turn["output"])] if turn.get("type") == "function_call_output" else []
        for id_, text in said:
            assert id_ == asked[len(found)], (id_, asked)
            found.append(str(text).strip())
    return found


def _blocks(turn: dict[str, Any]) -> list[dict[str, Any]]:
    content = turn.get("content")
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def furnish(project: Project, cases: Iterable[Case], url: str) -> None:
    """Write the providers and agents of ``cases``."""
    lines = ["providers:"]
    for case in cases:
        for side, api in enumerate(case.apis):
            base = f"{url}/{case.number}/{side}" + ("" if api == "anthropic" else "/v1")
            dialect = (
                "anthropic" if api == "anthropic" else "openai, api: " + ("responses" if api != "openai" else "chat")
            )
            lines.append(f'  p{case.number}x{side}: {{ base_url: "{base}", dialect: {dialect} }}')
        project.write(
            f".agents/a{case.number}.yaml",
            f"""
            model: [p{case.number}x0/model-1, p{case.number}x1/model-2]
            prompt: {{ system: Work. }}
            tools: [bash]
            approval: auto
            retry: {{ backoff: 0.05s }}
            """,
        )
    project.write(".agents.yaml", "\n".join(lines) + "\n")


def check(project: Project, asked_by: Mapping[int, list[tuple[int, int]]], case: Case) -> list[str]:
    """Send the case's message, wait for its end, and return what is wrong."""
    shown = project.ended(project.send(f"a{case.number}", f"go {case.number}"))
    asked, wrong = asked_by[case.number], list[str]()

    def expect(what: str, found: object, wanted: object) -> None:
        if found != wanted:
            wrong.append(f"case {case}: {what} is {found!r}, not {wanted!r}")

    first, second = f"p{case.number}x0/model-1", f"p{case.number}x1/model-2"
    told = [
        one for one in project.events("since=0&follow=0&type=model.fallback", 60) if one["agent"] == f"a{case.number}"
    ]
    expect("status", (shown["status"], shown["text"]), ("done", f"done {case.number}"))
    expect("output", case.files(project.root).split(), [str(step) for step in range(case.steps)])
    expect("model", shown["model"], second)
    expect("events", [(one["data"]["from"], one["data"]["to"], one["data"]["cause"], one["data"]["until"] is not None)
                      for one in told], [(first, second, case.cause, case.timed)])  # fmt: skip
    expect(
        "steps asked of the second", [step for side, step in asked if side], list(range(case.fails_at, case.steps + 1))
    )
    tries = 3 if case.cause == "unavailable" else 1
    expect("requests to the first", [step for side, step in asked if not side],
           [*range(case.fails_at), *[case.fails_at] * tries])  # fmt: skip
    spent = {True: 100 * (case.steps + 1 - case.fails_at), False: 10 * case.fails_at}
    used = Counter[str]()
    for attempt in shown["attempts"]:
        for one in attempt["models"]:
            used[one["model"]] += one["usage"]["output_tokens"]
    expect(
        "usage by model",
        dict(+used),
        {first: spent[False], second: spent[True]} if spent[False] else {second: spent[True]},
    )
    expect("usage", shown["usage"]["output_tokens"], sum(spent.values()))
    expect("charged attempts", shown["tried"], 1)
    return wrong


def play(base: Path, numbers: Iterable[int], seed: int = 0, at_once: int = 4) -> list[str]:
    """Play cases of these numbers in one project, and return what is wrong."""
    cases = [Case.drawn(number, random.Random(f"{seed}.{number}")) for number in numbers]
    project = empty_project(base)
    with Providers(cases) as api:
        furnish(project, cases, api.url)
        assert project.awk("start", "--trust").code == 0
        try:
            with ThreadPoolExecutor(at_once) as threads:
                found = threads.map(partial(check, project, api.asked_by), cases)
                return [line for lines in found for line in lines]
        finally:
            project.stop()


def main(count: int = 1000, size: int = 50, seed: int = 1) -> int:
    """Play ``count`` cases in projects of ``size``; print what is wrong."""
    began, wrong = time.monotonic(), 0
    for start in range(0, count, size):
        with tempfile.TemporaryDirectory() as folder:
            lines = play(Path(folder), range(start, min(start + size, count)), seed)
        wrong += len(lines)
        print(f"{min(start + size, count)} runs, {wrong} faults, {time.monotonic() - began:.0f} s", flush=True)  # noqa: T201
        print("\n".join(lines), end="\n" * bool(lines), flush=True)  # noqa: T201
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
