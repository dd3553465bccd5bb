"""Answer /health while the kernel is still being imported, so that clients need not wait for the imports.

Importing the HTTP and MCP stacks takes half a second; a client that has just started this kernel learns at once that it
is alive and genuine. Requests with another Host are refused, as by the HTTP server (promise P17). At first all other
requests get 503 and a hint to retry. Once the start cannot fail any more, ``accept`` admits requests: they wait for the
HTTP server, which adopts their connections and the listening socket, so that none is refused.
"""

import json
import selectors
import socket
import threading
import time
from typing import Final, NamedTuple
from urllib.parse import parse_qs, urlsplit

from protocol.discovery import authorities, prove

REQUEST_LIMIT_BYTES: Final = 8192
PATIENCE_SECONDS: Final = 0.5
"""Time limit for one client; clients are served one at a time."""
HELD_LIMIT: Final = 256
"""Maximum number of connections that wait for the HTTP server; further connections get 503."""


class HeldConnection(NamedTuple):
    """Connection that waits for the HTTP server, and the part of its next request that was read."""

    client: socket.socket
    begun: bytes


class HealthResponder:
    """Thread that answers clients of ``listener`` until ``close`` is called."""

    def __init__(self, listener: socket.socket, token: str, version: str, admin_token: str) -> None:
        self._listener = listener
        self._token = token
        self._admin_token = admin_token
        self._version = version
        self._authorities = authorities(*listener.getsockname()[:2])
        self._wake, self._waker = socket.socketpair()
        self._thread = threading.Thread(target=self._serve, name="health", daemon=True)
        self._accepts = False
        self._held: list[HeldConnection] = []

    def open(self) -> None:
        """Start answering."""
        self._thread.start()

    def accept(self) -> None:
        """Admit requests: /health reports ``ok``, all others wait for the HTTP server."""
        self._accepts = True

    def close(self) -> list[HeldConnection]:
        """Stop answering. Return the connections that wait for the HTTP server; connections not
        yet accepted stay in the backlog."""
        self._waker.close()
        self._thread.join()
        self._wake.close()
        return self._held

    def _serve(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            selector.register(self._wake, selectors.EVENT_READ)
            while not any(key.fileobj is self._wake for key, _ in selector.select()):
                try:
                    client, _ = self._listener.accept()
                except OSError:
                    continue
                held = self._answer(client)
                if held is None:
                    client.close()
                else:
                    self._held.append(held)

    def _answer(self, client: socket.socket) -> HeldConnection | None:
        """Answer one request. Return the connection if the HTTP server has to answer it, else None."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        waits = self._accepts and len(self._held) < HELD_LIMIT
        try:
            request = b""
            while b"\r\n\r\n" not in request and len(request) < REQUEST_LIMIT_BYTES:
                client.settimeout(max(deadline - time.monotonic(), 0.001))
                piece = client.recv(REQUEST_LIMIT_BYTES)
                if not piece:
                    return None
                request += piece
            request_line, *fields = request.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")
            hosts = [
                value.strip() for name, _, value in (field.partition(":") for field in fields) if name.lower() == "host"
            ]
            method, _, rest = request_line.partition(" ")
            address = urlsplit(rest.partition(" ")[0])
            if len(hosts) != 1 or hosts[0] not in self._authorities:
                problem = _problem(
                    "Forbidden", 403, "forbidden_host", "this server answers only to its own loopback address"
                )
                response, waits = _http("403 Forbidden", "application/problem+json", problem), False
            elif method == "GET" and address.path == "/health":
                health = {"status": "ok" if waits else "starting", "version": self._version}
                nonce = parse_qs(address.query).get("nonce")
                if nonce:
                    health["proof"] = prove(self._token, nonce[0])
                    health["admin_proof"] = prove(self._admin_token, nonce[0])
                response = _http("200 OK", "application/json", health, kept=waits)
            elif waits:
                return HeldConnection(client, request)
            else:
                problem = _problem("Service Unavailable", 503, "starting", "the kernel is starting")
                problem["hint"] = "try again in a second"
                response = _http("503 Service Unavailable", "application/problem+json", problem)
            client.sendall(response)
        except (OSError, ValueError):  # the client has disconnected or the URL is invalid
            return None
        return HeldConnection(client, request.partition(b"\r\n\r\n")[2]) if waits else None


def _problem(title: str, status: int, code: str, detail: str) -> dict[str, object]:
    return {"type": "about:blank", "title": title, "status": status, "code": code, "detail": detail}


def _http(status: str, content_type: str, body: object, *, kept: bool = False) -> bytes:
    content = json.dumps(body).encode()
    head = (
        f"HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\ncontent-length: {len(content)}\r\n"
        "cache-control: no-store\r\n"
    )
    head += "\r\n" if kept else "retry-after: 1\r\nconnection: close\r\n\r\n"
    return head.encode() + content
