"""The first answer of a kernel."""

import http.client
import json
import socket
from collections.abc import Iterator

import pytest

from kernel.boot.health_responder import HealthResponder
from protocol.discovery import prove


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def opened(listener: socket.socket) -> HealthResponder:
    door = HealthResponder(listener, "secret", "1.2.3", "admin")
    door.open()
    return door


def ask(listener: socket.socket, path: str) -> tuple[int, dict[str, object]]:
    host, port = listener.getsockname()
    connection = http.client.HTTPConnection(host, port, timeout=5)
    connection.request("GET", path)
    response = connection.getresponse()
    body = json.loads(response.read())
    connection.close()
    return response.status, body


def test_health_is_answered_with_proof_before_the_house_stands(listener: socket.socket) -> None:
    """contracts 3: the kernel proves itself before a client shows its token."""
    door = opened(listener)
    assert ask(listener, "/health?nonce=n1") == (
        200,
        {"status": "starting", "version": "1.2.3", "proof": prove("secret", "n1"), "admin_proof": prove("admin", "n1")},
    )
    door.close()


def test_anything_else_is_asked_to_come_back(listener: socket.socket) -> None:
    """503 with a stable code, never a refused connection."""
    door = opened(listener)
    status, problem = ask(listener, "/agents")
    assert (status, problem["code"]) == (503, "starting")
    door.close()


def test_a_connection_that_comes_while_the_door_closes_waits_for_the_house(listener: socket.socket) -> None:
    door = opened(listener)
    door.close()
    with socket.create_connection(listener.getsockname()) as client:
        accepted, _ = listener.accept()
        with accepted:
            client.sendall(b"hello")
            assert accepted.recv(5) == b"hello"


def test_requests_are_let_in_before_they_can_be_answered(listener: socket.socket) -> None:
    door = opened(listener)
    door.accept()
    with (
        socket.create_connection(listener.getsockname()) as kept,
        socket.create_connection(listener.getsockname()) as new,
    ):
        host = "{}:{}".format(*listener.getsockname()).encode()
        kept.sendall(b"GET /health?nonce=n1 HTTP/1.1\r\nhost: " + host + b"\r\n\r\n")
        answer = kept.recv(8192)
        while b"}" not in answer:
            answer += kept.recv(8192)
        head, _, body = answer.partition(b"\r\n\r\n")
        assert json.loads(body) == {
            "status": "ok", "version": "1.2.3", "proof": prove("secret", "n1"), "admin_proof": prove("admin", "n1")
        }  # fmt: skip
        assert b"connection: close" not in head
        post = b"POST /messages HTTP/1.1\r\nhost: " + host + b"\r\ncontent-length: 5\r\n\r\nhel"
        new.sendall(post)
        assert ask(listener, "/health")[1]["status"] == "ok"  # whoever came before was seen by now
        waiting = {held.client.getpeername(): held for held in door.close()}
        kept.sendall(b"more")
        ours = waiting[kept.getsockname()]
        assert (ours.begun, ours.client.recv(4)) == (b"", b"more")
        asked = waiting[new.getsockname()].begun
        assert asked == post
        for held in waiting.values():
            held.client.close()


def test_a_client_that_says_nothing_does_not_hold_the_door(listener: socket.socket) -> None:
    door = opened(listener)
    with socket.create_connection(listener.getsockname()):
        assert ask(listener, "/health")[0] == 200
    door.close()


def test_what_is_no_address_harms_nobody_else(listener: socket.socket) -> None:
    door = opened(listener)
    with socket.create_connection(listener.getsockname(), timeout=5) as stranger:
        stranger.sendall(b"GET //[ HTTP/1.1\r\n\r\n")
        assert stranger.recv(100) == b""
    assert ask(listener, "/health")[0] == 200
    door.close()


@pytest.mark.parametrize("hosts", [("evil.example:80",), (), ("127.0.0.1:{port}", "evil.example")])
@pytest.mark.promise("P17")
def test_who_names_another_host_learns_nothing_while_the_kernel_starts(
    listener: socket.socket, hosts: tuple[str, ...]
) -> None:
    door = opened(listener)
    lines = "".join(f"host: {host.format(port=listener.getsockname()[1])}\r\n" for host in hosts)
    for _ in range(2):
        with socket.create_connection(listener.getsockname(), timeout=5) as page:
            page.sendall(f"GET /health?nonce=n1 HTTP/1.1\r\n{lines}\r\n".encode())
            answer = page.makefile("rb").read()
        assert answer.startswith(b"HTTP/1.1 403 ") and b"1.2.3" not in answer and b"proof" not in answer
        door.accept()
    assert door.close() == []
