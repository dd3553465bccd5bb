"""``awk send``, ``ask`` and ``serve``: send a message to an agent or channel, and print the replies.

``send`` prints the receipt, with ``--wait`` the answers; ``ask`` prints the answer while it is written; ``serve``
prints one JSON document for scripts. Retries never send a message twice, and waits continue across restarts of the
kernel.
"""

import argparse
import contextlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from interface.cli.command_parser import duration
from interface.cli.context import Context
from interface.cli.exits import Exit, of_failure, worst
from interface.cli.output import Screen, escape, one_line
from interface.cli.parsing import (
    TARGET,
    Arguments,
    flag,
    json_flag,
    jsonl_flag,
    message_argument,
    switch,
    target_argument,
)
from interface.cli.prompts import answer_in_place, can_ask, decide_in_place, is_question, with_trust
from interface.cli.requests import left_behind_lines
from interface.cli.targets import target
from interface.client import REQUEST_SECONDS, SILENCE_SECONDS, Client, ServerEvent, Stream, new_key
from interface.event_follow import TURNS, Expired, Follower, InstructionWait
from interface.failure import Failure, Unreachable

_KEYLESS: Final = "set it and run awk restart --kernel"
"""Hint for a missing key: a kernel keeps the environment of the process that started it."""
_WAITS: Final = {
    "credentials": "its provider refused the key; set another key and run awk restart --kernel in that shell",
    "quota": "the quota of its provider is used up; when it is renewed: awk resume",
    "approval": "you have to approve or deny a tool call: awk needs",
    "person": "a person has to answer: awk needs, awk answer",
    "budget": "its budget is used up; renew it: awk continue",
    "hops": "a limit of its workflow was reached; renew it: awk continue",
    "paused": "it is paused; resume it: awk resume",
    "stopped": "its agent was stopped; resume it: awk resume",
    "error": "its agent is in error; see the reason: awk ps; re-enable it: awk reset",
}
"""Wait reasons that only a person can resolve, each with the required action."""
ARGUMENTS: Final[Mapping[str, Arguments]] = {
    "ask": (target_argument, message_argument, json_flag, jsonl_flag),
    "serve": (target_argument, message_argument, switch("--json", about="print one JSON document (always on)")),
}


def configure_send(parser: argparse.ArgumentParser) -> None:
    words = (target_argument(parser, f"{TARGET} (default: the project's default_agent)"), message_argument(parser))
    with contextlib.suppress(AttributeError):  # None while plain words are parsed
        words[1].required = False

    class Batch(argparse.Action):
        """Argument action that makes TARGET and MESSAGE optional."""

        def __call__(self, _parser: object, given: argparse.Namespace, value: object, _flag: object = None) -> None:
            setattr(given, self.dest, value)
            for word in words:
                word.required = False

    about = "file with one JSON object {to, text} per line instead of TARGET and MESSAGE; - reads standard input"
    parser.add_argument("--batch", action=Batch, metavar="FILE", help=about)
    flag(parser, "--wait", about="wait for the answers and print them")
    parser.add_argument("--timeout", type=duration, metavar="D", help="with --wait: maximum time to wait (30s, 5m)")
    json_flag(parser)


def run_send(context: Context) -> int:
    if context.args.timeout is not None and not context.args.wait:
        raise Failure("usage", "--timeout requires --wait")
    if context.args.batch is not None:
        return _send_batch(context)
    alone = context.args.message is None  # one word: the message for the default agent
    if alone and _is_target(context, context.args.target):
        word = one_line(context.args.target)
        raise Failure("usage", f"the message for {word} is missing", f"for example: awk send {word} hello")
    to = None if alone else str(target(context.args.target))
    context.args.message = context.args.target if alone else context.args.message
    body = {"to": to, "text": context.message(), "trust": context.trusts}
    answer, client = post_once(context, "/messages", body, REQUEST_SECONDS)
    client.close()
    receipt = json.loads(answer)
    if receipt.get("not_woken"):
        context.out.note(
            f"note: agents beyond the limit of eight mentions were not woken: {', '.join(receipt['not_woken'])}"
        )
    context.out.notes(left_behind_lines(receipt))
    if receipt.get("outdated"):
        location = one_line(receipt["outdated"])
        context.out.note(f"note: error at {location}; the previous version of the file is in effect (awk validate)")
    if not receipt["instruction_ids"]:
        context.out.note("note: this message wakes no agent; mention one with @name")
    if not context.args.wait:
        context.out.notes(held_lines(receipt.get("held", {}), receipt.get("unasked", {})))
        context.out.document(answer) if context.args.json else context.out.lines(receipt_lines(answer))
        return Exit.OK
    outcomes = await_outcomes(context, receipt["instruction_ids"], context.args.timeout)
    document = report(receipt, outcomes)
    context.answer(document, results_lines)
    code = finish(context, document)
    if outcomes.open:
        text = f"{', '.join(outcomes.open)} not done before the timeout; the work continues"
        context.out.error(Failure("timeout", text, f"follow it: awk show {outcomes.open[0]}"))
        return Exit.TIMEOUT
    return code


def _is_target(context: Context, word: str) -> bool:
    """Return whether ``word`` is a target and not a message for the default agent."""
    if word.startswith("@") and len(word.split()) == 1:
        return True
    with contextlib.suppress(Failure):  # no target, or a token that may not list agents
        asked = target(word)
        known: list[dict[str, Any]] = json.loads(context.started_kernel().get("/agents"))["agents"]
        return asked.workflow is not None or any(row["name"] == asked.agent for row in known)
    return False


AT_ONCE: Final = 200
"""Same as protocol.api.messages.MOST_AT_ONCE, without the import of msgspec."""
_BATCH_BYTES: Final = 2 * 1024 * 1024
"""Maximum size of the lines in one request, half the limit of a request's body."""


def _send_batch(context: Context) -> int:
    """Send the messages of a file in large requests; print a receipt for each accepted message."""
    if context.args.target is not None or context.args.wait:
        raise Failure("usage", "--batch cannot be combined with TARGET, MESSAGE or --wait")
    given = context.args.batch
    results: list[dict[str, Any]] = []
    code = int(Exit.OK)
    with contextlib.ExitStack() as stack:
        try:
            lines = context.stdin if given == "-" else stack.enter_context(open(given, encoding="utf-8"))
        except OSError as error:
            raise Failure("usage", f"{one_line(given)} cannot be read: {error.strerror}") from error
        for first, messages in _batches(lines):
            body = {"messages": messages, "trust": context.trusts}
            answer, client = post_once(context, "/messages", body, REQUEST_SECONDS)
            client.close()
            for line, result in enumerate(json.loads(answer)["results"], first):
                refused = result.get("refused")
                results.append(result)
                if refused is not None:
                    code = code or of_failure(refused["code"], refused["status"])
                    text = f"line {line}: {refused['detail']}"
                    context.out.error(Failure(refused["code"], text, refused["hint"]))
                elif not context.args.json:
                    sent = result["sent"]
                    context.out.lines([" ".join((sent["message_id"], *sent["instruction_ids"]))])
    if context.args.json:
        refused_count = sum("refused" in one for one in results)
        counts = {"accepted": len(results) - refused_count, "refused": refused_count}
        context.out.document(json.dumps({"schema": "awk/send-batch/1", **counts, "results": results}))
    return code


def _batches(lines: Iterable[str]) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    batch: list[dict[str, Any]] = []
    size = first = number = 0
    reading = iter(lines)
    while True:
        number += 1
        try:
            line = next(reading, None)
            if line is None:
                break
            message: dict[str, Any] = json.loads(line)
            known = {"to", "text"} <= message.keys() <= {"to", "text", "key"}
            if not known or not all(isinstance(value, str) for value in message.values()):
                raise ValueError("the keys to and text are required, key is optional, and all values are strings")
        except (ValueError, AttributeError, RecursionError) as error:  # invalid UTF-8 is a ValueError, too
            if batch:
                yield first, batch
            hint = "earlier messages were sent" if number > 1 else 'for example: {"to": "alice", "text": "hi"}'
            raise Failure("usage", f"line {number} is not a message: {error}", hint) from error
        if batch and (len(batch) == AT_ONCE or size + len(line) > _BATCH_BYTES):
            yield first, batch
            batch, size = [], 0
        first = first if batch else number
        batch.append(message)
        size += len(line)
    if batch:
        yield first, batch


def receipt_lines(body: bytes) -> list[str]:
    receipt = json.loads(body)
    return [" ".join((receipt["message_id"], *receipt["instruction_ids"]))]


def held_lines(held: Mapping[str, str], unasked: Mapping[str, str]) -> list[str]:
    return [f"note: {escape(one)} waits: {_wait(reason, unasked.get(one))}" for one, reason in held.items()]


def post_once(
    context: Context, path: str, body: Mapping[str, object], wait_seconds: float | None
) -> tuple[bytes, Client]:
    """POST ``body``, after a lost connection again with the same key. Return the answer and its client.

    Asks the user for trust if it is required and a user is present.
    """

    def post(asked: Mapping[str, object]) -> tuple[bytes, Client]:
        key = new_key()
        client = context.started_kernel()
        try:
            return client.post(path, asked, key=key, wait_seconds=wait_seconds), client
        except Unreachable:
            context.out.note("note: connection to the kernel lost; retrying")
        client = context.started_kernel()
        return client.post(path, asked, key=key, wait_seconds=wait_seconds), client

    return with_trust(context, body, post)


def await_outcomes(context: Context, ids: Sequence[str], timeout_seconds: float | None = None) -> InstructionWait:
    """Return the results of ``ids``, or those available after ``timeout_seconds``."""
    outcomes = InstructionWait(
        ids,
        approve=(lambda approval: decide_in_place(context, approval)) if can_ask(context) else None,
        answer=(lambda asked: answer_in_place(context, asked)) if can_ask(context) else None,
        tell=lambda event: context.out.notes(retry_notes(event)),
    )
    if not ids:
        return outcomes
    follower = Follower(
        connect=context.returning_kernel,
        query={"type": ",".join(sorted(TURNS))},
        clock=context.clock,
        say=context.out.note,
        deadline=None if timeout_seconds is None else context.clock.now() + timeout_seconds,
    )
    with contextlib.suppress(Expired):
        outcomes.wait(follower)
    return outcomes


def results_lines(body: bytes, screen: Screen) -> list[str]:
    results: list[dict[str, Any]] = json.loads(body)["results"]
    lines: list[str] = []
    for result in results:
        lines += [screen.style(f"{escape(result['agent'])}:", "bold")] if len(results) > 1 else []
        lines += escape(result["text"]).rstrip("\n").split("\n") if result["text"].strip() else []
    return lines


def report(receipt: dict[str, Any], outcomes: InstructionWait) -> bytes:
    kept = {name: receipt[name] for name in ("message_id", "instruction_ids")}
    return json.dumps({"schema": "awk/send/1", **kept, "results": outcomes.results}).encode()


def finish(context: Context, body: bytes) -> int:
    """Report the unfinished instructions in ``body`` on stderr. Returns the most severe exit code."""
    context.out.lines(())
    results: list[dict[str, Any]] = json.loads(body)["results"]
    for result in results:
        who = f"error: {escape(result['agent'])}: {result['instruction_id']}"
        status, cause, attempts = result["status"], result.get("cause"), result.get("attempts", 0)
        if status == "done":
            continue
        if status == "waiting":
            context.out.note(f"{who} waits: {_wait(str(result.get('waits_for')), result.get('unasked'))}")
            continue
        why = f" ({escape(cause)})" if cause and cause != status else ""
        after = f" after {attempts} attempts" if attempts > 1 else ""
        again = f"\n  hint: awk retry {result['instruction_id']}" if status in {"dead", "failed"} else ""
        context.out.note(f"{who} ended {status}{why}{after}{again}")
    return worst(results)


def _wait(reason: str, unasked: str | None) -> str:
    return escape(f"{unasked}; {_KEYLESS}" if unasked else _WAITS.get(reason, reason))


def run_ask(context: Context) -> int:
    conversation = _AnswerDisplay(context)

    def start(asked: Mapping[str, object]) -> Stream:
        return context.started_kernel().stream("/run", asked, key=new_key())

    body = {"to": str(target(context.args.target)), "text": context.message(), "trust": context.trusts}
    if can_ask(context):  # a user is present who can approve calls
        body["attended"] = True
    try:
        with with_trust(context, body, start) as stream:
            for event in stream:
                conversation.show(event)
                if conversation.receipt:
                    stream.wait_at_most(SILENCE_SECONDS)
                if event.type == "result":
                    return conversation.end(event.data.encode())
    except Unreachable as error:
        if conversation.receipt is None:
            hint = "try again"
            raise Failure("no_kernel", f"the kernel exited before it accepted the message: {error}", hint) from error
    return conversation.resume()


class _AnswerDisplay:
    """Display of the answer while it is written; ``receipt`` is None until the kernel accepts the message."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._plain = not (context.args.json or context.args.jsonl)
        self._stream = AnswerStream(context.out.text)
        self.receipt: dict[str, Any] | None = None

    def show(self, event: ServerEvent) -> None:
        """Print an event in the requested format, and ask the user about approvals and questions."""
        if event.type == "accepted":
            self.receipt = {"instruction_ids": [], **json.loads(event.data)}
        if not event.data or event.type == "result":
            return
        if not self._context.args.jsonl:
            if notes := retry_notes(event):
                self._stream.end_line()
                self._context.out.notes(notes)
            if event.type == "approval.requested" and can_ask(self._context):
                self._stream.end_line()
                decide_in_place(self._context, str(json.loads(event.data)["data"]["id"]))
            if is_question(told := json.loads(event.data)) and can_ask(self._context):
                self._stream.end_line()
                answer_in_place(self._context, str(told["instruction"]))
        if self._context.args.jsonl:
            self._context.out.document(as_line(event, self._context.clock.wall()))
        elif self._plain and self.receipt and len(self.receipt["instruction_ids"]) == 1:
            if event.type == "delta":
                self._stream.delta(str(json.loads(event.data)["data"].get("text", "")))
            elif event.type in {"instruction.step", "attempt.ended"}:
                self._stream.reply_ended()

    def end(self, document: bytes) -> int:
        """Print the rest of the results in ``document``. Return the exit code."""
        results = json.loads(document)["results"]
        if self._context.args.json:
            self._context.out.document(document)
        elif self._context.args.jsonl:
            self._context.out.document(as_result(document, self._context.clock.wall()))
        elif len(results) == 1:
            self._stream.finish(str(results[0]["text"]))
        else:
            self._context.answer(document, results_lines)
        return finish(self._context, document)

    def resume(self) -> int:
        """Wait for the results after the stream was lost, and print them. Returns the exit code."""
        if self.receipt is None:
            raise Failure("no_kernel", "the kernel closed the stream before it accepted the message", "try again")
        self._context.out.note("note: connection to the kernel lost; the answer follows after reconnection")
        outcomes = await_outcomes(self._context, self.receipt["instruction_ids"])
        return self.end(report(self.receipt, outcomes))


class AnswerStream:
    """Printer of the streamed text of one instruction. ``write`` escapes and prints a text."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._segment = ""
        self._over = False
        self._printed = False

    def delta(self, text: str) -> None:
        """Print more of the current reply."""
        if self._over:
            self._break_line()
            self._segment, self._over = "", False
        self._segment += text
        self._printed = True
        self._write(text)

    def reply_ended(self) -> None:
        """Mark the end of the current reply; later deltas belong to the next reply."""
        self._over = bool(self._segment)

    def end_line(self) -> None:
        """End the current line before other output."""
        self.reply_ended()
        self._break_line()

    def finish(self, text: str) -> None:
        """Print the final ``text`` unless the last reply already showed it."""
        if text.strip() and self._segment.strip() != text.strip():
            self._break_line()
            self._write(text)
            self._segment, self._printed = text, True
        self._break_line()

    def _break_line(self) -> None:
        if self._printed and not self._segment.endswith("\n"):
            self._write("\n")
            self._segment += "\n"


def run_serve(context: Context) -> int:
    body = {"to": str(target(context.args.target)), "text": context.message(), "trust": context.trusts}
    answer, _ = post_once(context, "/serve", body, None)
    context.out.document(answer)
    return finish(context, answer)


def retry_notes(event: ServerEvent) -> list[str]:
    """Return a note if ``event`` is a failed attempt that is retried, otherwise no lines."""
    if event.type != "instruction.queued":
        return []
    told = json.loads(event.data)
    data = told.get("data") or {}
    if data.get("n") is None:
        return []
    then = f"attempt {data['n'] + 1} of {data['tries']} follows" if data.get("tries") else "it is tried again"
    why = one_line(
        f"{told.get('agent')}: {told.get('instruction')}: {data.get('cause')}: {data.get('text') or 'no word'}"
    )
    return [f"note: {why}; {then}"]


def as_line(event: ServerEvent, wall_seconds: float) -> str:
    """Return an event as a line of ``--jsonl``, with type, schema and time."""
    if event.type != "accepted":
        return event.data.replace("{", '{"schema":"awk/event/1",', 1)
    return _line("accepted", {"schema": "awk/accepted/1", **json.loads(event.data)}, wall_seconds)


def as_result(document: bytes, wall_seconds: float) -> bytes:
    """Return the report as the last line of ``--jsonl``."""
    return _line("result", json.loads(document), wall_seconds).encode()


def _line(kind: str, document: dict[str, Any], wall_seconds: float) -> str:
    at = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(wall_seconds))}.{int(wall_seconds % 1 * 1000):03}Z"
    return json.dumps({"type": kind, "at": at, **document}, ensure_ascii=False, separators=(",", ":"))
