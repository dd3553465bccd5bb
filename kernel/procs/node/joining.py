"""A node that connects by itself: TLS to the kernel of the pinned certificate, and the token first."""

import hashlib
import hmac
import logging
import ssl
from collections.abc import Awaitable, Callable
from typing import Final

import trio

from kernel.procs.node.fence import TermUnreadable
from kernel.procs.node.host import NotServed
from kernel.procs.node.wire import BROKEN, Garbled, describe
from protocol.node import JoinWord

logger = logging.getLogger(__name__)

CONNECT_SECONDS: Final = 20.0
_PAUSES_SECONDS: Final = (0.5, 1.0, 2.0, 5.0, 10.0)
"""Before the next try, by how many in a row failed. The longest is shorter than a lease."""
_WORKED_SECONDS: Final = 10.0
"""A transport that lasted so long was one."""
OTHER_WORD: Final = (
    "the join word is not known there any more, or another machine has it too; "
    "awk node add NAME --join, typed where the kernel is, makes another"
)


class WrongKernel(Exception):
    """Somebody else answers under the kernel's address."""


class Dialling:
    """Opens transports to one kernel."""

    def __init__(self, word: JoinWord) -> None:
        self._word = word

    async def run(self, serve: Callable[[trio.abc.Stream], Awaitable[None]]) -> None:
        """Connect, have the transport served, and connect again, until cancelled."""
        failures = 0
        while True:
            began = trio.current_time()
            try:
                with trio.fail_after(CONNECT_SECONDS):
                    transport = await self._dial()
                await serve(transport)
            except NotServed as error:
                logger.warning("node.refused %s: %s", error, OTHER_WORD)
            except (*BROKEN, trio.TooSlowError, WrongKernel, Garbled, TermUnreadable) as error:
                logger.warning("node.cannot_join %s:%d: %s", self._word.host, self._word.port, describe(error))
            worked = trio.current_time() - began > _WORKED_SECONDS
            failures = 0 if worked else min(failures + 1, len(_PAUSES_SECONDS) - 1)
            await trio.sleep(_PAUSES_SECONDS[failures])

    async def _dial(self) -> trio.abc.Stream:
        word = self._word
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False  # it is known by its certificate alone
        context.verify_mode = ssl.CERT_NONE
        tcp = await trio.open_tcp_stream(word.host, word.port)
        transport = trio.SSLStream(tcp, context, server_hostname=word.host, https_compatible=True)
        try:
            await transport.do_handshake()
            shown = hashlib.sha256(transport.getpeercert(binary_form=True) or b"").hexdigest()
            if not hmac.compare_digest(shown, word.sha256):
                raise WrongKernel("the certificate is not the one of the join word: nothing was said to it")
            await transport.send_all(word.line())
        except BaseException:
            await trio.aclose_forcefully(transport)
            raise
        return transport
