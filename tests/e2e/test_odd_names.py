"""Files and variables whose names are anything, beside agents that work: they harm nobody, and forge no line."""

import os
import shutil
from pathlib import Path

import pytest

from tests.project import Project

NAMES = [b"b\xff.yaml", b"x\nok     forged.yaml", b"\x1b[31mred.yaml", "\u202egnp.yaml".encode(), b"n" * 250 + b".yaml"]


def make(folder: Path, name: bytes) -> None:
    folder.mkdir(exist_ok=True)
    os.close(os.open(os.fsencode(folder) + b"/" + name, os.O_CREAT | os.O_WRONLY, 0o600))


@pytest.mark.promise("P9")
@pytest.mark.long("tests/kernel/agents/test_catalog.py")
def test_a_file_of_any_name_ends_neither_the_kernel_nor_any_work(project: Project) -> None:
    project.agent("alice", "text: hi")
    assert project.awk("send", "alice", "x", "--wait").out == "hi\n"
    first = project.record()["pid"]
    for folder in (".agents", ".workflows", ".skills"):
        for name in NAMES:
            make(project.root / folder, name)
    project.write(".agents/known.yaml", "model: [\n")
    project.until("definition.broken", holds=lambda event: event["data"]["path"] == ".agents/known.yaml")
    assert project.awk("send", "alice", "y", "--wait").out == "hi\n"
    assert project.record()["pid"] == first
    status = project.ask("GET", "/status")
    assert all(one["path"].isprintable() for one in status["broken"])
    assert ".agents/b\\xff.yaml" in {one["path"] for one in status["broken"]}
    project.stop()
    assert project.awk("send", "alice", "z", "--wait").out == "hi\n"


@pytest.mark.promise("P16")
def test_the_name_of_a_file_forges_no_line_of_what_is_printed(project: Project) -> None:
    for name in NAMES:
        make(project.root / ".agents", name)
    checked = project.awk("validate")
    assert checked.code == 78
    assert [line.partition(" ")[0] for line in checked.out.splitlines()] == ["wrong"] * len(NAMES)
    told = checked.err.splitlines()
    assert {line.split()[0] for line in told} == {"error:", "at", "hint:"}
    assert len(told) == 3 * len(NAMES)
    assert checked.err.replace("\n", "").isprintable()


@pytest.mark.long("tests/kernel/agents/test_environment.py")
def test_a_variable_that_is_not_text_is_left_out_and_told_of(project: Project) -> None:
    project.agent("alice", "shell: 'echo [$LC_X][$LC_Y] > told'", "text: hi", more="approval: auto")
    environ = {"LC_X": os.fsdecode(b"\xc3("), "LC_Y": "y", "AGENT_WORKER_TRUST": "1"}
    assert project.awk("send", "alice", "x", "--wait", env=environ).out == "hi\n"
    assert (project.root / "told").read_text() == "[][y]\n"
    assert "environment.left_out LC_X" in (project.state / "kernel.log").read_text()


@pytest.mark.long("tests/kernel/agents/test_catalog.py")
def test_a_folder_of_definitions_that_is_a_file_or_a_pipe_is_told(project: Project) -> None:
    folders = (".agents", ".workflows")
    shutil.rmtree(project.root / ".agents")
    for file, pipe in (folders, folders[::-1]):
        (project.root / file).write_text("")
        os.mkfifo(project.root / pipe)
        checked = project.awk("validate")
        assert checked.code == 78
        for folder in folders:
            assert f"at {folder}:1:1" in checked.err
        if file == ".agents":
            assert project.awk("start").code == 0
            told = project.ask("GET", "/status")["broken"]
            why = "is not a folder"
            assert sorted((one["path"], one["message"]) for one in told) == [(folder, why) for folder in folders]
            project.until("definition.broken", holds=lambda event: event["data"]["path"] == ".agents")
            project.until("definition.broken", holds=lambda event: event["data"]["path"] == ".workflows")
            project.stop()
        for folder in folders:
            (project.root / folder).unlink()
