"""Which kernels a node serves, and the tokens by which one joins."""

import os
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from kernel.procs.node.fence import Lease, TermFile, TermUnreadable, lock_folder, search_path
from kernel.procs.node.host import NodeHost, Tenancy, refusal_of
from kernel.procs.node.wire import Garbled, pack
from protocol.node import JoinToken, KernelHello, LeaseTimes, Need, agree, decode_join_token


@pytest.mark.promise("P84")
@pytest.mark.parametrize(
    ("hello", "project", "highest", "code"),
    [
        (KernelHello(project="p1", term=5), None, 0, None),
        (KernelHello(project="p1", term=5), "p1", 5, None),
        (KernelHello(project="p1", term=6), "p1", 5, None),
        (KernelHello(project="p1", term=4), "p1", 5, "term"),
        (KernelHello(project="p2", term=9), "p1", 5, "project"),
        (KernelHello(project="p1", term=9, protocol=(7, 8)), "p1", 5, "version"),
    ],
)
def test_one_project_and_the_highest_term(
    hello: KernelHello, project: str | None, highest: int, code: str | None
) -> None:
    refusal = refusal_of(hello, project, highest)
    assert (None if refusal is None else refusal.code) == code


@pytest.mark.parametrize(
    ("ours", "theirs", "spoken"),
    [((3, 4), (4, 5), 4), ((4, 5), (3, 4), 4), ((3, 4), (3, 4), 4), ((3, 4), (5, 6), None), ((5, 6), (3, 4), None)],
)
def test_one_version_back_is_spoken(ours: tuple[int, int], theirs: tuple[int, int], spoken: int | None) -> None:
    assert agree(ours, theirs) == spoken


@pytest.mark.parametrize(("theirs", "older"), [((1, 2), "kernel's machine"), ((5, 6), "node")])
def test_a_refused_version_says_which_side_to_upgrade(theirs: tuple[int, int], older: str) -> None:
    hello = KernelHello(project="p1", term=5, version="9.9", protocol=theirs)
    refusal = refusal_of(hello, "p1", 1, spoken=(3, 4))
    assert refusal is not None
    assert refusal.why.endswith(f"upgrade agent-worker on the {older}") and "9.9" in refusal.why


def test_only_the_echo_of_a_beat_that_was_sent_renews_a_lease() -> None:
    lease = Lease(60.0)
    sent_ms = lease.beat()
    lease.renew(sent_ms + 1)
    assert lease.is_over
    lease.renew(sent_ms)
    until = lease.until
    lease.renew(sent_ms - 1)
    assert lease.until == until, "an older echo takes nothing back"
    assert not lease.is_over


def test_a_node_takes_no_order_without_a_lease() -> None:
    nobody: Any = None
    with pytest.raises(Garbled, match="no lease"):
        Tenancy(nobody, LeaseTimes(), nobody, nobody).take(Need(modules=("json",)))


async def test_a_kernel_is_refused_that_waited_while_a_later_one_was_served(tmp_path: Path) -> None:
    nobody: Any = None
    lock = lock_folder(tmp_path)
    ours, theirs = trio.testing.memory_stream_pair()
    host = NodeHost(tmp_path, None, LeaseTimes(), {}, nobody)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(host.serve, theirs)
        await ours.send_all(pack(KernelHello(project="p1", term=5)))
        await trio.testing.wait_all_tasks_blocked()
        TermFile(tmp_path).keep(6)
        assert lock is not None
        os.close(lock)
        said = b""
        while chunk := await ours.receive_some():
            said += chunk
    assert b"has used this node" in said


def test_a_term_that_cannot_be_read_is_not_taken_for_none(tmp_path: Path) -> None:
    """A lower term must not be served because a disk was full."""
    terms = TermFile(tmp_path)
    assert terms.highest() == 0
    terms.keep(7)
    assert TermFile(tmp_path).highest() == 7
    (tmp_path / "term").write_text("")
    with pytest.raises(TermUnreadable, match="contains no number"):
        terms.highest()


TOKEN = JoinToken(host="host.example", port=4433, sha256="ab" * 32, token="t" * 43, node="n1")


def test_a_join_token_is_decoded_as_it_was_encoded() -> None:
    text = TOKEN.encode()
    assert text.startswith("awk1.") and decode_join_token(f"{text}\n") == TOKEN
    assert TOKEN.line() == b"t" * 43 + b"\n"


@pytest.mark.parametrize(
    "text", ["", "awk1.", "awk1.!!!", "awk2.xx", TOKEN.encode()[:-9], "awk1." + "A" * 9000, "x" * 99]
)
def test_an_invalid_join_token_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(ValueError, match="awk node add prints") as refused:
        decode_join_token(text)
    assert not text or text not in str(refused.value) or text == "awk1."


def test_programs_are_looked_for_in_whole_paths_alone() -> None:
    assert search_path({"PATH": "bin:/usr/bin::."}) == "/usr/bin"
