"""Schemathesis against the description that a kernel gives of itself: ``scripts/soak openapi [EXAMPLES] [SEED]``.

Every operation but those that stream or stop the kernel, with a token of scope approve; data that fits the schema and
data that does not. Not asked: whether all that fits the schema is taken, since no schema says which runs there are; and
not the five paths that are, for the router, also those of a workflow whose tag is pause, resume or continue, and of an
entry of memory that is called purge or search.
"""

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.project import empty_project

SCHEMATHESIS: Final = Path(".peers/schemathesis/bin/schemathesis")
NOT_ASKED: Final = (
    r"^/(events|run|serve|shutdown)$|/export$|^/workflows/\{name\}/(continue|pause|resume)$|/memory/(purge|search)$"
)


def main(examples: str = "60", seed: str = "20261122") -> int:
    """Run it. Returns its exit code: 0 where nothing was found."""
    with tempfile.TemporaryDirectory() as folder:
        project = empty_project(Path(folder))
        project.agent("alice", "text: done")
        project.write(".workflows/review.yaml", "agents:\n  alice: { ref: alice }\n")
        assert project.awk("start", "review", "--trust").code == 0
        try:
            token = project.ask("POST", "/tokens", {"scope": "approve"})["token"]
            options = [
                *(
                    "-H",
                    f"Authorization: Bearer {token}",
                    "--exclude-path-regex",
                    NOT_ASKED,
                    "--seed",
                    seed,
                    "-n",
                    examples,
                ),
                *(
                    "--exclude-checks",
                    "positive_data_acceptance,missing_required_header",
                    "--phases",
                    "coverage,fuzzing",
                ),
                *("--request-timeout", "10", "--continue-on-failure", "--suppress-health-check", "all"),
            ]
            url = f"{project.record()['url']}/openapi.json"
            return subprocess.run([str(SCHEMATHESIS), "run", url, *options], check=False).returncode
        finally:
            project.awk("stop", "--yes")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
