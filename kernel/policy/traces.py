"""Spans of work by OpenTelemetry's conventions for generative AI: names, ids and parents. Pure.

There are spans for runs, their instructions, attempts and steps. Ids are derived from the objects, so that a repeated
export yields the same span. An instruction requested by another one is its child, in the same trace.

Spans are sent as messages of OTLP's trace service in the Protocol Buffers wire format. Encoding these five small
messages by hand avoids a library; tests compare the result with the reading of a collector's library.
"""

import hashlib
import struct
from collections.abc import Iterable, Mapping
from typing import Final, Literal

import msgspec

from protocol.instruction import Usage
from protocol.text import encode_json

Value = str | int | float | bool | tuple[str, ...]
INTERNAL: Final = 1
CLIENT: Final = 3
OK: Final = 1
ERROR: Final = 2
CONTENT_TYPE: Final = "application/x-protobuf"
_VARINT: Final = 0
_FIXED64: Final = 1
_BYTES: Final = 2


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """Span; ids have 16 and 8 bytes, and ``parent`` is empty at the root of a trace."""

    trace: bytes
    id: bytes
    parent: bytes = b""
    name: str
    kind: Literal[1, 3] = INTERNAL
    start_ms: int
    end_ms: int
    attributes: Mapping[str, Value] = {}
    failed: str | None = None
    """Description of the failure; None: it did not fail."""


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(content)) + content


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3 | _VARINT) + _varint(value & 0xFFFF_FFFF_FFFF_FFFF)


def _time(number: int, at_ms: int) -> bytes:
    return _varint(number << 3 | _FIXED64) + struct.pack("<Q", max(at_ms, 0) * 1_000_000)


def _value(value: Value) -> bytes:
    match value:
        case bool():
            return _number(2, value)
        case int():
            return _number(3, value)
        case float():
            return _varint(4 << 3 | _FIXED64) + struct.pack("<d", value)
        case str():
            return _field(1, value.encode("utf-8", "replace"))
        case _:
            return _field(5, b"".join(_field(1, _value(one)) for one in value))


def _attributes(number: int, values: Mapping[str, Value]) -> bytes:
    return b"".join(_field(number, _field(1, key.encode()) + _field(2, _value(value))) for key, value in values.items())


def _span(one: Span) -> bytes:
    status = b"" if one.failed is None else _field(2, one.failed.encode("utf-8", "replace")) + _number(3, ERROR)
    return b"".join(
        (
            _field(1, one.trace),
            _field(2, one.id),
            _field(4, one.parent) if one.parent else b"",
            _field(5, one.name.encode("utf-8", "replace")),
            _number(6, one.kind),
            _time(7, one.start_ms),
            _time(8, max(one.end_ms, one.start_ms)),
            _attributes(9, one.attributes),
            _field(15, status) if status else b"",
        )
    )


def export_request(
    spans: Iterable[Span], resource: Mapping[str, Value], scope: str, version: str, schema: str
) -> bytes:
    """Encode an ExportTraceServiceRequest with ``spans`` of one resource and one instrumentation scope."""
    name = _field(1, _field(1, scope.encode()) + _field(2, version.encode()))
    encoded = b"".join(_field(2, _span(one)) for one in spans)
    within = _field(2, name + encoded + _field(3, schema.encode()))
    return _field(1, _field(1, _attributes(1, resource)) + within)


SCHEMA: Final = "https://opentelemetry.io/schemas/1.41.0"
CONTENT_CHARACTERS: Final = 4000
"""Limit for texts of models and tools, if the project file enables their export."""
_NAME_CHARACTERS: Final = 200
_PROVIDERS: Final[Mapping[str, str]] = {
        "claude": "anthropic", "codex": "openai", "google": "gcp.gemini", "mistral": "mistral_ai",
        "moonshot": "moonshot_ai", "xai": "x_ai",
    }  # fmt: skip
"""Names that differ in the conventions."""
_DONE: Final = frozenset({"done"})
IN_ORDER: Final = frozenset({"done", "incomplete", "yielded", "held back", "over budget"})
"""Outcomes of attempts that are not failures."""


class Origin(msgspec.Struct, frozen=True):
    """Origin of an instruction: its log, the instruction that asked for it, its run, and the root of its trace."""

    log: str
    asked_by: int | None
    run: int | None
    root_run: int | None
    root: int


class TracedInstruction(msgspec.Struct, frozen=True):
    """Columns of an instruction for its spans."""

    number: int
    agent_key: str
    agent_name: str
    space: str
    enqueued_ms: int
    model: str
    backend: str
    provider: str


class StepDone(msgspec.Struct, frozen=True, kw_only=True):
    """Completed entry: a model's reply or a tool's result; ``content`` is None unless its export is enabled."""

    k: int
    epoch: int
    is_tool: bool
    at_ms: int
    since_ms: int
    """End of the previous entry, or start of the attempt."""
    duration_ms: int | None = None
    name: str = ""
    call_id: str | None = None
    stop_reason: str | None = None
    is_error: bool = False
    usage: Usage | None = None
    content: str | None = None


class AttemptDone(msgspec.Struct, frozen=True):
    """Ended attempt."""

    epoch: int
    started_ms: int
    ended_ms: int
    outcome: str
    exit: str | None


class WorkDone(msgspec.Struct, frozen=True, kw_only=True):
    """End of an instruction; ``ends`` numbers its ends, because a person can retry a failed one."""

    at_ms: int
    ends: int
    status: str
    cause: str | None
    attempts: int
    usage: Usage


class RunDone(msgspec.Struct, frozen=True, kw_only=True):
    """End of a run."""

    run: int
    workflow: str
    tag: str
    started_ms: int
    at_ms: int
    status: str
    exit_code: int | None


def trace_id(origin: Origin) -> bytes:
    """Return the trace id of an instruction, derived from the root of its trace."""
    root = ("run", origin.root_run) if origin.root_run is not None else ("instruction", origin.root)
    return _digest(origin.log, "trace", *root)[:16]


def span_id(log: str, *what: object) -> bytes:
    """Return the id of the span of a run, an instruction, an attempt or a step."""
    return _digest(log, "span", *what)[:8]


def _digest(*parts: object) -> bytes:
    return hashlib.sha256("\0".join(map(str, parts)).encode()).digest()


def step_span(work: TracedInstruction, origin: Origin, step: StepDone) -> Span:
    """Return the span of a step (``chat`` or ``execute_tool``), a child of its attempt."""
    since = step.since_ms if step.duration_ms is None else step.at_ms - step.duration_ms
    attributes: dict[str, Value] = {"gen_ai.operation.name": "execute_tool" if step.is_tool else "chat"}
    failed = None
    if step.is_tool:
        name = f"execute_tool {step.name}"
        attributes |= {"gen_ai.tool.name": step.name, "gen_ai.tool.type": "function"}
        if step.call_id is not None:
            attributes["gen_ai.tool.call.id"] = step.call_id[:_NAME_CHARACTERS]
        if step.is_error:
            failed = "the tool failed"
            attributes["error.type"] = "tool_error"
    else:
        name = f"chat {work.model}".rstrip()
        attributes["gen_ai.provider.name"] = _provider(work)
        if work.model:
            attributes["gen_ai.request.model"] = work.model
        if step.stop_reason:
            attributes["gen_ai.response.finish_reasons"] = (step.stop_reason[:_NAME_CHARACTERS],)
        attributes |= _spent(step.usage or Usage())
    if step.content is not None:
        said = step.content[:CONTENT_CHARACTERS]
        if step.is_tool:
            attributes["gen_ai.tool.call.result"] = said
        else:
            message = {"role": "assistant", "parts": [{"type": "text", "content": said}]}
            attributes["gen_ai.output.messages"] = encode_json([message]).decode()
    attributes |= _whose(work) | {"agent_worker.attempt": f"i{work.number}-{step.epoch}", "agent_worker.step": step.k}
    return Span(
        trace=trace_id(origin),
        id=span_id(origin.log, work.number, step.epoch, step.k),
        parent=span_id(origin.log, work.number, step.epoch),
        name=name[:_NAME_CHARACTERS],
        kind=1 if step.is_tool else CLIENT,
        start_ms=max(since, 0),
        end_ms=step.at_ms,
        attributes=attributes,
        failed=failed,
    )


def attempt_span(work: TracedInstruction, origin: Origin, attempt: AttemptDone) -> Span:
    """Return the span of an attempt, which OpenTelemetry does not define; parent: instruction."""
    attributes = _whose(work) | {
        "agent_worker.attempt": f"i{work.number}-{attempt.epoch}",
        "agent_worker.outcome": attempt.outcome,
    }
    if attempt.exit is not None:
        attributes["agent_worker.exit"] = attempt.exit
    failed = None if attempt.outcome in IN_ORDER else attempt.outcome
    if failed is not None:
        attributes["error.type"] = failed
    return Span(
        trace=trace_id(origin),
        id=span_id(origin.log, work.number, attempt.epoch),
        parent=span_id(origin.log, work.number),
        name=f"attempt {work.agent_name}",
        start_ms=attempt.started_ms,
        end_ms=attempt.ended_ms,
        attributes=attributes,
        failed=failed,
    )


def work_span(work: TracedInstruction, origin: Origin, done: WorkDone) -> Span:
    """Return the span of an instruction (``invoke_agent``), a child of its requester or run.

    Each end is a span. The first is the parent of all attempts, and of later ends (after retries).
    """
    attributes: dict[str, Value] = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": _provider(work),
        **_whose(work),
        "agent_worker.status": done.status,
        "agent_worker.attempts": done.attempts,
        **_spent(done.usage),
    }
    if work.model:
        attributes["gen_ai.request.model"] = work.model
    failed = None
    if done.status not in _DONE:
        attributes["error.type"] = failed = done.cause or done.status
    first = span_id(origin.log, work.number)
    asked_by = None if origin.asked_by is None else span_id(origin.log, origin.asked_by)
    of_run = None if origin.run is None else span_id(origin.log, "run", origin.run)
    return Span(
        trace=trace_id(origin),
        id=first if done.ends <= 1 else span_id(origin.log, work.number, "end", done.ends),
        parent=(asked_by or of_run or b"") if done.ends <= 1 else first,
        name=f"invoke_agent {work.agent_name}",
        start_ms=work.enqueued_ms,
        end_ms=done.at_ms,
        attributes=attributes,
        failed=failed,
    )


def run_span(log: str, run: RunDone) -> Span:
    """Return the span of a run (``invoke_workflow``), the root of its trace."""
    attributes: dict[str, Value] = {
        "gen_ai.operation.name": "invoke_workflow",
        "gen_ai.workflow.name": run.workflow,
        "agent_worker.run": f"r{run.run}",
        "agent_worker.tag": run.tag,
        "agent_worker.status": run.status,
    }
    if run.exit_code is not None:
        attributes["agent_worker.exit_code"] = run.exit_code
    failed = run.status if run.exit_code else None
    if failed is not None:
        attributes["error.type"] = failed
    return Span(
        trace=trace_id(Origin(log, None, run.run, run.run, 0)),
        id=span_id(log, "run", run.run),
        name=f"invoke_workflow {run.workflow}",
        start_ms=run.started_ms,
        end_ms=run.at_ms,
        attributes=attributes,
        failed=failed,
    )


def _whose(work: TracedInstruction) -> dict[str, Value]:
    return {
        "gen_ai.agent.name": work.agent_name,
        "gen_ai.agent.id": work.agent_key,
        "gen_ai.conversation.id": work.space,
        "agent_worker.instruction": f"i{work.number}",
        "agent_worker.backend": work.backend,
    }


def _provider(work: TracedInstruction) -> str:
    name = work.provider or work.backend
    return _PROVIDERS.get(name, name) or "_OTHER"


def _spent(usage: Usage) -> dict[str, Value]:
    all_input = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    found: dict[str, Value] = {}
    if all_input or usage.output_tokens:
        found = {"gen_ai.usage.input_tokens": all_input, "gen_ai.usage.output_tokens": usage.output_tokens}
    if usage.cache_read_tokens:
        found["gen_ai.usage.cache_read.input_tokens"] = usage.cache_read_tokens
    if usage.cache_write_tokens:
        found["gen_ai.usage.cache_creation.input_tokens"] = usage.cache_write_tokens
    if usage.cost_usd is not None:
        found["agent_worker.cost_usd"] = usage.cost_usd
    return found
