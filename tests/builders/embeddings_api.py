"""An endpoint for embeddings on loopback, in a thread: each text has a number for each word it was told to know."""

import json
import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

Answer = Callable[[dict[str, Any]], tuple[int, Any]]


class EmbeddingsApi:
    """The server. ``requests``: what was asked, with its key; ``answer`` may be set to say something else."""

    def __init__(self, *meanings: Sequence[str]) -> None:
        """Words of one of ``meanings`` mean the same."""
        self.meanings = meanings
        self.requests: list[tuple[str, str, dict[str, Any]]] = []
        self.answer: Answer = self.vectors
        api = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                api.requests.append((self.path, self.headers["authorization"], body))
                status, said = api.answer(body)
                text = said if isinstance(said, bytes) else json.dumps(said).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        """The base URL, as providers have it."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    @property
    def texts(self) -> list[list[str]]:
        """The texts of each request."""
        return [body["input"] for _, _, body in self.requests]

    def vectors(self, body: dict[str, Any]) -> tuple[int, Any]:
        """The answer to a request, as long as nothing else was said."""
        rows = [
            {"object": "embedding", "index": number, "embedding": self.vector(text)}
            for number, text in enumerate(body["input"])
        ]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        return 200, {"object": "list", "data": rows, "model": body["model"], "usage": usage}

    def vector(self, text: str) -> list[float]:
        """A little of everything, and what the words mean."""
        return [0.1, *(float(sum(text.lower().count(word) for word in words)) for words in self.meanings)]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
