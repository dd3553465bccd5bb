"""The command ``agent-worker`` as attempts see it: ``agent-worker call`` and no more, in a folder of its own.

Our own commands are kept from the PATH of attempts, for with them an agent would act as its user does. This one asks
as the attempt that it runs in (promise P56), and holds nothing that is secret: the address of the kernel.
"""

import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from osfiles.atomic_write import replacing
from protocol.discovery import CALL_URL

FOLDER: Final = "bin"
COMMAND: Final = "agent-worker"
_SCRIPT: Final = """\
#!/bin/sh
# The command agent-worker inside an attempt. Written by the kernel at each start.
case ${{1-}} in
    call | help | -h | --help) ;;
    *)
        echo "error: inside an attempt agent-worker has one command: call TOOL [JSON]" >&2
        exit 2
        ;;
esac
exec {python} -I -m interface agent-worker '' "$@"
"""


class CallCommand(msgspec.Struct, frozen=True):
    """The folder it is in, and the address it asks."""

    folder: str
    url: str

    def install(self) -> None:
        """Write it, in the place of an older one. Raises OSError."""
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        path, beside = os.path.join(self.folder, COMMAND), os.path.join(self.folder, f".{COMMAND}.new")
        with replacing(path, 0o700, beside=beside, sync=False) as file:
            file.write(_SCRIPT.format(python=shlex.quote(sys.executable)).encode())

    def added_to(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return ``env`` with the command behind all others, and with what it has to know."""
        return {**env, "PATH": f"{env['PATH']}:{self.folder}", CALL_URL: self.url}


def call_command(state: Path, url: str) -> CallCommand:
    """The command of the kernel at ``url``, whose state is in ``state``."""
    return CallCommand(str(state / FOLDER), url)
