"""``python -I -m kernel``: take the project's lock, listen, publish the record, open the database, then import and run
the kernel. Requests are let in as soon as nothing is left that could keep it from starting.
"""

import gc
import logging
import os
import secrets
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kernel.boot.arguments import Boot, KernelArguments, parse_arguments
from kernel.boot.clock import wall_offset_ns
from kernel.boot.discovery_record import listen, publish, withdraw
from kernel.boot.health_responder import HealthResponder
from kernel.boot.log_file import start_logging
from kernel.boot.service_end import kept_by, serve_as_init
from kernel.boot.state_dir import StateDirRefused, prepare_state_dir, remedy, take_lock
from kernel.fault_injection import arm
from kernel.procs.spec import limits_fault, open_standard, raise_limit
from protocol.discovery import DATABASE, JOURNAL, LOCK, LOG, RECORD, SERVICE, VERSION

if TYPE_CHECKING:
    from kernel.app import Leaving

logger = logging.getLogger("kernel.app")

BACKLOG = 1024
EX_CONFIG = 78
EX_TEMPFAIL = 75
"""sysexits.h. To a service manager 0 would say that the kernel was started, and ended as it was asked to."""
SETTINGS: Final = (".agents.yaml", "moniro.yaml")
"""The project files: a mistake in their settings keeps the kernel from starting."""
LAUNCHER: Final = "AGENT_WORKER_LAUNCHER"
"""Variable that may choose what is not possible here."""


def main() -> int:  # noqa: PLR0911 - each says why nothing was started
    """Run the kernel of one project until it is stopped. Returns the exit code."""
    open_standard()
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
            from kernel.source.restore_journal import finish  # noqa: PLC0415  (only after one that was interrupted)

            finish(arguments.state)
    except StateDirRefused as error:
        return _refuse(str(error))
    except OSError as error:
        return _refuse(remedy(error, arguments.state))
    if lock is None:
        print(f"a kernel already runs for {arguments.project}", file=sys.stderr)
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
        publish(boot)  # before anybody is answered: on the port of a kernel that died, its record would be disproved
    except OSError as error:
        return _refuse(remedy(error, arguments.state))
    responder.open()
    start_logging(os.path.join(arguments.state, LOG))
    try:
        end = _open_and_run(boot, responder, early_signals)
        if isinstance(end, int):
            return end
        from kernel.adoption import until_ended  # noqa: PLC0415  (only where this program is replaced)

        return until_ended(boot, end)
    finally:
        withdraw(boot)


def _beside_another(arguments: KernelArguments) -> int:
    if arguments.handover is not None:
        start_logging(os.path.join(arguments.state, LOG))
    gc.disable()  # as below
    from kernel.adoption import go_on, say_whether_it_could  # noqa: PLC0415  (everything, before it is said)

    gc.freeze()
    gc.enable()
    if arguments.trial is not None:
        return say_whether_it_could(arguments, arguments.trial)
    assert arguments.handover is not None
    return go_on(arguments, arguments.handover)


def _open_and_run(boot: Boot, responder: HealthResponder, early_signals: list[int]) -> "int | Leaving":
    """Open the database and run the kernel on it. Returns the exit code, or what is handed over.

    After a kernel that ended in order, and with sound settings, nothing is left then that could keep this one from
    starting: requests are let in, and wait for the rest of it.
    """
    from kernel.store.database import open_database  # noqa: PLC0415  (/health is answered first)
    from kernel.store.schema import CannotOpen  # noqa: PLC0415  (as above)

    path = os.path.join(boot.arguments.state, DATABASE)
    if boot.after_death and os.path.exists(path) and not os.path.exists(f"{path}-wal"):
        # SQLite does not miss its log: it would start from what was copied back, and say nothing (fault SF08).
        said = "kernel.log_gone %s-wal is not there: what the last kernel had accepted last may be lost"
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
    # What is imported stays. To look through it for garbage again and again is a quarter of the CPU of a start.
    gc.disable()
    from kernel.app import run  # noqa: PLC0415  (takes half a second to import: requests are let in first)

    gc.freeze()
    gc.enable()
    return run(boot, database, responder)


def _settings_are_sound(project: str) -> bool:
    """Return whether the project file can be read; what is wrong with it is said by whoever needs it."""
    if not any(os.path.lexists(os.path.join(project, name)) for name in SETTINGS):
        return True
    from kernel.agents.catalog import Catalog  # noqa: PLC0415  (only where there is a project file)
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
    os._exit(code)  # all is closed: to take apart what was imported would take a fifth of the CPU of a start and a stop
