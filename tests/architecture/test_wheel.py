"""The wheel: exactly four packages, typed, with their data."""

import subprocess
import sys
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.architecture.sources import PACKAGES, ROOT
from worker.fork.preload import ADAPTERS


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout, built as a user's pip would."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def names(wheel: Path) -> frozenset[str]:
    """Every file in the wheel."""
    with ZipFile(wheel) as archive:
        return frozenset(archive.namelist())


@pytest.mark.wheel
def test_the_wheel_holds_the_four_packages_and_nothing_else(names: frozenset[str]) -> None:
    tops = {name.split("/")[0] for name in names if ".dist-info/" not in name and ".data/" not in name}
    assert tops == set(PACKAGES)


@pytest.mark.wheel
def test_the_wheel_is_typed(names: frozenset[str]) -> None:
    """PEP 561: py.typed in each package."""
    assert {f"{package}/py.typed" for package in PACKAGES} <= names


@pytest.mark.wheel
def test_the_wheel_carries_every_file_of_the_packages(names: frozenset[str]) -> None:
    ours = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert ours - names == set()


@pytest.mark.wheel
def test_the_wheel_installs_both_commands_as_scripts_of_plain_sh(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        scripts = {name.rpartition("/")[2]: archive.read(name) for name in archive.namelist() if "/scripts/" in name}
        assert not any(name.endswith("entry_points.txt") for name in archive.namelist())
        modes = {info.external_attr >> 16 & 0o111 for info in archive.infolist() if "/scripts/" in info.filename}
    assert set(scripts) == {"awk", "agent-worker"}
    assert all(text.startswith(b"#!/bin/sh\n") for text in scripts.values())
    assert modes == {0o111}


@pytest.mark.wheel
def test_the_wheel_installs_a_manual_page_for_each_command(names: frozenset[str]) -> None:
    pages = {name.partition("/man/man1/")[2] for name in names if "/data/share/man/" in name}
    assert pages == {"awk.1", "agent-worker.1"}


@pytest.mark.wheel
def test_the_shim_looks_for_the_package_under_its_name(wheel: Path) -> None:
    name = wheel.name.split("-", maxsplit=1)[0]
    assert f"/{name}-*.dist-info" in (ROOT / "interface/agent-worker.sh").read_text()


def test_every_dependency_is_pinned_in_the_constraints() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    asked = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    wanted = {_plain(text) for text in asked}
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pinned = {_plain(line) for line in lines if "==" in line}
    assert wanted - pinned == set()
    assert [line for line in lines if "://" in line or line.startswith("-")] == []


def test_the_default_contains_every_extra_of_a_model_client() -> None:
    """Decisions 14.3: an extra names what an installation may leave out."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    for dialect in ADAPTERS:
        (client,) = project["optional-dependencies"][dialect]
        assert client in project["dependencies"]


def _plain(requirement: str) -> str:
    name = requirement.partition("=")[0].partition(">")[0].partition("<")[0]
    return name.strip().lower().replace("_", "-")


@pytest.mark.wheel
def test_the_wheel_has_the_page(names: frozenset[str]) -> None:
    files = {path.relative_to(ROOT).as_posix() for path in (ROOT / "interface/web").rglob("*") if path.is_file()}
    assert "interface/web/index.html" in files
    assert files <= names
