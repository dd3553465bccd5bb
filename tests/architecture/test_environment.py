"""Packages that run the product, and develop it: versions that were tested, as wheels of known content."""

import re
import tomllib
from importlib.metadata import distribution, distributions
from typing import Final

from packaging.requirements import Requirement

from tests.architecture.sources import ROOT

PIN: Final = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)((?: \\\n    --hash=sha256:[0-9a-f]{64})+)$", re.MULTILINE)
DEVELOPMENT: Final = "# Development needs besides:"


def _key(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _pins(text: str) -> dict[str, str]:
    return {_key(name): version for name, version, _hashes in PIN.findall(text)}


def test_every_version_has_hashes_and_nothing_else_is_said() -> None:
    text = (ROOT / "constraints.txt").read_text()
    rest = PIN.sub("", text).split("\n")
    assert [line for line in rest if line and not line.startswith("#")] == []
    assert "://" not in text


def test_the_environment_installs_by_hash_alone() -> None:
    script = (ROOT / "scripts/environment").read_text()
    assert "pip --require-hashes --only-binary :all: -r .venv/requirements.txt" in script
    assert "pip --no-build-isolation -e ." in script
    assert script.count("-m pip install") == script.count("--no-deps") == 1
    assert DEVELOPMENT in (ROOT / "constraints.txt").read_text()


def test_what_is_installed_is_what_is_pinned() -> None:
    pins = _pins((ROOT / "constraints.txt").read_text())
    ours = {_key(one.metadata["Name"]): one for one in distributions() if _key(one.metadata["Name"]) in pins}
    assert {name: one.version for name, one in ours.items()}.items() <= pins.items()
    needed = {
        _key(need.name)
        for one in (*ours.values(), distribution("agent-worker-supervisor"))
        for need in map(Requirement, one.requires or ())
        if need.marker is None or need.marker.evaluate({"extra": ""})
    }
    assert needed - pins.keys() == set()


def test_what_builds_the_package_is_pinned_too() -> None:
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    product = _pins((ROOT / "constraints.txt").read_text().partition(DEVELOPMENT)[0])
    assert needed == [f"hatchling=={product['hatchling']}"]
    assert "editables" in product, "what an editable install needs"
