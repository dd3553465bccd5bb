"""The shim before the system awk: real processes, the real awk."""

import ast
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interface import shim
from interface.cli.table import BY_WORD, COMMANDS

SYSTEM_AWK: Final = next(path for path in ("/usr/bin/awk", "/bin/awk") if os.path.exists(path))
SCRIPT: Final = (
    "#!{python}\nimport sys\nfrom interface.shim import main\nif __name__ == '__main__':\n    sys.exit(main())\n"
)


def _console_script(folder: Path, name: str = "awk") -> Path:
    """A console script as an installer writes it."""
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / name
    script.write_text(SCRIPT.format(python=sys.executable))
    script.chmod(0o755)
    return script


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return _console_script(tmp_path / "bin")


def _ran(script: Path, *args: str, path: str, stdin: bytes = b"") -> tuple[int, bytes, bytes]:
    environ = {"PATH": path, "HOME": "/nonexistent", "AGENT_WORKER_HOME": "/nonexistent"}
    done = subprocess.run([str(script), *args], input=stdin, env=environ, capture_output=True, timeout=20, check=False)
    return done.returncode, done.stdout, done.stderr


def _path(script: Path) -> str:
    return f"{script.parent}:/usr/bin:/bin"


@pytest.mark.parametrize(
    "args",
    [
        ("{print $1}",),
        ("-F:", "{print $2}"),
        ("-v", "x=3", "BEGIN{print x; exit x}"),
        ("--version",),
        ("-f", "program.awk"),
        ("--", "{print NR}"),
        ("NF",),
        ("length",),
        ("1",),
        ("/two/",),
        ("",),
        ("BEGIN{exit 7}",),
        ("{print $1", "nonexistent"),
    ],
    ids=str,
)
def test_what_is_not_ours_is_done_by_the_system_awk(script: Path, args: tuple[str, ...]) -> None:
    """contracts 7, shim: same output, same complaints, same exit code, stdin untouched."""
    (script.parent / "program.awk").write_text('{print NF ":" $0}\n')
    stdin = b"one:uno two\nthree:tres \xff\n"
    words = [str(script.parent / word) if word == "program.awk" else word for word in args]
    direct = subprocess.run(
        ["awk", *words], executable=SYSTEM_AWK, input=stdin, capture_output=True, timeout=20, check=False
    )
    expected = (direct.returncode, direct.stdout, direct.stderr)
    assert _ran(script, *words, path=_path(script), stdin=stdin) == expected


def test_it_becomes_the_awk_rather_than_running_one(script: Path) -> None:
    """contracts 7, shim: same pid."""
    stat = '{sub(/ .*/, "", $0); print}'
    with subprocess.Popen(
        [str(script), stat, "/proc/self/stat"], env={"PATH": _path(script)}, stdout=subprocess.PIPE
    ) as process:
        out, _ = process.communicate(timeout=20)
    assert out.decode().strip() == str(process.pid)


def test_a_closed_pipe_kills_it_as_it_would_the_awk(script: Path) -> None:
    """Python ignores SIGPIPE and exec passes that on: the awk would complain of a write error."""
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
    """PEP 538: in the C locale Python sets LC_CTYPE; the shim takes that back."""
    program = 'BEGIN{for (name in ENVIRON) print name "=" ENVIRON[name]}'
    _, out, _ = _ran(script, program, path=_path(script))
    direct = subprocess.run(
        ["awk", program],
        executable=SYSTEM_AWK,
        env={"PATH": _path(script), "HOME": "/nonexistent", "AGENT_WORKER_HOME": "/nonexistent"},
        capture_output=True,
        check=False,
    )
    assert sorted(out.splitlines()) == sorted(direct.stdout.splitlines())


def test_two_shims_find_the_one_awk(tmp_path: Path, script: Path) -> None:
    """ecosystem 6: an activated environment over a user-wide installation."""
    other = _console_script(tmp_path / "other")
    path = f"{script.parent}:{other.parent}:/usr/bin:/bin"
    assert _ran(script, "BEGIN{print 5}", path=path)[:2] == (0, b"5\n")
    assert _ran(other, "BEGIN{print 5}", path=path)[:2] == (0, b"5\n")


def test_a_wrapper_that_leads_back_to_us_is_passed_by(tmp_path: Path, script: Path) -> None:
    """The loop guard: version managers put scripts of this kind on PATH."""
    wrapper = tmp_path / "wrappers" / "awk"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\nexec "{script}" "$@"\n')
    wrapper.chmod(0o755)
    path = f"{script.parent}:{wrapper.parent}:/usr/bin:/bin"
    assert _ran(script, 'BEGIN{print ENVIRON["AGENT_WORKER_AWK_SEEN"] != ""}', path=path)[:2] == (0, b"0\n")


def test_without_a_system_awk_it_says_so(script: Path) -> None:
    """contracts 7, shim: 127 with clear text."""
    code, out, err = _ran(script, "{print}", path=str(script.parent))
    assert (code, out) == (127, b"")
    assert b"no system awk" in err
    assert b"hint:" in err


def test_an_awk_that_cannot_be_executed_is_passed_by(tmp_path: Path, script: Path) -> None:
    """Only the next one that works will do."""
    broken = tmp_path / "broken" / "awk"
    broken.parent.mkdir()
    broken.write_bytes(b"\x7fELF nothing of the kind")
    broken.chmod(0o755)
    assert _ran(script, "BEGIN{print 1}", path=f"{broken.parent}:/usr/bin:/bin")[:2] == (0, b"1\n")


def test_a_typo_is_told_and_not_handed_on(script: Path) -> None:
    """contracts 7, shim: as an awk program it would silently do nothing."""
    code, out, err = _ran(script, "strat", "review", path=_path(script), stdin=b"x\n")
    assert (code, out) == (2, b"")
    assert b"did you mean awk start?" in err
    _, _, err = _ran(script, "bogus", path=_path(script), stdin=b"x\n")
    assert b"did you mean" not in err


def test_help_is_ours_and_names_the_system_awk(script: Path) -> None:
    """contracts 7: every command word is there; the last line says where the rest goes."""
    for words in ((), ("-h",), ("--help",)):
        code, out, _ = _ran(script, *words, path=_path(script))
        text = out.decode()
        assert code == 0
        assert all(f"  {command.word} " in text for command in COMMANDS)
        assert text.splitlines()[-1].startswith("Anything else goes to the system awk (/")


def test_under_our_full_name_nothing_passes_through(tmp_path: Path) -> None:
    """contracts 7: the shim is for the name awk only."""
    full = _console_script(tmp_path / "bin", "agent-worker")
    code, out, err = _ran(full, "BEGIN{print 1}", path="/usr/bin:/bin")
    assert (code, out) == (2, b"")
    assert b"agent-worker has no command" in err
    code, out, _ = _ran(full, "--version", path="/usr/bin:/bin")
    assert (code, out.split()[0]) == (0, b"agent-worker")


def test_the_words_of_the_shim_are_those_of_the_table() -> None:
    """The literal is there for speed; this keeps it true."""
    assert frozenset(BY_WORD) == shim.WORDS


def test_no_command_is_a_word_that_means_something_to_awk() -> None:
    """ecosystem 6: such a command would break scripts."""
    keywords = {"next", "exit", "print", "printf", "delete", "function", "func", "in", "if", "do", "while", "for"}
    assert not shim.WORDS & (shim.AWK_WORDS | keywords)


def test_before_it_knows_the_words_it_imports_os_and_sys_only() -> None:
    """contracts 7: a script that calls awk in a loop pays for every module."""
    tree = ast.parse(Path(shim.__file__).read_text())
    imported = [name.name for node in tree.body if isinstance(node, ast.Import) for name in node.names]
    assert imported == ["os", "sys"]
    assert not any(isinstance(node, ast.ImportFrom) for node in tree.body)
    late = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert [node.module for node in late] == ["interface.cli.main"]


def test_passing_through_loads_nothing_but_the_shim(script: Path) -> None:
    """As above, told by the interpreter itself."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", str(script), "BEGIN{}"],
        env={"PATH": _path(script)},
        capture_output=True,
        check=False,
    )
    loaded = [line.split(b"|")[2].strip() for line in done.stderr.splitlines() if line.count(b"|") == 2]
    assert done.returncode == 0
    after_site = loaded[loaded.index(b"site") + 1 :]
    assert after_site == [b"interface", b"interface.shim"]


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=12))
def test_only_lower_case_words_are_taken_for_typos(word: str) -> None:
    """Whatever could be an awk program that does something is the awk's."""
    if shim.is_bare(word):
        assert all(c.isascii() and (c.islower() or c.isdigit() or c in "_-") for c in word)
        assert word[0].isalpha()
        assert not set(word.split("-")) & shim.AWK_WORDS


def test_ctrl_c_while_our_modules_are_read_is_no_traceback(script: Path, tmp_path: Path) -> None:
    """contracts 7: 130, and a traceback only with -vv."""
    slow = tmp_path / "slow" / "interface" / "cli"
    slow.mkdir(parents=True)
    (slow / "main.py").write_text("raise KeyboardInterrupt\n")
    shown = (
        "import sys, interface.shim as shim, interface.cli as cli\n"
        f"cli.__path__.insert(0, {str(slow)!r})\n"
        "sys.argv[1:] = ['ps']\n"
        "sys.exit(shim.main())\n"
    )
    done = subprocess.run([sys.executable, "-c", shown], capture_output=True, timeout=20, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")
