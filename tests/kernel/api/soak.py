"""A real kernel under many connections, unfinished bodies and requests: ``python -m tests.kernel.api.soak [REQUESTS]``.

Says how long commands take meanwhile, and what is left of descriptors and memory. Exits 1 where a bound broke.
"""

import http.client
import json
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final

import psutil

from tests.e2e.processes import wait_until
from tests.project import AWK, Project, empty_project

REQUESTS: Final = 20_000
DESCRIPTORS: Final = 1024
IDLE: Final = 1500
BODIES: Final = 100
BODY_BYTES: Final = 4 * 1024 * 1024
LEFT: Final = 2
"""The listener, and perhaps a worker."""
MIB: Final = 1024 * 1024
ANSWER_SECONDS: Final = 1.0
GROWTH_MIB: Final = 64.0
SLOPE_BYTES: Final = 512.0
"""A request's lasting share of memory: what is durable is on the disk, and caches are bounded."""


class Trial:
    """One kernel, and which bounds it broke."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._record: dict[str, Any] = project.record()
        self._process = psutil.Process(self._record["pid"])
        self.broken = 0

    def idle_connections(self) -> None:
        """Commands are answered while as many connect as the kernel could never accept."""
        before = self._process.num_fds()
        with ExitStack() as crowd:
            for _ in range(IDLE):
                crowd.enter_context(self._connect())
            began = time.monotonic()
            assert self._project.awk("ps").code == 0
            self._say(f"{IDLE} idle connections: awk ps in", time.monotonic() - began, "s", ANSWER_SECONDS)
            self._say("descriptors open meanwhile", self._process.num_fds(), "", DESCRIPTORS / 2)
        self._settle()
        self._say("descriptors more than before", self._process.num_fds() - before, "", 8)

    def unfinished_bodies(self) -> None:
        """Bodies of the largest size that lack their last bytes."""
        before = peak = self._rss_mib()
        head = f"POST /messages HTTP/1.1\r\nHost: 127.0.0.1:{self._record['port']}\r\n"
        head += f"Authorization: Bearer {self._record['token']}\r\nContent-Length: {BODY_BYTES}\r\n\r\n"
        with ExitStack() as crowd:
            for _ in range(BODIES):
                client = crowd.enter_context(self._connect())
                with suppress(OSError):
                    client.sendall(head.encode() + b"x" * (BODY_BYTES - 1))
                peak = max(peak, self._rss_mib())
        self._say(f"{BODIES} unfinished bodies: memory grew by at most", peak - before, "MiB", GROWTH_MIB)
        self._settle()
        self._say("and is larger afterwards by", self._rss_mib() - before, "MiB", GROWTH_MIB / 2)

    def requests(self, count: int) -> None:
        """Ordinary requests over one connection: the second half must need no more memory than the first."""
        connection = http.client.HTTPConnection("127.0.0.1", self._record["port"], timeout=30)
        headers = {"Authorization": f"Bearer {self._record['token']}", "Content-Type": "application/json"}
        body = json.dumps({"to": "nobody", "text": "x" * 500})
        marks: list[float] = []
        for number in range(count):
            if number in {count // 2, count - 1}:
                marks.append(self._rss_mib())
            method, path, sent = (("GET", "/agents", None), ("POST", "/messages", body))[number % 2]
            connection.request(method, path, sent, headers)
            connection.getresponse().read()
        connection.close()
        slope = (marks[1] - marks[0]) * MIB / (count / 2)
        self._say(f"{count} requests: each leaves", slope, "bytes", SLOPE_BYTES)

    def _connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self._record["port"]), timeout=30)

    def _rss_mib(self) -> float:
        return float(self._process.memory_info().rss) / MIB

    def _settle(self) -> None:
        wait_until(lambda: len(self._process.net_connections()) <= LEFT)

    def _say(self, what: str, value: float, unit: str, bound: float) -> None:
        within = value <= bound
        self.broken += not within
        sys.stdout.write(f"{what} {value:.2f} {unit} (bound {bound:g}): {'ok' if within else 'BROKEN'}\n")


def main(argv: list[str]) -> int:
    with tempfile.TemporaryDirectory(prefix="awk-soak-") as folder:
        project = empty_project(Path(folder))
        command = ["/bin/sh", "-c", f'ulimit -n {DESCRIPTORS} && exec "$0" start', str(AWK)]
        subprocess.run(command, cwd=project.root, env=project.environ, check=True, capture_output=True)
        try:
            trial = Trial(project)
            trial.requests(2000)  # what is loaded and cached once
            trial.idle_connections()
            trial.unfinished_bodies()
            trial.requests(int(argv[0]) if argv else REQUESTS)
        finally:
            project.stop()
    return 1 if trial.broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
