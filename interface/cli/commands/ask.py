"""``awk ask``: a message, and its answer as it is written."""

import argparse
import json
from collections.abc import Mapping
from functools import partial
from typing import Any

from interface.cli import delivery
from interface.cli.answer_stream import AnswerStream
from interface.cli.asking import can_ask
from interface.cli.consent import with_consent
from interface.cli.context import Context
from interface.cli.parsing import json_flag, jsonl_flag, message_argument, target_argument
from interface.cli.targets import target
from interface.client import SILENCE_SECONDS, Stream, new_key
from interface.failure import Failure, Unreachable
from interface.sse import ServerEvent


def configure(parser: argparse.ArgumentParser) -> None:
    """TARGET MESSAGE."""
    target_argument(parser)
    message_argument(parser)
    json_flag(parser)
    jsonl_flag(parser)


def run(context: Context) -> int:
    """Print the answer while it comes."""
    conversation = _Answer(context)
    body = {"to": str(target(context.args.target)), "text": context.message(), "trust": context.trusts}
    if can_ask(context):  # who may approve a call is there
        body["attended"] = True
    try:
        with with_consent(context, body, partial(_open, context)) as stream:
            for event in stream:
                conversation.show(event)
                if conversation.receipt:
                    stream.wait_at_most(SILENCE_SECONDS)
                if event.type == "result":
                    return conversation.end(event.data.encode())
    except Unreachable as error:
        if conversation.receipt is None:
            raise Failure(
                "no_kernel", f"the kernel went away before it took the message: {error}", "try again"
            ) from error
    return conversation.resume()


def _open(context: Context, body: Mapping[str, object]) -> Stream:
    return context.started_kernel().stream("/run", body, key=new_key())


class _Answer:
    """What is known of the answer so far, and how it is shown."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._plain = not (context.args.json or context.args.jsonl)
        self._stream = AnswerStream(context.out.text)
        self.receipt: dict[str, Any] | None = None

    def show(self, event: ServerEvent) -> None:
        """Take note of the event, and print it if that is asked for."""
        if event.type == "accepted":
            self.receipt = {"instruction_ids": [], **json.loads(event.data)}
        if not event.data or event.type == "result":
            return
        if not self._context.args.jsonl:
            self._context.out.notes(delivery.retry_notes(event))
        if self._context.args.jsonl:
            self._context.out.document(delivery.as_line(event, self._context.clock.wall()))
        elif self._plain and self.receipt and len(self.receipt["instruction_ids"]) == 1:
            self._show_text(event)

    def _show_text(self, event: ServerEvent) -> None:
        if event.type == "delta":
            self._stream.delta(str(json.loads(event.data)["data"].get("text", "")))
        elif event.type in {"instruction.step", "attempt.ended"}:
            self._stream.reply_ended()

    def end(self, document: bytes) -> int:
        """Print what is left to print. Returns the exit code."""
        results = json.loads(document)["results"]
        if self._context.args.json:
            self._context.out.document(document)
        elif self._context.args.jsonl:
            self._context.out.document(delivery.as_result(document, self._context.clock.wall()))
        elif len(results) == 1:
            self._stream.finish(str(results[0]["text"]))
        else:
            self._context.answer(document, "results")
        return delivery.conclude(self._context, document)

    def resume(self) -> int:
        """The stream is lost, the message is not: wait for what comes of it."""
        if self.receipt is None:
            raise Failure("no_kernel", "the kernel ended the stream before it took the message", "try again")
        self._context.out.note("note: lost the kernel; the answer comes whole when it is back")
        outcomes = delivery.await_outcomes(self._context, self.receipt["instruction_ids"])
        return self.end(delivery.report(self.receipt, outcomes))
