"""``python -I -m kernel.procs.node``: carry a kernel's bytes to the node process of a folder, or be that process."""

import argparse
import hashlib
import logging
import os
import re
import sys
from pathlib import Path
from typing import Final

from kernel.procs.node.folder import FolderRefused, lock_folder, of_this_machine, prepare_folder
from kernel.procs.node.guard import Guard
from kernel.procs.node.relay import NoNode, relay
from protocol.discovery import forget_empty_home, state_home
from protocol.node import BEAT_SECONDS, LEASE_SECONDS, MARGIN_SECONDS, LeaseTimes, decode_join_word

EX_CONFIG: Final = 78
EX_UNAVAILABLE: Final = 69
"""sysexits.h."""
_WORD_CHARACTERS: Final = 4096
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", re.ASCII)


def main() -> int:
    """Serve a kernel until it goes. Returns the exit code."""
    options = _parse()
    os.umask(0o077)
    try:
        prepare_folder(options.state)
        state = of_this_machine(options.state)
        prepare_folder(state)
        if options.serve or options.join is not None:
            return _be_node(options, state)
        again = ["--state", str(options.state), "--lease-seconds", str(options.lease_seconds)]
        again += ["--beat-seconds", str(options.beat_seconds), "--margin-seconds", str(options.margin_seconds)]
        return relay(state, again if options.project is None else [*again, "--project", options.project])
    except (FolderRefused, NoNode, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return EX_UNAVAILABLE if isinstance(error, NoNode) else EX_CONFIG


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="agent-worker node", allow_abbrev=False)
    parser.add_argument(
        "--state",
        metavar="DIR",
        type=lambda text: Path(text).expanduser().absolute(),
        help="the node's folder (default: by the project)",
    )
    parser.add_argument("--project", metavar="ID", help="serve this project, and no other")
    parser.add_argument("--join", metavar="WORD", help="dial and serve the kernel that gave this word (- reads it)")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--lease-seconds", type=float, default=LEASE_SECONDS, help=argparse.SUPPRESS)
    parser.add_argument("--beat-seconds", type=float, default=BEAT_SECONDS, help=argparse.SUPPRESS)
    parser.add_argument("--margin-seconds", type=float, default=MARGIN_SECONDS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.join == "-":
        options.join = sys.stdin.readline(_WORD_CHARACTERS).strip()
    if options.state is None:
        name = options.project
        if options.join is not None:
            name = f"join-{hashlib.sha256(options.join.encode()).hexdigest()[:16]}"
        if name is None or not _NAME.fullmatch(name):
            parser.error("say which project it serves (--project ID), or its folder (--state DIR)")
        forget_empty_home(os.environ)
        try:
            options.state = Path(state_home(None, os.path.expanduser("~")), "nodes", name)
        except ValueError as error:
            parser.error(str(error))
    return options


def _be_node(options: argparse.Namespace, state: Path) -> int:
    times = LeaseTimes(
        lease_seconds=options.lease_seconds,
        beat_seconds=options.beat_seconds,
        margin_seconds=options.margin_seconds,
    )
    guard = Guard(times.margin_seconds / 2)
    from kernel.procs.node.host import serve  # noqa: PLC0415  (a relay needs nothing of it)
    from kernel.procs.node.joining import Dialling  # noqa: PLC0415  (as above)

    dial = None if options.join is None else Dialling(decode_join_word(options.join)).run
    lock = lock_folder(state)
    if lock is None:
        print(f"a node process serves in {state} already", file=sys.stderr)
        return 0
    logging.basicConfig(
        level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s", force=True
    )
    serve(state, options.project, times, os.environ, guard, dial)
    return 0


if __name__ == "__main__":
    sys.exit(main())
