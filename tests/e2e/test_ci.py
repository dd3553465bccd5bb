"""The kit for CI: the steps of action.yml and the script of the GitLab job, in a runner of the test's own.

It does as the hosts do with what these files use: expressions in ``env``, ``if`` and ``with``, bash with the files of a
step, and other people's actions not at all, but for what they were asked. Everything else of a host is not tried.
"""

import json
import os
import re
import subprocess
import textwrap
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.architecture.sources import ROOT
from tests.builders.git import commit_all, git
from tests.interface.test_reports import check_junit, outputs
from tests.project import AWK, Project

ACTION: Final[dict[str, Any]] = yaml.safe_load((ROOT / "action.yml").read_text())
STEPS: Final[list[dict[str, Any]]] = ACTION["runs"]["steps"]
GITLAB: Final[dict[str, Any]] = yaml.safe_load((ROOT / "examples/ci/gitlab.yml").read_text())
EXPRESSION: Final = re.compile(r"\$\{\{ ([a-zA-Z0-9_.-]+) \}\}")
HOSTILE: Final = """it's "quoted" $(touch evil) `touch evil` ${HOME} ; touch evil #\n::error::x | && -- *"""
STUB: Final = """\
#!/bin/sh
printf '%s\\0' "$PWD" "$PATH" "$@" >"$RUNNER_TEMP/asked"
env -0 >"$RUNNER_TEMP/environment"
echo "run=r1" >>"$GITHUB_OUTPUT"
exit "${STUB_EXIT:-0}"
"""
NPM: Final = '#!/bin/sh\nprintf "%s\\0" "$@" >"$RUNNER_TEMP/npm"\n'


@dataclass
class Runner:
    """A machine that runs the steps of one job."""

    folder: Path
    project: Path
    environ: dict[str, str]
    cache_hit: str = ""
    used: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    log: str = ""
    steps: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def temporary(self) -> Path:
        return self.folder / "temp"

    def expand(self, text: str, inputs: dict[str, str]) -> str:
        """``text`` with its expressions evaluated."""
        known = {
            "github.action_path": str(self.folder / "action"),
            "github.action_repository": "owner/agent-worker",
            "runner.temp": str(self.temporary),
            "runner.os": "Linux",
            "runner.arch": "X64",
            **{f"inputs.{name}": value for name, value in inputs.items()},
            **{
                f"steps.{step}.outputs.{name}": value
                for step, given in self.steps.items()
                for name, value in given.items()
            },
        }

        def value(match: re.Match[str]) -> str:
            assert match[1] in known or match[1].startswith("steps."), match[1]
            return known.get(match[1], "")

        return EXPRESSION.sub(value, text)

    def wanted(self, condition: str, inputs: dict[str, str]) -> bool:
        """Whether a step is run: comparisons of a name with a text, all of which hold."""
        parts = [re.fullmatch(r"([a-zA-Z0-9_.-]+) != '([^']*)'", part) for part in condition.split(" && ")]
        return all(part and self.expand(f"${{{{ {part[1]} }}}}", inputs) != part[2] for part in parts)

    def run(self, **given: str) -> int:
        """Run all steps as GitHub would, with the inputs ``given``. Returns the exit code of the first that fails."""
        inputs = {name: str(row.get("default", "")) for name, row in ACTION["inputs"].items()}
        inputs |= {name.replace("_", "-"): value for name, value in given.items()}
        for number, step in enumerate(STEPS):
            if "if" in step and not self.wanted(step["if"], inputs):
                continue
            if "uses" in step:
                self.used.append(
                    (step["uses"], {name: self.expand(text, inputs) for name, text in step["with"].items()})
                )
                self.steps[step.get("id", "")] = {"cache-hit": self.cache_hit}
                continue
            files = {
                name: self.folder / f"{name}{number}" for name in ("OUTPUT", "STEP_SUMMARY", "ENV", "PATH", "STATE")
            }
            for file in files.values():
                file.write_text("")
            env = {name: self.expand(text, inputs) for name, text in step["env"].items()}
            env |= {f"GITHUB_{name}": str(file) for name, file in files.items()}
            code = self.bash(step["run"], env)
            said = files["OUTPUT"].read_text()
            simple = dict(line.split("=", 1) for line in said.splitlines() if re.match(r"\w+=", line))
            self.steps[step.get("id", "")] = simple or outputs(said)
            if code:
                return code
        return 0

    def bash(self, script: str, env: dict[str, str]) -> int:
        file = self.folder / "step.sh"
        file.write_text(script)
        words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(file)]
        ran = subprocess.run(
            words,
            cwd=self.project,
            env={**self.environ, **env},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        self.log += ran.stdout + ran.stderr
        return ran.returncode

    def asked(self) -> list[str]:
        """The folder, the path and the words with which the program was started."""
        return (self.temporary / "asked").read_text().split("\0")[:-1]


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    """A machine with a checkout of the action, whose environment is a stub, and of a project."""
    folder, project = tmp_path / "runner", tmp_path / "work" / "project"
    for path in (folder / "temp", folder / "home", folder / "bin", folder / "action/scripts", project):
        path.mkdir(parents=True)
    environment = folder / "action/scripts/environment"
    environment.write_text(
        '#!/bin/sh\nmkdir -p "$(dirname "$0")/../.venv/bin"\ncp "$STUB" "$(dirname "$0")/../.venv/bin/agent-worker"\n'
    )
    for path, text in ((folder / "stub", STUB), (folder / "bin/npm", NPM)):
        path.write_text(text)
        path.chmod(0o755)
    environment.chmod(0o755)
    environ = {
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "HOME": str(folder / "home"), "LANG": "C.UTF-8",
        "GITHUB_ACTIONS": "true",
        "CI": "true",
        "RUNNER_TEMP": str(folder / "temp"), "GITHUB_SERVER_URL": f"file://{folder}",
        "STUB": str(folder / "stub"),
        "GIT_CONFIG_GLOBAL": os.devnull, "GITHUB_OUTPUT": os.devnull,
    }  # fmt: skip
    return Runner(folder, project, environ)


@pytest.mark.promise("P73")
def test_no_script_of_the_action_has_an_input_in_its_text_and_all_it_uses_is_pinned() -> None:
    for step in STEPS:
        assert "${{" not in step.get("run", "")
        assert re.fullmatch(
            r"actions/cache/(restore|save)@[0-9a-f]{40}", step.get("uses", f"actions/cache/save@{'0' * 40}")
        )
        assert ("run" in step) == (step.get("shell") == "bash")
    used = {match for step in STEPS for match in re.findall(r"inputs\.([a-z-]+)", json.dumps(step))}
    assert used == set(ACTION["inputs"])
    assert set(ACTION["outputs"]) == {"run", "status", "verdict", "cost_usd", "tokens"}
    assert {row["value"] for row in ACTION["outputs"].values()} == {
        f"${{{{ steps.run.outputs.{name} }}}}" for name in ACTION["outputs"]
    }


@pytest.mark.promise("P73")
def test_the_inputs_of_the_action_reach_the_program_as_they_are(runner: Runner) -> None:
    """docs/how-to/integrate/run-in-ci.md: whatever is in them, nothing of it is run; an exit code is the step's."""
    (runner.project / "sub dir").mkdir()
    runner.environ["STUB_EXIT"] = "8"
    code = runner.run(
        workflow="review", task=HOSTILE, params="depth=3\n\nname=$(touch evil)\r\n", tag="pr-1",
        budget="0.50", max_tokens="5000", report="github,junit:j.xml", trust="true", fail_on="never",
        working_directory="sub dir",
    )  # fmt: skip
    folder, path, *words = runner.asked()
    assert (code, folder) == (8, str(runner.project / "sub dir"))
    assert path == runner.environ["PATH"]
    assert words == [
        "run", "--rm", "--tag=pr-1", "--report=github,junit:j.xml", "--fail-on=never", "--max-cost=0.50",
        "--max-tokens=5000", "--timeout=30m", "--trust", "review", "--", f"--task={HOSTILE}",
        "--depth=3", "--name=$(touch evil)",
    ]  # fmt: skip
    assert list(runner.folder.parent.rglob("evil")) == []
    assert HOSTILE not in (runner.temporary / "environment").read_text()
    assert (runner.used, runner.steps["run"]) == ([], {"run": "r1"})


@pytest.mark.parametrize("hit", ["", "true"], ids=["empty", "full"])
def test_programs_for_agents_are_cached_before_any_agent_runs(hit: str, runner: Runner) -> None:
    """docs/how-to/integrate/run-in-ci.md: restored by their exact versions, else installed and stored at once."""
    runner.cache_hit = hit
    assert runner.run(workflow="review", backends="@anthropic-ai/claude-code@2.1.0\n  opencode-ai@1.2.3\n") == 0
    kept = str(runner.temporary / "agent-worker-backends")
    (restored, given), *saved = runner.used
    assert restored.startswith("actions/cache/restore@")
    assert given["path"] == kept
    assert re.fullmatch(r"agent-worker-backends-Linux-X64-[0-9a-f]{16}", given["key"])
    assert [(one.partition("@")[0], same) for one, same in saved] == ([] if hit else [("actions/cache/save", given)])
    assert (runner.temporary / "npm").exists() == (not hit)
    if not hit:
        words = (runner.temporary / "npm").read_text().split("\0")[:-1]
        assert words[-3:] == ["--", "@anthropic-ai/claude-code@2.1.0", "opencode-ai@1.2.3"]
    assert runner.asked()[1].startswith(f"{kept}/node_modules/.bin:")


@pytest.mark.parametrize(
    "given",
    [
        {"version": "$(touch evil)"}, {"version": "--upload-pack=x"}, {"backends": "claude-code"},
        {"backends": "x@1.2.3;touch evil"}, {"backends": "-g@1.0.0"},
    ],
)  # fmt: skip
def test_what_is_no_version_is_refused(given: dict[str, str], runner: Runner) -> None:
    """Before anything is fetched: exit 2."""
    assert runner.run(workflow="review", **given) == 2
    assert runner.log.startswith("error: the input ")
    assert not (runner.temporary / "npm").exists()


def test_another_version_of_the_program_is_fetched_from_the_same_repository(runner: Runner) -> None:
    """docs/how-to/integrate/run-in-ci.md: a tag or a commit."""
    _repository(runner.folder / "owner/agent-worker", runner.folder / "action")
    assert runner.run(workflow="review", version="v2") == 0
    assert runner.steps["install"] == {"bin": f"{runner.temporary}/agent-worker-source/.venv/bin"}
    assert runner.asked()[2] == "run"


def _repository(path: Path, content: Path) -> None:
    path.mkdir(parents=True)
    subprocess.run(["cp", "-R", f"{content}/.", str(path)], check=True)
    commit_all(path)
    git(path, "tag", "v2")


def gitlab(runner: Runner, job: str, **variables: str) -> int:
    """Run a job as GitLab does: before_script and script are one script."""

    def inherited(name: str) -> dict[str, Any]:
        row = GITLAB[name]
        return {**(inherited(row["extends"]) if "extends" in row else {}), **row}

    merged = inherited(job)
    given = {"CI_PROJECT_DIR": str(runner.project), "GITLAB_CI": "true", **merged["variables"], **variables}
    given = {name: value.replace("$CI_PROJECT_DIR", str(runner.project)) for name, value in given.items()}
    return runner.bash("\n".join([*merged["before_script"], *merged["script"]]), given)


def test_the_variables_of_the_gitlab_job_reach_the_program_as_they_are(runner: Runner) -> None:
    """docs/how-to/integrate/run-in-ci.md; what runs agents only reads the cache, and another job fills it."""
    _repository(runner.folder / "source", runner.folder / "action")
    given = {"AWK_SOURCE": str(runner.folder / "source"), "AWK_VERSION": "v2", "AWK_BACKENDS": "a@1.0.0\nb@2.0.0\n"}
    assert gitlab(runner, ".agent-worker-cache", **given) == 0, runner.log
    assert (runner.temporary / "npm").read_text().split("\0")[-3:-1] == ["a@1.0.0", "b@2.0.0"]
    assert not (runner.temporary / "asked").exists()
    (runner.temporary / "npm").unlink()
    more = {
        "AWK_WORKFLOW": "review",
        "AWK_TASK": HOSTILE,
        "AWK_PARAMS": "depth=3\nname=$(touch evil)",
        "AWK_BUDGET": "0.50",
        "AWK_TRUST": "true",
    }
    assert gitlab(runner, ".agent-worker", **given, **more) == 0, runner.log
    assert not (runner.temporary / "npm").exists()
    _, path, *words = runner.asked()
    assert path.startswith(f"{runner.project}/.agent-worker-cache/programs/node_modules/.bin:")
    assert words == [
        "run", "--rm", "--report", "junit:awk-junit.xml,md:awk.md,sarif:awk.sarif",
        "--max-cost=0.50", "--timeout=30m", "--trust",
        "review", "--", f"--task={HOSTILE}", "--depth=3", "--name=$(touch evil)",
    ]  # fmt: skip
    assert list(runner.folder.parent.rglob("evil")) == []
    assert (GITLAB[".agent-worker"]["cache"]["policy"], GITLAB[".agent-worker-cache"]["cache"]["policy"]) == (
        "pull",
        "pull-push",
    )
    runner.environ["STUB_EXIT"] = "124"
    assert gitlab(runner, ".agent-worker", **given, **more) == 124
    assert gitlab(runner, ".agent-worker", AWK_WORKFLOW="review") == 2


WORKFLOW: Final = """
    name: check
    params: [{ name: task, required: true }]
    agents:
      rev:
        model: mock/rev
        mock:
          - usage: { input_tokens: 100, output_tokens: 20, cost_usd: 0.0123 }
          - shell: 'echo x=1 >>"${GITHUB_ENV:-/dev/null}"; env | grep -c "^GITHUB_\\\\(ENV\\\\|OUTPUT\\\\)"'
          - text: "src/app.py:3: error: off by one ::error::x\\n::set-output name=run::evil\\n${{ message.text }}"
    kickoff: "@rev ${{ params.task }}"
    """


@pytest.mark.long("the other tests of this file, tests/interface/test_run_reports.py")
@pytest.mark.promise("P73")
def test_both_kits_run_a_workflow_with_a_real_kernel_and_leave_none(runner: Runner, project: Project) -> None:
    """run-in-ci.md: from the inputs to the outputs, with a script in the model's place; and a file with a mistake."""
    (runner.folder / "stub").write_text(f'#!/bin/sh\nexec "{AWK.parent}/agent-worker" "$@"\n')
    (runner.project / ".workflows").mkdir()
    (runner.project / ".workflows/check.yaml").write_text(textwrap.dedent(WORKFLOW))
    assert runner.run(workflow="check", task="look", trust="true", report="github,junit:j.xml") == 0, runner.log
    assert runner.steps["run"] == {"run": "r1", "status": "done", "verdict": "", "cost_usd": "0.0123", "tokens": "120"}
    assert [line for line in runner.log.splitlines() if line.startswith("::")] == [
        "::error file=src/app.py,line=3,title=rev (m4)::off by one ::error::x"
    ]
    assert "warning: another program wrote to" not in runner.log
    check_junit((runner.project / "j.xml").read_text())
    _repository(runner.folder / "source", runner.folder / "action")
    given = {
        "AWK_SOURCE": str(runner.folder / "source"),
        "AWK_VERSION": "v2",
        "AWK_WORKFLOW": "check",
        "AWK_TASK": "look",
    }
    assert gitlab(runner, ".agent-worker", **given, AWK_TRUST="true") == 0, runner.log
    check_junit((runner.project / "awk-junit.xml").read_text())
    (runner.project / ".workflows/check.yaml").write_text("name: check\nagents: 3\n")
    runner.log = ""
    assert runner.run(workflow="check") == 78
    assert runner.log.startswith("::error file=.workflows/check.yaml,line=2,col=1,title=check was not run::")
    assert runner.steps["run"]["status"] == "error"
    assert not list(runner.temporary.glob("agent-worker/projects/*/daemon.json"))
