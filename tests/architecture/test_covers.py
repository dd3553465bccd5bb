"""Long tests name covers that the default suite runs, and a workflow runs what the default suite leaves out."""

import re
from typing import Any, Final

import pytest
import yaml

from tests.architecture import covers
from tests.architecture.covers import BREAKS, Break, Claim, breaks, claims, default_tests, fault
from tests.architecture.sources import ROOT, sources

CLAIMS: Final = list(claims())


def test_every_long_test_names_a_cover_that_the_default_suite_runs() -> None:
    assert len(CLAIMS) > 100, "the marks are no longer found"
    assert [f"{one.place}: {why}" for one in CLAIMS if (why := fault(one)) is not None] == []


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ((), "names no cover"),
        (("somewhere",), "neither a path"),
        (("tests/kernel/nothing",), "runs no test"),
        (("tests/browser/test_page.py",), "runs no test"),
        (("test_that_is_not_there",), "runs no test"),
        (("tests/kernel/store", "tests/none"), "runs no test"),
        (("tests/kernel/store", "tests/kernel/store/test_rules.py"), None),
    ],
)
def test_a_cover_that_covers_nothing_is_found(words: tuple[str, ...], why: str | None) -> None:
    said = fault(Claim("x:1", "tests/architecture/test_covers.py", words))
    assert said is None if why is None else why in str(said)


def test_every_recorded_break_is_of_a_cover_and_of_a_line_that_is_there() -> None:
    """``scripts/covers`` runs them; here they are held against the code, so that none is forgotten when it changes."""
    recorded = breaks()
    named = {word for one in CLAIMS for word in one.words} | {
        one.file for one in CLAIMS if covers.SAME_FILE in one.words
    }
    assert [one.cover for one in recorded if one.cover not in named] == []
    assert len({one.cover for one in recorded}) >= 40, BREAKS
    for one in recorded:
        assert one.applied((ROOT / one.file).read_text("utf-8"))


def test_a_break_that_no_longer_fits_is_refused() -> None:
    one = Break(cover="x", file="x.py", line="if a:", old="a", new="False")
    assert one.applied("if a:\n    b\n") == "if False:\n    b\n"
    for text in ("if b:\n", "if a:\nif a:\n"):
        with pytest.raises(ValueError, match="record another"):
            one.applied(text)


def test_a_file_that_is_long_as_a_whole_has_no_default_tests() -> None:
    found = {source.name: default_tests(source) for source in sources("tests/browser", "tests/kernel/store")}
    assert found["tests/browser/test_page.py"] == set()
    assert found["tests/kernel/store/test_rules.py"]


WORKFLOW: Final[dict[Any, Any]] = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text("utf-8"))


def _commands(job: dict[str, Any]) -> list[str]:
    return [str(step["run"]) for step in job["steps"] if "run" in step]


def test_the_workflow_runs_the_default_suite_on_every_version_at_each_push() -> None:
    """3.11 to 3.14; what it calls exists, and it may only read."""
    on = WORKFLOW[True]  # YAML 1.1 reads the key on: as true
    assert {"push", "pull_request", "schedule"} <= set(on)
    assert on["push"]["tags"] == ["v*"]
    assert WORKFLOW["permissions"] == {"contents": "read"}
    assert WORKFLOW["jobs"]["default"]["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13", "3.14"]
    assert _commands(WORKFLOW["jobs"]["default"])[-1] == "scripts/test"
    for job in WORKFLOW["jobs"].values():
        assert job["timeout-minutes"] <= 180
        for command in _commands(job):
            for script in re.findall(r"scripts/\w+", command):
                assert (ROOT / script).stat().st_mode & 0o100, script
        for step in job["steps"]:
            assert "uses" not in step or re.fullmatch(r"actions/[\w-]+@v\d+", step["uses"]), step


def test_what_is_long_runs_on_a_schedule_and_before_a_release() -> None:
    job = WORKFLOW["jobs"]["all"]
    assert job["if"] == "github.event_name == 'schedule' || startsWith(github.ref, 'refs/tags/v')"
    assert {"scripts/check", "scripts/test all", "scripts/covers"} <= set(_commands(job))
    assert WORKFLOW[True]["schedule"] == [{"cron": "23 3 * * *"}]
