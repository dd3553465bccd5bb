"""env_file: a dotenv file is data, used by consent to exactly its content."""

import os
from pathlib import Path

import pytest

from kernel.agents.env_file import LIMIT_BYTES, env_file_units, with_env_file
from kernel.agents.trust import ProjectTrust
from kernel.source.diagnostics import BadDefinition
from protocol.project import ProjectDefinition
from protocol.trust import Grant

PROJECT = ProjectDefinition(env_file=".env")
ALL = ProjectTrust(everything=True)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", {}),
        ("# a\n\n  # b\nA=1\n", {"A": "1"}),
        ("export A=b c  # said\nB = 'x # $A'\n", {"A": "b c", "B": "x # $A"}),
        ('A="line\\nnext \\"q\\" $HOME `id` $(id)"\n', {"A": 'line\nnext "q" $HOME `id` $(id)'}),
        ('KEY="-----BEGIN\nabc=\n-----END"\r\nZ=9', {"KEY": "-----BEGIN\nabc=\n-----END", "Z": "9"}),
        ("A=\nB=#x\nC=a#b\nA=2\n", {"A": "2", "B": "", "C": "a#b"}),
    ],
)
def test_a_dotenv_file_is_read_as_data(text: str, found: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / ".env").write_bytes(text.encode())
    assert with_env_file({"HOME": "/h"}, PROJECT, tmp_path, ALL) == {**found, "HOME": "/h"}
    assert with_env_file({"A": "mine"}, PROJECT, tmp_path, ALL).get("A") == "mine"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("A=1\nrm -rf ~\n", "line 2 is not NAME=VALUE"),
        ("A='open\n", "line 1 is not"),
        ("A=1\0\n", "line 1 is not"),
        ("A='x' y\n", "line 1 is not"),
        ("A= 'open\n", "line 1 is not"),
        *((f"{name}=x\n", f"line 1: {name}") for name in ("LD_PRELOAD", "PYTHONPATH", "AWK_X", "GIT_DIR", "BASH_ENV")),
        ("PATH=/evil\n", "PATH is always passed"),
        ("\udcff", "is not UTF-8"),
        ("A=" + "x" * LIMIT_BYTES, "larger"),
    ],
)
def test_what_is_no_dotenv_file_is_refused_with_its_line(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / ".env").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(BadDefinition, match=said):
        env_file_units(PROJECT, tmp_path)
    assert with_env_file({}, PROJECT, tmp_path, ALL) == {}


@pytest.mark.parametrize("name", ["../.env", "/etc/environment", "a/.env", "", "..", "a\nb"])
def test_only_a_regular_file_in_the_root_is_read(name: str, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / ".env").write_text("A=1\n")
    (root / ".env").symlink_to(tmp_path / ".env")
    os.mkfifo(root / "pipe")
    for asked in (name, ".env", "pipe", "missing"):
        with pytest.raises(BadDefinition):
            env_file_units(ProjectDefinition(env_file=asked), root)


def test_consent_is_for_exactly_this_content(tmp_path: Path) -> None:
    """The demand has the names and no values; a changed byte asks again."""
    (tmp_path / ".env").write_text("TOKEN=hunter2\n")
    (wanted,) = env_file_units(PROJECT, tmp_path)
    assert ("TOKEN" in wanted.demands[0], "hunter2" in wanted.demands[0]) == (True, False)
    grant = Grant(subject=wanted.subject, demands=wanted.demands, digest=wanted.digest, at="")
    trust = ProjectTrust(kept=lambda: (grant,))
    assert with_env_file({}, PROJECT, tmp_path, trust) == {"TOKEN": "hunter2"}
    assert with_env_file({}, PROJECT, tmp_path, ProjectTrust()) == {}
    (tmp_path / ".env").write_text("TOKEN=hunter3\n")
    assert with_env_file({}, PROJECT, tmp_path, trust) == {}
