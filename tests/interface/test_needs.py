"""needs: what goes on only once a person does something, and the number of it in ps and status."""

import signal
import subprocess
import threading
from collections.abc import Iterator
from itertools import islice

import msgspec
import pytest

from interface.discovery import URL
from protocol.api.approvals import NeedList
from protocol.api.processes import Ps
from protocol.instruction import Usage
from tests.interface.conftest import AWK, Cli
from tests.interface.hostile import HOSTILE, obeyed
from tests.interface.kernel_double import KernelDouble, Stream, sse
from tests.interface.samples import event, need, ps_row, read_answers

NOTHING = NeedList(items=())
ONE = NeedList(items=(need(),), total=1)


def test_nothing_is_one_sentence_and_something_has_its_commands(cli: Cli, kernel: KernelDouble) -> None:
    """Exit 0 and 7, with --json too; each command is on a line that a shell can run."""
    kernel.answers["GET /needs"] = NOTHING
    assert (cli("needs").code, cli("needs").out) == (0, "nothing needs you\n")
    assert cli("needs", "--json").code == 0
    kernel.answers["GET /needs"] = ONE
    ran = cli("needs")
    head, *commands = ran.out.splitlines()
    assert ran.code == 7
    assert head.startswith("approval: coder wants to call bash (a3, in review:main, for ")
    assert head.endswith(", blocks i7)")
    assert commands == ["  awk approve a3  # approve", "  awk deny a3  # deny"]
    whole = cli("needs", "--json")
    assert (whole.code, whole.json()["total"], whole.json()["items"][0]["id"]) == (7, 1, "a3")


def test_a_list_that_was_cut_says_so_and_n_0_asks_for_all(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["GET /needs"] = lambda asked: (
        NeedList(items=(need(id="a4"),), total=2)
        if "after" in asked.query
        else NeedList(items=(need(),), total=2, next="n1")
    )
    ran = cli("needs", "-n", "1")
    assert (ran.code, ran.err) == (7, "1 of 2 (-n 0 for all)\n")
    assert [item["id"] for item in cli("needs", "-n", "0", "--json").json()["items"]] == ["a3", "a4"]


@pytest.mark.promise("P16")
@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_what_an_agent_wrote_is_shown_and_not_obeyed(text: str, cli: Cli, kernel: KernelDouble) -> None:
    cli.environ["NO_COLOR"] = "1"
    safe = f"{text}\n  awk approve a9".encode("utf-8", "replace").decode()
    kernel.answers["GET /needs"] = NeedList(items=(need(safe, space=safe, id=safe),), total=1)
    for words in (["needs"], ["needs", "--json"]):
        assert not obeyed(cli(*words, terminal=True).out), words
    assert [line for line in cli("needs").out.splitlines() if line.startswith("  awk")] == [
        "  awk approve a3  # approve",
        "  awk deny a3  # deny",
    ]


@pytest.mark.parametrize("count", [0, 1, 1234])
def test_ps_and_status_say_the_number(count: int, cli: Cli, kernel: KernelDouble) -> None:
    status = read_answers("x")["GET /status"]
    kernel.answers["GET /ps"] = Ps(agents=(ps_row(),), needs=count)
    kernel.answers["GET /status"] = msgspec.structs.replace(status, needs=count)
    for word in ("ps", "status"):
        assert (f"{count:,} need you" in cli(word).out) is bool(count)
        assert cli(word, "--json").json()["needs"] == count


def test_followed_it_says_what_comes_and_what_is_settled(cli: Cli, kernel: KernelDouble) -> None:
    """Asked again only after what may have changed it."""
    answers = iter([ONE, ONE, NeedList(items=(need(id="a4"),), total=1), NOTHING])
    kernel.answers["GET /needs"] = lambda asked: next(answers, NOTHING)
    told = ("approval.requested", "message", "instruction.queued", "instruction.step", "approval.decided")

    def pieces() -> Iterator[bytes]:
        yield b": ping\n\n"
        yield from (sse(kind, event(kind, seq), seq) for seq, kind in enumerate(told, 1))
        kernel.proves = False  # it is gone with the end of its stream

    kernel.answers["GET /events"] = Stream(pieces())
    cli.patience = 1
    ran = cli("needs", "-f")
    heads = [line.partition(" (")[0] for line in ran.out.splitlines() if not line.startswith("  ")]
    wants = "approval: coder wants to call bash"
    assert heads[:4] == [wants, "settled: approval a3", wants, "settled: approval a4"]


def test_those_of_all_projects_name_their_project(cli: Cli, kernel: KernelDouble) -> None:
    other = cli.root.parent / "another project"
    other.mkdir()
    kernel.answers["GET /needs"] = ONE
    with KernelDouble().running() as second, KernelDouble().running() as killed:
        second.answers["GET /needs"] = NeedList(items=(need(id="a9"),), total=1)
        second.publish(cli.home, other.resolve())
        killed.publish(cli.home, cli.root / "killed")
        killed.proves = False
        ran = cli("needs", "-A", "--json")
        assert ran.code == 7
        assert ran.json()["total"] == 2
        found = {item["project"]: item["actions"][0]["command"] for item in ran.json()["items"]}
        assert found == {
            str(cli.root): f"awk approve a3 --project {cli.root}",
            str(other.resolve()): f"awk approve a3 --project '{other.resolve()}'",
        }
        assert f"{other.resolve()}:" in cli("needs", "-A").out.splitlines()
    cli.environ[URL] = kernel.url
    assert [cli("needs", "-A", *more).code for more in ([], ["-f"])] == [2, 2]


def told_later(news: threading.Event) -> Stream:
    """A stream of events with one that may have changed what needs a person, once there are news."""

    def pieces() -> Iterator[bytes]:
        yield b": ping\n\n"
        news.wait(30)
        yield sse("approval.requested", event("approval.requested", 1), 1)
        threading.Event().wait(30)  # it stays open

    return Stream(pieces())


def test_those_of_all_projects_are_followed_in_one_stream(cli: Cli, kernel: KernelDouble) -> None:
    other, third = (cli.root.parent / name for name in ("other", "third"))
    other.mkdir()
    third.mkdir()
    here, there = threading.Event(), threading.Event()
    kernel.answers |= {"GET /needs": ONE, "GET /events": told_later(here)}
    with KernelDouble().running() as second, KernelDouble().running() as late:
        second.answers |= {"GET /needs": NOTHING, "GET /events": told_later(there)}
        second.publish(cli.home, other.resolve())
        late.answers |= {
            "GET /needs": NeedList(items=(need(id="a5"),), total=1), "GET /events": told_later(threading.Event()),
        }  # fmt: skip
        command = [*AWK, "needs", "-A", "-f"]
        with subprocess.Popen(command, cwd=cli.root, env=cli.environ, stdout=subprocess.PIPE, text=True) as following:
            assert following.stdout is not None

            def heads(count: int) -> list[str]:
                """The next lines that are no command of a shell's."""
                lines = (line.rstrip("\n") for line in iter(following.stdout.readline, ""))  # type: ignore[union-attr]
                return list(islice((line.partition(" (")[0] for line in lines if not line.startswith("  ")), count))

            wants = "approval: coder wants to call bash"
            assert heads(2) == [f"{cli.root}:", wants]
            second.answers["GET /needs"] = NeedList(items=(need(id="a9"),), total=1)
            there.set()
            assert heads(2) == [f"{other.resolve()}:", wants]
            kernel.answers["GET /needs"] = NOTHING
            here.set()
            assert heads(1) == [f"settled: approval a3 of {cli.root}"]
            second.proves = False
            late.publish(cli.home, third.resolve())
            assert heads(2) == [f"{third.resolve()}:", wants]
            following.send_signal(signal.SIGINT)
            assert (following.stdout.read().count("settled"), following.wait(10)) == (0, 130)


TABLE = Ps(
    agents=(
        ps_row("bob", "", space="review:main", state="idle", cpu_percent=1.0, usage=Usage(cost_usd=0.5)),
        ps_row("alice", "", space=None, state="running", cpu_percent=9.0, usage=Usage()),
        ps_row("bob", "", space="review:pr-1", state="error", cpu_percent=3.0, usage=Usage(cost_usd=2.0)),
    )
)


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ([], ["bob@review:main", "alice", "bob@review:pr-1"]),
        (["alice"], ["alice"]),
        (["bob"], ["bob@review:main", "bob@review:pr-1"]),
        (["@review"], ["bob@review:main"]),
        (["bob@review:pr-1"], ["bob@review:pr-1"]),
        (["--sort", "cpu"], ["alice", "bob@review:pr-1", "bob@review:main"]),
        (["--sort", "cost"], ["bob@review:pr-1", "bob@review:main", "alice"]),
        (["--sort=-cost"], ["alice", "bob@review:main", "bob@review:pr-1"]),
        (["--sort", "name"], ["alice", "bob@review:main", "bob@review:pr-1"]),
        (["--sort", "state"], ["bob@review:pr-1", "bob@review:main", "alice"]),
    ],
)
def test_ps_takes_a_target_and_an_order(words: list[str], names: list[str], cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["GET /ps"] = TABLE
    assert cli("ps", "-q", *words).out.split() == names
    rows = cli("ps", "--json", *words).json()["agents"]
    assert [row["name"] for row in rows] == [name.partition("@")[0] for name in names]


def test_ps_shows_the_columns_that_are_named_and_says_what_there_is_not(cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers["GET /ps"] = TABLE
    assert cli("ps", "-o", "state,NAME,cpu%", "alice").out == "STATE    NAME   CPU%\nrunning  alice   9.0\n"
    assert cli("ps", "--sort", "colour").code == 2
    assert cli("ps", "carol").code == 5
    assert cli("ps", "@Bad Name").code == 2
    cli("ps", "-a")
    assert [asked.query.get("all") for asked in kernel.of("GET", "/ps")][-1] == "true"
