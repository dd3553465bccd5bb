"""What every launcher must do: one contract, run against both."""

import errno
import fcntl
import os
import resource
import signal
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import trio
import trio.testing

from kernel.procs.fork import ForkLauncher
from kernel.procs.handle import Handle
from kernel.procs.launcher import ExecLauncher, Launcher, LauncherUnknown, choose_launcher
from kernel.procs.spec import SpawnTransient, Spec
from protocol.ipc import COOKIE_VARIABLE
from tests.kernel.procs.conftest import make
from tests.kernel.procs.trees import ENV, LEAVES, PATIENCE, STAYS, alive, gone, left_in, read_pids, within


def command(script: str, attempt: str = "i1-1", cwd: str | None = "/", env: dict[str, str] | None = None) -> Spec:
    return Spec(attempt=attempt, argv=("sh", "-c", script), cwd=cwd, env=ENV if env is None else env)


async def text_of(handle: Handle) -> str:
    """All that it prints, until it is gone."""
    text = b""
    with trio.fail_after(PATIENCE):
        async for chunk in handle.stdout:
            text += chunk
        await handle.wait()
    return text.decode()


async def test_a_command_talks_on_three_streams_and_its_exit_code_comes_back(launcher: Launcher) -> None:
    """contracts 6: exited{code, rusage} once the tree is gone."""
    async with await launcher.spawn(command("read line; echo out $line; echo err >&2; exit 7")) as handle:
        await handle.stdin.send_all(b"hello\n")
        assert await text_of(handle) == "out hello\n"
        assert await handle.stderr.receive_some() == b"err\n"
        exited = await handle.wait()
    assert (exited.code, exited.signal, exited.failed, exited.killed) == (7, None, None, False)
    assert exited.rusage.max_rss_bytes > 100_000


@pytest.mark.promise("PF04")
async def test_an_end_by_signal_is_told_as_a_signal(launcher: Launcher) -> None:
    async with await launcher.spawn(command("kill -SEGV $$")) as handle:
        exited = await handle.wait()
    assert (exited.code, exited.signal, exited.killed) == (None, signal.SIGSEGV, False)


@pytest.mark.promise("PF16")
async def test_a_command_that_cannot_be_executed_says_so_and_names_the_path(
    launcher: Launcher, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    folder, gone = str(tmp_path), str(tmp_path / "gone")
    foreign, orphan = tmp_path / "foreign", tmp_path / "orphan"
    for path, content in ((foreign, "\x7fELF"), (orphan, "#!/nowhere/sh")):
        path.write_text(content)
        path.chmod(0o755)
    wrong = {
        f"ENOENT: {gone}": Spec(attempt="i1-1", argv=(gone,), cwd="/", env=ENV),
        f"ENOEXEC: {foreign}": Spec(attempt="i1-1", argv=(str(foreign),), cwd="/", env=ENV),
        f"ENOENT: {orphan}": Spec(attempt="i1-1", argv=(str(orphan),), cwd="/", env=ENV),
        f"EACCES: {folder}": Spec(attempt="i1-1", argv=(folder,), cwd="/", env=ENV),
        f"ENOENT: {gone} (working directory)": command("true", cwd=gone),
    }
    for said, spec in wrong.items():
        with subtests.test(said):
            async with await launcher.spawn(spec) as handle:
                assert handle.pid == 0
                assert (await handle.wait()).failed == said
                assert await text_of(handle) == ""


@pytest.mark.promise("P7", "PF05")
async def test_a_kill_leaves_nothing_of_the_tree(launcher: Launcher) -> None:
    async with await launcher.spawn(Spec(attempt="i1-1", argv=STAYS, cwd="/", env=ENV)) as handle:
        pids = await read_pids(handle.stdout)
        assert alive(pids) == pids
        await handle.kill()
        await gone(pids)
        exited = await within(2, handle.wait)
    assert (exited.signal, exited.killed) == (signal.SIGKILL, True)


@pytest.mark.promise("PF07", "PF22")
async def test_what_a_command_leaves_behind_ends_with_it(launcher: Launcher) -> None:
    async with await launcher.spawn(Spec(attempt="i1-1", argv=LEAVES, cwd="/", env=ENV)) as handle:
        pids = await read_pids(handle.stdout)
        await handle.stdin.send_all(b"go\n")
        exited = await within(2, handle.wait)
        assert alive(pids) == []
    assert (exited.code, exited.killed) == (3, False)


async def test_sigterm_comes_first_and_a_polite_tree_ends_by_itself(launcher: Launcher) -> None:
    """contracts 6: kill{after} is SIGTERM to the whole tree; a stopped process is woken to hear it."""
    polite = "trap 'echo child; exit 0' TERM; echo $$; kill -STOP $$; while :; do read x; done"
    script = f"trap 'wait; exit 5' TERM; sh -c '{polite}' & echo $$; wait; exit 6"
    script = script.replace("'echo child; exit 0'", '"echo child; exit 0"')
    async with await launcher.spawn(command(script)) as handle:
        await read_pids(handle.stdout, 2)
        await handle.kill(after_seconds=30)
        assert await text_of(handle) == "child\n"
        exited = await handle.wait()
    assert (exited.code, exited.killed) == (5, True)


@pytest.mark.promise("PF05")
async def test_sigkill_follows_for_those_that_ignore_sigterm(launcher: Launcher) -> None:
    async with await launcher.spawn(Spec(attempt="i1-1", argv=STAYS, cwd="/", env=ENV)) as handle:
        pids = await read_pids(handle.stdout)
        await handle.kill(after_seconds=0.05)
        await gone(pids)
        assert (await handle.wait()).signal == signal.SIGKILL


@pytest.mark.promise("P7")
async def test_closing_a_handle_ends_the_tree_even_when_cancelled(launcher: Launcher, run_dir: Path) -> None:
    pids: list[int] = []
    with trio.CancelScope() as scope:
        async with await launcher.spawn(Spec(attempt="i1-1", argv=STAYS, cwd="/", env=ENV)) as handle:
            pids = await read_pids(handle.stdout)
            scope.cancel()
            await handle.wait()
    assert scope.cancelled_caught
    assert alive(pids) == []
    assert left_in(run_dir) == []


async def test_many_may_wait_for_one_end(launcher: Launcher) -> None:
    ends = []

    async def wait(handle: Handle) -> None:
        ends.append(await handle.wait())

    async with await launcher.spawn(command("read line; exit 2")) as handle, trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(wait, handle)
        await trio.testing.wait_all_tasks_blocked()
        await handle.stdin.aclose()
    assert [exited.code for exited in ends] == [2, 2, 2]


async def test_the_lock_is_held_until_the_tree_is_gone(launcher: Launcher, run_dir: Path) -> None:
    async with await launcher.spawn(command("read line")) as handle:
        with (run_dir / "i1-1" / "alive").open() as lock:
            with pytest.raises(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            await handle.stdin.aclose()
            await handle.wait()
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.promise("P7")
async def test_a_killed_keeper_takes_its_tree_along(launcher: Launcher) -> None:
    async with await launcher.spawn(Spec(attempt="i1-1", argv=STAYS, cwd="/", env=ENV)) as handle:
        pids = await read_pids(handle.stdout)
        os.kill(handle.keeper_pid, signal.SIGKILL)
        exited = await within(2, handle.wait)
        await gone(pids)
    assert (exited.signal, exited.killed) == (signal.SIGKILL, False)


@pytest.mark.promise("P8")
async def test_a_stopped_keeper_cannot_keep_its_tree_alive(launcher: Launcher) -> None:
    async with await launcher.spawn(Spec(attempt="i1-1", argv=STAYS, cwd="/", env=ENV)) as handle:
        pids = await read_pids(handle.stdout)
        os.kill(handle.keeper_pid, signal.SIGSTOP)
        exited = await within(4, handle.destroy)
        await gone(pids)
    assert (exited.signal, exited.killed) == (signal.SIGKILL, True)


async def test_a_tool_that_signals_its_group_reaches_nothing_of_ours(launcher: Launcher) -> None:
    async with await launcher.spawn(command("kill 0")) as handle:
        exited = await handle.wait()
    assert (exited.signal, exited.killed) == (signal.SIGTERM, False)


async def test_a_worker_leads_a_group_of_its_own(launcher: Launcher) -> None:
    async with await launcher.spawn(Spec(attempt="i1-1")) as handle:
        await handle.stdout.receive_some()  # it is ready
        assert os.getpgid(handle.pid) == handle.pid != os.getpgid(handle.keeper_pid)


async def test_a_command_inherits_three_descriptors_and_no_signal_settings(launcher: Launcher) -> None:
    """Received descriptors are inheritable, so all others are closed; SIGPIPE has its default again.

    Signals 32 and 33 are glibc's own: posix_spawn, which Python 3.13 uses, ignores them, and no program can set them.
    """
    script = "ls /proc/self/fd | tr '\\n' ' '; umask; grep -E 'Sig(Blk|Ign)' /proc/self/status; pwd"
    async with await launcher.spawn(command(script, cwd="/usr")) as handle:
        lines = (await text_of(handle)).splitlines()
    assert lines[0].split() == ["0", "1", "2", "3", "0077"]  # 3 is the directory that ls reads
    blocked, ignored = (int(line.split()[1], 16) for line in lines[1:3])
    assert (blocked, ignored & ~(3 << 31)) == (0, 0)
    assert lines[3] == "/usr"


@pytest.mark.promise("XF22")
async def test_a_command_has_exactly_the_environment_it_was_given(launcher: Launcher) -> None:
    async with await launcher.spawn(Spec(attempt="i1-1", argv=("/usr/bin/env",), cwd="/", env={"A": "b"})) as handle:
        lines = (await text_of(handle)).splitlines()
        cookie = handle.cookie or lines[-1].partition("=")[2]  # a node keeps its own to itself
        assert sorted(lines) == ["A=b", f"{COOKIE_VARIABLE}={cookie}"]


@pytest.mark.promise("P3")
async def test_an_attempt_in_use_is_not_started_twice(launcher: Launcher) -> None:
    """Never concurrently with itself."""
    async with await launcher.spawn(command("read line")):
        with pytest.raises(FileExistsError):
            await launcher.spawn(command("true"))
    async with await launcher.spawn(command("exit 4")) as handle:
        assert (await handle.wait()).code == 4


@pytest.mark.promise("XF01")
@pytest.mark.parametrize("attempt", ["", "..", "a/b", "-x", "a\n"])
def test_an_attempt_id_is_a_plain_directory_name(attempt: str) -> None:
    """An id never leads out of run/."""
    with pytest.raises(ValueError, match="cannot name a directory"):
        Spec(attempt=attempt)


@pytest.mark.promise("PF17")
@pytest.mark.parametrize("launcher", ["fork", "exec"], indirect=True)
async def test_short_of_descriptors_is_transient_and_leaves_nothing(launcher: Launcher, run_dir: Path) -> None:
    async with await launcher.spawn(command("true")) as handle:
        await handle.wait()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    before = os.listdir("/proc/self/fd")
    taken: list[int] = []
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, before)) + 3, hard))
        with suppress(OSError):
            while True:
                taken.append(os.dup(0))
        os.close(taken.pop())
        os.close(taken.pop())
        with pytest.raises(SpawnTransient, match=os.strerror(errno.EMFILE)):
            await launcher.spawn(command("true"))
    finally:
        for fd in taken:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert os.listdir("/proc/self/fd") == before
    assert left_in(run_dir) == []


@pytest.mark.promise("PF21")
@pytest.mark.long("tests/kernel/procs/test_sweep.py")
async def test_nothing_accumulates(launcher: Launcher, run_dir: Path) -> None:
    """No zombie is left; descriptors, tasks and directories are back where they were."""

    async def once(number: int) -> None:
        async with await launcher.spawn(command("true", attempt=f"i{number}-1")) as handle:
            await handle.wait()

    def held() -> tuple[int, int]:
        return len(os.listdir("/proc/self/fd")), trio.lowlevel.current_statistics().tasks_living

    def remains() -> bool:
        children = psutil.Process().children(recursive=True)
        grown = any(now > then for now, then in zip(held(), before, strict=True))
        return grown or any(one.status() == psutil.STATUS_ZOMBIE for one in children)

    before = held()
    await once(0)
    async with trio.open_nursery() as nursery:
        for number in range(1, 5):
            nursery.start_soon(once, number)
    with trio.fail_after(PATIENCE):
        while remains():  # keepers are being reaped
            await trio.lowlevel.checkpoint()
    assert left_in(run_dir) == []


async def test_a_worker_reports_ready_and_ends_with_its_input(launcher: Launcher) -> None:
    """contracts 6: ready is the first frame; a kernel that closes the pipe is gone."""
    async with await launcher.spawn(Spec(attempt="i1-1")) as handle:
        with trio.fail_after(PATIENCE):
            assert b'"t":"ready"' in await handle.stdout.receive_some()
            await handle.stdin.aclose()
            exited = await handle.wait()
    assert (exited.signal, exited.failed, exited.killed) == (None, None, False)


@pytest.mark.parametrize(
    ("asked", "platform", "kind"),
    [
        (None, "linux", ForkLauncher),
        ("fork", "linux", ForkLauncher),
        ("exec", "linux", ExecLauncher),
        ("", "linux", ForkLauncher),
        (None, "darwin", ExecLauncher),
        ("exec", "darwin", ExecLauncher),
    ],
)
async def test_fork_where_it_is_safe_and_exec_elsewhere_or_on_demand(
    asked: str | None, platform: str, kind: type, tmp_path: Path
) -> None:
    assert isinstance(choose_launcher(asked, platform=platform, run_dir=tmp_path, environ={}), kind)


@pytest.mark.parametrize(("asked", "platform"), [("ray", "linux"), ("fork", "darwin")])
def test_what_is_not_possible_says_what_to_do(asked: str, platform: str, tmp_path: Path) -> None:
    with pytest.raises(LauncherUnknown, match="unset it, or set it to exec"):
        choose_launcher(asked, platform=platform, run_dir=tmp_path, environ={})


@pytest.mark.parametrize("kind", ["fork", "exec"])
async def test_a_folder_named_protocol_cannot_shadow_ours(
    kind: str, tmp_path: Path, run_dir: Path, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    for name in ("protocol", "worker", "kernel", "trio"):
        (project / name).mkdir(parents=True)
        (project / name / "__init__.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.chdir(project)
    monkeypatch.setenv("PYTHONPATH", str(project))
    launcher = make(kind, run_dir)
    await nursery.start(launcher.run)
    async with await launcher.spawn(Spec(attempt="i1-1", cwd=str(project))) as handle:
        assert b'"t":"ready"' in await within(PATIENCE, handle.stdout.receive_some)
    assert not (tmp_path / "ran").exists()
