"""Merge of ten branches without conflicts: one after the other, compared with all requested at once."""

import time
from collections.abc import Iterator
from typing import Final

from scripts.benchmarks.figure import Figure
from scripts.benchmarks.load import LoadConnection
from scripts.benchmarks.running_kernel import running
from tests.project import Project

BRANCHES: Final = 10
CHECK_SECONDS: Final = 1
"""Duration of the check of a merge. The check only sleeps, so that concurrent checks do not compete for processors."""
WORKFLOW: Final = """\
agents:
  coder: {backend: mock, mock: [{shell: "echo new > $(mktemp new-XXXXXX.txt)"}, {text: done}]}
workspace: {git: worktree}
kickoff: "@coder go"
"""


def measure() -> Iterator[Figure]:
    """Yield the speed-up by concurrent merges, with a slow check and without a check."""
    with running({".workflows/solo.yaml": WORKFLOW, ".gitignore": ".agents/\n.workspace/\n"}) as measured:
        project = measured.project
        project.commit()
        connection = measured.connect()
        for check, said, limit in (
            (f"sleep {CHECK_SECONDS}", f"with a check of {CHECK_SECONDS} s", 3.0),
            ("", "without a check", 1.5),
        ):
            alone, together = (
                _seconds(connection, _runs(project), check, at_once=at_once) for at_once in (False, True)
            )
            name = f"{BRANCHES} branches land at once, {said} ({alone:.1f} s alone)"
            yield Figure(name, alone / together, limit, "x", least=True)


def _runs(project: Project) -> list[str]:
    """Execute ten more runs and return their ids; each run leaves one branch to merge."""
    found: list[str] = []
    for _ in range(BRANCHES):
        ran = project.awk("run", "solo", "--trust", "--json")
        if ran.code:
            raise RuntimeError(ran.err)
        found.append(ran.json()["id"])
    return found


def _seconds(connection: LoadConnection, runs: list[str], check: str, *, at_once: bool) -> float:
    """Return the seconds until the branches of all ``runs`` are merged."""
    begin = time.perf_counter()
    for group in [runs] if at_once else [[run] for run in runs]:
        for run in group:
            connection.call("POST", f"/runs/{run}/merge", {"check": check})
        for run in group:
            ended = connection.call("GET", f"/runs/{run}/merge?wait=true")
            if ended["state"] != "merged":
                raise RuntimeError(str(ended))
    return time.perf_counter() - begin
