"""Context of a command: its arguments, the streams, the project, and the connection to the kernel."""

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, TextIO

from interface.cli.output import Output, one_line, view_lines
from interface.client import Client
from interface.clock import Clock
from interface.discovery import (
    IDLE,
    PROOF_SECONDS,
    URL,
    Hanging,
    NotOurKernel,
    Project,
    Unverified,
    find_project,
    given_endpoint,
    is_locked,
    prove,
    recorded_endpoint,
    reject_reason,
)
from interface.failure import Failure, Unreachable
from protocol.discovery import BODY_LIMIT_BYTES

if TYPE_CHECKING:
    import argparse

    from msgspec import Struct

    from interface.autostart import Starter

_REMOTE: Final = "github:"
_NOT_TEXT: Final = "the message is not UTF-8 text"
_PAUSE_SECONDS: Final = 0.05


class Streams(NamedTuple):
    """Streams, environment and clock of the process. Only the entry point accesses the real ones."""

    program: str
    stdin: TextIO
    out: Output
    environ: Mapping[str, str]
    clock: Clock
    system_awk: str = ""
    """Path of the system's awk, which handles other arguments under the name awk; empty if there is none."""


class Context:
    """Access of a command to its arguments, output, project, clock and kernel."""

    def __init__(self, streams: Streams, args: "argparse.Namespace", params: tuple[str, ...], cwd: str) -> None:
        self.program, self.stdin, self.out, self.environ, self.clock, self.system_awk = streams
        self.args = args
        self.params = params
        self.cwd = cwd
        self.reads_stored = False
        self._stored: Client | None = None
        self._project: Project | None = None
        self._clients: list[Client] = []
        self.starters: list[Starter] = []
        """Starters of this command. Each one knows whether it started a kernel."""

    def close(self) -> None:
        """Close every connection that the command left open."""
        for client in self._clients:
            client.close()

    @property
    def project(self) -> Project:
        """Return the project of the command. Raises Failure (usage) if ``--project`` is invalid."""
        if self._project is None:
            self._project = find_project(self.environ, self.cwd, self.args.project)
        return self._project

    @property
    def wants_json(self) -> bool:
        """Return whether the user requested one JSON document (``--json``)."""
        return bool(getattr(self.args, "json", False))

    @property
    def trusts(self) -> bool:
        """Return whether the user trusts the files, by ``--trust`` or AGENT_WORKER_TRUST=1."""
        return bool(getattr(self.args, "trust", False)) or self.environ.get("AGENT_WORKER_TRUST") == "1"

    def kernel(self) -> Client:
        """Return a client of the running kernel, of the archive in ``--archive``, or of the stored log.

        Only some commands read the stored log. Raises Failure (no_kernel) if no kernel runs. Starts none.
        """
        if getattr(self.args, "archive", None) is not None:
            from interface.cli.archive import ArchiveClient  # noqa: PLC0415  (few commands are about one)

            return self._kept(ArchiveClient(os.path.join(self.cwd, self.args.archive)))
        ours = f"start it with: {self.program} start"
        hint = f"unset {URL} to use the kernel of this project" if self.environ.get(URL) else ours
        try:
            return self.find_kernel()
        except Unreachable as error:
            stored = self.stored_log(error) if self.reads_stored else None
            if stored is None:
                raise Failure("no_kernel", str(error), hint) from error
            return stored

    def stored_log(self, error: Unreachable) -> Client | None:
        """Return a client of the log that the last kernel stored, with a note for the user; None if there is none."""
        from protocol.discovery import DATABASE  # noqa: PLC0415  (only without a kernel)

        if given_endpoint(self.environ) is not None or not os.path.exists(os.path.join(self.project.state, DATABASE)):
            return None
        if self._stored is None:
            from interface.offline import StoredLogClient  # noqa: PLC0415  (as above)

            self.out.note(f"{self.why_down(error)}; this is from its stored log")
            self._stored = self._kept(StoredLogClient(self.project, self.environ, self.clock))
        return self._stored

    def find_kernel(self) -> Client:
        """Return a client as ``kernel`` does. Raises Unreachable, or Hanging if the kernel does not respond.

        A starting or stopping kernel also holds the lock, and briefly has no record.
        """
        deadline = self.clock.now() + PROOF_SECONDS
        while True:
            try:
                return self._find_kernel()
            except Unreachable as error:
                if not self._is_locked():
                    raise
                if self.clock.now() >= deadline:
                    raise Hanging(self.project, error) from error
            self.clock.pause(_PAUSE_SECONDS)

    def _is_locked(self) -> bool:
        return given_endpoint(self.environ) is None and is_locked(self.project)

    def _find_kernel(self) -> Client:
        endpoint = given_endpoint(self.environ) or recorded_endpoint(self.project)
        if endpoint is None:
            reason = reject_reason(self.project)
            raise (Unverified(reason) if reason else Unreachable(f"no kernel is running for {self.project.root}"))
        try:
            proof = prove(endpoint)
        except NotOurKernel:
            newer = None if given_endpoint(self.environ) else recorded_endpoint(self.project)
            if newer in (None, endpoint):
                raise
            endpoint, proof = newer, prove(newer)  # the next kernel has taken over the port
        if proof.status == "starting":
            proof.connection.close()
            return self._await_kernel(may_spawn=False)
        from protocol.discovery import VERSION  # noqa: PLC0415  (a constant, beside the connection that needs it)

        if proof.version != VERSION:
            self.out.note(
                f"note: the kernel has version {proof.version}, this command {VERSION}; see {self.program} upgrade"
            )
        if proof.idle:
            self.out.note(IDLE)
        return self._kept(Client(endpoint, proof.connection))

    def started_kernel(self, *flags: str) -> Client:
        """Return a client of the kernel, which is started with ``flags`` if it does not run.

        Never starts a kernel that the environment names.
        """
        return self.kernel() if given_endpoint(self.environ) else self._await_kernel(*flags, may_spawn=True)

    def returning_kernel(self) -> Client:
        """Return a client after the kernel has exited, as ``started_kernel`` does.

        A kernel that a user stopped is not started again. Until it runs, this raises Unreachable.
        """
        stopped = any(client.was_stopped for client in self._clients)
        return self.find_kernel() if stopped else self.started_kernel()

    def answer(self, document: "bytes | Struct", view: Callable[..., list[str]], *more: object) -> int:
        """Print a document of the kernel or of this command: as JSON with ``--json``, otherwise with ``view``."""
        if not self.args.json:
            self.out.lines(view_lines(view, document, self.out.screen, *more))
        elif isinstance(document, bytes):
            self.out.document(document)
        else:
            from protocol.text import encode_json  # noqa: PLC0415  (takes msgspec: most documents are the kernel's)

            self.out.document(encode_json(document))
        return 0

    def message(self) -> str:
        """Return the message: the argument, or standard input for ``-``. Raises Failure (usage) if it is empty."""
        text: str = self.args.message
        if text == "-":
            try:
                text = self.stdin.read(BODY_LIMIT_BYTES + 1)
            except UnicodeDecodeError as error:
                raise Failure("usage", _NOT_TEXT) from error
        if not text.strip():
            raise Failure("usage", "the message is empty")
        # Arguments that are not text contain lone surrogates. Raise Failure before any process is started.
        try:
            size = len(text.encode())
        except UnicodeEncodeError as error:
            raise Failure("usage", _NOT_TEXT) from error
        if size > BODY_LIMIT_BYTES:
            hint = "write the text to a file and send its path"
            raise Failure("too_large", f"the text is longer than {BODY_LIMIT_BYTES:,} bytes", hint)
        return text

    def workflow(self, named: str) -> str:
        """Return the workflow in the kernel's form: a name, or a path relative to the project's root.

        Raises Failure if the file does not exist or is outside the project.
        """
        if named.startswith(_REMOTE):
            from protocol.remote_ref import RemoteRejected, parse_remote  # noqa: PLC0415  (takes urllib: most workflows are here)

            try:
                return str(parse_remote(named))
            except RemoteRejected as error:
                raise Failure("usage", str(error), error.hint) from error
        if os.sep not in named and not named.endswith((".yaml", ".yml")):
            return named
        root = self.project.root
        path = os.path.realpath(os.path.join(self.cwd or root, named))
        if not os.path.isfile(path):
            name = os.path.splitext(os.path.basename(named))[0]
            known = os.path.join(self.project.root, ".workflows", f"{name}.yaml")
            raise Failure(
                "not_found",
                f"{one_line(named)}: no such file",
                f"to run the workflow of this name: {self.program} run {name}" if os.path.isfile(known) else None,
            )
        if os.path.commonpath([path, root]) != root:
            hint = "run it from its project, or use --project"
            raise Failure("usage", f"{named} is outside the project at {root}", hint)
        return os.path.relpath(path, root)

    def why_down(self, error: Unreachable) -> str:
        """Return the note that no kernel runs, with the reason. Raises Hanging if it runs but does not respond."""
        if self._is_locked():
            raise Hanging(self.project, error) from error
        told = bool(self.environ.get(URL)) or isinstance(error, (Unverified, NotOurKernel))
        return f"note: {error}" if told else f"no kernel is running for {self.project.root}"

    def _await_kernel(self, *flags: str, may_spawn: bool) -> Client:
        from interface.autostart import Starter  # noqa: PLC0415  (needs subprocess; a kernel that is up does not)

        starter = Starter(self.project, self.environ, self.clock, self.out.note, *flags, may_spawn=may_spawn)
        self.starters.append(starter)
        return self._kept(starter.client())

    def _kept(self, client: Client) -> Client:
        self._clients.append(client)
        return client
