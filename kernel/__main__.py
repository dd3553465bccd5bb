"""``python -I -m kernel``: take the project's lock, listen, publish the record, then import and run the kernel."""

import os
import secrets
import socket
import sys
from datetime import UTC, datetime

from kernel.boot.arguments import Boot, parse_arguments
from kernel.boot.container_init import serve_as_init
from kernel.boot.discovery_record import publish, withdraw
from kernel.boot.health_responder import HealthResponder
from kernel.boot.log_file import start_logging
from kernel.boot.state_dir import StateDirRefused, prepare_state_dir, remedy, take_lock
from kernel.fault_injection import arm
from kernel.procs.descriptors import raise_limit
from protocol.state_paths import LOCK, LOG, RECORD
from protocol.version import VERSION

BACKLOG = 1024
EX_CONFIG = 78


def main() -> int:
    """Run the kernel of one project until it is stopped. Returns the exit code."""
    arguments = parse_arguments(sys.argv[1:])
    ended = serve_as_init()
    if ended is not None:
        return ended
    arm(os.environ)
    raise_limit()
    os.umask(0o077)
    try:
        prepare_state_dir(arguments.state)
        lock = take_lock(os.path.join(arguments.state, LOCK))
    except StateDirRefused as error:
        return _refuse(str(error))
    except OSError as error:
        return _refuse(remedy(error, arguments.state))
    if lock is None:
        print(f"a kernel already runs for {arguments.project}", file=sys.stderr)
        return 0
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.bind(("127.0.0.1", 0))
    listener.listen(BACKLOG)
    boot = Boot(
        arguments=arguments,
        listener=listener,
        token=secrets.token_urlsafe(32),
        version=VERSION,
        started_at=datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        after_death=os.path.exists(os.path.join(arguments.state, RECORD)),
    )
    responder = HealthResponder(boot.listener, boot.token, boot.version)
    responder.open()
    try:
        publish(boot)
    except OSError as error:
        return _refuse(remedy(error, arguments.state))
    start_logging(os.path.join(arguments.state, LOG))
    from kernel.app import run  # noqa: PLC0415  (takes most of a second to import: /health is answered first)

    try:
        return run(boot, responder)
    finally:
        withdraw(boot)


def _refuse(why: str) -> int:
    """Say why nothing was started; the words reach whoever asked through the log's tail."""
    print(f"error: {why}", file=sys.stderr)
    return EX_CONFIG


if __name__ == "__main__":
    raise SystemExit(main())
