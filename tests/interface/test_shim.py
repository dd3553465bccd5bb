"""The shims: what is for us starts our Python, isolated; all else becomes the system's awk. Real processes."""

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import pytest

from interface.cli.command_table import ALIASES, BY_WORD, COMMANDS
from tests.architecture.sources import ROOT

SYSTEM_AWK: Final = next(path for path in ("/usr/bin/awk", "/bin/awk") if os.path.exists(path))
INTERFACE: Final = ROOT / "interface"
SHELLS: Final = [shell for shell in ("/bin/bash", "/bin/dash", "/usr/bin/busybox") if os.path.exists(shell)]
NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


def _installed(folder: Path, shell: str = "/bin/sh") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    runs = f"#!{shell} sh\n" if shell.endswith("busybox") else f"#!{shell}\n"
    for name in ("awk", "agent-worker"):
        (folder / name).write_text((INTERFACE / f"{name}.sh").read_text().replace("#!/bin/sh\n", runs))
        (folder / name).chmod(0o755)
    (folder.parent / "pyvenv.cfg").write_text("")
    python = f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n'
    (folder / "python").write_text(python)
    (folder / "python").chmod(0o755)
    return folder / "awk"


@pytest.fixture(params=SHELLS)
def script(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    return _installed(tmp_path / "env" / "bin", request.param)


def _ran(
    script: Path, *args: str, path: str, stdin: bytes = b"", cwd: Path | None = None, more: Mapping[str, str] = NOTHING
) -> tuple[int, bytes, bytes]:
    environ = {"PATH": path, "HOME": "/nonexistent", "AGENT_WORKER_HOME": "/nonexistent", **more}
    done = subprocess.run(
        [str(script), *args], input=stdin, env=environ, cwd=cwd, capture_output=True, timeout=20, check=False
    )
    return done.returncode, done.stdout, done.stderr


def _path(script: Path) -> str:
    return f"{script.parent}:/usr/bin:/bin"


@pytest.mark.parametrize(
    "args",
    [
        ("{print $1}",), ("-F:", "{print $2}"), ("-v", "x=3", "BEGIN{print x; exit x}"),
        ("-f", "program.awk"), ("--", "{print NR}"), ("NF",), ("length",), ("1",), ("/two/",), ("",),
        ("BEGIN{exit 7}",), ("{print $1", "nonexistent"), ("NR-x",), ("ENVIRON",), ("word", "word=1", "program.awk"),
        ("Word", "Word=1", "program.awk"), ("a-b", "b=1", "program.awk"), ("int",), ("-W", "version"),
        ("--no-such-option",),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_not_ours_is_done_by_the_system_awk(script: Path, args: tuple[str, ...]) -> None:
    (script.parent / "program.awk").write_text('{print NF ":" $0}\n')
    stdin = b"one:uno two\nthree:tres \xff\n"
    words = [str(script.parent / word) if word == "program.awk" else word for word in args]
    direct = subprocess.run(
        ["awk", *words], executable=SYSTEM_AWK, input=stdin, capture_output=True, timeout=20, check=False
    )
    expected = (direct.returncode, direct.stdout, direct.stderr)
    assert _ran(script, *words, path=_path(script), stdin=stdin) == expected


def test_it_becomes_the_awk_rather_than_running_one(script: Path) -> None:
    stat = '{sub(/ .*/, "", $0); print}'
    with subprocess.Popen(
        [str(script), stat, "/proc/self/stat"], env={"PATH": _path(script)}, stdout=subprocess.PIPE
    ) as process:
        out, _ = process.communicate(timeout=20)
    assert out.decode().strip() == str(process.pid)


def test_a_closed_pipe_kills_it_as_it_would_the_awk(script: Path) -> None:
    reader, writer = os.pipe()
    with subprocess.Popen(
        [str(script), 'BEGIN{while (1) print "x"}'], env={"PATH": _path(script)}, stdout=writer, stderr=subprocess.PIPE
    ) as process:
        os.close(writer)
        os.read(reader, 10)
        os.close(reader)
        _, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (-13, b"")


def test_the_awk_sees_the_environment_we_were_given(script: Path) -> None:
    program = 'BEGIN{for (name in ENVIRON) print name "=" ENVIRON[name]}'
    given = {"name": "x", "word": "y", "own": "z", "found": "1", "AGENT_WORKER_AWK_SEEN": "1:/x"}
    _, out, _ = _ran(script, program, path=_path(script), more=given)
    seen = dict(line.split("=", 1) for line in out.decode().splitlines())
    for name in ("PWD", "OLDPWD", "SHLVL", "_"):
        seen.pop(name, None)
    expected = {"PATH": _path(script), "HOME": "/nonexistent", "AGENT_WORKER_HOME": "/nonexistent"}
    assert seen == expected | {name: given[name] for name in ("name", "word", "own", "found")}


def test_two_shims_find_the_one_awk(tmp_path: Path, script: Path) -> None:
    other = _installed(tmp_path / "other" / "bin")
    path = f"{script.parent}:{other.parent}:/usr/bin:/bin"
    assert _ran(script, "BEGIN{print 5}", path=path)[:2] == (0, b"5\n")
    assert _ran(other, "BEGIN{print 5}", path=path)[:2] == (0, b"5\n")


def test_a_wrapper_that_leads_back_to_us_is_passed_by(tmp_path: Path, script: Path) -> None:
    wrapper = tmp_path / "wrappers" / "awk"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\nexec "{script}" "$@"\n')
    wrapper.chmod(0o755)
    path = f"{script.parent}:{wrapper.parent}:/usr/bin:/bin"
    assert _ran(script, 'BEGIN{print ENVIRON["AGENT_WORKER_AWK_SEEN"] != ""}', path=path)[:2] == (0, b"0\n")


def test_without_a_system_awk_it_says_so(script: Path) -> None:
    """127, as of a command that is not there, with clear text."""
    code, out, err = _ran(script, "{print}", path=str(script.parent))
    assert (code, out) == (127, b"")
    assert b"no system awk" in err
    assert b"hint:" in err


def test_a_slip_of_the_pen_is_told_and_not_handed_on(script: Path) -> None:
    for word, meant in {"strat": "start", "rnu": "run", "Run": "run", "statsu": "status", "Show": "show"}.items():
        code, out, err = _ran(script, word, "review", path=_path(script), stdin=b"x\n")
        assert (code, out) == (2, b"")
        assert f"did you mean awk {meant}?" in err.decode()
    _, _, err = _ran(script, "bogus", path=_path(script), stdin=b"x\n")
    assert b"did you mean" not in err


def test_an_option_before_the_command_is_told(script: Path) -> None:
    code, out, err = _ran(script, "--json", "ps", path=_path(script))
    assert (code, out) == (2, b"")
    assert b"hint: awk ps --json" in err


def test_help_is_ours_and_names_the_system_awk(script: Path) -> None:
    for words in ((), ("-h",), ("--help",), ("help",)):
        code, out, _ = _ran(script, *words, path=_path(script))
        text = out.decode()
        assert code == 0
        assert {command.word for command in COMMANDS} <= set(text.split())
        assert text.splitlines()[-1].startswith("Other words run the system awk (/")


def test_the_version_is_ours_and_then_that_of_the_system_awk(script: Path) -> None:
    """Scripts search it for GNU; an awk that knows no --version, as mawk, adds nothing."""
    code, out, err = _ran(script, "--version", path=_path(script))
    theirs = subprocess.run(["awk", "--version"], executable=SYSTEM_AWK, capture_output=True, timeout=20, check=False)
    first, _, rest = out.partition(b"\n")
    assert (code, first.split()[0], rest, err) == (0, b"agent-worker", theirs.stdout, b"")
    code, out, _ = _ran(script, "--version", "x", path=_path(script))
    assert b"agent-worker" not in out


def test_under_our_full_name_nothing_passes_through(script: Path) -> None:
    """The shim is for the name awk only."""
    full = script.parent / "agent-worker"
    code, out, err = _ran(full, "BEGIN{print 1}", path="/usr/bin:/bin")
    assert (code, out) == (2, b"")
    assert b"agent-worker has no command" in err
    code, out, _ = _ran(full, "--version", path="/usr/bin:/bin")
    assert (code, out.split()[0]) == (0, b"agent-worker")


def test_the_words_of_the_shim_are_those_of_the_table() -> None:
    text = (INTERFACE / "awk.sh").read_text()
    lines = text.partition("# commands\n")[2].partition("# end of commands")[0].splitlines()
    words = [word for line in lines for word in line.partition(")")[0].replace("|", " ").split()]
    assert sorted(words) == sorted((*BY_WORD, *ALIASES))


def test_no_command_is_a_word_that_means_something_to_awk() -> None:
    keywords = {"next", "exit", "print", "printf", "delete", "function", "func", "in", "if", "do", "while", "for"}
    functions = {"length", "getline", "rand", "srand", "systime", "int", "sqrt", "exp", "log", "sin", "cos", "system"}
    assert not {*BY_WORD, *ALIASES} & (functions | keywords)


def test_the_passed_on_awk_needs_no_python_and_no_other_program(script: Path) -> None:
    (script.parent / "python").unlink()
    only_awk = script.parent.parent / "only-awk"
    only_awk.mkdir()
    (only_awk / "awk").symlink_to(SYSTEM_AWK)
    assert _ran(script, "BEGIN{print 5}", path=f"{script.parent}:{only_awk}")[:2] == (0, b"5\n")
    code, out, err = _ran(script, "ps", path=_path(script))
    assert (code, out) == (127, b"")
    assert b"the Python that agent-worker was installed with is gone" in err


@pytest.mark.parametrize("name", ["awk", "agent-worker"])
def test_nothing_in_the_working_directory_shadows_our_modules(script: Path, tmp_path: Path, name: str) -> None:
    project = tmp_path / "project"
    for package in ("interface", "kernel", "osfiles", "protocol", "worker"):
        (project / package).mkdir(parents=True)
        (project / package / "__init__.py").write_text("raise SystemExit('shadowed')\n")
    for module in ("json.py", "argparse.py", "signal.py", "runpy.py", "trio.py", "msgspec.py"):
        (project / module).write_text("raise SystemExit('shadowed')\n")
    ours = script.parent / name
    for pythonpath in ("", ".", str(project)):
        code, out, err = _ran(ours, "version", path=_path(script), cwd=project, more={"PYTHONPATH": pythonpath})
        assert (code, out.split()[0], err) == (0, b"agent-worker", b"")
    assert _ran(script, "{print $2}", path=_path(script), stdin=b"a b\n", cwd=project, more={"PYTHONPATH": "."}) == (
        0,
        b"b\n",
        b"",
    )


@pytest.mark.parametrize("name", ["awk", "agent-worker"])
def test_it_finds_its_environment_through_links(script: Path, tmp_path: Path, name: str) -> None:
    local = tmp_path / "local bin"
    local.mkdir()
    (local / name).symlink_to(os.path.relpath(script.parent / name, local))
    code, out, _ = _ran(local / name, "version", path=f"{local}:/usr/bin:/bin")
    assert (code, out.split()[0]) == (0, b"agent-worker")


def test_without_an_environment_it_finds_the_python_that_has_the_package(tmp_path: Path) -> None:
    script = _installed(tmp_path / "prefix" / "bin")
    (tmp_path / "prefix" / "pyvenv.cfg").unlink()
    version = f"python3.{sys.version_info.minor}"
    (script.parent / "python").rename(script.parent / version)
    (tmp_path / f"prefix/lib/{version}/site-packages/agent_worker_supervisor-0.1.0.dist-info").mkdir(parents=True)
    code, out, err = _ran(script, "version", path="/usr/bin:/bin")
    assert (code, out.split()[:1], err) == (0, [b"agent-worker"], b"")


@pytest.mark.parametrize("ignored", [False, True], ids=["heard", "ignored"])
def test_a_ctrl_c_before_python_is_ready_waits_for_it(tmp_path: Path, ignored: bool) -> None:
    """No traceback of importlib: 130. What whoever started us has ignored stays ignored."""
    code = (
        "import os, signal, sys\n"
        f"signal.signal(signal.SIGINT, signal.{'SIG_IGN' if ignored else 'SIG_DFL'})\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})\n"
        "os.kill(os.getpid(), signal.SIGINT)\n"
        "os.execv(sys.executable, [sys.executable, '-m', 'interface', 'awk', '', 'version'])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, timeout=20, check=False)
    assert (done.returncode, done.stderr) == (0 if ignored else 130, b"")


def test_the_shim_has_a_ctrl_c_wait_where_env_can(script: Path) -> None:
    if subprocess.run(["env", "--block-signal=INT", "true"], capture_output=True, check=False).returncode:
        pytest.skip("env cannot block signals here")
    blocked = "import signal\nprint(*signal.pthread_sigmask(signal.SIG_BLOCK, []))\n"
    (script.parent / "python").write_text(f"#!{sys.executable}\n{blocked}")
    assert _ran(script, "version", path=_path(script))[1] == f"{signal.SIGINT}\n".encode()
