"""The images of the Dockerfile: pinned, without secrets, never root. Where docker runs, they are built and answer."""

import json
import re
import shutil
import subprocess
from typing import Final

import pytest

from protocol.discovery import VERSION
from tests.architecture.sources import ROOT

TEXT: Final = (ROOT / "Dockerfile").read_text("utf-8").replace("\\\n", " ")
STAGES: Final = {
    name: (base, body)
    for base, name, body in re.findall(r"^FROM (\S+) AS (\w+)\n(.*?)(?=^FROM|\Z)", TEXT, re.DOTALL | re.MULTILINE)
}
USED: Final = ("kernel", "node", "develop")
DOCKER: Final = shutil.which("docker")


def run(*argv: str, seconds: int = 280) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, cwd=ROOT, check=False, capture_output=True, text=True, timeout=seconds)


def lines(stage: str) -> list[str]:
    """The instructions of a stage, after those of the stages that it starts from."""
    base, body = STAGES[stage]
    own = [line for line in body.splitlines() if line and not line.startswith("#")]
    return [*(lines(base) if base in STAGES else ()), *own]


def last(stage: str, instruction: str) -> str:
    return [line.removeprefix(f"{instruction} ") for line in lines(stage) if line.startswith(f"{instruction} ")][-1]


def test_every_stage_starts_from_an_exact_version_of_one_image() -> None:
    assert re.search(r"^ARG PYTHON=3\.\d+\.\d+$", TEXT, re.MULTILINE)
    assert {base for base, _ in STAGES.values()} - STAGES.keys() == {"python:${PYTHON}-slim-bookworm"}
    assert list(STAGES)[-1] == "kernel", "what a build without --target makes"


@pytest.mark.parametrize("stage", USED)
def test_no_image_runs_as_root(stage: str) -> None:
    assert (last(stage, "USER"), last(stage, "ARG")) == ("$UID", "UID=10001"), "a number, which runAsNonRoot can check"


@pytest.mark.parametrize("stage", USED[:2])
def test_kernels_and_nodes_have_a_health_check(stage: str) -> None:
    assert json.loads(last(stage, "HEALTHCHECK").partition(" CMD ")[2])


def test_no_image_takes_a_secret_or_files_beyond_the_package() -> None:
    assert not re.search(r"^(ARG|ENV).*(KEY|TOKEN|SECRET|PASSWORD)", TEXT, re.MULTILINE)
    first, *kept = (ROOT / ".dockerignore").read_text("utf-8").split()
    assert first == "*"
    assert {"!/.git", "!/.agents", "!/.env"}.isdisjoint(kept)


def test_packages_are_installed_by_hash_alone() -> None:
    assert STAGES["build"][1].count("pip install") == STAGES["build"][1].count("--no-deps") == 2
    assert "--require-hashes --only-binary :all:" in STAGES["build"][1]


def test_the_development_container_uses_a_stage_and_its_user() -> None:
    container = json.loads((ROOT / ".devcontainer/devcontainer.json").read_text("utf-8"))
    assert container["build"]["target"] in USED
    assert f'useradd --create-home --uid "$UID" {container["remoteUser"]} ' in TEXT
    assert (ROOT / container["postCreateCommand"].split()[0]).exists()


@pytest.mark.skipif(shutil.which("hadolint") is None, reason="needs hadolint")
def test_hadolint_finds_nothing() -> None:
    found = run("hadolint", "Dockerfile")
    assert (found.stdout, found.returncode) == ("", 0)


@pytest.mark.skipif(DOCKER is None or run(DOCKER, "info", seconds=60).returncode != 0, reason="needs docker")
@pytest.mark.parametrize(
    ("stage", "command"), [("kernel", "init --example hello && agent-worker send alice hi --wait"), ("node", "version")]
)
def test_an_image_is_built_and_answers(stage: str, command: str) -> None:
    build = run("docker", "build", "-q", "--target", stage, ".")
    assert build.returncode == 0, build.stderr
    said = run("docker", "run", "--rm", build.stdout.strip(), "sh", "-c", f"id -u && agent-worker {command}")
    assert said.stdout.startswith("10001\n"), said.stderr
    assert said.stdout.rstrip().endswith(("hi", VERSION))
