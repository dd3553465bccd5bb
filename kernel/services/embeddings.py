"""Embeddings from the user's endpoint, and the agents whose searches use them.

Embeddings are optional: a failure is logged once, and the search uses words only. After a failure the endpoint is not
used for a while. Whether an agent's searches use embeddings is measured (``awk memory eval``) and stored in the state
directory; a missing or invalid file means none.

The kernel imports no model client. A separate process sends the requests, through the gateway and without the key: it
starts on demand, which takes a second, and exits when idle.
"""

import itertools
import logging
import math
import os
import sys
from array import array
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from operator import mul
from pathlib import Path
from typing import Final, Protocol, TypeAlias

import msgspec
import trio

from kernel.agents.providers import CauseError, ModelRejected
from kernel.agents.sections import EmbeddingEndpoint, embedding_units, endpoint_of
from kernel.agents.trust import TrustedFiles
from kernel.gateway.access import ModelAccess, new_placeholder, worker_provider
from kernel.gateway.gateway import Gateway
from kernel.procs.command import keep_tail
from kernel.procs.handle import Handle
from kernel.procs.launcher import Launcher
from kernel.procs.spec import SpawnTransient, Spec
from kernel.source.diagnostics import BadDefinition
from kernel.source.safe_paths import put_here
from osfiles.safe_open import closing_descriptor
from protocol.api.history import HistoryTurn
from protocol.errors import Refused
from protocol.ipc import EmbeddingAnswer, EmbeddingRequest
from protocol.memory_eval import VectorTrial, VectorTrialRequest, gains
from protocol.names import AgentKey, name_of
from protocol.text import encode_json

logger = logging.getLogger(__name__)

FILE: Final = "vector-trials.json"
"""File in the state directory."""
ENDPOINT_SECONDS: Final = 8.0
PATIENCE_SECONDS: Final = 12.0
"""Timeouts of the endpoint and of the process that calls it."""
HINT: Final = "see docs/how-to/work-together/search-history.md for the set-up"
REST_SECONDS: Final = 60.0
"""Pause after a failure, during which searches use words only."""
TEXT_CHARACTERS: Final = 2000
"""Limit for the text of a turn."""
MOST_NUMBERS: Final = 8192
"""Limit for the dimensions of a vector."""

IDLE_SECONDS: Final = 60.0
"""Idle time after which the process exits."""
ANSWER_BYTES: Final = 64 * 1024 * 1024
_TAIL_BYTES: Final = 4096
_CHUNK_BYTES: Final = 256 * 1024
_PROGRAM: Final = (sys.executable, "-I", "-m", "worker.models.openai")
_numbers: Final = itertools.count(1)
_answer: Final = msgspec.json.Decoder(EmbeddingAnswer).decode

Vector: TypeAlias = "array[float]"
"""Unit vector of 4-byte floats."""


class NoVectors(Exception):
    """No embeddings are available; the text has the reason."""

    def refused(self) -> Refused:
        """Return the refusal for a caller that requires embeddings."""
        return Refused("conflict", f"embeddings unavailable: {self}", HINT)


class NoEndpoint(NoVectors):
    """The project file names no endpoint."""

    def refused(self) -> Refused:
        """Return the refusal for a caller that requires embeddings."""
        return Refused("not_found", f"embeddings unavailable: {self}", HINT)


class _KeptTrial(msgspec.Struct, frozen=True):
    endpoint: str
    trial: VectorTrialRequest


_decode: Final = msgspec.json.Decoder(dict[str, _KeptTrial]).decode


class Asking(Protocol):
    """Client of an embedding endpoint."""

    async def ask(self, asked: EmbeddingRequest, patience_seconds: float) -> EmbeddingAnswer:
        """Return the answer; after ``patience_seconds`` or a failure, an answer with an error."""
        ...


class EmbeddingClient(msgspec.Struct, eq=False, kw_only=True):
    """Requests embeddings from the trusted endpoint of the project file, if there is one."""

    files: TrustedFiles
    asking: Asking
    gateway: Gateway
    state_dir: Path
    now: Callable[[], float]
    """Monotonic clock, in seconds."""
    _rests_until: float = -math.inf
    _told: str = ""
    _trials: dict[str, _KeptTrial] = {}

    def __post_init__(self) -> None:
        try:
            self._trials = _decode((self.state_dir / FILE).read_bytes())
        except FileNotFoundError:
            pass
        except (OSError, msgspec.MsgspecError) as error:
            logger.warning("vectors.unread %s: %s; measure again with awk memory eval", FILE, error)

    def endpoint(self) -> EmbeddingEndpoint:
        """Return the endpoint in the current project file. Raises NoVectors."""
        try:
            project = self.files.catalog.kept_project()
            found = endpoint_of(project, self.files.environ)
        except (ModelRejected, BadDefinition) as error:
            raise NoVectors(str(error)) from error
        except CauseError as error:
            raise NoVectors(error.text) from error
        if found is None:
            raise NoEndpoint("the project file has no embeddings: {model: ...}")
        if self.files.trust.fault(*embedding_units(project)):
            raise NoVectors("the endpoint is not trusted; run awk trust")
        return found

    def proven(self, agent: str) -> bool:
        """Return whether searches of ``agent`` use embeddings: a gain was measured at the current endpoint."""
        known = self._trials.get(agent)
        if known is None or not gains(known.trial):
            return False
        try:
            return self.endpoint().id == known.endpoint
        except NoVectors as why:
            self._tell(str(why))
            return False

    def trial(self, agent: AgentKey, trial: VectorTrialRequest) -> VectorTrial:
        """Store the measurement that decides whether searches of ``agent`` use embeddings. Blocks. Raises Refused."""
        try:
            found = self.endpoint()
            self._save({**self._trials, agent: _KeptTrial(found.id, trial)})
        except NoVectors as why:
            raise why.refused() from why
        except OSError as error:
            raise Refused("storage_failed", f"measurement not stored: {error}", "check the disk") from error
        return VectorTrial(
            agent=name_of(agent),
            model=found.model,
            questions=trial.questions,
            words=trial.words,
            vectors=trial.vectors,
            on=gains(trial),
        )

    def forget(self, agent: str) -> None:
        """Delete the measurement of ``agent``, because its name may be reused. Blocks. Raises nothing."""
        if agent in self._trials:
            with suppress(OSError):
                self._save({name: one for name, one in self._trials.items() if name != agent})

    def _save(self, trials: dict[str, _KeptTrial]) -> None:
        with closing_descriptor(os.open(self.state_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as folder:
            put_here(folder, FILE, encode_json(trials).decode())
        self._trials = trials

    async def vectors(self, endpoint: EmbeddingEndpoint, texts: Sequence[str]) -> list[Vector]:
        """Return the embeddings of ``texts``. Raises NoVectors, also after a timeout."""
        if self.now() < self._rests_until:
            raise NoVectors(f"{self._told}; it will be retried soon")
        name = f"embeddings-{next(_numbers)}"
        placeholder = new_placeholder(name)
        asked = EmbeddingRequest(
            provider=worker_provider(endpoint.provider, self.gateway.url, placeholder),
            model=endpoint.model,
            texts=tuple(text[:TEXT_CHARACTERS] or " " for text in texts),
            seconds=ENDPOINT_SECONDS,
        )
        access = ModelAccess(attempt=name, provider=endpoint.provider, models=frozenset({endpoint.model}))
        self.gateway.admit(access, placeholder, trio.lowlevel.checkpoint, lambda _model, _usage: None)
        try:
            answer = await self.asking.ask(asked, PATIENCE_SECONDS)
            if answer.error is not None:
                raise NoVectors(answer.error)
            found = [_unit(one) for one in answer.vectors]
            if len(found) != len(texts) or len({len(one) for one in found}) != 1:
                raise NoVectors("the endpoint did not return one vector for each text")
        except NoVectors as why:
            self._rests_until = self.now() + REST_SECONDS
            self._tell(str(why))
            raise
        finally:
            self.gateway.dismiss(name)
        self._told = ""
        return found

    def _tell(self, why: str) -> None:
        if why != self._told:
            logger.warning("vectors.none %s; searches are ranked by words only", why)
            self._told = why


def _unit(numbers: Sequence[float]) -> Vector:
    length = math.sqrt(sum(one * one for one in numbers)) if 0 < len(numbers) <= MOST_NUMBERS else 0.0
    if not math.isfinite(length) or length == 0.0:
        raise NoVectors("the endpoint returned an invalid vector")
    return array("f", (one / length for one in numbers))


def said_in(turn: HistoryTurn) -> str:
    """Return the text from which the embedding of ``turn`` is made: sender, text and calls."""
    return "\n".join([f"{turn.sender}: {turn.text}", *(f"{one.tool} {one.input} {one.output}" for one in turn.calls)])


def closeness_to(asked: Vector, known: Mapping[int, bytes]) -> dict[int, float]:
    """Return the similarity to ``asked`` of each known vector of the same length, by turn."""
    return {  # 200 cosines take 20 ms
        turn: sum(map(mul, asked, memoryview(vector).cast("f")))
        for turn, vector in known.items()
        if len(vector) == len(asked) * asked.itemsize
    }


class _Question(msgspec.Struct, eq=False):
    asked: EmbeddingRequest
    patience_seconds: float
    answered: trio.Event = msgspec.field(default_factory=trio.Event)
    answer: EmbeddingAnswer = msgspec.field(
        default_factory=lambda: EmbeddingAnswer(error="the embedding process ended")
    )

    def end(self, answer: EmbeddingAnswer) -> None:
        self.answer = answer
        self.answered.set()


class EmbeddingProcess:
    """Separate process, with the environment ``env``, that sends requests one at a time."""

    def __init__(self, launcher: Launcher, env: Callable[[], dict[str, str]]) -> None:
        self._launcher = launcher
        self._env = env
        self._send, self._receive = trio.open_memory_channel[_Question](0)
        self._running = False

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve requests until cancelled; the process then exits."""
        self._running = True
        task_status.started()
        try:
            while True:
                await self._serve(await self._receive.receive())
        finally:
            self._running = False

    async def ask(self, asked: EmbeddingRequest, patience_seconds: float) -> EmbeddingAnswer:
        """Return the answer; after ``patience_seconds`` or a failure, an answer with an error."""
        if not self._running:
            return EmbeddingAnswer(error="embeddings are disabled (safe mode)")
        question = _Question(asked, patience_seconds)
        with trio.move_on_after(patience_seconds):
            await self._send.send(question)
            await question.answered.wait()
            return question.answer
        return EmbeddingAnswer(error=f"no answer within {patience_seconds:g} s")

    async def _serve(self, first: _Question) -> None:
        question: _Question | None = first
        tail = bytearray()
        try:
            spec = Spec(attempt=f"embeddings-{next(_numbers)}", argv=_PROGRAM, cwd="/", env=self._env(), spare=True)
            handle = await self._launcher.spawn(spec)
        except SpawnTransient as error:
            first.end(EmbeddingAnswer(error=f"embedding process could not be started: {error}"))
            return
        async with handle, trio.open_nursery() as nursery:
            nursery.start_soon(keep_tail, handle.stderr, tail, _TAIL_BYTES)
            try:
                while question is not None and await _answered(handle, question, tail):
                    question = None
                    with trio.move_on_after(IDLE_SECONDS):
                        question = await self._receive.receive()
            finally:
                nursery.cancel_scope.cancel()


async def _answered(handle: Handle, question: _Question, tail: bytearray) -> bool:
    line = bytearray()
    with trio.move_on_after(question.patience_seconds):
        try:
            await handle.stdin.send_all(msgspec.json.encode(question.asked) + b"\n")
            while not line.endswith(b"\n") and len(line) < ANSWER_BYTES:
                chunk = await handle.stdout.receive_some(_CHUNK_BYTES)
                if not chunk:
                    break
                line += chunk
            question.end(_answer(line))
            return True
        except (trio.BrokenResourceError, trio.ClosedResourceError, msgspec.MsgspecError):
            last = bytes(tail).decode("utf-8", "replace").strip().splitlines()[-1:]
            question.end(EmbeddingAnswer(error=f"embedding process failed: {''.join(last)[:200]}"))
            return False
    question.end(EmbeddingAnswer(error=f"no answer within {question.patience_seconds:g} s"))
    return False
