"""A wire to a node that a test can cut, freeze, or have carry one way only: ``node_wire.py STATE COMMAND...``.

STATE is a file with one word, looked at twenty times a second: open, cut, frozen, deaf (nothing gets there), mute
(nothing comes back). A wire that is cut ends, and so does one that is begun while the word is cut.
"""

import os
import select
import subprocess
import sys

LOOK_SECONDS = 0.05


def main(state: str, command: list[str]) -> int:
    """Carry bytes between our standard streams and those of ``command``."""
    if word_in(state) == "cut":
        return 1
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as far:
        assert far.stdin is not None
        assert far.stdout is not None
        there, back = far.stdin.fileno(), far.stdout.fileno()
        while (word := word_in(state)) != "cut":
            reading = [0] * (word in ("open", "mute")) + [back] * (word in ("open", "deaf"))
            ready, _, _ = select.select(reading, [], [], LOOK_SECONDS)
            for source in ready:
                data = os.read(source, 65536)
                if not data:
                    far.kill()
                    return 0
                write(there if source == 0 else 1, data)
        far.kill()
    return 1


def word_in(state: str) -> str:
    try:
        with open(state, encoding="ascii") as file:
            return file.read().strip() or "open"
    except OSError:
        return "open"


def write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1], sys.argv[2:]))
    except OSError:
        sys.exit(1)
