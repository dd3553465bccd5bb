"""A node that dials home: TLS to the kernel whose certificate was pinned, the token first, and again when it breaks."""

import hashlib
import hmac
import logging
import ssl
from collections.abc import Awaitable, Callable
from typing import Final

import trio

from protocol.node import JoinWord

logger = logging.getLogger(__name__)

CONNECT_SECONDS: Final = 20.0
_PAUSES_SECONDS: Final = (0.5, 1.0, 2.0, 5.0, 10.0)
"""Before the next try, by how many in a row failed. The longest is shorter than a lease."""
_WORKED_SECONDS: Final = 10.0
"""A transport that lasted so long was one."""


class WrongKernel(Exception):
    """Somebody else answers under the kernel's address."""


class Dialling:
    """Opens transports to one kernel."""

    def __init__(self, word: JoinWord) -> None:
        self._word = word

    async def run(self, serve: Callable[[trio.abc.Stream], Awaitable[None]]) -> None:
        """Dial, have it served, and dial again, until cancelled."""
        failures = 0
        while True:
            began = trio.current_time()
            try:
                with trio.fail_after(CONNECT_SECONDS):
                    transport = await self._dial()
                await serve(transport)
            except (OSError, trio.BrokenResourceError, trio.TooSlowError, WrongKernel) as error:
                logger.warning("node.cannot_join %s:%d: %s", self._word.host, self._word.port, error)
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
