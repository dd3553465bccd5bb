"""Hooks out, against receivers that are real servers on loopback; time is the test's."""

import ipaddress
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kernel.agents.catalog import Catalog
from kernel.agents.sections import outgoing_unit
from kernel.agents.trust import UNTRUSTED, ProjectTrust, TrustedFiles
from kernel.policy.webhooks import PAUSES_SECONDS, Signed, is_genuine, key_of
from kernel.services import signed_post
from kernel.services.signed_post import PostRequest, Unreached, post
from kernel.services.webhooks import WAKING, Webhooks
from kernel.store import feed
from kernel.store.database import MEMORY, Reader
from kernel.store.feed import Feed
from kernel.store.transaction import emit_log
from kernel.store.webhooks import standing
from kernel.store.writer import StoreLog, Writer
from protocol.trust import TrustUnit
from tests.builders.api import kept
from tests.kernel.store.migrated import open_migrated
from tests.shorthand import running

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
START_MS = 1_700_000_000_000


async def listen(nursery: trio.Nursery, serve: Callable[[trio.SocketStream], Awaitable[None]]) -> int:
    (listener,) = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
    return int(listener.socket.getsockname()[1])


@dataclass
class Receiver:
    """A server that answers with ``status`` and keeps what was posted."""

    url: str
    status: int = 200
    got: list[Signed] = field(default_factory=list)
    arrived: trio.Event = field(default_factory=trio.Event)
    seen: Callable[[], None] = lambda: None
    """Called before it answers."""

    async def serve(self, stream: trio.SocketStream) -> None:
        data = b""
        while b"\r\n\r\n" not in data:
            data += await stream.receive_some(65536)
        head, _, body = data.partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        fields = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
        while len(body) < int(fields["content-length"]):
            body += await stream.receive_some(65536)
        signed = (fields["webhook-id"], fields["webhook-timestamp"], fields["webhook-signature"])
        self.got.append(Signed(*signed, body))
        self.seen()
        location = "Location: http://127.0.0.1:1/\r\n" if self.status in (301, 307) else ""
        await stream.send_all(f"HTTP/1.1 {self.status} X\r\n{location}Content-Length: 0\r\n\r\n".encode())
        self.arrived.set()

    @property
    def bodies(self) -> list[Any]:
        return [msgspec.json.decode(one.body) for one in self.got]


@dataclass
class Bench:
    """A store with one service, and a clock."""

    root: Path
    reader: Reader
    writer: Writer
    service: Webhooks
    grants: list[TrustUnit]
    nursery: trio.Nursery
    clock: list[int]
    catalog: Catalog

    async def receiver(self, status: int = 200) -> Receiver:
        receiver = Receiver("", status)
        port = await listen(self.nursery, receiver.serve)
        receiver.url = f"http://127.0.0.1:{port}/in?a=b"
        return receiver

    async def hooked(self, status: int = 200, events: str = "['*']") -> Receiver:
        """A server whose webhook has its place in the log."""
        receiver = await self.receiver(status)
        self.write(receiver.url, events=events)
        await self.look()
        return receiver

    def write(self, *urls: str, events: str = "['*']", private: bool = True, trusted: bool = True) -> None:
        rows = "".join(
            f"  - {{url: '{url}', events: {events}, secret: $S, allow_private: {str(private).lower()}}}\n"
            for url in urls
        )
        (self.root / "moniro.yaml").write_text(f"webhooks:\n{rows}")
        self.grants[:] = map(outgoing_unit, self.catalog.project().webhooks) if trusted else []

    async def happen(self, type: str = "schedule.untrusted") -> None:
        await self.writer.commit(emit_log, type, data={"home": "x"})

    async def tell(self) -> None:
        """Have something happen, and look."""
        await self.happen()
        await self.look()

    async def look(self) -> None:
        """One turn of each webhook that may be used, to its end."""
        for digest, (hook, key) in (await self.service.usable()).items():
            while await self.service.turn(digest, hook, key):
                pass

    def told(self) -> list[tuple[str, Any]]:
        events = self.reader.now(feed.since, 0, 1000)
        return [(one.type, one.data) for one in events if one.type.startswith("webhook.")]


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    database, published, clock, grants = open_migrated(MEMORY), Feed(), [START_MS], list[TrustUnit]()
    writer = Writer(database=database, clock_ms=lambda: clock[0], publish=published.publish)
    reader, catalog = Reader(database=database), Catalog(tmp_path)
    service = Webhooks(
        log=StoreLog(reader, writer, lambda: clock[0]),
        files=TrustedFiles(catalog, {"S": SECRET}, ProjectTrust(kept=lambda: kept(grants))),
        wake=published.new_wake(WAKING),
        url="http://kernel",
        project="ab12",
    )
    with trio.fail_after(30):
        async with running(writer.run) as nursery:
            yield Bench(tmp_path, reader, writer, service, grants, nursery, clock, catalog)
    database.close()


@pytest.mark.promise("P60")
async def test_what_happens_is_told_once_in_order_and_signed(bench: Bench) -> None:
    receiver = await bench.receiver()
    await bench.happen()
    bench.write(receiver.url)
    await bench.look()
    for _ in range(25):
        await bench.tell()
    await bench.look()
    assert [one["data"]["ids"]["event"] for one in receiver.bodies] == list(range(2, 27))
    assert len({one.id for one in receiver.got}) == 25
    assert all(is_genuine(key_of(SECRET) or b"", one, START_MS // 1000) for one in receiver.got)


@pytest.mark.promise("P60")
async def test_only_the_events_that_were_chosen_are_told(bench: Bench) -> None:
    receiver = await bench.hooked(events="[worker.log, approval.rule]")
    for name in ("schedule.untrusted", "worker.log", "schedule.untrusted", "approval.rule"):
        await bench.happen(name)
    await bench.look()
    assert [one["type"] for one in receiver.bodies] == ["worker.log", "approval.rule"]


@pytest.mark.promise("P60")
async def test_a_failed_delivery_is_tried_again_by_the_table_and_holds_up_no_other(bench: Bench) -> None:
    receiver = await bench.hooked(500)
    await bench.tell()
    (failed,) = bench.told()
    assert (failed[0], failed[1]["why"], failed[1]["again_seconds"]) == ("webhook.failed", "status 500", 5)
    receiver.status = 200
    await bench.tell()
    assert [one["data"]["ids"]["event"] for one in receiver.bodies] == [1, 3]
    bench.clock[0] += 4_999
    await bench.look()
    assert len(receiver.got) == 2
    bench.clock[0] += 1
    await bench.look()
    await bench.look()
    assert [one["data"]["ids"]["event"] for one in receiver.bodies] == [1, 3, 1]
    assert receiver.got[0].id == receiver.got[2].id
    assert is_genuine(key_of(SECRET) or b"", receiver.got[2], bench.clock[0] // 1000)


@pytest.mark.promise("P60")
async def test_events_behind_a_failed_one_of_a_batch_are_delivered(bench: Bench) -> None:
    receiver = await bench.hooked(500, events="[schedule.untrusted]")
    for _ in range(3):
        await bench.happen()
    for digest, (hook, key) in (await bench.service.usable()).items():
        assert await bench.service.turn(digest, hook, key)
    receiver.status = 200
    await bench.look()
    bench.clock[0] += 5_000
    await bench.look()
    assert [one["data"]["ids"]["event"] for one in receiver.bodies] == [1, 2, 3, 1]


@pytest.mark.promise("P60")
async def test_a_kernel_that_dies_in_a_batch_repeats_one_delivery_at_most(bench: Bench) -> None:
    receiver = await bench.hooked(events="[schedule.untrusted]")
    [digest] = await bench.service.usable()
    cursors: list[int] = []
    receiver.seen = lambda: cursors.append(getattr(bench.reader.now(standing, digest, 0), "cursor", -1))
    for _ in range(5):
        await bench.tell()
    assert cursors == [0, 1, 2, 3, 4]


@pytest.mark.promise("P60")
async def test_after_the_last_try_it_is_given_up_and_told(bench: Bench) -> None:
    receiver = await bench.hooked(503, events="[schedule.untrusted]")
    await bench.tell()
    for pause in PAUSES_SECONDS:
        bench.clock[0] += pause * 1000
        await bench.look()
    bench.clock[0] += 10**9
    await bench.look()
    assert len(receiver.got) == 9
    assert [(name, data["tries"], data["again_seconds"]) for name, data in bench.told()] == [
        ("webhook.failed", 1, 5),
        ("webhook.failed", 9, None),
    ]


@pytest.mark.promise("P60")
async def test_a_failed_delivery_of_a_deleted_event_is_given_up(bench: Bench) -> None:
    receiver = await bench.hooked(500, events="[schedule.untrusted]")
    await bench.tell()
    receiver.status = 200
    await bench.tell()
    await bench.writer.commit(lambda tx: tx.conn.execute("DELETE FROM events WHERE seq = 1"))
    bench.clock[0] += 5_000
    await bench.look()
    assert [one["data"]["ids"]["event"] for one in receiver.bodies] == [1, 3]
    assert bench.told()[-1][1]["why"] == "the event was deleted"


@pytest.mark.promise("P60")
async def test_410_ends_a_webhook_until_its_entry_is_another(bench: Bench) -> None:
    receiver = await bench.hooked(500)
    for receiver.status in (500, 410, 410):
        await bench.tell()
    assert len(receiver.got) == 2
    [digest] = await bench.service.usable()
    ended = bench.reader.now(standing, digest, 0)
    assert ended is not None and (ended.disabled, ended.waiting) == (True, 0)
    _failed, (name, data) = bench.told()
    assert (name, data["host"]) == ("webhook.disabled", receiver.url.removesuffix("/in?a=b"))
    receiver.status = 200
    bench.write(receiver.url, events="[schedule.untrusted]")
    await bench.look()
    await bench.tell()
    assert len(receiver.got) == 3


@pytest.mark.promise("P60", "P19")
async def test_what_is_not_trusted_is_not_told_and_has_no_place_in_the_log(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    receiver = await bench.receiver()
    bench.write(receiver.url, trusted=False)
    await bench.look()
    await bench.tell()
    assert receiver.got == []
    assert [one.split(": ", 1)[1] for one in caplog.messages] == [UNTRUSTED]
    assert bench.reader.now(standing, outgoing_unit(bench.catalog.project().webhooks[0]).digest, 0) is None


@pytest.mark.promise("P60")
async def test_deliveries_wait_while_the_kernel_lacks_the_secret(bench: Bench) -> None:
    """A kernel may be started from a shell without the variable; the next one with it delivers everything."""
    receiver = await bench.hooked(503)
    await bench.tell()
    files, bench.service.files = bench.service.files, TrustedFiles(bench.catalog, {}, bench.service.files.trust)
    await bench.tell()
    receiver.status, bench.service.files = 200, files
    bench.clock[0] += PAUSES_SECONDS[0] * 1000
    receiver.got.clear()
    await bench.look()
    assert len(receiver.got) == 2, "the failed one and the one that happened meanwhile"


async def test_an_address_of_this_machine_is_not_reached_unless_it_may_be(bench: Bench) -> None:
    receiver = await bench.receiver()
    bench.write(receiver.url, receiver.url.replace("127.0.0.1", "localhost"), private=False)
    await bench.look()
    await bench.tell()
    assert receiver.got == []
    assert ["allow_private" in data["why"] for _, data in bench.told()] == [True, True]


@pytest.mark.promise("P60")
async def test_every_address_of_a_name_is_judged_and_a_judged_one_is_reached(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that answers otherwise the next time, or with one private address of two, gets nowhere."""
    receiver = await bench.receiver()
    port = int(receiver.url.split(":")[2].partition("/")[0])
    answers = [["127.0.0.1"], ["127.0.0.1", "10.0.0.1"]]
    asked: list[str] = []

    async def resolve(host: str, port: int, **_named: Any) -> list[Any]:
        asked.append(host)
        return [(trio.socket.AF_INET, trio.socket.SOCK_STREAM, 6, "", (one, port)) for one in answers.pop(0)]

    monkeypatch.setattr(trio.socket, "getaddrinfo", resolve)
    fields = {"webhook-id": "a", "webhook-timestamp": "1", "webhook-signature": "v1,x"}
    request = PostRequest(f"http://rebinding.example:{port}/", fields, b"{}")
    assert await post(request, lambda address: address == "127.0.0.1") == 200
    assert asked == ["rebinding.example"]
    with pytest.raises(Unreached, match="allow_private"):
        await post(request, lambda address: address == "127.0.0.1")
    assert len(receiver.got) == 1


@pytest.mark.promise("P60")
async def test_a_redirect_is_a_failure(bench: Bench) -> None:
    await bench.hooked(307)
    await bench.tell()
    assert [data["why"] for _, data in bench.told()] == ["status 307"]


async def test_who_does_not_answer_or_answers_nonsense_fails(bench: Bench) -> None:
    async def nonsense(stream: trio.SocketStream) -> None:
        await stream.receive_some(65536)
        await stream.send_all(b"hello\r\n\r\n")

    port = await listen(bench.nursery, nonsense)
    for number, why in ((1, "Refused"), (port, "not HTTP")):
        with pytest.raises(Unreached, match=why):
            await post(PostRequest(f"http://127.0.0.1:{number}/", {}, b"{}"), lambda _address: True)


@pytest.mark.promise("P60")
async def test_a_running_service_tells_what_happens_and_a_slow_server_holds_up_only_itself(bench: Bench) -> None:
    """The other webhook is told while one never answers."""

    async def silent(stream: trio.SocketStream) -> None:
        await stream.receive_some(65536)
        await trio.sleep_forever()

    port = await listen(bench.nursery, silent)
    receiver = await bench.receiver()
    bench.write(f"http://127.0.0.1:{port}/", receiver.url)
    await bench.look()
    bench.nursery.start_soon(bench.service.run)
    for number in (1, 2):
        receiver.arrived = trio.Event()
        await bench.happen()
        await receiver.arrived.wait()
        assert [one["data"]["ids"]["event"] for one in receiver.bodies] == list(range(1, number + 1))


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
    return []


@pytest.fixture
async def serve(nursery: trio.Nursery, got: list[bytes]) -> Serve:
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
    return await post(PostRequest(f"https://{host}:{port}/path", {"X-One": "1"}, b"{}"), lambda _address: True)


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
            PostRequest(f"http://127.0.0.1:{await serve(believed.server(LOOPBACK))}/", {}, b"{}"), lambda _address: True
        )
    assert got == []
