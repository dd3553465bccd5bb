"""``python -I -m kernel.inspect.copier``: the process that brings a kernel's log to another place.

It hears on its standard input what was committed, and says on its standard output how much of that is there. It
ends when nobody speaks to it any more. One at a time works for a project: the one before may hang in its place.
"""

import argparse
import fcntl
import os
import select
import sys
import time
from pathlib import Path
from typing import Final

import msgspec

from kernel.fault_injection import arm
from kernel.inspect.standby_copier import Copier
from protocol.discovery import STANDBY_LOCK
from protocol.standby_frames import Heard, unpacked

_READ_BYTES: Final = 1024 * 1024


def main() -> int:
    """Copy until nobody speaks to it any more."""
    parser = argparse.ArgumentParser(prog="kernel.inspect.copier", allow_abbrev=False)
    for name in ("--project", "--state", "--to", "--log"):
        parser.add_argument(name, required=True)
    args = parser.parse_args()
    arm(os.environ)
    os.umask(0o077)
    os.nice(10)

    def tell(heard: Heard) -> None:
        sys.stdout.write(msgspec.json.encode(heard).decode() + "\n")
        sys.stdout.flush()

    lock = os.open(os.path.join(args.state, STANDBY_LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        why = "the process that copied before has not ended: the place does not answer"
        tell(Heard(why=why, fix="see to the place: it goes on by itself"))
        return 1
    copier = Copier(Path(args.project), Path(args.state), args.to, args.log, tell=tell, clock=time.time)
    data = bytearray()
    while True:
        if select.select([0], [], [], copier.wait_seconds())[0]:
            read = os.read(0, _READ_BYTES)
            if not read:
                copier.turn()
                return 0
            data += read
            for message in unpacked(data):
                copier.hear(message)
        copier.turn()


if __name__ == "__main__":
    try:
        code = main()
    except BrokenPipeError:
        code = 0
    os._exit(code)
