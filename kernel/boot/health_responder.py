"""Answers /health while the kernel behind it is still being imported. Exists for speed.

Importing the HTTP and MCP stacks takes most of a second; a client that has just started this kernel wants to know at
once that it is alive and genuine. Anything but /health gets 503 and is asked to come back. The HTTP server takes over
the same listening socket, so no connection is ever refused.
"""

import json
import selectors
import socket
import threading
import time
from typing import Final
from urllib.parse import parse_qs, urlsplit

from protocol.proof import prove

REQUEST_LIMIT_BYTES: Final = 8192
PATIENCE_SECONDS: Final = 0.5
"""The time that one client may take; clients are served one at a time."""


class HealthResponder:
    """A thread that answers on ``listener`` until ``close``."""

    def __init__(self, listener: socket.socket, token: str, version: str) -> None:
        self._listener = listener
        self._token = token
        self._version = version
        self._wake, self._waker = socket.socketpair()
        self._thread = threading.Thread(target=self._serve, name="health", daemon=True)

    def open(self) -> None:
        """Start answering."""
        self._thread.start()

    def close(self) -> None:
        """Stop answering; connections not yet accepted stay in the backlog for the HTTP server."""
        self._waker.close()
        self._thread.join()
        self._wake.close()

    def _serve(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            selector.register(self._wake, selectors.EVENT_READ)
            while not any(key.fileobj is self._wake for key, _ in selector.select()):
                try:
                    client, _ = self._listener.accept()
                except OSError:
                    continue
                with client:
                    self._answer(client)

    def _answer(self, client: socket.socket) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        try:
            request = b""
            while b"\r\n\r\n" not in request and len(request) < REQUEST_LIMIT_BYTES:
                client.settimeout(max(deadline - time.monotonic(), 0.001))
                piece = client.recv(REQUEST_LIMIT_BYTES)
                if not piece:
                    return
                request += piece
            request_line = request.split(b"\r\n", 1)[0].decode("latin-1")
            method, _, rest = request_line.partition(" ")
            address = urlsplit(rest.partition(" ")[0])
            if method == "GET" and address.path == "/health":
                health = {"status": "starting", "version": self._version}
                nonce = parse_qs(address.query).get("nonce")
                if nonce:
                    health["proof"] = prove(self._token, nonce[0])
                response = _http("200 OK", "application/json", health)
            else:
                problem = {
                    "type": "about:blank",
                    "title": "Service Unavailable",
                    "status": 503,
                    "code": "starting",
                    "detail": "the kernel is starting",
                    "hint": "try again in a second",
                }
                response = _http("503 Service Unavailable", "application/problem+json", problem)
            client.sendall(response)
        except OSError:
            return


def _http(status: str, content_type: str, body: object) -> bytes:
    content = json.dumps(body).encode()
    head = (
        f"HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\ncontent-length: {len(content)}\r\n"
        "cache-control: no-store\r\nretry-after: 1\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + content
