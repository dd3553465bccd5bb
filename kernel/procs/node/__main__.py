"""``python -I -m kernel.procs.node``: serve a kernel over standard streams, or over connections to it (--join)."""

import argparse
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from kernel.procs.node.fence import FolderRefused, LeaseGuard, of_this_machine, open_log, prepare_folder
from kernel.procs.process_limits import raise_limit
from protocol.node import LeaseTimes, decode_join_token

logger = logging.getLogger(__name__)

EX_CONFIG: Final = 78
"""Exit code of sysexits.h: configuration error."""
_WORD_CHARACTERS = 4096
_LOG_FORMAT = "%(asctime)s %(levelname)s %(message)s"


def main() -> int:
    """Serve until the transport or the kernel ends it; return the exit code."""
    options = _parse()
    os.umask(0o077)
    try:
        prepare_folder(options.state)
        state = of_this_machine(options.state)
        prepare_folder(state)
        return _serve(options, state)
    except (FolderRefused, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return EX_CONFIG


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="agent-worker node", allow_abbrev=False)
    parser.add_argument(
        "--state",
        metavar="DIR",
        type=lambda text: Path(text).expanduser().absolute(),
        required=True,
        help="folder of the node",
    )
    parser.add_argument("--project", metavar="ID", help="serve only this project")
    parser.add_argument("--join", metavar="WORD", help="join the kernel of this join token (- reads standard input)")
    decode_times = msgspec.json.Decoder(LeaseTimes).decode
    parser.add_argument("--times", type=decode_times, default=LeaseTimes(), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.join == "-":
        options.join = sys.stdin.readline(_WORD_CHARACTERS).strip()
    return options


def _serve(options: argparse.Namespace, state: Path) -> int:
    times: LeaseTimes = options.times
    word = None if options.join is None else decode_join_token(options.join)
    guard = LeaseGuard(times.margin_seconds / 2)  # before the process has threads or an event loop
    import trio  # noqa: PLC0415

    from kernel.procs.node.fence import TermUnreadable  # noqa: PLC0415
    from kernel.procs.node.host import Dialling, NodeHost, NotServed  # noqa: PLC0415
    from kernel.procs.node.wire import BROKEN, Garbled, describe  # noqa: PLC0415

    raise_limit()
    os.chdir("/")
    host = NodeHost(state, options.project, times, os.environ, guard)

    async def until_signal(serve: Callable[[], Awaitable[None]]) -> None:
        async with trio.open_nursery() as nursery:

            async def end() -> None:
                with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as received:
                    async for number in received:
                        logger.info("node.ending signal %d", number)
                        nursery.cancel_scope.cancel()

            nursery.start_soon(end)
            await serve()
            nursery.cancel_scope.cancel()

    if word is not None:
        if not host.lock():
            print(f"a node process serves in {state} already", file=sys.stderr)
            return 0
        logging.basicConfig(level=logging.INFO, stream=sys.stderr, format=_LOG_FORMAT, force=True)
        trio.run(until_signal, lambda: Dialling(word).run(host.serve))
        return 0
    reading, writing, errors = _take_standard_streams(state)

    async def serve() -> None:
        try:
            await host.serve(trio.StapledStream(trio.lowlevel.FdStream(writing), trio.lowlevel.FdStream(reading)))
        except (*BROKEN, Garbled, NotServed, TermUnreadable, trio.TooSlowError) as error:
            logger.warning("node.transport_broke %s", describe(error))
            with suppress(OSError):  # the remote shell may have exited
                os.write(errors, f"error: {describe(error)}\n".encode())

    trio.run(until_signal, serve)
    return 0


def _take_standard_streams(state: Path) -> tuple[int, int, int]:
    """Move the standard streams to other descriptors, so that output of started processes goes to the log."""
    kept = os.dup(0), os.dup(1), os.dup(2)
    log, nothing = open_log(state), os.open(os.devnull, os.O_RDWR)
    for number, descriptor in enumerate((nothing, log, log)):
        os.dup2(descriptor, number)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format=_LOG_FORMAT, force=True)
    return kept


if __name__ == "__main__":
    sys.exit(main())
