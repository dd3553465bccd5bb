"""Logins of the user that programs work with (``login: true``): lent for one attempt at a time, and given back.

A program gets a copy in its own home, and renews that: what it renewed goes back to where the login is kept, as soon
as it is seen, and only if that file is still what was lent. A login that can be renewed is never with two attempts at
once, whichever kernels they belong to: their refresh tokens are good for one use.

Of each login there are, in the folder of all projects, a lock and a record of who has it. A kernel holds the lock for
its attempt, and the attempt's keeper holds its own until the whole tree is gone; so whoever gets the first and finds
nobody at the second may take the login, and first brings home what a kernel that died left in the copy.
"""

import errno
import fcntl
import hashlib
import logging
import os
import stat
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import msgspec
import trio

from kernel.agents.providers import CauseError, login_path
from kernel.fault_injection import fault_point
from kernel.procs.attempt_dir import LOCK_FILE, lock_is_free
from kernel.procs.spec import SpawnTransient
from kernel.source.safe_paths import open_file, open_folder
from kernel.store.transitions.lease import Leased
from protocol.backends import BACKENDS, LoginSpec
from protocol.ipc import Start

logger = logging.getLogger(__name__)

LOGINS: Final = "logins"
"""The folder, in that of all projects."""
MAX_LOGIN_BYTES: Final = 1024 * 1024
PATIENCE_SECONDS: Final = 5.0
"""How long an attempt waits for a login before its work goes back to its lane, to be tried again."""
_LOOK_SECONDS: Final = 0.1
RENEWED_SECONDS: Final = 1.0
"""Between two looks whether a program has renewed its copy."""
_MODE: Final = 0o600


class Lent(msgspec.Struct, frozen=True):
    """The record of a login that an attempt has. ``home`` is the file that it comes from; "" for a token.

    ``digest`` is that of what was lent, or given back since; ``copy`` is below ``place``.
    """

    holder: str
    attempt_dir: str
    place: str
    copy: str
    home: str
    digest: str


class _Held(msgspec.Struct):
    lock: int
    key: str
    lent: Lent
    seen: tuple[int, int, int] | None = None


_decode_record: Final = msgspec.json.Decoder(Lent).decode


class Logins:
    """The logins that this kernel's attempts have. ``folder`` is in the directory of all projects."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self._folder = folder
        self._environ = environ
        self._held: dict[str, _Held] = {}
        self._any = trio.Event()

    async def lend(self, leased: Leased, start: Start) -> None:
        """Put the login there for the attempt. Raises CauseError; SpawnTransient where another one has it for long."""
        deadline = trio.current_time() + PATIENCE_SECONDS
        # A lock of files cannot be awaited, and a thread that blocks on it cannot be cancelled.
        while (holder := self._lend(leased, start)) is not None:
            if trio.current_time() >= deadline:
                text = f"the login of {BACKENDS[start.backend].title} is with {holder}"
                raise SpawnTransient(f"{text}; the work waits until it is back")
            await trio.sleep(_LOOK_SECONDS)

    def give_back(self, attempt: str) -> None:
        """Take the login from ``attempt``, of which nothing runs any more; what it renewed goes home."""
        held = self._held.pop(attempt, None)
        if held is None:
            return
        try:
            self._settle(held.key, held.lent)
        except OSError as error:
            logger.error("login.later %s of %s: %s (it is tried again)", held.key, held.lent.home, error)
        finally:
            os.close(held.lock)

    def settle(self) -> None:
        """Bring home what kernels that died have left: for the start of one. Raises nothing."""
        for record in sorted(self._folder.glob("*.json")):
            key = record.stem
            with self._locked(key) as lock:
                if lock is None:
                    continue
                try:
                    lent = self._record(key)
                    if lent is not None and lock_is_free(Path(lent.attempt_dir) / LOCK_FILE):
                        self._settle(key, lent)
                except OSError as error:
                    logger.error("login.later %s: %s (it is tried again)", key, error)

    async def run(self) -> None:
        """Bring home what programs renew while they work, until cancelled."""
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
                        self._write(f"{held.key}.json", msgspec.json.encode(held.lent))
                    except OSError as error:
                        logger.error("login.later %s: %s (it is tried again)", held.key, error)
            await trio.sleep(RENEWED_SECONDS)

    def _home(self, spec: LoginSpec) -> str:
        return os.path.realpath(login_path(spec, self._environ))

    def _lend(self, leased: Leased, start: Start) -> str | None:
        """Lend it; who has it, where somebody has. Raises CauseError, SpawnTransient."""
        spec = BACKENDS[start.backend].login
        assert spec is not None, start.backend
        lent = Lent(
            holder=f"{leased.name} in {leased.space} ({leased.attempt})",
            attempt_dir=start.attempt_dir,
            place=start.session_dir,
            copy=spec.private,
            home="",
            digest="",
        )
        token = self._environ.get(spec.token_variable, "") if spec.token_variable else ""
        home = self._home(spec)
        key = f"{start.backend}-token-{leased.attempt}" if token else _key(start.backend, home)
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
                data = _token_file(token) if token else _login_at(home, spec)
                if not token:
                    lent = msgspec.structs.replace(lent, home=home, digest=_digest(data))
                with _folder_of(lent, make=True) as folder:
                    with suppress(FileNotFoundError):  # what is there was never lent
                        os.unlink(os.path.basename(lent.copy), dir_fd=folder)
                    self._write(f"{key}.json", msgspec.json.encode(lent))
                    fault_point("login.recorded")
                    _write_new(folder, os.path.basename(lent.copy), data)
            except BaseException:
                os.close(lock)
                raise
        except OSError as error:
            text = f"the login of {BACKENDS[start.backend].title} cannot be lent: {error.strerror or error}"
            raise SpawnTransient(f"{text}: {error.filename}") from error
        fault_point("login.lent")
        self._held[leased.attempt] = _Held(lock, key, lent, _stat(lent))
        self._any.set()
        return None

    def _settle(self, key: str, lent: Lent) -> None:
        """Bring home what was renewed, and remove the copy and the record. Raises OSError; then both stay."""
        self._bring_home(key, lent)
        with suppress(FileNotFoundError), _folder_of(lent) as folder:
            os.unlink(os.path.basename(lent.copy), dir_fd=folder)
        fault_point("login.removed")
        (self._folder / f"{key}.json").unlink(missing_ok=True)
        if lent.home:
            Path(_beside(lent.home)).unlink(missing_ok=True)
        else:
            (self._folder / f"{key}.lock").unlink(missing_ok=True)

    def _bring_home(self, key: str, lent: Lent) -> Lent:
        """Write what was renewed where the login is kept, if that is still what was lent. Raises OSError.

        First it is made safe beside the record, so that neither our end nor that of the copy loses it.
        """
        if not lent.home:
            return lent
        safe, copied = self._folder / f"{key}.renewed", _copied(lent)
        if copied is not None and _digest(copied) != lent.digest:
            self._write(safe.name, copied)
            fault_point("login.safe")
        if not safe.exists():
            return lent
        renewed = safe.read_bytes()
        kept = _read(lent.home)
        if kept is not None and kept != renewed and _digest(kept) == lent.digest and _same_kind(kept, renewed):
            _replace(lent.home, renewed, lent.digest)
            fault_point("login.home")
            logger.info("login.renewed %s, by %s", lent.home, lent.holder)
        elif kept is not None and kept != renewed:
            os.replace(safe, self._folder / f"{key}.kept")
            why = "somebody else changed it meanwhile" if _digest(kept) != lent.digest else "it is no such login"
            where = self._folder / f"{key}.kept"
            logger.warning(
                "login.kept %s is left alone, for %s; what %s has is in %s", lent.home, why, lent.holder, where
            )
        safe.unlink(missing_ok=True)
        return msgspec.structs.replace(lent, digest=_digest(renewed))

    def _record(self, key: str) -> Lent | None:
        try:
            return _decode_record((self._folder / f"{key}.json").read_bytes())
        except FileNotFoundError:
            return None
        except msgspec.MsgspecError as error:
            logger.error("login.record %s: %s", key, error)
            return None

    def _write(self, name: str, data: bytes) -> None:
        """Make ``data`` durable under ``name``. Raises OSError."""
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _write_new(folder, f"{name}.new", data)
            os.replace(f"{name}.new", name, src_dir_fd=folder, dst_dir_fd=folder)
            os.fsync(folder)
        finally:
            os.close(folder)

    def _lock(self, key: str) -> int | None:
        """Take the lock of a login; None where somebody has it. Raises OSError."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        lock = os.open(self._folder / f"{key}.lock", flags, _MODE)
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
        """Hold the lock for as long as the block lasts; None where somebody else has it."""
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


def _token_file(token: str) -> bytes:
    """The file that claude would make of a token in its environment; so its shells are not handed it."""
    oauth = {"accessToken": token, "refreshToken": None, "expiresAt": None, "scopes": ["user:inference"]}
    return msgspec.json.encode({"claudeAiOauth": oauth})


def _login_at(home: str, spec: LoginSpec) -> bytes:
    try:
        data = _read(home)
    except OSError as error:
        raise CauseError("auth", f"{home} cannot be read: {error.strerror}") from error
    if data is None or not _object(data):
        raise CauseError("auth", f"{home} holds no login; {spec.how}")
    return data


def _read(path: str) -> bytes | None:
    """A regular file of bounded size; None where there is none. Raises OSError."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "it is no file", path)
        data = file.read(MAX_LOGIN_BYTES + 1)
    if len(data) > MAX_LOGIN_BYTES:
        raise OSError(errno.EFBIG, "it is too large for a login", path)
    return data


def _object(data: bytes) -> dict[str, Any]:
    """The object that ``data`` is; empty where it is none, as of a program that was killed over it."""
    try:
        found: object = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _same_kind(kept: bytes, renewed: bytes) -> bool:
    """Return whether ``renewed`` has every part of ``kept``: one that logged out, or was made up, has not."""
    parts = _object(renewed)
    return all(type(parts.get(key)) is type(value) for key, value in _object(kept).items())


def _copied(lent: Lent) -> bytes | None:
    """The copy as a program has left it; None where it is no login. It lies where the program can write."""
    try:
        with _folder_of(lent) as folder, os.fdopen(open_file(folder, os.path.basename(lent.copy), os.O_RDONLY)) as file:
            data = os.read(file.fileno(), MAX_LOGIN_BYTES + 1)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EINVAL):
            raise
        return None
    return data if len(data) <= MAX_LOGIN_BYTES and _object(data) else None


def _stat(lent: Lent) -> tuple[int, int, int] | None:
    try:
        with _folder_of(lent) as folder:
            found = os.stat(os.path.basename(lent.copy), dir_fd=folder, follow_symlinks=False)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


@contextmanager
def _folder_of(lent: Lent, *, make: bool = False) -> Generator[int]:
    """A descriptor of the folder that the copy is in. Raises OSError: ENOTDIR where a part of it is a link."""
    above = os.path.dirname(lent.copy)
    folder = (
        open_folder(lent.place, above, make=make)
        if above
        else os.open(lent.place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    )
    try:
        yield folder
    finally:
        os.close(folder)


def _write_new(folder: int, name: str, data: bytes) -> None:
    """A new file in the place of any other, readable by this user alone, and on the disk. Raises OSError."""
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(name, flags, _MODE, dir_fd=folder), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _beside(path: str) -> str:
    return f"{path}.agent-worker"


def _replace(path: str, data: bytes, digest: str) -> None:
    """Have ``path`` be ``data`` at once or not at all, if it is still what ``digest`` is of. Raises OSError."""
    folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    name = os.path.basename(path)
    beside = os.path.basename(_beside(path))
    try:
        _write_new(folder, beside, data)
        fault_point("login.beside")
        kept = _read(path)
        if kept is None or _digest(kept) != digest:
            os.unlink(beside, dir_fd=folder)
            raise OSError(errno.EBUSY, "it changes just now", path)
        os.replace(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
        os.fsync(folder)
    finally:
        os.close(folder)
