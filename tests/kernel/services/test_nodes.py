"""Nodes as the kernel keeps them: sessions over engines that are real commands, and a far side that is the test's."""

import os
import ssl
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, cast

import pytest
import trio

from kernel.agents.catalog import Catalog
from kernel.agents.sections import node_units
from kernel.agents.trust import ProjectTrust, TrustedFiles
from kernel.policy import node_states
from kernel.policy.node_states import NodeState
from kernel.procs.node.session import NodeRefused, NodeSession
from kernel.procs.spec import SpawnTransient
from kernel.services import node_listener
from kernel.services.node_listener import certificate_in
from kernel.services.nodes import Nodes, NodeScaling
from kernel.store import feed
from kernel.store.database import MEMORY, Reader
from kernel.store.feed import Feed
from kernel.store.writer import StoreLog, Writer
from protocol.errors import Refused
from protocol.node import JoinToken, NodeFacts, decode_join_token
from protocol.project import NodeSettings
from protocol.trust import TrustUnit
from tests.builders.api import kept
from tests.kernel.store.migrated import open_migrated
from tests.shorthand import present, running

SECONDS = 10.0
START_MS = 1_700_000_000_000
ECHO = "[sh, -c, exec cat]"
ONCE = "[ -e seen ] && exec cat; touch seen; read line; echo once"


class FakeSession:
    """A session that is up once the far side repeats its greeting, and whose lease is over when the test says so."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.facts: NodeFacts | None = None
        self.connected = trio.Event()
        self.ended = False
        self.runs = 0
        self.refuses = False
        self.fails: Exception | None = None
        """What is raised where nobody thought of it, once."""
        self._speaking = trio.CancelScope()
        self._lost = trio.Event()

    def lose(self) -> None:
        """Have the lease be over."""
        self._speaking.cancel()
        self._lost.set()

    async def fence(self) -> bool:
        if self.connected.is_set():
            await self._lost.wait()
        return self.connected.is_set()

    def end(self) -> None:
        self.ended = True

    async def speak(self, transport: trio.abc.Stream, connected: Callable[[], None]) -> None:
        self.runs += 1
        with self._speaking:
            async with transport:
                failure, self.fails = self.fails, None
                if failure is not None:
                    raise failure
                try:
                    await transport.send_all(b"hello\n")
                    heard = await transport.receive_some(100)
                    if self.refuses:
                        raise NodeRefused("it is of another version")
                    if heard:
                        self.facts = NodeFacts(cpus=2)
                        self.connected.set()
                        connected()
                        while heard:
                            heard = await transport.receive_some(100)
                except (trio.BrokenResourceError, trio.ClosedResourceError, ssl.SSLError):
                    return


@dataclass
class Bench:
    """A store, a project, and the service over them."""

    root: Path
    reader: Reader
    catalog: Catalog
    service: Nodes
    grants: list[TrustUnit]
    sessions: dict[str, list[FakeSession]]
    running: dict[str, int]
    refusing: set[str]
    """Nodes that refuse."""
    failing: dict[str, Exception]
    """What is raised once where a node is spoken with."""

    def write(self, text: str, *, trusted: bool = True) -> None:
        (self.root / "moniro.yaml").write_text(text)
        self.grants[:] = node_units(self.catalog.project(), self.root) if trusted else []

    async def until(self, name: str, holds: Callable[[NodeState], bool]) -> NodeState:
        seen: NodeState | None = None
        with trio.move_on_after(SECONDS):
            while True:
                seen = {one.name: one for one in self.service.states()}.get(name)
                if seen is not None and holds(seen):
                    return seen
                await self.service.until_changed()
        raise AssertionError(f"{name} stays {seen}")

    async def told(self, *expected: str) -> None:
        told: list[str] = []
        with trio.move_on_after(SECONDS):
            while True:
                events = self.reader.now(feed.since, 0, 1000)
                told = [str(one.data["state"]) for one in events if one.type == "node.changed"]
                if told == list(expected):
                    return
                await self.service.until_changed()
        raise AssertionError(told)


@pytest.fixture
async def bench(tmp_path: Path, nursery: trio.Nursery) -> AsyncIterator[Bench]:
    database, published, grants = open_migrated(MEMORY), Feed(), list[TrustUnit]()
    writer = Writer(database=database, clock_ms=lambda: START_MS, publish=published.publish)
    reader, catalog = Reader(database=database), Catalog(tmp_path)
    sessions: dict[str, list[FakeSession]] = {}

    def new_session(name: str, project: str, hello_seconds: float) -> NodeSession:
        assert project and hello_seconds > 0
        sessions.setdefault(name, []).append(FakeSession(name))
        sessions[name][-1].refuses = name in refusing
        sessions[name][-1].fails = failing.pop(name, None)
        return cast("NodeSession", sessions[name][-1])

    running: dict[str, int] = {}
    refusing = set[str]()
    failing: dict[str, Exception] = {}

    def at_work() -> Mapping[str, int]:
        return running

    service = Nodes(
        log=StoreLog(reader, writer, lambda: START_MS),
        files=TrustedFiles(catalog, {"PATH": "/usr/bin:/bin"}, ProjectTrust(kept=lambda: kept(grants))),
        state_dir=tmp_path,
        new_session=new_session,
        chance=lambda: 0.0,
        scaling=NodeScaling(reader, lambda: START_MS),
        running=at_work,
    )
    await nursery.start(writer.run)
    yield Bench(tmp_path, reader, catalog, service, grants, sessions, running, refusing, failing)
    nursery.cancel_scope.cancel()


def echo(name: str = "a", **more: object) -> str:
    """A project file with a node whose far side repeats what it is told."""
    extra = "".join(f", {key}: {value}" for key, value in more.items())
    return f"nodes:\n  {name}: {{via: command, argv: {ECHO}, labels: [gpu]{extra}}}\n"


async def test_a_node_of_the_file_comes_up_and_says_so(bench: Bench, nursery: trio.Nursery) -> None:
    bench.write(echo(workers=3))
    await nursery.start(bench.service.run)
    state = await bench.until("a", lambda one: one.state == "up")
    assert (state.labels, state.workers, state.why) == (("gpu",), 3, None)
    assert bench.service.facts("a") == NodeFacts(cpus=2)
    await bench.told("up")


@pytest.mark.promise("P19")
async def test_a_node_that_nobody_trusts_is_off_and_nothing_is_run(bench: Bench, nursery: trio.Nursery) -> None:
    bench.write(echo(), trusted=False)
    await nursery.start(bench.service.run)
    state = await bench.until("a", lambda one: one.state == "off")
    assert "awk trust" in (state.why or "")
    assert not bench.sessions
    with pytest.raises(SpawnTransient):
        bench.service.launcher("a")


async def test_a_program_of_the_project_that_was_changed_is_not_run_again(bench: Bench, nursery: trio.Nursery) -> None:
    """Looked at before each transport, not only now and then: an agent may be able to write there."""
    tunnel = bench.root / "tunnel"
    os.mkfifo(bench.root / "gate")
    tunnel.write_text("#!/bin/sh\necho once\nread line <gate\n")
    tunnel.chmod(0o700)
    bench.write("nodes: {a: {via: command, argv: [./tunnel]}}")
    await nursery.start(bench.service.run)
    await bench.until("a", lambda one: one.state == "up")
    changed = bench.root / "changed"
    changed.write_text("#!/bin/sh\ntouch stolen\n")
    changed.chmod(0o700)
    changed.rename(tunnel)
    await trio.to_thread.run_sync((bench.root / "gate").write_text, "go\n")
    await bench.until("a", lambda one: one.state != "up")
    bench.sessions["a"][0].lose()
    seen = await bench.until("a", lambda one: one.state == "off")
    assert "not trusted" in (seen.why or "") and not (bench.root / "stolen").exists()


async def test_a_program_that_is_not_there_is_named(bench: Bench, nursery: trio.Nursery) -> None:
    bench.write("nodes: {a: {via: command, argv: [no-such-program-at-all]}}")
    await nursery.start(bench.service.run)
    state = await bench.until("a", lambda one: one.why is not None)
    assert (state.state, "no-such-program-at-all" in (state.why or "")) == ("connecting", True)


async def test_the_last_words_of_a_program_say_why(bench: Bench, nursery: trio.Nursery) -> None:
    program = "import sys; sys.stderr.write('first' + chr(10) + 'no ' + chr(27) + '[1mroute' * 200); sys.exit(3)"
    bench.write(f"nodes: {{a: {{via: command, argv: [{sys.executable}, '-c', {program!r}]}}}}".replace("\n", " "))
    await nursery.start(bench.service.run)
    state = await bench.until("a", lambda one: one.why is not None and "code 3" in one.why)
    assert state.why is not None
    assert "no  [1mroute" in state.why
    assert state.why.isprintable() and len(state.why) < 400


async def test_a_transport_that_breaks_is_opened_anew_once_its_lease_is_over(
    bench: Bench, nursery: trio.Nursery
) -> None:
    bench.write(f"nodes: {{a: {{via: command, argv: [sh, -c, '{ONCE}']}}}}")
    await nursery.start(bench.service.run)
    await bench.until("a", lambda one: one.state == "connecting" and bool(one.why))
    assert not bench.sessions["a"][0].ended
    bench.sessions["a"][0].lose()
    await bench.until("a", lambda one: one.state == "up")
    assert [one.runs for one in bench.sessions["a"]] == [1, 1]
    await bench.told("up", "lost", "up")


async def test_a_node_that_refuses_is_off_and_says_why(bench: Bench, nursery: trio.Nursery) -> None:
    bench.write(echo())
    bench.refusing.add("a")
    await nursery.start(bench.service.run)
    state = await bench.until("a", lambda one: one.state == "off" and one.why is not None)
    assert state.why == "it is of another version"
    assert bench.sessions["a"][0].runs == 1


async def test_what_nobody_thought_of_ends_one_transport_and_no_other_session(
    bench: Bench, nursery: trio.Nursery
) -> None:
    bench.write(echo("a") + echo("b").removeprefix("nodes:\n"))
    bench.failing["b"] = ValueError("bytes that nobody thought of")
    await nursery.start(bench.service.run)
    await bench.until("a", lambda one: one.state == "up")
    await bench.until("b", lambda one: one.state == "up")
    assert [len(bench.sessions[name]) for name in ("a", "b")] == [1, 2]


async def test_a_look_that_fails_ends_no_session(
    bench: Bench, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.write(echo("a"))
    await nursery.start(bench.service.run)
    await bench.until("a", lambda one: one.state == "up")
    looks, wanted = trio.Event(), Nodes.wanted

    def breaks(_service: Nodes) -> NoReturn:
        monkeypatch.setattr(Nodes, "wanted", wanted)
        looks.set()
        raise ValueError("what nobody thought of")

    monkeypatch.setattr(Nodes, "wanted", breaks)
    bench.write(echo("a") + echo("b").removeprefix("nodes:\n"))
    bench.service.look_again()
    with trio.fail_after(10):
        await looks.wait()
    bench.service.look_again()
    await bench.until("b", lambda one: one.state == "up")
    assert [len(bench.sessions[name]) for name in ("a", "b")] == [1, 1]


async def test_a_node_that_refuses_again_and_again_is_told_of_once(
    bench: Bench, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_states, "REFUSED_PAUSE_SECONDS", 0.01)
    bench.write(echo())
    bench.refusing.add("a")
    await nursery.start(bench.service.run)
    await bench.until("a", lambda _one: len(bench.sessions.get("a", ())) >= 3)
    await bench.told("off")
    bench.refusing.clear()
    await bench.until("a", lambda one: one.state == "up")
    await bench.told("off", "up")


async def test_a_drained_node_stays_connected_and_takes_nothing_new(bench: Bench, nursery: trio.Nursery) -> None:
    bench.write(echo())
    await nursery.start(bench.service.run)
    await bench.until("a", lambda one: one.state == "up")
    await bench.service.drain("a", draining=True)
    state = await bench.until("a", lambda one: one.state == "draining")
    assert state.state != "up"
    assert bench.sessions["a"][0].connected.is_set()
    await bench.service.drain("a", draining=False)
    await bench.until("a", lambda one: one.state == "up")
    with pytest.raises(Refused, match="node 'b' not found"):
        await bench.service.drain("b", draining=True)


async def test_a_node_is_added_by_hand_and_removed(bench: Bench, nursery: trio.Nursery) -> None:
    await nursery.start(bench.service.run)
    settings = NodeSettings(via="command", argv=("sh", "-c", "exec cat"))
    assert await bench.service.add("b", settings, None) is None
    await bench.until("b", lambda one: one.state == "up")
    with pytest.raises(Refused, match="node b already exists"):
        await bench.service.add("b", settings, None)
    bench.running["b"] = 2
    with pytest.raises(Refused, match="2 attempts run on it"):
        await bench.service.remove("b", force=False)
    await bench.service.remove("b", force=True)
    bench.sessions["b"][0].lose()
    with trio.fail_after(SECONDS):
        while bench.service.states():
            await bench.service.until_changed()


async def test_a_group_is_removed_as_a_whole(bench: Bench, nursery: trio.Nursery) -> None:
    await nursery.start(bench.service.run)
    settings = NodeSettings(via="command", argv=("sh", "-c", "exec cat"), least=2, most=2)
    await bench.service.add("g", settings, None)
    for name in ("g-1", "g-2"):
        await bench.until(name, lambda one: one.state == "up")
    with pytest.raises(Refused, match="g-1"):
        await bench.service.remove("g-1", force=True)
    await bench.service.remove("g", force=False)
    for name in ("g-1", "g-2"):
        bench.sessions[name][0].lose()
    with trio.fail_after(SECONDS):
        while bench.service.states():
            await bench.service.until_changed()


async def test_a_node_of_the_file_is_removed_there(bench: Bench, nursery: trio.Nursery) -> None:
    bench.write(echo())
    await nursery.start(bench.service.run)
    with pytest.raises(Refused, match="is defined in the project file"):
        await bench.service.remove("a", force=True)
    with pytest.raises(Refused, match="node 'a' is defined in the project file"):
        await bench.service.add("a", NodeSettings(via="command"), None)


async def dial(word: JoinToken, line: bytes) -> trio.SSLStream[trio.SocketStream]:
    """Dial home as a node does: the certificate is compared, nothing else of TLS is believed."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    stream = trio.SSLStream(await trio.open_tcp_stream(word.host, word.port), context)
    await stream.do_handshake()
    await stream.send_all(line)
    return stream


async def serve(stream: trio.SSLStream[trio.SocketStream]) -> None:
    try:
        with suppress(trio.BrokenResourceError):
            async for chunk in stream:
                await stream.send_all(chunk)
    finally:
        await trio.aclose_forcefully(stream)


@pytest.mark.promise("P87")
async def test_a_node_dials_home_with_its_word(
    bench: Bench, nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    """On this machine's own address, unless the file says another; the word pins the certificate that is kept."""
    caplog.set_level("INFO")
    await nursery.start(bench.service.run)
    text = await bench.service.add("c", NodeSettings(via="join"), None)
    word = decode_join_token(text or "")
    assert (word.host, word.node) == ("127.0.0.1", "c")
    assert (bench.root / "nodes" / "certificate.pem").stat().st_mode & 0o077 == 0
    first = await dial(word, word.line())
    nursery.start_soon(serve, first)
    await bench.until("c", lambda one: one.state == "up")
    again = await dial(word, word.line())
    nursery.start_soon(serve, again)
    await bench.until("c", lambda one: one.state == "connecting")
    bench.sessions["c"][0].lose()
    await bench.until("c", lambda one: one.state == "up" and len(bench.sessions["c"]) == 2)
    assert "c: replaced by a newer connection; if another machine uses the same join token" in caplog.text


@pytest.mark.promise("P87")
@pytest.mark.parametrize("line", [b"wrong-token-wrong-token\n", b"\n", b"x" * 4096, b"\x00\xff\n"])
async def test_who_has_no_token_is_told_nothing(bench: Bench, nursery: trio.Nursery, line: bytes) -> None:
    await nursery.start(bench.service.run)
    word = decode_join_token(await bench.service.add("c", NodeSettings(via="join"), "127.0.0.1") or "")
    stream = await dial(word, line)
    with trio.fail_after(SECONDS), suppress(trio.BrokenResourceError):
        assert await stream.receive_some(10) == b""
    await trio.aclose_forcefully(stream)
    assert bench.sessions["c"][0].runs == 0


@pytest.mark.promise("P87")
async def test_without_a_node_that_joins_there_is_no_port(bench: Bench, nursery: trio.Nursery) -> None:
    bench.write(echo())
    await nursery.start(bench.service.run)
    await bench.until("a", lambda one: one.state == "up")
    assert not (bench.root / "nodes").exists()
    assert bench.service.listener is None


async def test_the_word_of_a_node_goes_on_with_the_next_kernel(bench: Bench, nursery: trio.Nursery) -> None:
    async with running(bench.service.run):
        word = decode_join_token(await bench.service.add("c", NodeSettings(via="join"), None) or "")
    await nursery.start(bench.service.run)
    listener = present(bench.service.listener)
    with trio.fail_after(SECONDS):
        await listener.listens.wait()
    next_word = decode_join_token(listener.join_token("c", word.token, None))
    assert next_word == word


async def test_a_group_grows_with_the_work_that_waits_and_keeps_who_has_some() -> None:
    database = open_migrated(MEMORY)
    now = [0]
    scaling = NodeScaling(Reader(database=database), lambda: now[0])
    settings = NodeSettings(via="ray", least=1, most=4, workers=2)
    assert scaling.members("r", settings, (), {}) == ("r-1",)
    everybody = ("r-1", "r-2", "r-3")
    assert scaling.members("r", settings, everybody, {"r-3": 1}) == ("r-3", "r-1", "r-2"), "not given back at once"
    now[0] += 400_000
    assert scaling.members("r", settings, everybody, {"r-3": 1}) == ("r-3",)
    assert scaling.members("r", settings, everybody, {"r-2": 2, "r-3": 2}) == ("r-2", "r-3")
    assert scaling.members("r", settings, everybody, {"r-2": 1, "r-3": 1}) == ("r-2", "r-3"), "though one has room"


async def joining(bench: Bench, nursery: trio.Nursery) -> JoinToken:
    """A service that listens, and the word of a node that has not dialled."""
    await nursery.start(bench.service.run)
    return decode_join_token(await bench.service.add("c", NodeSettings(via="join"), None) or "")


@pytest.mark.promise("P87")
async def test_a_stranger_who_says_nothing_is_let_go(
    bench: Bench, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_listener, "HANDSHAKE_SECONDS", 0.05)
    word = await joining(bench, nursery)
    with trio.fail_after(SECONDS):
        async with await trio.open_tcp_stream(word.host, word.port) as plain:
            assert await plain.receive_some(10) == b""
        shaken = await dial(word, b"")
        with suppress(trio.BrokenResourceError):
            assert await shaken.receive_some(10) == b""
        await trio.aclose_forcefully(shaken)


@pytest.mark.promise("P87")
async def test_strangers_have_few_places_and_one_line_in_the_log(
    bench: Bench, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(node_listener, "MOST_STRANGERS", 2)
    word = await joining(bench, nursery)
    node = await dial(word, word.line())
    nursery.start_soon(serve, node)
    await bench.until("c", lambda one: one.state == "up")
    streams = [await trio.open_tcp_stream(word.host, word.port) for _ in range(7)]
    with trio.fail_after(SECONDS):
        for refused in streams[:5]:
            assert await refused.receive_some(10) == b""
    assert caplog.text.count("nodes.refused") == 1
    for stream in streams:
        await stream.aclose()
    assert {one.name: one.state for one in bench.service.states()} == {"c": "up"}


@pytest.mark.promise("P87")
async def test_strangers_who_stay_keep_no_node_out(
    bench: Bench, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_listener, "MOST_STRANGERS", 2)
    word = await joining(bench, nursery)
    streams = [await trio.open_tcp_stream(word.host, word.port) for _ in range(4)]
    with trio.fail_after(SECONDS):
        for stream in streams[:2]:  # the others have their places then
            assert await stream.receive_some(10) == b""
        node = await dial(word, word.line())
        nursery.start_soon(serve, node)
        await bench.until("c", lambda one: one.state == "up")
    for stream in streams:
        await stream.aclose()


async def test_a_door_that_cannot_be_opened_leaves_the_nodes_that_are_there(
    bench: Bench, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.write(echo())
    await nursery.start(bench.service.run)
    await bench.until("a", lambda one: one.state == "up")
    folder = bench.root / "nodes"
    folder.mkdir()
    broken = folder / "certificate.pem"
    broken.touch(mode=0o600)
    broken.write_text("-----BEGIN PRIVATE KEY-----\n-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    with monkeypatch.context() as short:
        short.setattr("kernel.services.nodes.LISTENS_SECONDS", 0.2)
        with pytest.raises(Refused, match="no port"):
            await bench.service.add("c", NodeSettings(via="join"), None)
    assert len(bench.sessions["a"]) == 1
    broken.unlink()
    assert await bench.service.add("d", NodeSettings(via="join"), None)
    await bench.until("a", lambda one: one.state == "up")
    assert len(bench.sessions["a"]) == 1


@pytest.mark.promise("P87")
async def test_another_word_ends_what_was_opened_with_the_one_before(bench: Bench, nursery: trio.Nursery) -> None:
    """Whoever has come by it: the administrator gives another one, and only that leads to a session."""
    bench.write("nodes: {c: {via: join}}")
    await nursery.start(bench.service.run)
    stolen = decode_join_token(await bench.service.add("c", NodeSettings(via="join"), None) or "")
    thief = await dial(stolen, stolen.line())
    with trio.fail_after(SECONDS):
        assert await thief.receive_some(100) == b"hello\n"
        await thief.send_all(b"hello\n")
    await bench.until("c", lambda one: one.state == "up")
    await bench.service.add("c", NodeSettings(via="join"), None)
    await bench.until("c", lambda one: "its join token was replaced" in (one.why or ""))
    with trio.fail_after(SECONDS), suppress(trio.BrokenResourceError):
        assert await thief.receive_some(100) == b""
    await trio.aclose_forcefully(thief)


@pytest.mark.promise("P87")
@pytest.mark.parametrize(("trusted", "host"), [(False, "127.0.0.1"), (True, "127.0.0.2")])
async def test_another_address_is_listened_at_only_where_it_is_trusted(
    bench: Bench, nursery: trio.Nursery, trusted: bool, host: str
) -> None:
    bench.write("nodes_listen: 127.0.0.2:0", trusted=trusted)
    word = await joining(bench, nursery)
    assert word.host == host
    stream = await dial(word, word.line())
    nursery.start_soon(serve, stream)
    await bench.until("c", lambda one: one.state == "up")


@pytest.mark.promise("P87")
async def test_a_word_that_was_taken_back_opens_nothing(bench: Bench, nursery: trio.Nursery) -> None:
    word = await joining(bench, nursery)
    await bench.service.remove("c", force=False)
    stream = await dial(word, word.line())
    with trio.fail_after(SECONDS), suppress(trio.BrokenResourceError):
        assert await stream.receive_some(10) == b""
    await trio.aclose_forcefully(stream)
    assert all(session.runs == 0 for session in bench.sessions["c"])


def test_a_certificate_that_others_could_read_is_not_used_again(tmp_path: Path) -> None:
    """Another one takes its place; one that only we read is kept, byte by byte."""
    path, sha256 = certificate_in(tmp_path)
    assert certificate_in(tmp_path) == (path, sha256)
    Path(path).chmod(0o644)
    _, other = certificate_in(tmp_path)
    assert other != sha256
    Path(path).write_text("nonsense")
    assert certificate_in(tmp_path)[1] not in (sha256, other)
    assert Path(path).stat().st_mode & 0o077 == 0


async def test_a_node_that_is_trusted_no_more_takes_nothing_and_is_left_after_its_lease(
    bench: Bench, nursery: trio.Nursery
) -> None:
    bench.write(echo())
    await nursery.start(bench.service.run)
    await bench.until("a", lambda one: one.state == "up")
    bench.grants.clear()
    bench.service.look_again()
    await bench.until("a", lambda one: one.state == "connecting")
    assert not bench.sessions["a"][0].ended
    bench.sessions["a"][0].lose()
    state = await bench.until("a", lambda one: one.state == "off")
    assert "awk trust" in (state.why or "")
    assert len(bench.sessions["a"]) == 1


@pytest.mark.promise("P87")
async def test_a_node_of_the_file_that_joins_is_off_until_it_has_a_word(bench: Bench, nursery: trio.Nursery) -> None:
    bench.write("nodes: {j: {via: join, labels: [eu]}}")
    await nursery.start(bench.service.run)
    await bench.until("j", lambda one: one.state == "off" and "awk node add j --join" in (one.why or ""))
    first = decode_join_token(await bench.service.add("j", NodeSettings(via="join"), None) or "")
    second = decode_join_token(await bench.service.add("j", NodeSettings(via="join"), None) or "")
    await bench.until("j", lambda one: one.state == "connecting" and one.labels == ("eu",))
    late = await dial(first, first.line())
    with trio.fail_after(SECONDS), suppress(trio.BrokenResourceError):
        assert await late.receive_some(10) == b""
    await trio.aclose_forcefully(late)
    stream = await dial(second, second.line())
    nursery.start_soon(serve, stream)
    await bench.until("j", lambda one: one.state == "up")
