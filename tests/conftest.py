"""Fixtures for tests that meet the program as a user does: a project of their own and a real kernel."""

import gc
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.project import Project, empty_project

# What is not kept is compiled by each process anew, and the tests start thousands.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Six thousand tests and all that they import stay: to look for garbage there takes a seventh of their collection.
gc.disable()

# A shell has what runs in its background ignore SIGINT, and nohup SIGHUP. Whatever we start would do so as well.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# An example that takes long on a busy machine says nothing about what it tries. ``scripts/soak properties`` tries more.
settings.register_profile("untimed", deadline=None, max_examples=int(os.environ.get("AWK_TEST_EXAMPLES", "15")))
settings.load_profile("untimed")


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--promise P3`` chooses the tests of one row of docs/contributing/promises.md, ``--long`` takes all."""
    parser.addoption("--promise", action="append", metavar="ID", help="run only tests marked with this id")
    parser.addoption("--long", action="store_true", help="run those marked long as well")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what serves none of the promises that were asked for; where none was, what is long."""
    wanted: set[str] = set(config.getoption("--promise") or ())
    if wanted:
        chosen = [item for item in items if any(wanted & set(mark.args) for mark in item.iter_markers("promise"))]
    elif not config.getoption("--long"):
        chosen = [item for item in items if item.get_closest_marker("long") is None]
    else:
        return
    left_out = set(items).difference(chosen)
    config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    items[:] = chosen


def pytest_collection_finish() -> None:
    """Let no collection go through six thousand tests and all that they import: a fifteenth of their time."""
    gc.freeze()
    gc.enable()


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """An empty project; a kernel that a command starts in it is stopped at the end."""
    made = empty_project(tmp_path)
    yield made
    made.stop()


@pytest.fixture
def kernel_process(project: Project) -> Project:
    """The project with its kernel running, started as a user starts it."""
    started = project.awk("start")
    assert started.code == 0, started.err
    return project


@pytest.fixture(scope="module")
def shared_kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A project whose kernel serves all tests of a file that ask for it: each has agents and workflows of its own."""
    made = empty_project(tmp_path_factory.mktemp("shared"))
    started = made.awk("start")
    assert started.code == 0, started.err
    yield made
    made.stop()
