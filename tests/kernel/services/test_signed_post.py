"""Deliveries over https, against a server on loopback whose certificates are of an authority made here."""

import ipaddress
import ssl
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
import trio
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kernel.services import signed_post
from kernel.services.signed_post import Asked, Unreached, post

pytestmark = pytest.mark.promise("P60")

NOW = datetime.now(UTC)
LOOPBACK = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))


class Authority:
    """An authority that this machine believes, or not, and its certificates."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        made = self._begun(self._name, self._key, NOW + timedelta(days=1))
        made = made.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        self.file = folder / f"{name}.pem"
        self.file.write_bytes(made.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))

    def _begun(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, until: datetime) -> x509.CertificateBuilder:
        builder = x509.CertificateBuilder(self._name, subject, key.public_key(), x509.random_serial_number())
        return builder.not_valid_before(NOW - timedelta(days=2)).not_valid_after(until)

    def server(self, of: x509.GeneralName, until: datetime = NOW + timedelta(days=1)) -> ssl.SSLContext:
        """What a server shows: a certificate of the name or address ``of``."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a server")])
        made = self._begun(subject, key, until).add_extension(x509.SubjectAlternativeName([of]), critical=False)
        form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        file = self._folder / f"{key.public_key().public_numbers().x}.pem"
        certificate = made.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        file.write_bytes(key.private_bytes(*form) + certificate)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(file)
        return context


@pytest.fixture
def believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Authority]:
    """An authority that is among those of the machine."""
    authority = Authority(tmp_path, "believed")
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    signed_post.tls_context.cache_clear()
    yield authority
    signed_post.tls_context.cache_clear()


Serve = Callable[[ssl.SSLContext], Awaitable[int]]


@pytest.fixture
def got() -> list[bytes]:
    """What the server has read."""
    return []


@pytest.fixture
async def serve(nursery: trio.Nursery, got: list[bytes]) -> Serve:
    """Starts a server; gives its port."""

    async def answer(stream: trio.SSLStream[trio.SocketStream]) -> None:
        try:
            got.append(bytes(await stream.receive_some(65536)))
            await stream.send_all(b"HTTP/1.1 204 No Content\r\n\r\n")
        except (trio.BrokenResourceError, ssl.SSLError):
            pass  # the client did not like what it was shown

    async def start(context: ssl.SSLContext) -> int:
        serving = partial(trio.serve_ssl_over_tcp, answer, 0, context, host="127.0.0.1")
        (listener,) = await nursery.start(serving)
        return int(listener.transport_listener.socket.getsockname()[1])

    return start


async def told(port: int, host: str = "127.0.0.1") -> int:
    """The status that a delivery is answered with."""
    return await post(Asked(f"https://{host}:{port}/path", {"X-One": "1"}, b"{}"), lambda _address: True)


@pytest.mark.parametrize(("host", "of"), [("127.0.0.1", LOOPBACK), ("localhost", x509.DNSName("localhost"))])
async def test_a_server_that_proves_its_name_is_told(
    believed: Authority, serve: Serve, got: list[bytes], host: str, of: x509.GeneralName
) -> None:
    port = await serve(believed.server(of))
    assert await told(port, host) == 204
    assert got[0].startswith(b"POST /path HTTP/1.1\r\n")
    assert f"Host: {host}:{port}\r\n".encode() in got[0]


async def test_a_wrong_certificate_is_refused_before_anything_is_said(
    believed: Authority, serve: Serve, got: list[bytes], tmp_path: Path
) -> None:
    wrong = {
        "mismatch": believed.server(x509.DNSName("elsewhere.example")),
        "expired": believed.server(LOOPBACK, NOW - timedelta(days=1)),
        "self-signed|self signed|unable to get": Authority(tmp_path, "unknown").server(LOOPBACK),
    }
    for why, shown in wrong.items():
        with pytest.raises(Unreached, match=why):
            await told(await serve(shown))
    with pytest.raises(Unreached):
        await post(
            Asked(f"http://127.0.0.1:{await serve(believed.server(LOOPBACK))}/", {}, b"{}"), lambda _address: True
        )
    assert got == []
