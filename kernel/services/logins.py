"""Logins of the user (``login: true``): lent to one attempt at a time, and written back.

A program gets a copy in its private home and renews it there. Renewed tokens are written back to the original login as
soon as they are seen, and only if the original still has the tokens that were lent. A renewable login is never lent to
two attempts at once, of any kernel, because refresh tokens can be used only once.

The folder of all projects has a lock and a record for each login. A kernel holds the lock for its attempt, and the
attempt's keeper holds its own lock until the process tree has exited. A kernel that gets the first lock and finds the
second one free may take the login, after it has written back what a crashed kernel left in the copy.
"""

import errno
import fcntl
import hashlib
import logging
import os
import secrets
import stat
from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

import msgspec
import trio

from kernel.agents.providers import login_path
from kernel.fault_injection import fault_point
from kernel.procs.attempt_dir import LOCK_FILE, lock_is_free
from kernel.procs.spec import SpawnTransient
from kernel.services.login_document import login_at, merged, read_login, renewal_of, token_fields, token_file
from kernel.services.preparation import HandedLogin
from kernel.source.safe_paths import open_file, open_folder
from kernel.store.transitions.lease import Leased
from osfiles.atomic_write import open_new, replacing, sync_folder
from osfiles.safe_open import FOLDER, closing_descriptor
from protocol.backends import BACKENDS, MAX_LOGIN_BYTES, TokenField
from protocol.ipc import Start

logger = logging.getLogger(__name__)

LOGINS: Final = "logins"
"""Folder name in the folder of all projects."""
PATIENCE_SECONDS: Final = 5.0
"""Time that an attempt waits for a login before it is requeued."""
_LOOK_SECONDS: Final = 0.1
RENEWED_SECONDS: Final = 1.0
"""Interval of checks whether a program has renewed its copy."""
_MODE: Final = 0o600


class Lent(msgspec.Struct, frozen=True):
    """Record of a login that an attempt holds; ``home`` is the original file, "" for a token.

    ``copy`` is relative to ``place``. ``digest`` is the last known digest of the tokens ``fields`` in ``home``, and
    ``seen`` the digest of the tokens last seen in the copy.
    """

    holder: str
    attempt_dir: str
    place: str
    copy: str
    home: str = ""
    digest: str = ""
    seen: str = ""
    fields: tuple[TokenField, ...] = ()


class _Held(msgspec.Struct):
    lock: int
    key: str
    lent: Lent
    seen: tuple[int, int, int] | None = None


_decode_record: Final = msgspec.json.Decoder(Lent).decode


class Logins(msgspec.Struct, eq=False):
    """Logins held by this kernel's attempts; ``folder`` is in the folder of all projects."""

    folder: Path
    environ: Mapping[str, str]
    _held: dict[str, _Held] = {}
    _any: trio.Event = msgspec.field(default_factory=trio.Event)

    async def lend(self, leased: Leased, start: Start) -> None:
        """Lend the login to the attempt. Raises CauseError; SpawnTransient if another attempt holds it for too long."""
        deadline = trio.current_time() + PATIENCE_SECONDS
        # A file lock cannot be awaited, and a thread that blocks on it cannot be cancelled.
        while (holder := self._lend(leased, start)) is not None:
            if trio.current_time() >= deadline:
                text = f"login of {BACKENDS[start.backend].title} is in use by {holder}"
                raise SpawnTransient(f"{text}; the work waits until it is free")
            await trio.sleep(_LOOK_SECONDS)

    def give_back(self, attempt: str) -> None:
        """Take the login back from ``attempt``, whose processes have exited, and write back renewed tokens."""
        held = self._held.pop(attempt, None)
        if held is None:
            return
        try:
            self._settle(held.key, held.lent)
        except OSError as error:
            logger.error("login.later %s of %s: %s (will be retried)", held.key, held.lent.home, error)
        finally:
            os.close(held.lock)

    def export(self, attempt: str) -> HandedLogin | None:
        """Return the login held by ``attempt``, for the next kernel process."""
        held = self._held.get(attempt)
        if held is None:
            return None
        record = msgspec.json.encode(held.lent)
        return HandedLogin(lock=held.lock, key=held.key, record=record, seen=held.seen)

    def let_go(self, attempt: str) -> None:
        """Release the login of ``attempt`` without closing its lock, which the next kernel process owns."""
        self._held.pop(attempt, None)

    def adopt(self, attempt: str, handed: HandedLogin) -> None:
        """Register a login that the previous kernel process lent."""
        self._held[attempt] = _Held(handed.lock, handed.key, _decode_record(handed.record), handed.seen)
        self._any.set()

    def settle(self) -> None:
        """Write back tokens that crashed kernels left in copies, at startup. Raises nothing."""
        for record in sorted(self.folder.glob("*.json")):
            key = record.stem
            with self._locked(key) as lock:
                if lock is None:
                    continue
                try:
                    lent = self._record(key)
                    if lent is not None and lock_is_free(Path(lent.attempt_dir) / LOCK_FILE):
                        self._settle(key, lent)
                except OSError as error:
                    logger.error("login.later %s: %s (will be retried)", key, error)

    async def run(self) -> None:
        """Write back tokens that programs renew while they run, until cancelled."""
        while True:
            await self._any.wait()
            if not self._held:
                self._any = trio.Event()
                continue
            for held in self._held.values():
                seen = _stat(held.lent)
                if seen != held.seen:
                    held.seen = seen
                    try:
                        held.lent = self._bring_home(held.key, held.lent)
                    except OSError as error:
                        logger.error("login.later %s: %s (will be retried)", held.key, error)
            await trio.sleep(RENEWED_SECONDS)

    def _lend(self, leased: Leased, start: Start) -> str | None:
        spec = BACKENDS[start.backend].login
        assert spec is not None, start.backend
        lent = Lent(
            holder=f"{leased.name} in {leased.space} ({leased.attempt})",
            attempt_dir=start.attempt_dir,
            place=start.session_dir,
            copy=spec.private,
        )
        token = self.environ.get(spec.token_variable, "") if spec.token_variable else ""
        home = os.path.realpath(login_path(spec, self.environ))
        # attempts of two projects may have the same name
        key = _key(f"{start.backend}-token-{leased.attempt}", start.attempt_dir) if token else _key(start.backend, home)
        try:
            lock = self._lock(key)
            if lock is None:
                before = self._record(key)
                return "another attempt" if before is None else before.holder
            try:
                before = self._record(key)
                if before is not None and not lock_is_free(Path(before.attempt_dir) / LOCK_FILE):
                    os.close(lock)
                    return before.holder
                if before is not None:
                    self._settle(key, before)
                provider = start.provider.name if start.provider is not None else ""
                data = token_file(token) if token else login_at(home, spec, provider)
                if not token:
                    fields = token_fields(data, spec, provider)
                    had = _digest(renewal_of(data, fields) or b"")
                    lent = msgspec.structs.replace(lent, home=home, digest=had, seen=had, fields=fields)
                _clear(lent)  # never lent; left over or written by others
                with _folder_of(lent, make=True) as folder:
                    self._write(f"{key}.json", msgspec.json.encode(lent))
                    fault_point("login.recorded")
                    # Written in place: after a crash here the tokens are where the cleanup looks.
                    with open(open_new(os.path.basename(lent.copy), _MODE, folder=folder), "wb") as file:
                        file.write(data)
                        file.flush()
                        os.fsync(file.fileno())
            except BaseException:
                os.close(lock)
                raise
        except OSError as error:
            text = f"login of {BACKENDS[start.backend].title} cannot be lent: {error.strerror or error}"
            raise SpawnTransient(f"{text}: {error.filename}") from error
        fault_point("login.lent")
        self._held[leased.attempt] = _Held(lock, key, lent, _stat(lent))
        self._any.set()
        return None

    def _settle(self, key: str, lent: Lent) -> None:
        """Write back renewed tokens, and remove the copy and the record. Raises OSError, and then keeps both."""
        self._bring_home(key, lent)
        try:
            _clear(lent)
        except OSError as error:  # caused by the program, so other attempts need not wait
            logger.warning("login.copy %s of %s cannot be removed: %s", lent.copy, lent.holder, error)
        fault_point("login.removed")
        (self.folder / f"{key}.json").unlink(missing_ok=True)
        if lent.home:
            Path(_beside(lent.home)).unlink(missing_ok=True)
        else:
            (self.folder / f"{key}.lock").unlink(missing_ok=True)

    def _bring_home(self, key: str, lent: Lent) -> Lent:
        """Write back tokens that were renewed in the copy, and return the updated record."""
        lent = self._put_home(key, lent)  # left by a kernel that crashed
        copied = renewal_of(_copied(lent), lent.fields)
        if copied is None or _digest(copied) == lent.seen:
            return lent
        # Stored beside the record first: a crash or the loss of the copy loses nothing.
        self._write(f"{key}.renewed", copied)
        fault_point("login.safe")
        return self._put_home(key, msgspec.structs.replace(lent, seen=_digest(copied)))

    def _put_home(self, key: str, lent: Lent) -> Lent:
        """Write the saved renewed tokens to the original login if it still has the lent tokens."""
        safe = self.folder / f"{key}.renewed"
        try:
            renewed = renewal_of(safe.read_bytes(), lent.fields) or b""  # b"": of another login
        except FileNotFoundError:
            return lent
        kept = read_login(lent.home) if renewed else None
        found = None if kept is None else _digest(renewal_of(kept, lent.fields) or b"")
        if kept is not None and found == lent.digest != _digest(renewed):
            _replace(lent.home, merged(kept, renewed, lent.fields), _digest(kept))
            fault_point("login.home")
            logger.info("login.renewed %s, by %s", lent.home, lent.holder)
            found = _digest(renewed)
        if found == _digest(renewed):
            lent = msgspec.structs.replace(lent, digest=found)
        elif found is not None:
            where = self.folder / f"{key}.kept"
            os.replace(safe, where)
            text = "was changed by another program and is left unchanged; the tokens of"
            logger.warning("login.kept %s %s %s are in %s", lent.home, text, lent.holder, where)
        # The safe copy proves which tokens were written until the record is updated; otherwise the next renewal would
        # be refused.
        self._write(f"{key}.json", msgspec.json.encode(lent))
        fault_point("login.noted")
        safe.unlink(missing_ok=True)
        return lent

    def _record(self, key: str) -> Lent | None:
        try:
            return _decode_record((self.folder / f"{key}.json").read_bytes())
        except FileNotFoundError:
            return None
        except msgspec.MsgspecError as error:
            logger.error("login.record %s: %s", key, error)
            return None

    def _write(self, name: str, data: bytes) -> None:
        with replacing(self.folder / name, _MODE, beside=self.folder / f"{name}.new") as file:
            file.write(data)
        sync_folder(self.folder)

    def _lock(self, key: str) -> int | None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        lock = os.open(self.folder / f"{key}.lock", flags, _MODE)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(lock)
            if error.errno in (errno.EAGAIN, errno.EACCES):
                return None
            raise
        return lock

    @contextmanager
    def _locked(self, key: str) -> Generator[int | None]:
        try:
            lock = self._lock(key)
        except OSError as error:
            logger.error("login.lock %s: %s", key, error)
            lock = None
        try:
            yield lock
        finally:
            if lock is not None:
                os.close(lock)


def _key(backend: str, home: str) -> str:
    return f"{backend}-{_digest(home.encode())[:10]}"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _copied(lent: Lent) -> bytes:
    try:
        with _folder_of(lent) as folder, os.fdopen(open_file(folder, os.path.basename(lent.copy), os.O_RDONLY)) as file:
            data = os.read(file.fileno(), MAX_LOGIN_BYTES + 1)
    except OSError:
        return b""
    return data if len(data) <= MAX_LOGIN_BYTES else b""


def _clear(lent: Lent) -> None:
    """Remove the copy of an exited program; rename files or folders put in its place."""
    copy = Path(lent.place, lent.copy)
    for depth in reversed(range(len(Path(lent.copy).parts))):
        path = copy.parents[depth - 1] if depth else copy
        try:
            is_folder = stat.S_ISDIR(path.lstat().st_mode)
        except FileNotFoundError:
            return
        if path == copy and not is_folder:
            path.unlink()
        elif path == copy or not is_folder:
            aside = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
            path.rename(aside)
            logger.warning("login.aside %s replaced a login and was renamed to %s", path, aside.name)
            return


def _stat(lent: Lent) -> tuple[int, int, int] | None:
    try:
        with _folder_of(lent) as folder:
            found = os.stat(os.path.basename(lent.copy), dir_fd=folder, follow_symlinks=False)
    except OSError:
        return None
    return found.st_ctime_ns, found.st_size, found.st_ino  # the only one of its times that a program cannot set


def _folder_of(lent: Lent, *, make: bool = False) -> AbstractContextManager[int]:
    above = os.path.dirname(lent.copy)
    return closing_descriptor(open_folder(lent.place, above, make=make) if above else os.open(lent.place, FOLDER))


def _beside(path: str) -> str:
    return f"{path}.agent-worker"


def _replace(path: str, data: bytes, digest: str) -> None:
    """Atomically replace ``path`` with ``data`` if its content still has ``digest``. Raises OSError."""

    def check() -> None:
        fault_point("login.beside")
        kept = read_login(path)
        if kept is None or _digest(kept) != digest:
            raise OSError(errno.EBUSY, "changed concurrently", path)

    with replacing(path, _MODE, beside=_beside(path), written=check) as file:
        file.write(data)
    sync_folder(os.path.dirname(path))
