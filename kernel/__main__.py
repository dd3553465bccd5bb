"""Entry point ``python -I -m kernel``: lock the project, listen, publish the record, open the database, run.

Requests are accepted as soon as no later step can prevent the start."""

import gc
import logging
import os
import secrets
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kernel.boot.arguments import Boot, KernelArguments, hide_memory, parse_arguments
from kernel.boot.clock import wall_offset_ns
from kernel.boot.discovery_record import listen, publish, withdraw
from kernel.boot.health_responder import HealthResponder
from kernel.boot.log_file import start_logging
from kernel.boot.service_end import kept_by, serve_as_init
from kernel.boot.state_dir import StateDirRefused, prepare_state_dir, remedy, take_lock
from kernel.boot.unused_modules import skip_unused_modules
from kernel.fault_injection import arm
from kernel.procs.process_limits import limits_fault, open_standard, raise_limit
from protocol.discovery import DATABASE, JOURNAL, LOCK, LOG, RECORD, SERVICE, VERSION

if TYPE_CHECKING:
    from kernel.app import Leaving

logger = logging.getLogger("kernel.app")

BACKLOG = 1024
EX_CONFIG = 78
EX_TEMPFAIL = 75
"""Exit codes of sysexits.h. For a service manager, 0 would mean that the kernel ran and stopped as requested."""
SETTINGS: Final = (".agents.yaml", "moniro.yaml")
"""Project files; an invalid setting in them prevents the start."""
LAUNCHER: Final = "AGENT_WORKER_LAUNCHER"
"""Environment variable that selects a launcher. If the launcher is unavailable, the start fails."""


def main() -> int:  # noqa: PLR0911 - each return explains why no kernel was started
    """Run the kernel of one project until it is stopped; return the exit code."""
    open_standard()
    hide_memory()
    arguments = parse_arguments(sys.argv[1:])
    ended = serve_as_init()
    if ended is not None:
        return ended
    arm(os.environ)
    raise_limit()
    os.umask(0o077)
    if arguments.trial is not None or arguments.handover is not None:
        return _beside_another(arguments)
    too_low = limits_fault()
    if too_low is not None:
        return _refuse(too_low)
    try:
        prepare_state_dir(arguments.state)
        lock = take_lock(os.path.join(arguments.state, LOCK))
        if lock is not None and os.path.lexists(os.path.join(arguments.state, JOURNAL)):
            from kernel.source.restore_journal import finish  # noqa: PLC0415  (only after an interrupted restore)

            finish(arguments.state)
    except StateDirRefused as error:
        return _refuse(str(error))
    except OSError as error:
        return _refuse(remedy(error, arguments.state))
    if lock is None:
        print(f"a kernel is already running for {arguments.project}", file=sys.stderr)
        return EX_TEMPFAIL if SERVICE in os.environ else 0
    service = kept_by(os.environ, arguments.state)
    if service is not None:
        os.chdir(arguments.project)
    early_signals: list[int] = []
    listener = listen(arguments.state, BACKLOG)
    boot = Boot(
        arguments=arguments,
        listener=listener,
        lock=lock,
        token=secrets.token_urlsafe(32),
        record_token=secrets.token_urlsafe(32),
        version=VERSION,
        started_at=datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        clock_offset_ns=wall_offset_ns(),
        after_death=os.path.exists(os.path.join(arguments.state, RECORD)),
        kept_by=service,
        early_signals=early_signals,
    )
    responder = HealthResponder(boot.listener, boot.record_token, boot.version, boot.token)
    try:
        publish(boot)  # before the first answer: on a reused port, the old record would appear valid
    except OSError as error:
        return _refuse(remedy(error, arguments.state))
    responder.open()
    start_logging(os.path.join(arguments.state, LOG))
    try:
        end = _open_and_run(boot, responder, early_signals)
        if isinstance(end, int):
            return end
        from kernel.adoption import until_ended  # noqa: PLC0415  (only if this process is replaced)

        return until_ended(boot, end)
    finally:
        withdraw(boot)


def _beside_another(arguments: KernelArguments) -> int:
    if arguments.handover is not None:
        start_logging(os.path.join(arguments.state, LOG))
    gc.disable()  # see _open_and_run
    with skip_unused_modules():
        from kernel.adoption import go_on, say_whether_it_could  # noqa: PLC0415  (all imports precede readiness)

    gc.freeze()
    gc.enable()
    if arguments.trial is not None:
        return say_whether_it_could(arguments, arguments.trial)
    assert arguments.handover is not None
    return go_on(arguments, arguments.handover)


def _open_and_run(boot: Boot, responder: HealthResponder, early_signals: list[int]) -> "int | Leaving":
    """Open the database and run the kernel; return the exit code, or the handover.

    After an orderly stop and with valid settings, no later step can prevent the start. Requests are
    then already accepted, and wait until the start is complete.
    """
    from kernel.store.database import open_database  # noqa: PLC0415  (/health is answered first)
    from kernel.store.schema import CannotOpen  # noqa: PLC0415  (as above)

    path = os.path.join(boot.arguments.state, DATABASE)
    if boot.after_death and os.path.exists(path) and not os.path.exists(f"{path}-wal"):
        # SQLite ignores a missing WAL and would silently start from the last checkpoint (fault SF08).
        said = "kernel.log_gone %s-wal is missing: the last changes of the previous kernel may be lost"
        logger.error(said, path)
    try:
        database = open_database(path)
    except CannotOpen as error:
        logger.error("kernel.refused %s", error)
        return EX_CONFIG
    saved = database.saved_notice()
    if saved is not None:
        logger.warning("kernel.saved_copy %s", saved)
    in_order = not boot.after_death and LAUNCHER not in os.environ and database.continues_in_order()
    if in_order and _settings_are_sound(boot.arguments.project):
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda caught, _frame: early_signals.append(caught))
        responder.accept()
    # Imported modules are never garbage; scanning them repeatedly takes a quarter of the CPU time of a start.
    gc.disable()
    with skip_unused_modules():
        from kernel.app import run  # noqa: PLC0415  (the import takes half a second: requests are accepted first)

    gc.freeze()
    gc.enable()
    return run(boot, database, responder)


def _settings_are_sound(project: str) -> bool:
    if not any(os.path.lexists(os.path.join(project, name)) for name in SETTINGS):
        return True
    from kernel.agents.catalog import Catalog  # noqa: PLC0415  (only with a project file)
    from protocol.errors import Refused  # noqa: PLC0415  (as above)

    try:
        Catalog(Path(project)).project()
    except Refused:
        return False
    return True


def _refuse(why: str) -> int:
    print(f"error: {why}", file=sys.stderr)
    return EX_CONFIG


if __name__ == "__main__":
    code = main()
    logging.shutdown()
    # Everything is closed; freeing imported modules would take a fifth of the CPU time of a start and a stop.
    os._exit(code)
