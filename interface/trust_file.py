"""File of consents by which the user trusts a project; only commands read and write it.

The file is in the user's state directory, never in the project, so that no repository can contain one. Processes of
agents cannot use these commands to change it, but a shell without a sandbox can write the file directly. A process of
an agent is recognized by its ancestors, which include the kernel. An agent that acts through another process (cron, ssh
to itself) is not recognized, and without /proc no process is.
"""

import fcntl
import os
import stat
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from interface.autostart import make_private
from interface.discovery import HOME, KernelEndpoint, Project, recorded_endpoint
from interface.failure import Failure
from osfiles.atomic_write import replacing
from osfiles.safe_open import closing_descriptor, read_private
from protocol.trust import TRUST, TRUST_LIMIT_BYTES, TRUST_LOCK, Grant, Grants, digest_of

_decode: Final = msgspec.json.Decoder(Grants).decode


class TrustFile:
    """Grants of a project. Changes are atomic and serialized."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._path = os.path.join(project.state, TRUST)

    def kept(self) -> tuple[Grant, ...]:
        """Return the grants, the oldest first. Raises Failure if the file is not trustworthy."""
        try:
            content = read_private(self._path, TRUST_LIMIT_BYTES)
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise self._refused(error.strerror or "it must be a file of yours with mode 0600") from error
        try:
            return _decode(content).sound(self._project.root)
        except msgspec.MsgspecError as error:
            raise self._refused(f"{error}") from error

    def keep(self, units: Iterable[Mapping[str, Any]], now: float) -> tuple[Grant, ...]:
        """Store ``units`` (protocol.trust.TrustUnit, as JSON), trusted at ``now`` (seconds). Returns their grants.

        Earlier grants remain, because an agent may have other demands on its own than in a workflow.
        """
        at = datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        grants: list[Grant] = []
        for unit in units:  # the digest is computed here, of exactly the content that the user saw
            subject, demands = str(unit["subject"]), tuple(str(one) for one in unit["demands"])
            grants.append(Grant(subject=subject, demands=demands, digest=digest_of(subject, demands), at=at))
        new = tuple(grants)
        digests = {one.digest for one in new}
        self._change(lambda old: (*(one for one in old if one.digest not in digests), *new))
        return new

    def revoke(self, doomed: Callable[[Grant], bool]) -> tuple[Grant, ...]:
        """Revoke the grants for which ``doomed`` returns true. Returns the revoked grants."""
        gone: list[Grant] = []

        def without(old: tuple[Grant, ...]) -> tuple[Grant, ...]:
            gone.extend(one for one in old if doomed(one))
            return tuple(one for one in old if one not in gone)

        self._change(without)
        return tuple(gone)

    def _change(self, change: Callable[[tuple[Grant, ...]], tuple[Grant, ...]]) -> None:
        # Raise Failure (forbidden) for commands of agents, which would approve their own files.
        kernel = recorded_endpoint(self._project)
        if kernel is not None and is_below(kernel):
            text = "only a person can trust files: this command was run by an agent of the project"
            raise Failure("forbidden", text, "run the command in your own terminal")
        with self._locked():
            before = self.kept()
            after = change(before)
            if after != before:
                content = Grants(project=self._project.root, consents=after)
                with replacing(self._path, beside=f"{self._path}.new") as file:
                    file.write(msgspec.json.format(msgspec.json.encode(content)))

    @contextmanager
    def _locked(self) -> Generator[None]:
        make_private(self._project.state)
        # Other users with write access could consent in the name of the user.
        info = os.lstat(self._project.state)
        if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.geteuid() or info.st_mode & 0o022:
            raise self._refused("its directory must be owned and writable by you only")
        path = os.path.join(self._project.state, TRUST_LOCK)
        with closing_descriptor(
            os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        ) as descriptor:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield

    def _refused(self, why: str) -> Failure:
        hint = f"inspect the file and delete it to start over (or set {HOME})"
        return Failure("kernel_configuration", f"{self._path} was rejected: {why}", hint)


def is_below(kernel: KernelEndpoint) -> bool:
    """Return whether this process is ``kernel`` or one of its descendants."""
    pid = os.getpid()
    while pid > 0:
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            return False
        if pid == kernel.pid and kernel.start_time in (0, int(fields[19])):
            return True
        pid = int(fields[1])
    return False
