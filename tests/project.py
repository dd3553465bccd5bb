"""A project in a temporary folder, and the command line as a user runs it there."""

import fcntl
import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil

from protocol.discovery import ADMIN, LOCK, RECORD, project_state
from tests.builders import git
from tests.e2e.processes import survivors, wait_until

AWK: Final = Path(sys.executable).parent / "awk"
BWRAP: Final = os.environ.get("AGENT_WORKER_TEST_BWRAP") or shutil.which("bwrap")
TRUST: Final = {"AGENT_WORKER_TRUST": "1"}
"""The environment of a user who trusts the files of the project."""
SECONDS: Final = 60.0


@dataclass(frozen=True)
class Ran:
    """What a command left behind."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """Its standard output, which must be one JSON document."""
        return json.loads(self.out)


@dataclass(frozen=True)
class Project:
    """A project root with a state directory and a home of its own; nothing outside is touched."""

    root: Path
    state_home: Path
    home: Path

    @property
    def environ(self) -> dict[str, str]:
        """All that a command sees of the environment."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "AGENT_WORKER_HOME": str(self.state_home),
            "LANG": "C.UTF-8",
            "GIT_CONFIG_GLOBAL": os.devnull,
            **{name: value for name, value in os.environ.items() if name in {"AGENT_WORKER_LAUNCHER", "TMPDIR"}},
        }

    @property
    def state(self) -> Path:
        """Where the kernel of this project keeps what it knows."""
        return Path(project_state(str(self.state_home), str(self.root)))

    def record(self) -> dict[str, Any]:
        """What the running kernel published; ``token`` is the administrator's, ``limited`` that of the record."""
        found: dict[str, Any] = json.loads((self.state / RECORD).read_text("utf-8"))
        found["limited"] = found["token"]
        with suppress(FileNotFoundError):  # of an earlier version
            found["token"] = json.loads((self.state / ADMIN).read_text("utf-8"))["token"]
        return found

    def alive(self) -> bool:
        """Whether a kernel of this project lives: it holds the lock for life, whatever the record says."""
        try:
            descriptor = os.open(self.state / LOCK, os.O_RDWR)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def write(self, path: str, text: str) -> Path:
        """Write a file of the project; the text may be indented."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text).lstrip("\n"), "utf-8")
        return file

    def agent(self, name: str, *actions: str, more: str = "") -> Path:
        """Write ``.agents/<name>.yaml``: backend mock, playing ``actions`` (each one YAML line, ``text: hi``).

        ``more`` is a line that says something else of it.
        """
        script = "".join(f"  - {{ {action} }}\n" for action in actions)
        return self.write(f".agents/{name}.yaml", f"backend: mock\n{more}\nmock:\n{script}")

    def spawn(
        self, *args: str, stdin: int = subprocess.DEVNULL, env: dict[str, str] | None = None
    ) -> "subprocess.Popen[str]":
        """Start ``awk args`` in the project, its output in pipes, and do not wait for it."""
        return subprocess.Popen(
            [str(AWK), *args],
            cwd=self.root,
            env={**self.environ, **(env or {})},
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )

    def awk(self, *args: str, stdin: str = "", seconds: float = SECONDS, env: dict[str, str] | None = None) -> Ran:
        """Run ``awk args`` in the project to its end, at most ``seconds``. Raises subprocess.TimeoutExpired."""
        with self.spawn(*args, stdin=subprocess.PIPE, env=env) as process:
            try:
                out, err = process.communicate(stdin, timeout=seconds)
            except BaseException:
                process.kill()
                raise
        return Ran(process.returncode, out, err)

    def ask(self, method: str, path: str, body: object = None, *, key: str = "") -> Any:
        """What the kernel answers to a request that it must not refuse: what a command does, without its process.

        ``key``: a request with the same key is carried out once.
        """
        record = self.record()
        headers = {"Authorization": f"Bearer {record['token']}", "Content-Type": "application/json"}
        if key:
            headers["Idempotency-Key"] = key
        connection = http.client.HTTPConnection(record["host"], record["port"], timeout=SECONDS)
        with closing(connection):
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            document = json.loads(response.read())
        assert response.status < 300, document
        return document

    def send(self, to: str, text: str = "go") -> str:
        """The instruction that a message becomes, by somebody who trusts what it makes run."""
        sent = self.ask("POST", "/messages", {"to": to, "text": text, "trust": True})
        return str(sent["instruction_ids"][0])

    def ended(self, instruction: str) -> dict[str, Any]:
        """What ``awk show`` says of an instruction at its end, which is waited for."""
        self.until("instruction.ended", holds=lambda event: bool(event["instruction"] == instruction))
        shown: dict[str, Any] = self.ask("GET", f"/instructions/{instruction}")
        return shown

    def until(
        self, kind: str, seconds: float = SECONDS, *, holds: Callable[[dict[str, Any]], bool] = lambda _event: True
    ) -> dict[str, Any]:
        """The first event of type ``kind`` of which ``holds`` is true since the log began, waited for if need be.

        It cannot come too late: durable events are read from the start. Raises TimeoutError.
        """
        for event in self.events(f"since=0&type={kind}", seconds):
            if holds(event):
                return event
        raise TimeoutError(f"the stream ended without {kind}")

    def events(self, query: str, seconds: float = SECONDS) -> Iterator[dict[str, Any]]:
        """Yield events as they come, until their stream ends. Raises TimeoutError where none comes for so long."""
        record = self.record()
        connection = http.client.HTTPConnection(record["host"], record["port"], timeout=seconds)
        with closing(connection):
            connection.request("GET", f"/events?{query}", headers={"Authorization": f"Bearer {record['token']}"})
            for line in connection.getresponse():
                if line.startswith(b"data: "):
                    yield json.loads(line.removeprefix(b"data: "))

    def git(self, *words: str, cwd: Path | None = None) -> str:
        """Return the output of a git command in the project or ``cwd``. Raises subprocess.CalledProcessError."""
        return git.git(cwd or self.root, *words, environ=self.environ)

    def commit(self, message: str = "first") -> None:
        """Commit all files; the repository, whose branch is ``main``, is created if there is none."""
        git.commit_all(self.root, message)

    def kernel(self) -> psutil.Process:
        return psutil.Process(int(self.record()["pid"]))

    def kill(self) -> None:
        """Kill the kernel by SIGKILL, and wait until it has released its lock."""
        self.kernel().send_signal(signal.SIGKILL)
        wait_until(lambda: not self.alive())

    def stop(self) -> None:
        """Stop the kernel, if one runs, and wait until it is gone. Raises AssertionError after killing it."""
        if not self.alive():
            return
        with suppress(psutil.NoSuchProcess, FileNotFoundError):  # its record goes first
            kernel = psutil.Process(int(self.record()["pid"]))
            with suppress(OSError, http.client.HTTPException):  # it may be going already
                self.ask("POST", "/shutdown", {"grace": 0})
            if survivors([kernel], seconds=10):
                kernel.kill()
                raise AssertionError(f"the kernel {kernel.pid} did not stop")
        wait_until(lambda: not self.alive())


def empty_project(base: Path) -> Project:
    """Make one below ``base``, where nothing is yet."""
    folders = {name: base / name for name in ("project", "state", "home")}
    for folder in folders.values():
        folder.mkdir()
    (folders["project"] / ".agents").mkdir()
    return Project(root=folders["project"].resolve(), state_home=folders["state"], home=folders["home"])
