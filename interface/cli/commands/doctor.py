"""``awk doctor``: what keeps agents from working here, each with a way out. Starts nothing, and changes nothing."""

import json
from collections.abc import Iterator
from contextlib import suppress

from interface.cli.context import Context
from interface.cli.exits import Exit
from interface.cli.output import Screen, one_line, table
from interface.discovery import NotOurKernel, is_locked, recorded_endpoint, reject_reason
from interface.failure import Failure, Unreachable
from interface.offline import doctor
from protocol.inspection import DoctorReport, DoctorRow
from protocol.version import VERSION


def run_doctor(context: Context) -> int:
    kernel = list(kernel_rows(context))
    runs = any(row.detail.startswith("up ") for row in kernel) or is_locked(context.project)
    rows = (*kernel, *doctor(context.project, context.environ, context.clock.wall(), runs=runs).rows)
    context.answer(DoctorReport(rows=rows), doctor_lines)
    return Exit.OK if all(row.ok for row in rows) else Exit.FAILED


def kernel_rows(context: Context) -> Iterator[DoctorRow]:
    """The kernel of the project: whether one is up, is ours, fits this program, and works."""
    try:
        client = context.find_kernel()
        status = json.loads(client.get("/status"))
    except NotOurKernel as error:
        yield _row(str(error), "end what listens there, or remove the record; then awk start")
        return
    except (Unreachable, Failure) as error:
        reason = reject_reason(context.project)
        if reason is not None:
            yield _row(reason, "chmod 600 it if it is yours; awk start writes another")
        elif recorded_endpoint(context.project) is not None and isinstance(error, Unreachable):
            yield _row("the kernel of the record does not answer: it was killed, or hangs", "awk start")
        elif isinstance(error, Unreachable):
            yield _row("none runs")
        else:
            yield _row(str(error), error.hint or "see awk status")
        return
    found = status["kernel"]
    yield _row(f"up with pid {found['pid']}, version {found['version']}")
    if found["version"] != VERSION:
        yield _row(f"it is version {found['version']}, and this program {VERSION}", "awk restart --kernel")
    if status.get("notice"):
        yield _row(str(status["notice"]), "awk status says more")
    if status.get("needs"):
        yield _row(f"{status['needs']} need you: awk needs")  # work that waits is not a fault of the machine
    with suppress(Unreachable, Failure):  # a kernel of an older version knows none
        for node in json.loads(client.get("/nodes"))["nodes"]:
            way_out = {"off": f"{node['why'] or 'it is not tried'}; awk node list", "lost": "awk node list"}
            detail = f"node {node['name']} is {node['state']}"
            yield _row(detail, way_out.get(node["state"]))


def _row(detail: str, fix: str | None = None) -> DoctorRow:
    return DoctorRow(check="kernel", ok=fix is None, detail=detail, fix=fix)


def doctor_lines(report: DoctorReport, screen: Screen) -> list[str]:
    wrong = [row for row in report.rows if not row.ok]
    lines: list[str] = []
    for row in wrong:
        lines += [one_line(f"{row.check}: {row.detail}"), f"  {one_line(str(row.fix))}"]
    right = [[row.check, one_line(row.detail)] for row in report.rows if row.ok]
    return [*lines, *table(["CHECK", "FINE"], right, screen), f"{len(wrong)} wrong" if wrong else "nothing is wrong"]
