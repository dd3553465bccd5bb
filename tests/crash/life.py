"""One life of a real kernel: started, talked to, and ended by itself or by us."""

import http.client
import json
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from kernel.fault_injection import AT, LOG
from tests.e2e.processes import wait_until
from tests.project import Project

START_SECONDS: Final = 20.0
ANSWER_SECONDS: Final = 20.0
DEATH_SECONDS: Final = 10.0
FINISH_SECONDS: Final = 60.0
KERNEL: Final = ("-I", "-m", "kernel")


class Gone(Exception):
    """The kernel is dead, or will be in a moment; what was asked last may have happened or not."""


class InSafeMode(Exception):
    """The kernel answers and starts no work: those before it died too early, one after the other."""


@dataclass(frozen=True)
class Answer:
    """What a client was told."""

    status: int
    body: Any

    @property
    def accepted(self) -> bool:
        """2xx: from here on it is the kernel's."""
        return 200 <= self.status < 300


@dataclass
class Life:
    """A kernel of ``project``. ``crash_at`` as kernel.fault_injection has it; ``points`` is where it notes
    what it passes.
    """

    project: Project
    crash_at: str | None = None
    points: Path | None = None
    program: Sequence[str] = KERNEL
    command: Sequence[str] = (sys.executable,)
    """What runs the program. In a namespace of its own its pid is not the one we see."""
    output: Path | None = None
    """Where it writes what it has to say; by default beside its state."""
    _process: "subprocess.Popen[bytes]" = field(init=False)
    _record: dict[str, Any] = field(init=False, default_factory=dict)

    def __enter__(self) -> "Life":
        environ = self.project.environ | {"AGENT_WORKER_TRUST": "1"}
        if self.crash_at is not None:
            environ[AT] = self.crash_at
        if self.points is not None:
            environ[LOG] = str(self.points)
        with open(self._output, "ab") as log:
            self._process = subprocess.Popen(
                [*self.command, *self.program, "--project", str(self.project.root), "--trust"],
                cwd=Path(__file__).parents[2] if self.program is not KERNEL else self.project.root,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()

    @property
    def _output(self) -> Path:
        return self.output or self.project.state_home / "kernel.out"

    @property
    def pid(self) -> int:
        return self._process.pid

    def is_dead(self) -> bool:
        return self._process.poll() is not None

    def wait_ready(self, accept: Sequence[int] = (200,)) -> None:
        """Return once it takes and does work. Raises Gone, InSafeMode."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            with suppress(OSError, ValueError, KeyError, Gone, http.client.HTTPException):
                self._record = self.project.record()
                ours = self._record["pid"] == self._process.pid or self.command[0] != sys.executable
                if ours:
                    answer = self.ask("GET", "/ready")
                    if answer.status in accept:
                        return
                    if answer.body["status"] == "safe_mode":
                        raise InSafeMode
            if self.is_dead():
                raise Gone
            assert time.monotonic() < deadline, f"not ready; see {self._output}"
            select.select([], [], [], 0.02)

    def ask(self, method: str, path: str, body: object = None, key: str | None = None) -> Answer:
        """One request on a connection of its own. Raises Gone where no whole answer came back."""
        headers = {"Authorization": f"Bearer {self._record['token']}", "Connection": "close"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if key is not None:
            headers["Idempotency-Key"] = key
        connection = http.client.HTTPConnection("127.0.0.1", self._record["port"], timeout=ANSWER_SECONDS)
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            return Answer(response.status, json.loads(response.read()))
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Gone from error
        finally:
            connection.close()

    def wait_dead(self, seconds: float = DEATH_SECONDS) -> int:
        """Its exit code; negative: the signal. Raises subprocess.TimeoutExpired."""
        return self._process.wait(seconds)

    def kill(self, number: int = signal.SIGKILL) -> None:
        self._process.send_signal(number)

    def stop(self) -> int:
        """Stop it gently. Returns its exit code."""
        self.kill(signal.SIGTERM)
        return self.wait_dead()

    def send(self, agent: str, text: str = "x") -> str:
        """Say something to an agent, once however often. Returns the path of the instruction. Raises Gone."""
        told = self.ask("POST", "/messages", {"to": agent, "text": text}, f"{agent} {text}")
        assert told.accepted, told
        return f"/instructions/{told.body['instruction_ids'][0]}"

    def until(self, holds: Callable[[], bool], seconds: float = FINISH_SECONDS) -> None:
        """Wait for something that this kernel does. Raises Gone where it dies first."""
        wait_until(lambda: self.is_dead() or holds(), seconds)
        if self.is_dead():
            raise Gone

    def until_done(self, instruction: str) -> Any:
        """Wait until the work at this path is done, and return it. Raises Gone."""
        self.until(lambda: bool(self.ask("GET", instruction).body["status"] == "done"))
        return self.ask("GET", instruction).body
