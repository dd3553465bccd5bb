"""A project with a running kernel, for the time of one measurement."""

import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from scripts.benchmarks.load import Connection
from tests.project import Project

MOCK = "backend: mock\nmock:\n  - text: hi\n"


@dataclass(frozen=True)
class MeasuredProject:
    """The project, and where its kernel listens."""

    project: Project
    port: int
    token: str
    pid: int

    def connect(self, token: str | None = None, **headers: str) -> Connection:
        """A connection that shows the admin token, or ``token``."""
        return Connection(self.port, {"authorization": f"Bearer {token or self.token}", **headers})

    def until_leased(self, instruction: str) -> None:
        """Wait until an attempt holds ``instruction``."""
        connection = self.connect()
        deadline = time.perf_counter() + 30
        while connection.call("GET", f"/instructions/{instruction}")["status"] == "queued":
            if time.perf_counter() > deadline:
                raise TimeoutError(f"{instruction} did not start")
            time.sleep(0.01)


@contextmanager
def empty_project() -> Generator[Project]:
    """A project without agents; whatever was started in it is stopped at the end."""
    with tempfile.TemporaryDirectory(prefix="awk-bench-") as folder:
        base = Path(folder).resolve()
        for name in ("project/.agents", "state", "home"):
            (base / name).mkdir(parents=True)
        project = Project(root=base / "project", state_home=base / "state", home=base / "home")
        try:
            yield project
        finally:
            project.stop()


@contextmanager
def running(files: dict[str, str], env: dict[str, str] | None = None) -> Generator[MeasuredProject]:
    """A kernel for a project of ``files`` (path -> text), started as a user starts it."""
    with empty_project() as project:
        for path, text in files.items():
            project.write(path, text)
        started = project.awk("start", "--trust", env=env)
        if started.code:
            raise RuntimeError(started.err)
        record = project.record()
        yield MeasuredProject(project, record["port"], record["token"], record["pid"])
