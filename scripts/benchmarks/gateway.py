"""Time that the gateway adds to a model request, beside a direct call of the same provider in the same run.

Also runs as the program of both processes: ``-m scripts.benchmarks.gateway [PROVIDER_PORT]``.
"""

import http.client
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import trio

from kernel.gateway.access import ModelAccess
from protocol.ipc import Provider
from scripts.benchmarks.figure import Figure, p50
from tests.builders.api import serve_kernel
from tests.kernel.gateway.scripted import KEY, PATHS, Line, upstream

REQUESTS = 400
WARM = 50
SIZES = {"2 kB": 2_000, "200 kB": 200_000}
PLACEHOLDER = "awk-i1-1-0123456789abcdefghijkl"
ANSWER = msgspec.json.encode({"content": [{"type": "text", "text": "hi"}], "usage": {"input_tokens": 5}})


async def _provide() -> None:
    async def script(line: Line, _hit: object) -> None:
        await line.reply(ANSWER)

    async with upstream(script) as provider:
        print(provider.url.rpartition(":")[2], flush=True)
        await trio.sleep_forever()


async def _serve(port: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with serve_kernel(Path(folder)) as kernel:
            provider = Provider(name="p", dialect="anthropic", base_url=f"http://127.0.0.1:{port}", api_key=KEY)
            access = ModelAccess(attempt="i1-1", provider=provider, models=frozenset({"m1"}))
            gateway = kernel.services.kernel.gateway
            gateway.admit(access, PLACEHOLDER, trio.lowlevel.checkpoint, lambda _model, _usage: None)
            print(kernel.port, flush=True)
            await trio.sleep_forever()


@contextmanager
def _process(*words: str) -> Generator[str]:
    command = [sys.executable, "-m", "scripts.benchmarks.gateway", *(words or ("",))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def _milliseconds(connection: http.client.HTTPConnection, path: str, body: bytes) -> float:
    began = time.perf_counter()
    connection.request("POST", path, body, {"x-api-key": PLACEHOLDER, "content-type": "application/json"})
    answer = connection.getresponse()
    assert (answer.status, answer.read()) == (200, ANSWER)
    return 1000 * (time.perf_counter() - began)


def measure() -> Iterator[Figure]:
    """Yield the difference of the medians for each size of request; direct and forwarded requests alternate."""
    with _process() as provider, _process(provider) as kernel:
        direct, forwarded = (http.client.HTTPConnection("127.0.0.1", int(port)) for port in (provider, kernel))
        for name, size in SIZES.items():
            path = f"/gateway/{PATHS['anthropic']}"
            said = [{"role": "user", "content": "word " * 40}] * (size // 230)
            body = msgspec.json.encode({"max_tokens": 1, "messages": said, "model": "m1"})
            times = [
                (_milliseconds(direct, "/v1/messages", body), _milliseconds(forwarded, path, body))
                for _ in range(WARM + REQUESTS)
            ][WARM:]
            added = p50([there for _, there in times]) - p50([here for here, _ in times])
            yield Figure(f"gateway, request of {name}: added to a direct call", added, 1.0, "ms")


if __name__ == "__main__":
    trio.run(_serve, sys.argv[1]) if sys.argv[1] else trio.run(_provide)
