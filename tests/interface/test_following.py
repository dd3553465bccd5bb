"""-f: what is followed goes on through restarts of the kernel, without a gap and without a double."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from interface.client import Client
from interface.clock import Clock
from interface.event_follow import CONNECTED, RETURN_SECONDS, Follower
from interface.failure import Failure, Unreachable
from protocol.api.messages import Channel
from tests.interface.conftest import Cli
from tests.interface.kernel_double import PING, Answer, Asked, KernelDouble, Stream, in_turn, sse
from tests.interface.samples import event, message, message_event

CHANNEL = "GET /spaces/review:main/channel"


def _said(seq: int) -> bytes:
    return sse("message", message_event(seq * 10, message(seq, f"m{seq}")), seq * 10)


def _channel(*seqs: int) -> Channel:
    return Channel(space="review:main", messages=tuple(message(seq, f"m{seq}") for seq in seqs))


def test_history_and_what_comes_meet_without_a_double(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers |= {
        CHANNEL: lambda asked: _channel(1, 2) if asked.query["limit"] == "50" else _channel(2),
        "GET /events": in_turn(Stream([PING, _said(2), _said(3)], cut=True), None),
    }
    kernel.answers["GET /health"] = None
    cli.patience = 1
    kernel_gone_after_events(kernel)
    ran = cli("channel", "@review", "-f", "--jsonl")
    assert [line["text"] for line in ran.jsonl()] == ["m1", "m2", "m3"]
    assert ran.code == 130


def kernel_gone_after_events(kernel: KernelDouble) -> None:
    """Once its stream has been cut the kernel proves itself to nobody any more."""
    answer = kernel.answers["GET /events"]
    assert callable(answer)

    def last(asked: Asked) -> Answer:
        stream = answer(asked)
        kernel.proves = False
        return stream

    kernel.answers["GET /events"] = last


def test_a_restart_leaves_no_gap(cli: Cli, kernel: KernelDouble) -> None:
    pages: dict[str | None, Channel] = {None: _channel(1), "1": _channel(*range(2, 202)), "201": _channel(202)}
    last = Stream([PING, _said(202), _said(203)], cut=True)
    streams = iter([Stream([PING], cut=True), last])

    def events(asked: Asked) -> Answer:
        stream = next(streams)
        kernel.proves = stream is not last
        return stream

    kernel.answers |= {CHANNEL: lambda asked: pages[asked.query.get("since")], "GET /events": events}
    cli.patience = 1
    ran = cli("channel", "@review", "-f", "--jsonl")
    assert [line["seq"] for line in ran.jsonl()] == [1, *range(2, 203), 203]


def test_following_what_does_not_exist_is_an_error_at_once(cli: Cli, kernel: KernelDouble) -> None:
    assert cli("channel", "@review", "-f").code == 5


def test_events_are_followed_from_now_or_from_since(cli: Cli, kernel: KernelDouble) -> None:
    cli.patience = 1
    for words, query in (([], {}), (["--since", "1h"], {"since": "0"})):
        kernel.proves = True
        started = sse("kernel.started", event("kernel.started", 1), 1)
        kernel.answers["GET /events"] = in_turn(Stream([PING, started], cut=True), None)
        kernel_gone_after_events(kernel)
        cli("events", "-f", "--jsonl", *words)
        assert kernel.of("GET", "/events")[-1].query == query


class _Clock:
    """Time that passes only in pauses."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def pause(self, seconds: float) -> None:
        self.seconds += seconds

    @property
    def clock(self) -> Clock:
        return Clock(lambda: self.seconds, lambda: 0.0, self.pause)


def _client(kernel: KernelDouble) -> Client:
    from interface.discovery import KernelEndpoint
    from interface.http_client import parse_address

    address = parse_address(kernel.url)
    assert address is not None
    return Client(KernelEndpoint(address, kernel.token, 0, "the test"))


def _follower(connect: Callable[[], Client], said: list[str], **more: Any) -> tuple[Follower, _Clock]:
    time = _Clock()
    return Follower(
        connect=connect, query={"space": "x", "since": "0"}, clock=time.clock, say=said.append, **more
    ), time


def test_it_resumes_after_the_last_event_it_saw(kernel: KernelDouble) -> None:
    """contracts 4: Last-Event-ID; and every connect is announced, so that state can be asked for."""
    kernel.answers["GET /events"] = in_turn(Stream([_said(1), _said(2)], cut=True), Stream([_said(3)]), None)
    said: list[str] = []
    follower, _ = _follower(lambda: _client(kernel), said)
    seen = list(itertools.islice(follower, 5))
    assert [event.id for event in seen] == ["", "10", "20", "", "30"]
    assert [seen[0], seen[3]] == [CONNECTED, CONNECTED]
    first, second = kernel.of("GET", "/events")[:2]
    assert (first.query, first.headers.get("last-event-id")) == ({"space": "x", "since": "0"}, None)
    assert (second.query, second.headers.get("last-event-id")) == ({"space": "x"}, "20")
    assert said == []


def test_it_waits_for_the_kernel_to_come_back_and_says_so_once(kernel: KernelDouble) -> None:
    kernel.answers["GET /events"] = in_turn(Stream([_said(1)], cut=True), Stream([_said(2)]), None)
    tries = itertools.count()

    def connect() -> Client:
        if 1 <= next(tries) <= 5:
            raise Unreachable("nothing answers")
        return _client(kernel)

    said: list[str] = []
    follower, time = _follower(connect, said)
    assert [event.id for event in itertools.islice(follower, 4)] == ["", "10", "", "20"]
    assert said == ["note: connection to the kernel lost; waiting to reconnect"]
    assert 0.5 < time.seconds < 2


def test_a_kernel_that_does_not_come_back_is_given_up(kernel: KernelDouble) -> None:
    kernel.answers["GET /events"] = in_turn(Stream([_said(1)], cut=True), None)
    tries = itertools.count()

    def connect() -> Client:
        if next(tries):
            raise Unreachable("nothing answers")
        return _client(kernel)

    follower, time = _follower(connect, [])
    with pytest.raises(Failure, match="connection to the kernel lost"):
        list(follower)
    assert RETURN_SECONDS < time.seconds < RETURN_SECONDS + 1
