"""The trial whether this program could go on with a database that another program has open."""

from pathlib import Path

import apsw

from kernel.store.database import BUSY_MILLISECONDS, cannot_open, migrate, missing_migrations
from kernel.store.errors import CannotOpen


def try_to_open(path: str, copy: str) -> None:
    """Find out whether this program could go on with the database at ``path``, which another one has open: nothing of
    it is changed. What it lacks is tried on a copy at ``copy``, which is removed. Raises CannotOpen.
    """
    try:
        found = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
        found.set_busy_timeout(BUSY_MILLISECONDS)
        try:
            if not missing_migrations(found, path):
                return
            trial = apsw.Connection(copy)
            try:
                with trial.backup("main", found, "main") as backup:
                    backup.step(-1)
                migrate(trial, copy)
            except CannotOpen as error:
                raise CannotOpen(f"what this version changes in the database fails on a copy of it: {error}") from error
            finally:
                trial.close()
        finally:
            found.close()
    except apsw.Error as error:
        raise cannot_open(path, error) from error
    finally:
        for suffix in ("", "-wal", "-shm", "-journal"):
            Path(copy + suffix).unlink(missing_ok=True)
