"""What is not strictly HTTP/1.1 is answered 400 and the connection closed; nothing of it is executed."""

import logging
import re
from contextlib import suppress

import h11
import pytest
import trio

from kernel.api import server
from kernel.api.strict_http import FIELDS_LIMIT, LINE_LIMIT_BYTES, flaw_of_lines
from tests.builders.api import TOKEN, ServedKernel
from tests.kernel.api.client import connected

pytestmark = pytest.mark.promise("P17")

BODY = b'{"to": "alice", "text": "smuggled"}'
CHUNKED = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
START = b"POST /messages HTTP/1.1\r\n"


async def exchange(kernel: ServedKernel, data: bytes) -> bytes:
    """All that comes back for ``data`` until the server closes. Fails where it does not close."""
    received = b""
    async with connected(kernel.port) as wire:
        with trio.fail_after(5):
            await wire.stream.send_all(data)
            with suppress(trio.BrokenResourceError):
                while piece := await wire.stream.receive_some(65536):
                    received += piece
    return received


def statuses(answers: bytes) -> list[bytes]:
    """Of all answers that came over a connection."""
    return re.findall(rb"HTTP/1\.1 (\d{3}) ", answers)


async def said(kernel: ServedKernel) -> list[str]:
    channel = await kernel.ask("GET", "/spaces/dm:alice/channel")
    return [message["text"] for message in channel.json["messages"]]


def ordinary(kernel: ServedKernel) -> bytes:
    """Fields of every request here, each line ended, without the empty one."""
    text = f"Host: {kernel.host}\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n"
    return text.encode()


LENGTH = b"Content-Length: %d\r\n" % len(BODY)
TE = b"Transfer-Encoding: chunked\r\n"


@pytest.mark.parametrize(
    ("start", "more", "body"),
    [
        pytest.param(START, LENGTH + TE, CHUNKED, id="CL+TE"),
        pytest.param(START, TE + LENGTH, CHUNKED, id="TE+CL"),
        pytest.param(START, b"Content-Length: 0\r\n" + TE, CHUNKED, id="CL 0+TE"),
        pytest.param(START, LENGTH + LENGTH, BODY, id="CL twice"),
        pytest.param(START, b"Content-Length: %d, %d\r\n" % (len(BODY), len(BODY)), BODY, id="CL list"),
        pytest.param(START, b"Content-Length: +%d\r\n" % len(BODY), BODY, id="CL sign"),
        pytest.param(START, b"Content-Length : %d\r\n" % len(BODY), BODY, id="space before the colon"),
        pytest.param(START, TE + TE, CHUNKED, id="TE twice"),
        pytest.param(START, b"Content-Length: %d\n" % len(BODY), BODY, id="bare LF"),
        pytest.param(START, b"X: a\r" + LENGTH, BODY, id="bare CR"),
        pytest.param(START, b"X: a\r\n b\r\n" + LENGTH, BODY, id="obs-fold"),
        pytest.param(START, b"X: a\r\n\tb\r\n" + LENGTH, BODY, id="obs-fold by tab"),
        pytest.param(START, b"X: \x01\r\n" + LENGTH, BODY, id="control character"),
        pytest.param(START, b"X: \x00\r\n" + LENGTH, BODY, id="NUL"),
        pytest.param(START, b"X: \x7f\r\n" + LENGTH, BODY, id="DEL"),
        pytest.param(START, b"Host: evil.example\r\n" + LENGTH, BODY, id="two hosts"),
        pytest.param(START, b"X:1\r\n" * (FIELDS_LIMIT + 1) + LENGTH, BODY, id="too many fields"),
        pytest.param(b"POST /messages HTTP/2.0\r\n", LENGTH, BODY, id="HTTP/2.0"),
        pytest.param(b"POST /messages HTTP/1.2\r\n", LENGTH, BODY, id="HTTP/1.2"),
        pytest.param(b"POST /messages HTTP/0.9\r\n", LENGTH, BODY, id="HTTP/0.9"),
        pytest.param(b"POST /messages HTTP/1.0\r\n", TE, CHUNKED, id="TE in HTTP/1.0"),
        pytest.param(b"POST /messages  HTTP/1.1\r\n", LENGTH, BODY, id="two spaces"),
        pytest.param(b"POST /messages HTTP/1.1\n", LENGTH, BODY, id="bare LF first"),
        pytest.param(b"\r\nPOST /messages HTTP/1.1\r\n", LENGTH, BODY, id="empty line first"),
        pytest.param(b"CONNECT /messages HTTP/1.1\r\n", LENGTH, BODY, id="CONNECT"),
        pytest.param(START, TE, b"%x\n%s\r\n0\r\n\r\n" % (len(BODY), BODY), id="bare LF after a chunk's size"),
        pytest.param(START, TE, b"%x;\x01=a\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY), id="control in a chunk extension"),
        pytest.param(START, TE, b"%x \r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY), id="space after a chunk's size"),
        pytest.param(START, TE, b"%x\r\n%sXX0\r\n\r\n" % (len(BODY), BODY), id="chunk longer than it says"),
        pytest.param(START, TE, b"-%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY), id="chunk of negative size"),
        pytest.param(START, TE, CHUNKED[:-2] + b"Content-Length: 1\nX: 1\r\n\r\n", id="bare LF in trailers"),
        pytest.param(START, TE, CHUNKED[:-2] + LENGTH + TE + b"\r\n", id="lengths in trailers"),
    ],
)
async def test_what_could_be_read_in_two_ways_is_not_executed(
    kernel: ServedKernel, start: bytes, more: bytes, body: bytes
) -> None:
    """400 and the end, whatever token it carries; what follows on the connection is not read."""
    request = start + ordinary(kernel) + more + b"\r\n" + body
    follows = START + ordinary(kernel) + LENGTH + b"\r\n" + BODY
    answer = await exchange(kernel, request + follows)
    assert statuses(answer) == [b"400"]
    assert b'"code":"bad_request"' in answer
    assert await said(kernel) == []


@pytest.mark.parametrize("coding", [b"gzip, chunked", b"chunked, identity", b"xchunked", b"chunked\x0b"])
async def test_another_transfer_coding_is_not_executed(kernel: ServedKernel, coding: bytes) -> None:
    request = START + ordinary(kernel) + b"Transfer-Encoding: %s\r\n\r\n" % coding + CHUNKED
    answer = await exchange(kernel, request)
    assert answer[:13] in {b"HTTP/1.1 501 ", b"HTTP/1.1 400 "}
    assert await said(kernel) == []


@pytest.mark.promise("P10")
async def test_a_line_without_end_is_refused_before_the_deadline(kernel: ServedKernel) -> None:
    answer = await exchange(kernel, b"GET /health HTTP/1.1\r\nX: " + b"a" * (LINE_LIMIT_BYTES + 1))
    assert answer.startswith(b"HTTP/1.1 431 ")


async def test_strict_requests_are_served_however_they_are_cut(kernel: ServedKernel) -> None:
    body = b"%x;a=b\r\n%s\r\n0\r\nX-Checksum: 1\r\n\r\n" % (len(BODY), BODY)
    request = START + ordinary(kernel) + TE + b"\r\n" + body
    async with connected(kernel.port) as wire:
        wire.h11.send(h11.Request(method="POST", target="/", headers=[("Host", "x"), ("Content-Length", "0")]))
        wire.h11.send(h11.EndOfMessage())
        with trio.fail_after(20):
            for at in range(len(request)):
                await wire.stream.send_all(request[at : at + 1])
            assert (await wire.answer()).status == 202
    assert await said(kernel) == ["smuggled"]


async def test_requests_that_come_together_are_answered_in_their_order(kernel: ServedKernel) -> None:
    """Pipelining is HTTP/1.1; the second of two heads in one packet is looked at like the first."""
    one = b"GET /health HTTP/1.1\r\nHost: %s\r\n\r\n" % kernel.host.encode()
    answers = await exchange(kernel, one + one + one.replace(b"\r\nHost", b"\nHost"))
    assert statuses(answers) == [b"200", b"200", b"400"]


@pytest.mark.parametrize(
    "lines",
    [
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0",
        "GET /agents HTTP/1.1\r\nHost: evil.example\r\n{}\r\n",
        "GET /agents HTTP/1.1\r\nHost: {{host}}\r\n{}\r\n",
    ],
)
async def test_no_connection_is_upgraded_to_http_2(kernel: ServedKernel, lines: str) -> None:
    """Neither by prior knowledge nor by asking: Host and token come first, and then it is HTTP/1.1."""
    upgrade = "Connection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAA\r\n"
    answer = await exchange(kernel, lines.format(upgrade).replace("{host}", kernel.host).encode())
    assert answer[:13] in {b"HTTP/1.1 400 ", b"HTTP/1.1 421 ", b"HTTP/1.1 401 "}
    assert b" 101 " not in answer


async def test_who_asks_for_an_upgrade_with_a_token_gets_http_1(kernel: ServedKernel) -> None:
    """RFC 9110 section 7.8: a server may ignore the field."""
    upgrade = b"Connection: Upgrade, close\r\nUpgrade: h2c\r\n\r\n"
    answer = await exchange(kernel, b"GET /agents HTTP/1.1\r\n" + ordinary(kernel) + upgrade)
    assert answer.startswith(b"HTTP/1.1 200 ")


@pytest.mark.promise("P10")
async def test_bad_requests_leave_few_lines_and_no_traceback(
    kernel: ServedKernel, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    for data in (b"GARBAGE\r\n\r\n", b"\x16\x03\x01\r\n\r\n", b"GET / HTTP/1.0\r\n\r\n") * 20:
        assert (await exchange(kernel, data)).startswith(b"HTTP/1.1 4")
    assert 0 < len(caplog.records) <= server.COMPLAINTS
    assert not [record for record in caplog.records if record.exc_info or "\n" in record.getMessage()]


@pytest.mark.promise("P18")
async def test_what_was_sent_is_not_logged(kernel: ServedKernel, caplog: pytest.LogCaptureFixture) -> None:
    answer = await exchange(kernel, b"GET / HTTP/1.1\r\nAuthorization : Bearer SECRET\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"SECRET" not in answer
    assert "illegal header line" in caplog.text
    assert "SECRET" not in caplog.text


@pytest.mark.promise("P10")
def test_what_was_not_logged_is_counted(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("trio.current_time", lambda: now[0])
    said_of = server.Complaints()
    for _ in range(server.COMPLAINTS + 5):
        said_of.say("request.malformed", "a\nb")
    now[0] = server.COMPLAINTS_SECONDS
    said_of.say("request.malformed", "c")
    assert len(caplog.records) == server.COMPLAINTS + 1
    assert caplog.records[0].getMessage() == r"request.malformed 'a\nb'"
    assert caplog.records[-1].getMessage() == "request.malformed 'c' (5 more like this were not logged)"


@pytest.mark.parametrize("cut", range(1, 30))
def test_half_a_head_is_no_flaw(cut: int) -> None:
    assert flaw_of_lines(b"GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n\r\n"[:cut]) is None
