"""Cheap HTTP/1.1 client with one persistent connection, and functions that measure times and rates."""

import json
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

T = TypeVar("T")
SECONDS: Final = 30.0


class LoadConnection:
    """Persistent connection to a port of 127.0.0.1, for one thread only."""

    def __init__(self, port: int, headers: dict[str, str] | None = None) -> None:
        self._port = port
        lines = {"host": f"127.0.0.1:{port}", "content-type": "application/json", **(headers or {})}
        self._headers = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        self._socket: socket.socket | None = None

    def call(self, method: str, path: str, body: object = None) -> Any:
        """Send one request and return the decoded answer. Raises RuntimeError for a status over 299."""
        data = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\n{self._headers}content-length: {len(data)}\r\n\r\n"
        status, answer = self._exchange(head.encode() + data)
        if status > 299:
            raise RuntimeError(f"{method} {path}: {status} {answer.decode(errors='replace')}")
        return json.loads(answer) if answer else None

    def _exchange(self, request: bytes) -> tuple[int, bytes]:
        if self._socket is None:
            self._socket = socket.create_connection(("127.0.0.1", self._port), timeout=SECONDS)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.sendall(request)
        data = b""
        while b"\r\n\r\n" not in data:
            data += self._receive()
        head, _, body = data.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").lower().split("\r\n")
        fields = dict(line.split(": ", 1) for line in lines)
        length = int(fields["content-length"])
        while len(body) < length:
            body += self._receive()
        if fields.get("connection") == "close":
            self.close()
        return int(first.split(" ")[1]), body

    def _receive(self) -> bytes:
        chunk = self._socket.recv(65536) if self._socket else b""
        if not chunk:
            raise ConnectionError("the server closed the connection")
        return chunk

    def close(self) -> None:
        """Close the connection; the next call opens a new one."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def timed(action: Callable[[], object], times: int) -> list[float]:
    """Return the milliseconds that each of ``times`` runs of ``action`` took."""
    taken: list[float] = []
    for _ in range(times):
        begin = time.perf_counter()
        action()
        taken.append((time.perf_counter() - begin) * 1000)
    return taken


def by_turns(measures: Mapping[str, Callable[[], T]], rounds: int) -> dict[str, list[T]]:
    """Call the ``measures`` in turn, so that a slow phase of the machine affects all. Return their results by name."""
    found: dict[str, list[T]] = {name: [] for name in measures}
    for name, measure in [*measures.items()] * rounds:
        found[name].append(measure())
    return found


def together(actions: Sequence[Callable[[], T]]) -> list[T]:
    """Run each action in its own thread and return the results in order. Raises the first failure in that order."""
    with ThreadPoolExecutor(len(actions)) as threads:
        return [one.result() for one in [threads.submit(action) for action in actions]]


def rate(make: Callable[[int], Callable[[], object]], clients: int, seconds: float) -> float:
    """Return the calls per second of ``clients`` threads. Thread ``number`` repeats the action ``make(number)``."""
    gate = threading.Barrier(clients + 1)

    def work(number: int) -> int:
        action = make(number)
        action()
        gate.wait(SECONDS)
        count, deadline = 0, time.perf_counter() + seconds
        while time.perf_counter() < deadline:
            action()
            count += 1
        return count

    with ThreadPoolExecutor(clients) as threads:
        working = [threads.submit(work, number) for number in range(clients)]
        gate.wait(timeout=SECONDS)
        begin = time.perf_counter()
        counted = sum(one.result() for one in working)
        return counted / (time.perf_counter() - begin)
