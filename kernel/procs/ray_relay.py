"""Transport to a node on Ray: an actor in the cluster runs a command, whose standard streams are relayed here.

A separate program for a Python that has the package ray: the kernel never imports ray, and this program imports
nothing of the project. The actor exits with this process, and the command with the actor. The node process
checks its own lease.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any, Final

EX_UNAVAILABLE: Final = 69
"""Exit code of sysexits.h: a service is unavailable."""
CHUNK_BYTES: Final = 64 * 1024
AHEAD: Final = 64
"""Maximum number of output chunks that the actor buffers before this process has read them."""
TAIL_BYTES: Final = 2000
_OWN: Final = {"CPU": "num_cpus", "GPU": "num_gpus", "memory": "memory"}


class FarCommand:
    """The actor, which runs one command and relays its streams."""

    def __init__(self, argv: list[str]) -> None:
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self._tail = b""
        threading.Thread(target=self._keep_tail, daemon=True).start()

    def _keep_tail(self) -> None:
        assert self._process.stderr is not None
        while chunk := os.read(self._process.stderr.fileno(), CHUNK_BYTES):
            self._tail = (self._tail + chunk)[-TAIL_BYTES:]

    def write(self, data: bytes) -> None:
        """Write ``data`` to the command's input; an empty chunk closes the input."""
        assert self._process.stdin is not None
        if data:
            self._process.stdin.write(data)
            self._process.stdin.flush()
        else:
            self._process.stdin.close()

    def read(self) -> Iterator[bytes]:
        """Yield the command's output in pieces."""
        assert self._process.stdout is not None
        while chunk := os.read(self._process.stdout.fileno(), CHUNK_BYTES):
            yield chunk

    def end(self) -> tuple[int, str]:
        """Wait for the command; return its exit code and the end of its standard error."""
        return self._process.wait(), self._tail.decode("utf-8", "replace")


def options_of(resources: dict[str, float]) -> dict[str, Any]:
    """Return the actor's options: Ray has other names for some resources, and must not restart the actor."""
    own = {_OWN[name]: amount for name, amount in resources.items() if name in _OWN}
    rest = {name: amount for name, amount in resources.items() if name not in _OWN}
    return {"num_cpus": 0, **own, "resources": rest, "max_restarts": 0, "max_task_retries": 0, "max_concurrency": 4}


def carry(ray: Any, far: list[str], resources: dict[str, float], output: int) -> int:
    """Run the command ``far`` in an actor, with its output to descriptor ``output``; return its exit code."""
    actor = ray.remote(FarCommand).options(**options_of(resources)).remote(far)

    def give() -> None:
        try:
            while chunk := os.read(0, CHUNK_BYTES):
                ray.get(actor.write.remote(chunk))
        except Exception as error:  # noqa: BLE001  (whatever Ray raises)
            complain(f"the actor accepts no more input: {error}")
        os._exit(0)  # the stream is unused: the actor exits with this process

    threading.Thread(target=give, daemon=True).start()
    pieces = actor.read.options(num_returns="streaming", _generator_backpressure_num_objects=AHEAD).remote()
    for piece in pieces:
        rest = memoryview(ray.get(piece))
        while rest:
            rest = rest[os.write(output, rest) :]
    code, tail = ray.get(actor.end.remote())
    sys.stderr.write(tail)
    return int(code)


def complain(text: str) -> None:
    """Print the reason of a failure to standard error, on one line."""
    sys.stderr.write(f"error: {' '.join(text.split())[:TAIL_BYTES]}\n")


def main() -> int:
    """Relay until the command exits or standard input ends. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="ray_relay", allow_abbrev=False)
    parser.add_argument("--address", default="auto")
    parser.add_argument("--resources", type=json.loads, default={})
    parser.add_argument("far", nargs="+")
    asked = parser.parse_args()
    output = os.dup(1)
    os.dup2(2, 1)  # output of Ray is not part of the stream
    try:
        import ray  # type: ignore[import-not-found]  # noqa: PLC0415  (another Python's)
    except ImportError:
        complain("this Python has no package ray: install it (pip install ray), or set python: to another one")
        return EX_UNAVAILABLE
    try:
        with contextlib.redirect_stdout(sys.stderr):
            ray.init(address=asked.address, log_to_driver=False, logging_level="ERROR")
        return carry(ray, asked.far, asked.resources, output)
    except Exception as error:  # noqa: BLE001  (as above)
        complain(str(error))
        return EX_UNAVAILABLE


if __name__ == "__main__":
    sys.exit(main())
