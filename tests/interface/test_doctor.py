"""doctor: the kernel's rows come first, the exit code says whether something is wrong, and nothing is started."""

from typing import Any

import pytest

from interface.cli.exits import Exit
from protocol.discovery import VERSION
from protocol.inspection import DoctorReport, DoctorRow
from tests.interface.conftest import Cli
from tests.interface.hostile import HOSTILE, obeyed
from tests.interface.kernel_double import KernelDouble

KERNEL = {"pid": 7, "url": "http://127.0.0.1:1", "version": "1", "project": "/p", "uptime_seconds": 1.0}
FINE = DoctorRow(check="python", ok=True, detail="3.11.7")


def answer_with(monkeypatch: pytest.MonkeyPatch, *rows: DoctorRow) -> list[bool]:
    """Have the machine look so. Returns whether a kernel was said to run, for each look."""
    asked: list[bool] = []

    def look(*_asked: object, now: float, runs: bool) -> DoctorReport:
        assert now
        asked.append(runs)
        return DoctorReport(rows=rows)

    monkeypatch.setattr("kernel.inspect.doctor.doctor", look)
    return asked


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """The machine is in order."""
    return answer_with(monkeypatch, FINE)


def kernel_rows(cli: Cli, code: Exit) -> list[dict[str, Any]]:
    ran = cli("doctor", "--json")
    assert ran.code == code
    return [row for row in ran.json()["rows"] if row["check"] == "kernel"]


def status(**changes: object) -> dict[str, object]:
    return {"schema": "awk/status/1", "state": "up", "kernel": KERNEL, "needs": 0, **changes}


def test_without_a_kernel_nothing_is_wrong_and_none_is_started(cli: Cli, looked: list[bool]) -> None:
    assert kernel_rows(cli, Exit.OK) == [{"check": "kernel", "ok": True, "detail": "none runs", "fix": None}]
    assert looked == [False]
    assert not list(cli.home.rglob("daemon.*"))


def test_a_kernel_that_is_up_says_what_it_lacks(cli: Cli, kernel: KernelDouble, looked: list[bool]) -> None:
    kernel.answers["GET /status"] = status(notice="the disk is full")
    rows = kernel_rows(cli, Exit.FAILED)
    assert [row["detail"] for row in rows if not row["ok"]][1:] == ["the disk is full"]
    assert "it is version 1, and this program" in rows[1]["detail"]
    assert looked == [True]


@pytest.mark.usefixtures("looked")
def test_work_that_waits_for_a_person_is_listed_and_is_no_fault(cli: Cli, kernel: KernelDouble) -> None:
    """A question is what the product is for: doctor ends with 0, as it does without one."""
    kernel.answers["GET /status"] = {**status(needs=2), "kernel": {**KERNEL, "version": VERSION}}
    rows = kernel_rows(cli, Exit.OK)
    assert [row["detail"] for row in rows if "need" in row["detail"]] == ["2 need you: awk needs"]
    assert "nothing is wrong" in cli("doctor").out


@pytest.mark.usefixtures("looked")
def test_what_is_not_our_kernel_is_named_and_not_shown_the_token(cli: Cli, kernel: KernelDouble) -> None:
    kernel.proves = False
    (row,) = kernel_rows(cli, Exit.FAILED)
    assert "is not the kernel of" in row["detail"]
    assert kernel.tokens_seen == []


def test_what_files_say_is_shown_on_one_line_each(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = [DoctorRow(check="files", ok=False, detail=text, fix=text) for text in HOSTILE]
    answer_with(monkeypatch, *wrong)
    ran = cli("doctor")
    assert (ran.code, obeyed(ran.out)) == (Exit.FAILED, [])
    assert ran.out.splitlines()[-1] == f"{len(wrong)} wrong"
