"""A node that dials home: over TLS, to the kernel whose certificate it was given, and to nobody else."""

import ssl
import subprocess
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import msgspec
import pytest
import trio

from kernel.procs.node.host import Dialling
from kernel.procs.node.session import NodeSession
from kernel.services.node_listener import certificate_in
from protocol.node import JoinToken
from tests.kernel.procs.node.far_node import PROJECT, FarNode
from tests.kernel.procs.trees import PATIENCE, within

TOKEN = "t" * 43


class Home:
    """Where a node dials: each connection is served by ``serve``."""

    def __init__(self, word: JoinToken) -> None:
        self.word = word
        self.serve: Callable[[trio.abc.Stream], Awaitable[None]] = trio.aclose_forcefully


@pytest.fixture
async def home(tmp_path: Path, nursery: trio.Nursery) -> Home:
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    path, sha256 = await trio.to_thread.run_sync(certificate_in, folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    plain = await trio.open_tcp_listeners(0, host="127.0.0.1")
    listeners = [trio.SSLListener(one, context, https_compatible=True) for one in plain]
    port = plain[0].socket.getsockname()[1]
    made = Home(JoinToken(host="127.0.0.1", port=port, sha256=sha256, token=TOKEN, node="n1"))

    async def serve(stream: trio.abc.Stream) -> None:
        try:
            await made.serve(stream)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            await trio.aclose_forcefully(stream)

    nursery.start_soon(partial(trio.serve_listeners, serve, listeners))
    return made


@pytest.mark.promise("P86")
async def test_a_token_is_shown_to_the_pinned_certificate_alone(home: Home, nursery: trio.Nursery) -> None:
    heard: list[bytes] = []
    hung_up, served = trio.Event(), trio.Event()

    async def listen(stream: trio.abc.Stream) -> None:
        try:
            heard.append(bytes(await stream.receive_some()))
        except trio.BrokenResourceError:
            heard.append(b"")
        hung_up.set()

    async def serve(stream: trio.abc.Stream) -> None:
        served.set()
        await trio.aclose_forcefully(stream)

    home.serve = listen
    nursery.start_soon(Dialling(msgspec.structs.replace(home.word, sha256="0" * 64)).run, serve)
    await within(PATIENCE, hung_up.wait)
    assert heard == [b""] and not served.is_set()


async def test_a_node_dials_home_shows_its_token_and_dials_again(home: Home, tmp_path: Path) -> None:
    node = FarNode(tmp_path / "far")
    shown: list[bytes] = []
    connected, release = trio.open_memory_channel[trio.Event](8)

    async def let_in(stream: trio.abc.Stream) -> None:
        shown.append(bytes(await stream.receive_some()))
        session = NodeSession("n1", PROJECT, 1, trio.aclose_forcefully, node.times)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.speak, stream)
            await session.connected.wait()
            hang_up = trio.Event()
            await connected.send(hang_up)
            await hang_up.wait()
            nursery.cancel_scope.cancel()

    home.serve = let_in
    process = await node.join(home.word.encode())
    try:
        with trio.fail_after(PATIENCE):
            (await release.receive()).set()
            (await release.receive()).set()
        assert shown == [home.word.line()] * 2
    finally:
        process.kill()
        await process.wait()


async def test_a_node_whose_word_is_not_known_says_what_to_do(home: Home, tmp_path: Path) -> None:
    async def turn_away(stream: trio.abc.Stream) -> None:
        assert await stream.receive_some() == home.word.line()
        await trio.aclose_forcefully(stream)

    home.serve = turn_away
    process = await FarNode(tmp_path / "far").join(home.word.encode(), subprocess.PIPE)
    said = b""
    try:
        assert process.stderr is not None
        with trio.fail_after(PATIENCE):
            while b"awk node add NAME --join" not in said:
                chunk = await process.stderr.receive_some()
                assert chunk, said
                said += chunk
    finally:
        process.kill()
        await process.wait()
    assert b"the join token is no longer valid" in said
