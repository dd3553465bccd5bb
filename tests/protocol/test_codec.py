"""Frames as lines."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.ipc import Delta, Log, Pong, WorkerFrame
from protocol.ndjson import (
    LINE_LIMIT_BYTES,
    DuplicateKey,
    FrameReader,
    LineTooLong,
    Noise,
    encode,
    reject_duplicate_keys,
)


def test_frames_survive_any_cut_of_the_stream() -> None:
    frames = [Delta(text="a\nb"), Log(level="info", text="ü"), Pong(n=3)]
    stream = b"".join(encode(frame) for frame in frames)
    for size in range(1, len(stream) + 1):
        reader: FrameReader[WorkerFrame] = FrameReader(WorkerFrame)
        got = [frame for at in range(0, len(stream), size) for frame in reader.feed(stream[at : at + size])]
        assert got == frames


@pytest.mark.promise("IF01")
def test_an_endless_line_is_cut_once_and_what_follows_is_read() -> None:
    reader: FrameReader[WorkerFrame] = FrameReader(WorkerFrame)
    got: list[WorkerFrame | Noise] = []
    for _ in range(40):
        got += reader.feed(b"x" * 100_000)
        assert len(reader.pending) <= LINE_LIMIT_BYTES
    got += reader.feed(b"\n" + encode(Pong(n=1)))
    assert [type(item) for item in got] == [Noise, Pong]
    assert len(reader.pending) == 0


@pytest.mark.promise("IF03", "IF05", "IF07", "IF14")
@pytest.mark.parametrize(
    "line",
    [b"npm WARN banner", b"\xff\xfe\x00", b'{"t":"unknown"}', b'{"t":"pong"}', b"[" * 100_000, b"\xef\xbb\xbf{}"],
)
def test_what_is_no_frame_is_noise_and_ends_nothing(line: bytes) -> None:
    reader: FrameReader[WorkerFrame] = FrameReader(WorkerFrame)
    noise, frame = reader.feed(line + b"\n" + encode(Pong(n=1)))
    assert isinstance(noise, Noise)
    assert frame == Pong(n=1)


def test_a_frame_over_the_limit_is_refused_by_the_sender() -> None:
    """contracts 6: at most 1 MiB a line."""
    with pytest.raises(LineTooLong):
        encode(Delta(text="x" * LINE_LIMIT_BYTES))


@pytest.mark.promise("IF03")
@given(st.binary(max_size=300))
def test_any_bytes_give_frames_or_noise(data: bytes) -> None:
    """Never an exception."""
    reader: FrameReader[WorkerFrame] = FrameReader(WorkerFrame)
    assert all(item is not None for item in reader.feed(data + b"\n"))


@pytest.mark.promise("P17")
@pytest.mark.parametrize(
    "text", [b'{"to": "a", "to": "b"}', b'{"to": 1, "\\u0074o": 1}', b'{"x": [{"y": {"": 1, "a": 2, "": 3}}]}']
)
def test_a_key_that_is_there_twice_is_refused(text: bytes) -> None:
    """Two readers of one text never see two things; escapes and depth hide nothing."""
    with pytest.raises(DuplicateKey, match="occurs twice"):
        reject_duplicate_keys(text)


@pytest.mark.parametrize(
    "text", [b"{}", b'[{"a": 1}, {"a": 2}]', b'{"a": {"a": {"a": ":"}}}', b'{"n": ' + b"9" * 5000 + b"}", b'"a"']
)
def test_the_same_key_in_different_objects_is_fine(text: bytes) -> None:
    """Only keys of one object are compared."""
    reject_duplicate_keys(text)
