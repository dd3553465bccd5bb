"""Logins of the user that programs work with (``login: true``): lent for one attempt at a time, and given back.

A program gets a copy in its own home, and renews that: what it renewed goes back to where the login is kept, as soon
as it is seen, and only if the tokens there are still those that were lent. A login that can be renewed is never with
two attempts at once, whichever kernels they belong to: their refresh tokens are good for one use.

Of each login there are, in the folder of all projects, a lock and a record of who has it. A kernel holds the lock for
its attempt, and the attempt's keeper holds its own until the whole tree is gone; so whoever gets the first and finds
nobody at the second may take the login, and first brings home what a kernel that died left in the copy.
"""

import errno
import fcntl
import hashlib
import logging
import os
import secrets
import stat
from collections.abc import Generator, Mapping
from contextlib import contextmanager
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
from protocol.backends import BACKENDS, MAX_LOGIN_BYTES, TokenField
from protocol.ipc import Start

logger = logging.getLogger(__name__)

LOGINS: Final = "logins"
"""The folder, in that of all projects."""
PATIENCE_SECONDS: Final = 5.0
"""How long an attempt waits for a login before its work goes back to its lane, to be tried again."""
_LOOK_SECONDS: Final = 0.1
RENEWED_SECONDS: Final = 1.0
"""Between two looks whether a program has renewed its copy."""
_MODE: Final = 0o600


class Lent(msgspec.Struct, frozen=True):
    """The record of a login that an attempt has. ``home`` is the file that it comes from; "" for a token.

    ``copy`` is below ``place``. Of the tokens in ``fields``, ``digest`` is that of those which home has, as far as we
    know, and ``seen`` of those which the copy had when it was looked at last.
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
    """The logins that this kernel's attempts have. ``folder`` is in the directory of all projects."""

    folder: Path
    environ: Mapping[str, str]
    _held: dict[str, _Held] = {}
    _any: trio.Event = msgspec.field(default_factory=trio.Event)

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

    def export(self, attempt: str) -> HandedLogin | None:
        """Return the login that ``attempt`` has, for the next program of the kernel."""
        held = self._held.get(attempt)
        if held is None:
            return None
        record = msgspec.json.encode(held.lent)
        return HandedLogin(lock=held.lock, key=held.key, record=record, seen=held.seen)

    def let_go(self, attempt: str) -> None:
        """Take no login from ``attempt``, and leave its lock held: the next program of the kernel does."""
        self._held.pop(attempt, None)

    def adopt(self, attempt: str, handed: HandedLogin) -> None:
        """Know a login that an earlier program of this kernel has lent."""
        self._held[attempt] = _Held(handed.lock, handed.key, _decode_record(handed.record), handed.seen)
        self._any.set()

    def settle(self) -> None:
        """Bring home what kernels that died have left: for the start of one. Raises nothing."""
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
                    except OSError as error:
                        logger.error("login.later %s: %s (it is tried again)", held.key, error)
            await trio.sleep(RENEWED_SECONDS)

    def _lend(self, leased: Leased, start: Start) -> str | None:
        """Lend it; who has it, where somebody has. Raises CauseError, SpawnTransient."""
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
        # Attempts of two projects may have one name.
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
                _clear(lent)  # what is there was never lent
                with _folder_of(lent, make=True) as folder:
                    self._write(f"{key}.json", msgspec.json.encode(lent))
                    fault_point("login.recorded")
                    # Not beside it: who dies here leaves the tokens where they are cleared.
                    with open(open_new(os.path.basename(lent.copy), _MODE, folder=folder), "wb") as file:
                        file.write(data)
                        file.flush()
                        os.fsync(file.fileno())
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
        try:
            _clear(lent)
        except OSError as error:  # the program's doing: no reason for others to wait
            logger.warning("login.copy %s of %s cannot be removed: %s", lent.copy, lent.holder, error)
        fault_point("login.removed")
        (self.folder / f"{key}.json").unlink(missing_ok=True)
        if lent.home:
            Path(_beside(lent.home)).unlink(missing_ok=True)
        else:
            (self.folder / f"{key}.lock").unlink(missing_ok=True)

    def _bring_home(self, key: str, lent: Lent) -> Lent:
        """Bring home the tokens that were renewed in the copy; the record as it is now. Raises OSError.

        First they are made safe beside the record, so that neither our end nor that of the copy loses them.
        """
        lent = self._put_home(key, lent)  # those over which a kernel died
        copied = renewal_of(_copied(lent), lent.fields)
        if copied is None or _digest(copied) == lent.seen:
            return lent
        self._write(f"{key}.renewed", copied)
        fault_point("login.safe")
        return self._put_home(key, msgspec.structs.replace(lent, seen=_digest(copied)))

    def _put_home(self, key: str, lent: Lent) -> Lent:
        """Write the tokens that are safe where the login is kept, if those that we know are there. Raises OSError."""
        safe = self.folder / f"{key}.renewed"
        try:
            renewed = renewal_of(safe.read_bytes(), lent.fields) or b""  # b"": it is of another login
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
            text = "is left alone, for somebody else changed it meanwhile; the tokens that"
            logger.warning("login.kept %s %s %s has are in %s", lent.home, text, lent.holder, where)
        # Until it is noted what home has, what is safe tells it: else the next renewal would find a stranger's there.
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
        """Take the lock of a login; None where somebody has it. Raises OSError."""
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


def _copied(lent: Lent) -> bytes:
    """The copy as a program has left it, which may be anything; nothing where it is no file that can be read."""
    try:
        with _folder_of(lent) as folder, os.fdopen(open_file(folder, os.path.basename(lent.copy), os.O_RDONLY)) as file:
            data = os.read(file.fileno(), MAX_LOGIN_BYTES + 1)
    except OSError:
        return b""
    return data if len(data) <= MAX_LOGIN_BYTES else b""


def _clear(lent: Lent) -> None:
    """Remove the copy; set aside what a program has put in its place, or in that of a folder above. Raises OSError.

    Nothing of that program runs now.
    """
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
            logger.warning("login.aside %s was in place of a login, and is %s now", path, aside.name)
            return


def _stat(lent: Lent) -> tuple[int, int, int] | None:
    try:
        with _folder_of(lent) as folder:
            found = os.stat(os.path.basename(lent.copy), dir_fd=folder, follow_symlinks=False)
    except OSError:
        return None
    return found.st_ctime_ns, found.st_size, found.st_ino  # of its times, the one that no program can set


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


def _beside(path: str) -> str:
    return f"{path}.agent-worker"


def _replace(path: str, data: bytes, digest: str) -> None:
    """Have ``path`` be ``data`` at once or not at all, if it is still what ``digest`` is of. Raises OSError."""

    def check() -> None:
        fault_point("login.beside")
        kept = read_login(path)
        if kept is None or _digest(kept) != digest:
            raise OSError(errno.EBUSY, "it changes just now", path)

    with replacing(path, _MODE, beside=_beside(path), written=check) as file:
        file.write(data)
    sync_folder(os.path.dirname(path))
