"""Stream of a run's events that ends with its report, even if the kernel dies."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from interface.cli.context import Context
from interface.cli.exits import Exit
from interface.cli.prompts import with_trust
from interface.cli.requests import left_behind_lines
from interface.client import SILENCE_SECONDS, Client, ServerEvent, Stream, new_key, quoted
from interface.event_follow import CONNECTED, Follower
from interface.failure import Failure, Unreachable

_SIGNALS: Final[Mapping[int, str]] = {
    Exit.TERMINATED: "&signal=TERM",
    Exit.HANGUP: "&signal=HUP",
    Exit.BROKEN_PIPE: "&signal=PIPE",
}
"""Reasons for stopping, for the kernel; SIGINT is the default."""


class Run:
    """Workflow run; ``name`` (``review:main``) and ``id`` (``r12``) are set when the kernel accepts it.

    ``connect`` finds the kernel again after a lost connection; None: as for the command that started the run. ``key``
    is the key of a request that may have been sent before. ``name`` and ``id_`` identify a run accepted before.
    """

    def __init__(
        self,
        context: Context,
        connect: Callable[[], Client] | None = None,
        *,
        key: str | None = None,
        name: str | None = None,
        id_: str | None = None,
    ) -> None:
        self._context = context
        self._connect = connect or context.returning_kernel
        self._key = key
        self.name = name
        self.id = id_
        self.document: bytes | None = None
        """Report of the run as JSON; None until it exists."""
        self._last_id = ""

    def begin(self, request: Mapping[str, object]) -> Iterator[ServerEvent]:
        """Yield ``accepted``, the events, and ``result``. Raises Failure if the kernel does not accept the run."""

        def start(asked: Mapping[str, object]) -> Stream:
            return self._context.started_kernel().stream("/run", asked, key=self._key or new_key())

        try:
            with with_trust(self._context, request, start) as stream:
                for event in stream:
                    self._note(event)
                    if event.type == "accepted":
                        stream.wait_at_most(SILENCE_SECONDS)
                    yield event
                    if event.type == "result":
                        return
        except Unreachable as error:
            if self.name is None:
                hint = f"check it: {self._context.program} status"
                raise Failure("no_kernel", f"the kernel exited before it accepted the run: {error}", hint) from error
        if self.name is None:
            raise Failure("no_kernel", "the kernel closed the stream before it accepted the run")
        self._context.out.note("note: connection to the kernel lost; the run continues after reconnection")
        yield from self.resume(None)

    def resume(self, deadline: float | None) -> Iterator[ServerEvent]:
        """Yield the remaining events, and ``result``. Raises Expired after ``deadline`` (monotonic seconds)."""
        assert self.name is not None
        follower = Follower(
            connect=self._connect,
            query={"space": self.name},
            clock=self._context.clock,
            say=self._context.out.note,
            deadline=deadline,
            last_id=self._last_id,
        )
        for event in follower:
            self._note(event)
            if event.data:
                yield event
            if event.type == "workflow.stopped" or not event.data or event == CONNECTED:
                assert follower.client is not None
                try:
                    report = self.report(follower.client)
                except Unreachable:
                    continue  # the stream breaks as well, and the query is repeated after its next connect
                if json.loads(report)["status"] != "running":
                    self.document = report
                    yield ServerEvent("result", report.decode())
                    return

    def cancel(self, expected: str, exit_code: int) -> bool:
        """Ask the kernel to stop the run, by its ``expected`` name if it was not yet accepted.

        ``exit_code`` is the exit code of this command, which the report includes.

        Returns whether the kernel has accepted the run, so that a report follows.
        """
        accepted = self.name is not None
        self.name = self.name or expected
        workflow, _, tag = self.name.partition(":")
        try:
            query = _SIGNALS.get(exit_code, "")  # do not wait: the stream reports the end of the run
            self._context.find_kernel().delete(f"/workflows/{quoted(workflow)}/{quoted(tag)}?wait=false{query}")
        except (Failure, Unreachable) as error:
            early = not accepted and isinstance(error, Failure) and error.code == "workflow_not_running"
            told = "was cancelled before it started" if early else f"was not stopped: {error}"
            self._context.out.note(f"note: {self.name} {told}")
            return accepted
        return True

    def report(self, client: Client) -> bytes:
        """Return the current report of this run, as JSON from the kernel."""
        assert self.name is not None
        return client.get(f"/runs/{quoted(self.id or self.name)}")

    def _note(self, event: ServerEvent) -> None:
        self._last_id = event.id or self._last_id
        if event.type == "accepted":
            accepted = json.loads(event.data)
            self.name, self.id = str(accepted["run"]), accepted.get("id")
            self._last_id = str(accepted.get("seq", ""))
            self._context.out.notes(left_behind_lines(accepted))
        elif event.type == "result":
            self.document = event.data.encode()
