"""An HTTP server on loopback, in a thread, whose answers a function gives."""

import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple


class Asked(NamedTuple):
    """One request, read to its end."""

    method: str
    path: str
    fields: Mapping[str, str]
    """Header fields, their names in small letters."""
    body: bytes


class Reply(NamedTuple):
    """What is answered."""

    status: int = 200
    body: bytes = b""
    fields: Mapping[str, str] = {}


@contextmanager
def serving(answer: Callable[[Asked], Reply]) -> Generator[int]:
    """Answer requests for the length of the block. Yields the port; ``answer`` runs in a thread for each connection."""

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            fields = {name.lower(): value for name, value in self.headers.items()}
            reply = answer(Asked(self.command, self.path, fields, body))
            with suppress(OSError):  # the client may be dead
                self.send_response(reply.status)
                for name, value in {**reply.fields, "Content-Length": str(len(reply.body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(reply.body)

        do_GET = do_POST = do_DELETE = _answer  # noqa: N815  (http.server asks for these names)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
