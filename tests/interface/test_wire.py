"""HTTP/1.1 and server-sent events as we read them, from real sockets and in every cut."""

import itertools
import os
import socket
import threading
from codecs import BOM_UTF8
from collections.abc import Generator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interface.client import PING, ServerEvent, server_events
from interface.failure import Unreachable
from interface.http_client import Address, Connection, parse_address


@contextmanager
def _server(answer: bytes, *, keep_open: bool = False) -> Generator[Address]:
    listener = socket.create_server(("127.0.0.1", 0))
    done = threading.Event()

    def serve() -> None:
        peer, _ = listener.accept()
        with peer:
            peer.recv(65536)
            peer.sendall(answer)
            if keep_open:
                done.wait(10)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield Address("127.0.0.1", listener.getsockname()[1])
    finally:
        done.set()
        thread.join()
        listener.close()


def _body(answer: bytes) -> tuple[int, bytes]:
    with _server(answer) as address:
        connection = Connection(address, 5)
        response = connection.request("GET", "/", {})
        body = response.body()
        connection.close()
        return response.status, body


def test_bodies_are_read_by_length_by_chunks_and_to_the_end() -> None:
    """RFC 9112 6.3: the three ways a body ends."""
    assert _body(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc") == (200, b"abc")
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nab\r\n1\r\nc\r\n0\r\nTrailer: t\r\n\r\n"
    assert _body(chunked) == (200, b"abc")
    assert _body(b"HTTP/1.1 404 Not Found\r\n\r\nabc") == (404, b"abc")
    assert _body(b"HTTP/1.1 204 No Content\r\n\r\n") == (204, b"")


@pytest.mark.promise("HF27")
@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffff\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000,
        b"HTTP/1.1 200 OK\r\n" + b"X: x\r\n" * 200,
    ],
    ids=["nothing", "no http", "cut head", "cut body", "no size", "huge chunk", "long header", "many headers"],
)
def test_what_is_no_answer_is_unreachable(answer: bytes) -> None:
    with pytest.raises(Unreachable):
        _body(answer)


def test_a_connection_that_ended_with_an_answer_is_unreachable_for_the_next() -> None:
    with _server(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok") as address:
        connection = Connection(address, 5)
        assert connection.request("GET", "/", {}).body() == b"ok"
        with pytest.raises(Unreachable, match="was closed"):
            connection.wait_at_most(1)
        with pytest.raises(Unreachable):
            connection.request("GET", "/", {})


def test_a_server_that_says_nothing_is_given_up() -> None:
    with _server(b"", keep_open=True) as address:
        connection = Connection(address, 0.05)
        with pytest.raises(Unreachable, match="timed out"):
            connection.request("GET", "/", {})
        assert connection.closed


def test_an_answer_that_comes_before_the_end_of_a_body_is_read() -> None:
    """Fault F11: of 100 MB the kernel read 18, said 413 and closed; the client wrote on, and saw a broken pipe."""
    refused = b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\n{}"
    for seconds in (5, None):
        with _server(refused, keep_open=True) as address:
            connection = Connection(address, 5)
            connection.wait_at_most(seconds)
            answer = connection.request("POST", "/messages", {}, bytes(100_000_000))
            assert (answer.status, answer.body(), connection.closed) == (413, b"{}", True)


def test_a_large_body_arrives_whole() -> None:
    body = os.urandom(8 * 1024 * 1024)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        got = bytearray()

        def serve() -> None:
            peer, _ = listener.accept()
            with peer:
                while not got.endswith(body[-100:]):
                    got.extend(peer.recv(100_000))
                peer.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")

        thread = threading.Thread(target=serve)
        thread.start()
        connection = Connection(Address("127.0.0.1", listener.getsockname()[1]), 10)
        assert connection.request("POST", "/", {}, body).status == 204
        thread.join()
        assert bytes(got).partition(b"\r\n\r\n")[2] == body
        connection.close()


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://127.0.0.1:4711", Address("127.0.0.1", 4711)),
        ("http://127.0.0.1:4711/", Address("127.0.0.1", 4711)),
        ("http://[::1]:4711", Address("::1", 4711)),
        ("https://127.0.0.1:4711", None),
        ("http://user@127.0.0.1:4711", None),
        ("http://127.0.0.1", None),
        ("http://127.0.0.1:99999", None),
        ("http://127.0.0.1:47/x", None),
        ("127.0.0.1:4711", None),
        ("", None),
    ],
)
def test_addresses(url: str, address: Address | None) -> None:
    """contracts 3: a record's url, or AGENT_WORKER_URL."""
    assert parse_address(url) == address


@pytest.mark.promise("P17")
def test_host_is_what_the_server_published() -> None:
    assert Address("127.0.0.1", 4711).authority == "127.0.0.1:4711"
    assert Address("::1", 4711).authority == "[::1]:4711"


EVENTS = b': ping\n\nid: 7\nevent: message\ndata: {"a":\ndata: 1}\n\nevent: delta\r\ndata: x\r\n\r\n: ping\n\n'


@given(st.lists(st.integers(0, len(EVENTS)), max_size=6), st.sampled_from([b"", BOM_UTF8]))
def test_events_do_not_depend_on_how_the_bytes_are_cut(places: list[int], mark: bytes) -> None:
    """WHATWG HTML 9.2.6: lines, not packets, and one byte order mark before them."""
    stream = mark + EVENTS.removeprefix(b": ping\n\n")
    cuts = [0, *(min(place, len(stream)) for place in sorted(places)), len(stream)]
    pieces = [stream[a:b] for a, b in itertools.pairwise(cuts)]
    expected = [ServerEvent("message", '{"a":\n1}', "7"), ServerEvent("delta", "x"), PING]
    assert list(server_events(pieces)) == expected


def test_an_event_that_is_cut_off_is_none() -> None:
    """WHATWG HTML 9.2.6: at the end of the stream what is not dispatched is discarded."""
    assert list(server_events([b"event: message\ndata: 1\n"])) == []
