"""The launcher of a node: what it starts has a handle like any other, whose keeper, streams and directory are there."""

from collections.abc import Callable
from pathlib import Path
from typing import Final, NoReturn

import trio

from kernel.procs.handle import CLOSE_SECONDS, Handle
from kernel.procs.node.conversation import Conversation
from kernel.procs.node.leased import Leased, RemoteProcess
from kernel.procs.spawn import TAKE_BACK_SECONDS
from kernel.procs.spec import NodeLost, SpawnTransient, Spec
from protocol.ipc import Bound, Census, Exited, Kill
from protocol.node import Destroy, Need, NodeFacts, NotSpawned, Signal, Spawn, Tell
from protocol.text import shown_name

ANSWER_SECONDS: Final = 90.0
"""For a node to start something: longer than it waits itself for a keeper."""
DESTROY_SECONDS: Final = 10.0
"""For a node to end something without the keeper's help. One that cannot is not believed any more: its lease ends."""


class NodeLink:
    """The lifeline of a keeper on a node."""

    def __init__(self, process: RemoteProcess) -> None:
        self._process = process

    async def receive(self) -> Exited:
        """Return how it ended, once that is told, or certain."""
        while self._process.exited is None:
            await self._process.heard.wait()
        return self._process.exited

    async def send(self, frame: Kill | Bound | Census) -> None:
        """Tell the keeper. How many processes it has nobody asks over a node."""
        if not isinstance(frame, Census):
            self._process.conversation.say(Tell(process=self._process.number, order=frame))
        await trio.lowlevel.checkpoint()

    def is_quiet(self) -> bool:
        """Return whether nothing has been heard of its end."""
        return self._process.exited is None

    def free(self) -> None:
        """Have the node forget it."""
        self._process.release()

    def close(self) -> None:
        """Have the node forget it, and end it if it has not."""
        self._process.release()


class NodeDirectory:
    """The run directory of a process on a node: it is removed there, with the process."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def rename(self, attempt: str) -> NoReturn:
        """Raise OSError: what is there stays what it is."""
        raise OSError(f"{self.path} is on a node, and cannot be {attempt}'s")

    def is_bare(self) -> bool:
        """Return False: nobody has looked, so its process is not used again."""
        return False

    def remove(self) -> None:
        """Nothing to do here."""


class NodeHandle(Handle):
    """A process on a node. It ends at the latest with the node's lease: then ``wait`` says ``lost``."""

    def __init__(self, process: RemoteProcess, attempt: str, directory: Path, abandon: Callable[[str], None]) -> None:
        answer = process.answer
        assert answer is not None
        assert not isinstance(answer, NotSpawned)
        super().__init__(
            attempt=attempt,
            cookie="",
            pid=answer.pid,
            keeper_pid=answer.keeper,
            processes=(),
            streams=(process.stdin, process.stdout, process.stderr),
            link=NodeLink(process),
            directory=NodeDirectory(directory),
        )
        self._process = process
        self._abandon = abandon

    async def count(self) -> int:
        """Return 0: nobody can tell."""
        await trio.lowlevel.checkpoint()
        return 0

    async def signal(self, number: int) -> None:
        """Have the node signal the child alone."""
        if self.pid:
            self._process.conversation.say(Signal(process=self._process.number, number=number))
        await trio.lowlevel.checkpoint()

    async def destroy(self) -> Exited:
        """Have the node kill it without the keeper's help. A node that cannot is given up, and its lease waited for."""
        if self.is_quiet():
            self._process.conversation.say(Destroy(process=self._process.number))
            with trio.move_on_after(DESTROY_SECONDS):
                return await self.wait()
            self._abandon(f"{self.attempt} was not ended for {DESTROY_SECONDS:.0f} s")
        return await self.wait()

    async def aclose(self) -> None:
        """Kill what still runs, and wait until it is gone: at the latest its lease is over then. See ``Handle``."""
        await super().aclose()
        with trio.move_on_after(
            CLOSE_SECONDS, shield=True
        ):  # its directory is removed; a node that is away does it later
            await self._process.gone.wait()


class NodeLauncher:
    """Starts processes on the node of one session. What is started is leased to it, and to nobody else."""

    def __init__(
        self,
        name: str,
        conversation: Conversation,
        leased: Leased,
        facts: Callable[[], NodeFacts | None],
        abandon: Callable[[str], None],
    ) -> None:
        """``facts`` returns None while the node is not connected. ``abandon`` gives it up."""
        self._name = name
        self._conversation = conversation
        self._leased = leased
        self._facts = facts
        self._abandon = abandon

    def need(self, modules: frozenset[str]) -> None:
        """Have workers that import ``modules`` start sooner there."""
        self._conversation.say(Need(modules=tuple(sorted(modules))))

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Wait until cancelled: it is the session that is run."""
        task_status.started()
        await trio.sleep_forever()

    async def spawn(self, spec: Spec) -> Handle:
        """Start a worker or a command there. Raises SpawnTransient; NodeLost where the node is not there, or goes."""
        facts = self._facts()
        if facts is None:
            raise NodeLost(f"cannot start {spec.attempt}: node {self._name} is not connected")
        process = self._leased.new_process()
        try:
            self._conversation.say(
                Spawn(
                    process=process.number,
                    attempt=spec.attempt,
                    argv=spec.argv,
                    cwd=spec.cwd,
                    env=spec.env,
                    sandbox=spec.sandbox,
                )
            )
            with trio.fail_after(ANSWER_SECONDS):
                while process.answer is None and process.exited is None:
                    await process.heard.wait()
        except trio.TooSlowError as error:
            process.release()
            raise SpawnTransient(f"cannot start {spec.attempt}: no answer from node {self._name}") from error
        except BaseException:
            process.release()
            with trio.move_on_after(TAKE_BACK_SECONDS, shield=True):
                await process.gone.wait()
            raise
        answer = process.answer
        if answer is None:
            raise NodeLost(f"cannot start {spec.attempt}: node {self._name} was lost")
        if isinstance(answer, NotSpawned):
            if answer.in_use:
                raise FileExistsError(f"{spec.attempt} is in use on node {self._name}")
            raise SpawnTransient(f"cannot start {spec.attempt} on node {self._name}: {shown_name(answer.why)}")
        return NodeHandle(process, spec.attempt, Path(facts.state_dir) / "run" / spec.attempt, self._abandon)
