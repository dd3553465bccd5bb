"""Start of a process that continues an existing kernel (upgrade), and the trial of a version.

The new process is ready when all steps that can fail have succeeded: modules imported, database open with a known
schema, table read, descriptors present. If one fails, the old program continues. Schema migrations run afterwards."""

import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from kernel.agents.catalog import Catalog
from kernel.app import Leaving, TakenOver, run
from kernel.boot.arguments import Boot, KernelArguments
from kernel.boot.discovery_record import publish, withdraw
from kernel.boot.replacement import ProcessHoldings, boot_from, dismiss, give_up, keep_signals, replace, unpack
from kernel.fault_injection import fault_point
from kernel.services.handover import UnreadableHandover, decode, encode
from kernel.store.checkup import try_to_open
from kernel.store.database import Database, open_database
from kernel.store.schema import CannotOpen
from kernel.wiring import build
from protocol.discovery import DATABASE, VERSION
from protocol.errors import Refused

logger = logging.getLogger(__name__)

TRIAL_DATABASE: Final = "upgrade-trial.db"
WORKERS: Final = ("worker.__main__", "worker.fork.preload", "worker.main")  # the kernel does not import these modules
EX_CONFIG: Final = 78


def say_whether_it_could(arguments: KernelArguments, fd: int) -> int:
    """Test whether this version could take over the table in ``fd``, without side effects; return the exit code."""
    try:
        decode(os.pread(fd, os.fstat(fd).st_size, 0))
        Catalog(Path(arguments.project), Path.home()).project()
        try_to_open(os.path.join(arguments.state, DATABASE), os.path.join(arguments.state, TRIAL_DATABASE))
        subprocess.run([sys.executable, "-I", "-c", f"import {', '.join(WORKERS)}"], check=True)
    except (UnreadableHandover, Refused, CannotOpen, OSError, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"error: {error}\n")
        return EX_CONFIG
    sys.stdout.write(json.dumps({"version": VERSION}) + "\n")
    sys.stdout.flush()
    return 0


def go_on(arguments: KernelArguments, fd: int) -> int:
    """Continue the kernel of another process; return the exit code."""
    held, table = unpack(fd)
    if arguments.returned is not None:
        held = held._replace(program=())  # not executed again: this process runs that program
    signals = keep_signals()
    boot = boot_from(held, arguments, VERSION, signals)
    try:
        taken, database = _get_ready(boot, held, table)
        signals.extend(taken.handover.signals)
    except BaseException as error:
        logger.critical("upgrade.not_ready %s", error, exc_info=error)
        return give_up(held, fd, f"version {VERSION} could not take over: {type(error).__name__}: {error}", signals)
    os.close(fd)
    dismiss(held)
    fault_point("upgrade.ready")
    try:
        return until_ended(boot, _serve(boot, taken._replace(returned=arguments.returned), database))
    finally:
        withdraw(boot)


def _get_ready(boot: Boot, held: ProcessHoldings, table: bytes) -> tuple[TakenOver, Database]:
    """Perform all steps that can fail, without side effects. Raises any exception."""
    handover = decode(table)
    for descriptor in (*held.descriptors, *handover.descriptors):
        os.fstat(descriptor)
    fault_point("upgrade.decoded")
    database = open_database(os.path.join(boot.arguments.state, DATABASE), migrates=False)
    try:
        fault_point("upgrade.opened")
        return TakenOver(build(boot, database), handover), database
    except BaseException:
        database.close()
        raise


def _serve(boot: Boot, taken: TakenOver, database: Database) -> int | Leaving:
    database.migrate()
    fault_point("upgrade.migrated")
    publish(boot)
    return run(boot, database, None, taken)


def until_ended(boot: Boot, end: int | Leaving) -> int:
    """Return the exit code ``end``. If it is Leaving, replace this program with the new version first.

    A successful upgrade does not return. After a failed one, this kernel runs on until it ends again."""
    while isinstance(end, Leaving):
        held = ProcessHoldings(
            pid=os.getpid(),
            version=boot.version,
            listening=end.listener,
            locks=(boot.lock.file, boot.lock.directory),
            token=boot.token,
            record_token=boot.record_token,
            started_at=boot.started_at,
            clock_offset_ns=boot.clock_offset_ns,
            service=None if boot.kept_by is None else boot.kept_by.service,
            descriptors=tuple(
                fd
                for fd in (end.listener, boot.lock.file, boot.lock.directory, *end.handover.descriptors)
                if fd is not None
            ),
            program=() if end.program.python == sys.executable else end.program._replace(python=sys.executable).command,
        )
        held, table, returned = replace(held, encode(end.handover), end.program.command, end.signals)
        logger.error("upgrade.returned pid=%d %s", os.getpid(), returned.why)
        signals = keep_signals()
        boot = boot_from(held, boot.arguments, VERSION, signals)
        taken, database = _get_ready(boot, held, table)
        signals.extend(taken.handover.signals)
        end = _serve(boot, taken._replace(returned=returned.why), database)
    return end
