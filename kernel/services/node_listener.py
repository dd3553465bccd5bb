"""Listener for nodes that connect to the kernel: TLS with a self-signed certificate, and a token for each node.

It listens only if a node joins, and on this machine's own address unless the project file sets another one. The join
token contains the certificate's SHA-256, so a node connects to no other server and reveals its token to none. A client
without a valid token learns nothing about nodes or the reason for its rejection.
"""

import hashlib
import hmac
import logging
import os
import socket
import ssl
import stat
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
import trio

from kernel.agents.sections import ListenAddress
from osfiles.atomic_write import replacing
from protocol.node import JOIN_LINE_BYTES, JoinToken

logger = logging.getLogger(__name__)

FILE: Final = "certificate.pem"
NAME: Final = "agent-worker"
_FOREVER: Final = datetime(9999, 12, 31, tzinfo=UTC)
"""A node only compares the SHA-256; the dates do not matter."""
_BEGIN: Final = datetime(2020, 1, 1, tzinfo=UTC)


def certificate_in(folder: Path) -> tuple[str, str]:
    """Return the path of the certificate with its key, and its SHA-256 in hex; create it if it is missing.

    Blocks. A file that others can read is replaced, which invalidates existing join tokens.
    """
    path = folder / FILE
    found = _private_text(path)
    if found is None:
        with replacing(path, beside=path.with_suffix(".new")) as file:
            file.write(_new())
        found = path.read_text("ascii")
    body = found[found.index("-----BEGIN CERTIFICATE-----") :]
    return str(path), hashlib.sha256(ssl.PEM_cert_to_DER_cert(body)).hexdigest()


def _private_text(path: Path) -> str | None:
    try:
        info = os.lstat(path)
        if not stat.S_ISREG(info.st_mode) or info.st_uid != os.geteuid() or info.st_mode & 0o077:
            return None
        text = path.read_text("ascii")
    except (OSError, ValueError):
        return None
    return text if "-----BEGIN CERTIFICATE-----" in text and "PRIVATE KEY-----" in text else None


def _new() -> bytes:
    # Takes a tenth of a second, only in kernels with such nodes.
    from cryptography import x509  # noqa: PLC0415
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415
    from cryptography.x509.oid import NameOID  # noqa: PLC0415

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_BEGIN)
        .not_valid_after(_FOREVER)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private + made.public_bytes(serialization.Encoding.PEM)


FOLDER: Final = "nodes"
"""Folder in the state directory."""
PORT: Final = "port"
"""File with the last port, which the next kernel reuses if it is free, so that join tokens remain valid."""
HANDSHAKE_SECONDS: Final = 10.0
MOST_STRANGERS: Final = 32
"""Maximum connections without a token; the oldest is closed for a new one.

Authentication takes a few round trips: only hundreds of strangers per second could lock out a node.
"""
REFUSALS_MS: Final = 60_000
_EVERYWHERE: Final = ("0.0.0.0", "::")  # noqa: S104  (compared with, not listened at)


class NodeListener(msgspec.Struct, eq=False, kw_only=True):
    """Accepts nodes with a valid token."""

    address: ListenAddress
    folder: Path
    """Folder in the state directory."""
    digests: Callable[[], Mapping[str, bytes]]
    """Returns the SHA-256 of each node's token."""
    carry: Callable[[str, trio.abc.Stream], Awaitable[None]]
    """Serves a node's connection until it ends."""
    now_ms: Callable[[], int]
    listens: trio.Event = msgspec.field(default_factory=trio.Event)
    port: int = 0
    _sha256: str = ""
    _strangers: dict[trio.SocketStream, trio.CancelScope] = {}
    """Unauthenticated connections, oldest first."""
    _refused: int = 0
    _refused_since_ms: int = 0

    def join_token(self, node: str, token: str, host: str | None) -> str:
        """Return the join token of a node; ``host`` is the address of this machine as seen from the node."""
        own = socket.gethostname() if self.address.host in _EVERYWHERE else self.address.host
        return JoinToken(host=host or own, port=self.port, sha256=self._sha256, token=token, node=node).encode()

    async def run(self) -> None:
        """Accept nodes until cancelled; log and retry if the port is not available."""
        self.folder.mkdir(mode=0o700, exist_ok=True)
        path, self._sha256 = await trio.to_thread.run_sync(certificate_in, self.folder)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.load_cert_chain(path)
        while True:
            try:
                listeners = await self._open()
                break
            except OSError as error:
                logger.warning("nodes.port %s:%d is not available: %s", *self.address, error.strerror)
                await trio.sleep(HANDSHAKE_SECONDS)
        self.port = int(listeners[0].socket.getsockname()[1])
        kept = self.folder / PORT
        with suppress(OSError):
            kept.write_text(f"{self.port}\n", "ascii")
            os.chmod(kept, 0o600)
        logger.info("nodes.listening %s:%d", self.address.host, self.port)
        self.listens.set()
        async with trio.open_nursery() as nursery:
            let_in: Callable[[trio.SocketStream], Awaitable[None]] = partial(self._let_in, context)
            await trio.serve_listeners(let_in, listeners, handler_nursery=nursery)

    async def _open(self) -> list[trio.SocketListener]:
        host, port = self.address
        if port == 0:
            with suppress(OSError, ValueError):  # prefer the last port
                last = int((self.folder / PORT).read_text("ascii"))
                return await trio.open_tcp_listeners(last, host=host)
        return await trio.open_tcp_listeners(port, host=host)

    async def _let_in(self, context: ssl.SSLContext, plain: trio.SocketStream) -> None:
        node: str | None = None
        if len(self._strangers) >= MOST_STRANGERS:
            self._strangers.pop(next(iter(self._strangers))).cancel()
        # The TLS stream ends together with the plain one.
        stream = trio.SSLStream(plain, context, server_side=True, https_compatible=True)
        try:
            with trio.move_on_after(HANDSHAKE_SECONDS) as self._strangers[plain]:
                try:
                    node = await self._identify(stream)
                finally:
                    self._strangers.pop(plain, None)
            if node is not None:
                await self.carry(node, stream)
        except (trio.BrokenResourceError, trio.ClosedResourceError, ssl.SSLError) as error:
            logger.debug("nodes.connection_broke %r", error)
        except Exception:
            logger.exception("nodes.connection_failed")
        if node is None:
            self._note_refusal()

    async def _identify(self, stream: "trio.SSLStream[trio.SocketStream]") -> str | None:
        line = bytearray()
        while not line.endswith(b"\n"):
            if len(line) >= JOIN_LINE_BYTES:
                return None
            byte = await stream.receive_some(1)
            if not byte:
                return None
            line += byte
        shown = hashlib.sha256(bytes(line[:-1])).digest()
        found: str | None = None
        for name, digest in self.digests().items():
            if hmac.compare_digest(digest, shown):
                found = name
        return found

    def _note_refusal(self) -> None:
        self._refused += 1
        now_ms = self.now_ms()
        if now_ms - self._refused_since_ms >= REFUSALS_MS:
            logger.warning("nodes.refused %d connections without a valid token", self._refused)
            self._refused, self._refused_since_ms = 0, now_ms
