"""Numbers that cross a wall have bounds, and sums of them fit; what was to be a frame is never lost."""

from collections.abc import Iterator
from typing import get_args

import msgspec
import pytest
from msgspec import inspect

from protocol.instruction import LARGEST, Usage
from protocol.ipc import COUNTS, Delta, Entry, Json, KeeperFrame, Pong, Preloaded, Result, ToolCall, WorkerFrame
from protocol.ndjson import DuplicateKey, FrameReader, Noise, encode, reject_duplicate_keys

pytestmark = pytest.mark.promise("P10", "IF17")

HEARD = (*get_args(WorkerFrame), *get_args(KeeperFrame), Preloaded)
"""What the kernel hears from processes that it started."""


def numbers(kind: inspect.Type, where: str) -> Iterator[tuple[str, inspect.IntType | inspect.FloatType]]:
    match kind:
        case inspect.IntType() | inspect.FloatType():
            yield where, kind
        case inspect.Metadata():
            yield from numbers(kind.type, where)
        case inspect.StructType():
            for one in kind.fields:
                yield from numbers(one.type, f"{where}.{one.name}")
        case inspect.UnionType():
            for part in kind.types:
                yield from numbers(part, where)
        case inspect.TupleType():
            for part in kind.item_types:
                yield from numbers(part, f"{where}[]")
        case inspect.VarTupleType() | inspect.ListType():
            yield from numbers(kind.item_type, f"{where}[]")
        case _:
            pass


def test_every_number_of_every_frame_that_the_kernel_hears_has_bounds() -> None:
    found = [one for frame in HEARD for one in numbers(inspect.type_info(frame), frame.__name__)]
    assert len(found) > 15
    assert [where for where, kind in found if kind.ge is None or kind.le is None] == []


@pytest.mark.parametrize(
    "said",
    [
        '"usage":{"input_tokens":-1}',
        '"usage":{"output_tokens":4611686018427387904}',
        '"usage":{"cache_read_tokens":9007199254740993}',
        '"usage":{"input_tokens":1.5}',
        '"usage":{"input_tokens":true}',
        '"usage":{"cost_usd":-0.01}',
        '"usage":{"cost_usd":1e308}',
        '"usage":{"cost_usd":1e999}',
        '"usage":{"cost_usd":NaN}',
        '"usage":{"cost_usd":Infinity}',
        f'"usage":{{"input_tokens":{"9" * 5000}}}',
        '"usage":{"input_tokens":1,"input_tokens":2}',
        '"text":"a","text":"b"',
        '"text":"\\ud800"',
        '"text":7',
    ],
)
def test_an_entry_that_cannot_be_is_known_as_an_entry(said: str) -> None:
    reader: FrameReader[WorkerFrame] = FrameReader(WorkerFrame, counts=COUNTS)
    line = f'{{"t":"entry","k":0,"kind":"reply",{said}}}\n'
    noise, frame = reader.feed(line.encode() + encode(Pong(n=1)))
    assert isinstance(noise, Noise)
    assert noise.meant == "entry"
    assert frame == Pong(n=1)


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        (b'{"t":"result","status":"finished"}', "result"),
        (b'{ "status" : "done" , "t" : "result" , "text" : }', "result"),
        (b'{"t":"error","cause":"bad luck","text":""}', "error"),
        (b'{"t":"entry","k":1,"kind":"tool","text":"' + b"x" * 2_000_000, "entry"),
        (b'{"t":"pong"}', None),
        (b'{"level":"info","message":"{\\"t\\":\\"entry\\"}"}', None),
        (b'{"level":"info","was":{"t":"entry"}}', None),
        (b"npm notice", None),
    ],
)
def test_what_was_to_be_a_frame_that_counts_says_which(line: bytes, meant: str | None) -> None:
    reader: FrameReader[WorkerFrame] = FrameReader(WorkerFrame, counts=COUNTS)
    (noise,) = reader.feed(line + b"\n")
    assert isinstance(noise, Noise)
    assert noise.meant == meant


def test_what_is_carried_unread_may_be_as_its_model_wrote_it() -> None:
    reader: FrameReader[WorkerFrame] = FrameReader(WorkerFrame, counts=COUNTS)
    entry = Entry(k=0, kind="reply", calls=(ToolCall(id="a", name="b", args=Json(b'{"p": 1, "p": 2}')),))
    (heard,) = reader.feed(encode(entry))
    assert isinstance(heard, Entry)
    assert bytes(heard.calls[0].args) == b'{"p": 1, "p": 2}'


def test_frames_that_others_write_in_their_own_style_are_the_same_frames() -> None:
    reader: FrameReader[WorkerFrame] = FrameReader(WorkerFrame, counts=COUNTS)
    (result,) = reader.feed(b'{ "status": "done", "more": [1, 2], "text": "a", "t": "result" }\n')
    assert result == Result(status="done", text="a")


def test_words_as_they_come_are_not_read_twice() -> None:
    """Only frames that count are looked at for keys that come twice."""
    reader: FrameReader[WorkerFrame] = FrameReader(WorkerFrame, counts=COUNTS)
    assert reader.feed(b'{"t":"delta","text":"a","text":"b"}\n') == [Delta(text="b")]


@pytest.mark.promise("IF17")
@pytest.mark.parametrize(
    "data", [b'{"a":1,"a":1}', b'[{"a":{"b":1,"\\u0062":2}}]', b'{"a":1,"b":{"c":[{"d":1,"d":1}]}}']
)
def test_a_key_given_twice_is_found_wherever_it_is(data: bytes) -> None:
    with pytest.raises(DuplicateKey, match="twice"):
        reject_duplicate_keys(data)


@pytest.mark.promise("P10")
def test_numbers_of_any_length_are_not_read_for_it() -> None:
    """Looking for keys must not cost what a number of 100,000 digits would."""
    reject_duplicate_keys(b'{"a":' + b"9" * 100_000 + b',"b":1e99999}')


@pytest.mark.promise("P10")
def test_sums_of_the_largest_stay_numbers_that_every_reader_has_exactly() -> None:
    most = Usage(input_tokens=LARGEST, output_tokens=LARGEST, cache_read_tokens=LARGEST, cost_usd=float(LARGEST))
    assert most.plus(most) == most
    assert msgspec.json.decode(msgspec.json.encode(most.plus(most)), type=Usage) == most
