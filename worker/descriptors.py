"""Receives descriptors over a socket, so that nothing that is executed inherits them.

Not by ``socket.recv_fds``: it drops its flags, and what comes is inherited by the next program that is run.
"""

import os
import socket
from array import array
from typing import Final

_BYTES: Final = 65536
_MOST: Final = 16
_ANCILLARY_BYTES: Final = socket.CMSG_SPACE(_MOST * array("i").itemsize)
_CLOEXEC: Final = getattr(socket, "MSG_CMSG_CLOEXEC", 0)


def receive_descriptors(connection: socket.socket) -> tuple[bytes, list[int], int]:
    """One read: its bytes, the descriptors that came with them, and the message's flags. Raises OSError."""
    chunk, ancillary, flags, _address = connection.recvmsg(_BYTES, _ANCILLARY_BYTES, _CLOEXEC)
    found = array("i")
    for _level, _type, data in ancillary:
        found.frombytes(data[: len(data) - len(data) % found.itemsize])
    if not _CLOEXEC:  # macOS: they have been inheritable until now
        for fd in found:
            os.set_inheritable(fd, False)
    return chunk, list(found), flags
