"""An endpoint for embeddings on loopback, in a thread: each text has a number for each word it was told to know."""

import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, Self

from tests.builders.http_server import Asked, Reply, serving

Answer = Callable[[dict[str, Any]], tuple[int, Any]]


class EmbeddingsApi:
    """The server. ``requests``: what was asked, with its key; ``answer`` may be set to say something else."""

    def __init__(self, *meanings: Sequence[str]) -> None:
        """Words of one of ``meanings`` mean the same."""
        self.meanings = meanings
        self.requests: list[tuple[str, str, dict[str, Any]]] = []
        self.answer: Answer = self.vectors
        self._serving = ExitStack()

    def _take(self, asked: Asked) -> Reply:
        body = json.loads(asked.body)
        self.requests.append((asked.path, asked.fields["authorization"], body))
        status, said = self.answer(body)
        text = said if isinstance(said, bytes) else json.dumps(said).encode()
        return Reply(status, text, {"content-type": "application/json"})

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def texts(self) -> list[list[str]]:
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
        self._port = self._serving.enter_context(serving(self._take))
        return self

    def __exit__(self, *_: object) -> None:
        self._serving.close()
