"""Starting a workflow with a real store and real setup commands: all or nothing."""

import os
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import trio

from kernel.agents.catalog import Catalog
from kernel.git.repository import Repository
from kernel.procs.launcher import Launcher
from kernel.store import messages, spending, workflows
from kernel.store.transitions import worktrees
from kernel.store.transitions.runs import StartedRun
from kernel.workflows.instruction_prompt import definition_for
from kernel.workflows.prepare import PreparedWorkflow, prepare
from kernel.workflows.start import start
from protocol.api.runs import RunRequest
from protocol.api.workflows import StartRequest
from protocol.errors import Refused
from protocol.limits import RunBudget
from tests.kernel.git.git_project import launched
from tests.kernel.inspect import files
from tests.kernel.refusals import faults, refused
from tests.kernel.store.running_store import Store, open_store

MOCK = "backend: mock, mock: [{text: x}]"
REVIEW = f"""\
agents:
  alice: {{ref: alice, max_steps: 5}}
  bob: {{{MOCK}}}
params: [{{name: who, default: nobody}}]
setup:
  - shell: printf '%s' "@bob [${{{{ params.who }}}}]"
    as: said
kickoff: |
  @alice in ${{{{ workflow.tag }}}} for ${{{{ params.who }}}}: ${{{{ said }}}}
"""


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    root = tmp_path / "project"
    files.write(root, {".agents/alice.yaml": f"{{{MOCK}}}", ".workflows/review.yaml": REVIEW})
    return Catalog(root)


def write(catalog: Catalog, text: str) -> None:
    (catalog.root / ".workflows" / "review.yaml").write_text(text)


def asked(*params: str, trusted: bool = True, tag: str = "main", timeout: float | None = None) -> RunRequest:
    return RunRequest(tag=tag, params=params, trust=trusted, timeout_seconds=timeout)


def checked(
    catalog: Catalog, what: RunRequest | None = None, environ: dict[str, str] | None = None
) -> PreparedWorkflow:
    what = what or asked()
    return prepare(catalog, what.start("review"), what.options(), environ=environ or {})


def refusal(catalog: Catalog, what: RunRequest | None = None) -> Refused:
    return refused(checked, catalog, what)


@dataclass
class Stage:
    store: Store
    launcher: Launcher

    async def start(self, prepared: PreparedWorkflow, repository: Repository | None = None) -> StartedRun:
        environ = {"PATH": "/usr/bin:/bin", "CANARY": "secret"}
        store = self.store
        return await start(
            prepared,
            launcher=self.launcher,
            writer=store.writer,
            environ=environ,
            now_ms=lambda: store.clock.now_ms,
            repository=repository,
        )

    async def refused(self, prepared: PreparedWorkflow) -> Refused:
        with pytest.raises(Refused) as caught:
            await self.start(prepared)
        assert self.store.reader.now(workflows.running) == ()
        assert self.store.reader.now(messages.channel, prepared.place, 10) == ()
        return caught.value


@asynccontextmanager
async def stage(tmp_path: Path) -> AsyncGenerator[Stage]:
    async with open_store(":memory:") as store, launched(tmp_path) as launcher:
        yield Stage(store, launcher)


@pytest.mark.promise("CF16", "P19")
async def test_a_started_workflow_has_its_members_and_its_kickoff(catalog: Catalog, tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        started = await on.start(checked(catalog, asked("--who", '$(id) @bob "x"', tag="t1")))
        assert (started.space, started.place) == ("review:t1#1", "review:t1")
        [record] = on.store.reader.now(workflows.running)
        assert (record.name, record.mode, record.file) == ("review", "run", ".workflows/review.yaml")
        assert record.deadline_ms == on.store.clock.now_ms + 7_200_000
        kickoff = next(
            said for said in on.store.reader.now(messages.channel, started.space, 10) if said.kind == "kickoff"
        )
        assert kickoff.text == '@alice in t1 for $(id) @bob "x": @bob [$(id) @bob "x"]\n'
        assert kickoff.to == ("alice",)


@pytest.mark.promise("CF18")
async def test_a_member_is_its_file_as_it_is_now_with_the_overrides_of_the_workflow(
    catalog: Catalog, tmp_path: Path
) -> None:
    async with stage(tmp_path) as on:
        started = await on.start(checked(catalog))

        def now(key: str, space: str) -> tuple[str, int, int]:
            definition = definition_for(key, space, catalog, on.store.reader)
            return definition.name, definition.max_steps, definition.max_tokens

        (catalog.root / ".agents" / "alice.yaml").write_text(f"{{{MOCK}, max_tokens: 99}}")
        assert now("alice", started.space) == ("alice", 5, 99)
        assert now("alice", "dm:alice") == ("alice", 100, 99)
        assert now("bob@review:main#1", started.space) == ("bob", 100, 8192)
        (catalog.root / ".agents" / "alice.yaml").unlink()
        with pytest.raises(Refused, match="agent 'alice' not found"):
            now("alice", started.space)


STEP = "agents: {alice: {ref: alice}}\nkickoff: '@alice ${{ out }}'\nsetup:\n  - "


@pytest.mark.promise("CF15")
@pytest.mark.parametrize(
    ("step", "why", "hint"),
    [
        ("{shell: 'echo no >&2; exit 3', as: out}", "exit code 3: echo no >&2; exit 3", "output:\nno"),
        ("{shell: 'sleep 60', as: out, timeout: 300ms}", "timed out after 300ms: sleep 60", None),
        ("{shell: 'yes', as: out}", "printed more than 256 KiB: yes", None),
        ("{shell: 'printf \"\\377\"', as: out}", "its output is not UTF-8 text", None),
        ("{shell: 'kill -9 $$', as: out}", "killed by signal 9", None),
    ],
)
async def test_a_failed_step_starts_nothing(catalog: Catalog, tmp_path: Path, step: str, why: str, hint: str) -> None:
    write(catalog, STEP + step)
    async with stage(tmp_path) as on:
        error = await on.refused(checked(catalog))
    assert error.code == "setup_failed"
    assert f"setup[0] failed: {why}" in error.text
    assert error.hint == hint


async def test_a_step_of_git_outside_a_repository_says_what_to_do(catalog: Catalog, tmp_path: Path) -> None:
    write(catalog, STEP + "{shell: git diff  HEAD, as: out}")
    async with stage(tmp_path) as on:
        error = await on.refused(checked(catalog))
        assert error.text == "workflow 'review' needs a git repository: setup step 1 (git diff HEAD) failed"
        assert error.hint == "run: git init"
        await trio.run_process(("git", "init", "--quiet", str(catalog.root)))
        error = await on.refused(checked(catalog))
        assert error.text.startswith("setup[0] failed: exit code 128: git diff HEAD")
        write(catalog, STEP + "{shell: git frobnicate, as: out}")
        assert "frobnicate" in str((await on.refused(checked(catalog))).hint)


@pytest.mark.promise("P18", "CF15")
async def test_a_step_sees_the_project_and_little_else(catalog: Catalog, tmp_path: Path) -> None:
    """contracts 1: working directory; no secret of the kernel; stdin ends at once."""
    write(catalog, STEP + "{shell: 'pwd; cat; echo ${CANARY:-none}', as: out}")
    async with stage(tmp_path) as on:
        started = await on.start(checked(catalog))
        said = on.store.reader.now(messages.channel, started.space, 10)
    assert said[-1].text == f"@alice\n```out\n{catalog.root}\nnone\n```"


async def test_a_second_start_of_a_running_workflow_is_refused(catalog: Catalog, tmp_path: Path) -> None:
    """contracts 7: exit 2; by the commit even if two raced past the first check."""
    write(catalog, "agents: {alice: {ref: alice}}\nkickoff: '@alice go'\n")
    async with stage(tmp_path) as on:
        prepared = checked(catalog)
        await on.start(prepared)
        with pytest.raises(Refused, match="already running"):
            await on.start(prepared)
    with pytest.raises(Refused) as caught:
        prepare(catalog, asked().start("review"), asked().options(), environ={}, running=frozenset({"review:main"}))
    assert (caught.value.code, caught.value.meaning.exit_code) == ("already_running", 2)


@pytest.mark.promise("CF14", "CF20", "P19")
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (STEP + "{shell: git diff, as: out}", "setup runs: git diff"),
        ("agents: {alice: {ref: alice}}\nkickoff: '@alice ${{ env.SECRET }}'", "it reads $SECRET"),
        ("agents: {b: {backend: mock, mock: [{shell: id}]}}\nkickoff: '@b go'", "b runs: id"),
        (
            "agents: {b: {model: x/m, provider: {name: x, base_url: 'http://x'}, prompt: {system: s}}}\nkickoff: '@b'",
            "b sends its prompts to http://x",
        ),
    ],
)
def test_what_a_repository_could_abuse_waits_for_trust(catalog: Catalog, text: str, reason: str) -> None:
    """Exit 7, and how to grant it."""
    write(catalog, text)
    error = refusal(catalog, asked(trusted=False))
    assert (error.code, error.meaning.exit_code) == ("untrusted", 7)
    assert reason in error.text
    assert "--trust" in (error.hint or "")
    assert "AGENT_WORKER_TRUST=1" in (error.hint or "")


@pytest.mark.promise("CF20")
def test_a_workflow_that_could_abuse_nothing_needs_no_trust(catalog: Catalog) -> None:
    write(catalog, "agents: {alice: {ref: alice}}\nkickoff: '@alice go'\n")
    assert checked(catalog, asked(trusted=False)).place == "review:main"


@pytest.mark.promise("CF21")
def test_a_run_needs_a_kickoff_and_somebody_to_begin(catalog: Catalog) -> None:
    """contracts 7: run without kickoff is exit 2. A start may wait for messages."""
    write(catalog, "agents: {alice: {ref: alice}}\n")
    assert refusal(catalog).code == "no_kickoff"
    assert prepare(catalog, StartRequest(workflow="review"), environ={}).spec.options.timeout_seconds is None
    write(catalog, "agents: {alice: {ref: alice}}\nparams: [{name: x}]\nkickoff: |\n  go `@alice` ${{ params.x }}\n")
    error = refusal(catalog, asked("--x", "@alice"))
    assert (error.code, error.hint) == ("bad_definition", "mention one of @alice")
    assert ".workflows/review.yaml:3:1 kickoff: mentions no agent" in error.text


def test_missing_keys_are_told_before_anything_runs(catalog: Catalog) -> None:
    """contracts 7: exit 4."""
    write(catalog, "agents: {b: {model: openai/m, prompt: {system: s}}}\nkickoff: '@b go'\n")
    error = refusal(catalog)
    assert (error.code, error.meaning.exit_code) == ("no_credentials", 4)
    assert error.text == "b: API key for openai not found: set OPENAI_API_KEY in the environment of the kernel"
    assert checked(catalog, environ={"OPENAI_API_KEY": "k"}).place == "review:main"


@pytest.mark.promise("CF14")
def test_a_variable_of_the_environment_that_is_not_set_is_an_error(catalog: Catalog) -> None:
    write(catalog, "agents: {alice: {ref: alice}}\nkickoff: '@alice ${{ env.PR }}'\n")
    assert "needs $PR, which is not set" in refusal(catalog).text
    assert checked(catalog, environ={"PR": "7"}).values["env.PR"] == "7"


def test_wrong_words_and_tags_are_usage_errors(catalog: Catalog) -> None:
    """contracts 7: exit 2."""
    assert refusal(catalog, asked("--hwo", "x")).code == "bad_request"
    assert refusal(catalog, asked(tag="../x")).code == "bad_request"
    assert refusal(catalog, asked(timeout=0.0)).code == "bad_request"
    assert refusal(catalog, asked(timeout=-1.0)).code == "bad_request"


@pytest.mark.parametrize(("timeout", "seconds"), [(None, 7200.0), (5.0, 5.0), (9000.0, 7200.0)])
def test_a_run_ends_at_the_earlier_of_its_two_deadlines(
    catalog: Catalog, timeout: float | None, seconds: float
) -> None:
    assert checked(catalog, asked(timeout=timeout)).spec.options.timeout_seconds == seconds


@pytest.mark.parametrize(
    ("file", "flags", "holds"),
    [
        ("", RunBudget(), RunBudget()),
        ("", RunBudget(tokens=5), RunBudget(tokens=5)),
        ("budget: {tokens: 100, usd: 2}\n", RunBudget(), RunBudget(tokens=100, usd=2.0)),
        ("budget: {tokens: 100, usd: 2}\n", RunBudget(tokens=500, usd=1.5), RunBudget(tokens=100, usd=1.5)),
    ],
)
async def test_of_two_budgets_the_stricter_holds(
    file: str, flags: RunBudget, holds: RunBudget, catalog: Catalog, tmp_path: Path
) -> None:
    """contracts 7: --max-cost and --max-tokens beside what the file says."""
    write(catalog, f"agents: {{alice: {{ref: alice}}}}\nkickoff: '@alice go'\n{file}")
    async with stage(tmp_path) as on:
        begun = await on.start(
            checked(catalog, RunRequest(trust=True, max_tokens=flags.tokens, max_cost_usd=flags.usd))
        )
        money = on.store.reader.now(spending.of_run, begun.run)
        assert money is not None
        assert RunBudget(tokens=money.budget_tokens, usd=money.budget_usd) == holds


async def test_what_was_started_has_a_wall_time_only_if_its_file_says_so(catalog: Catalog, tmp_path: Path) -> None:
    write(catalog, "agents: {alice: {ref: alice}}\nlimits: {wall_time: 1m}\n")
    async with stage(tmp_path) as on:
        begun = await on.start(prepare(catalog, StartRequest(workflow="review"), environ={}))
        money = on.store.reader.now(spending.of_run, begun.run)
        assert money is not None
        assert (money.wall_time_ms, money.deadline_ms) == (60_000, on.store.clock.now_ms + 60_000)


def test_a_budget_in_usd_is_refused_where_no_price_is_known(catalog: Catalog) -> None:
    (catalog.root / ".agents/alice.yaml").write_text("model: ollama/llama\nprompt: {system: hi}\n")
    write(catalog, "agents: {alice: {ref: alice}}\nkickoff: '@alice go'\n")
    limited = RunRequest(trust=True, max_cost_usd=1.0)
    error = refusal(catalog, limited)
    assert "unknown for alice (ollama/llama)" in error.text
    assert "--max-tokens" in (error.hint or "")
    counted = RunRequest(trust=True, max_tokens=1)
    assert checked(catalog, counted).spec.options.budget == RunBudget(tokens=1)


def test_a_mock_that_books_tokens_says_what_they_cost_where_a_limit_is_in_usd(catalog: Catalog) -> None:
    limited = RunRequest(trust=True, max_cost_usd=1.0)
    mock = "agents: {bob: {backend: mock, mock: [{usage: {input_tokens: 5%s}}, {text: hi}]}}\nkickoff: '@bob go'\n"
    write(catalog, mock % "")
    error = refusal(catalog, limited)
    assert "unknown for bob (mock)" in error.text
    assert "cost_usd" in (error.hint or "")
    write(catalog, mock % ", cost_usd: 0.1")
    assert checked(catalog, limited).spec.options.budget == RunBudget(usd=1.0)


@pytest.mark.promise("P15")
async def test_the_folder_of_the_workspace_is_there_for_whoever_is_told_of_it(catalog: Catalog, tmp_path: Path) -> None:
    """contracts 1: workspace.dir; a link in its place is an error, and nothing starts."""
    write(catalog, STEP + "{shell: 'echo hi > ${{ workspace.dir }}/made', as: out}")
    async with stage(tmp_path) as on:
        await on.start(checked(catalog, asked(tag="t1")))
        assert (catalog.root / ".workspace/review/t1/made").read_text() == "hi\n"
        (catalog.root / ".workspace/review/t2").symlink_to(tmp_path)
        with pytest.raises(Refused, match=r"workspace/review/t2 cannot be created"):
            await on.start(checked(catalog, asked(tag="t2")))
        assert [record.tag for record in on.store.reader.now(workflows.running)] == ["t1"]


@pytest.mark.parametrize(
    ("kickoff", "woken"),
    [("begin", ("alice", "bob")), ("'@bob begin'", ("bob",)), ("'@nobody begin'", ("alice", "bob"))],
)
async def test_without_a_workspace_a_kickoff_is_for_those_it_names_or_for_all(
    kickoff: str, woken: tuple[str, ...], catalog: Catalog, tmp_path: Path
) -> None:
    write(catalog, f"agents: {{alice: {{ref: alice}}, bob: {{{MOCK}}}}}\nworkspace: false\nkickoff: {kickoff}\n")
    async with stage(tmp_path) as on:
        begun = await on.start(checked(catalog))
        (said,) = (one for one in on.store.reader.now(messages.channel, begun.space) if one.kind == "kickoff")
        assert said.to == woken


def test_whose_exit_code_counts_must_be_somebody_of_the_workflow(catalog: Catalog) -> None:
    """contracts 7: --exit-code-from; exit 5, told before anything has run."""
    error = refusal(catalog, RunRequest(trust=True, exit_code_from="alcie"))
    assert (error.code, error.meaning.exit_code, error.hint) == ("not_a_participant", 5, "did you mean alice?")


TREES = f"""\
agents:
  alice: {{ref: alice}}
  bob: {{{MOCK}}}
setup: [{{shell: touch ran}}]
workspace: {{git: worktree, setup: [{{shell: npm ci}}], teardown: [{{shell: docker rm x}}]}}
kickoff: "@alice go"
"""


def in_git(catalog: Catalog, *words: str) -> str:
    names = {f"GIT_{who}_{what}": "t@localhost" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    environ = {"PATH": os.environ["PATH"], "HOME": str(catalog.root), **names}
    done = subprocess.run(("git", *words), cwd=catalog.root, env=environ, check=True, capture_output=True, text=True)
    return done.stdout.strip()


async def test_working_trees_are_planned_with_the_start_from_one_commit(catalog: Catalog, tmp_path: Path) -> None:
    """contracts 1: one branch and tree a member; no repository is said before setup has run; a dirty one is noted."""
    write(catalog, TREES)
    async with stage(tmp_path) as on:
        repository = Repository(
            catalog.root,
            tmp_path / "trees",
            launcher=on.launcher,
            environ={"PATH": "/usr/bin:/bin"},
            own_bin=frozenset(),
        )
        with pytest.raises(Refused, match="not a git repository"):
            await on.start(checked(catalog), repository)
        assert not (catalog.root / "ran").exists()
        in_git(catalog, "init", "--quiet")
        in_git(catalog, "add", "--all")
        in_git(catalog, "commit", "--quiet", "-m", "x")
        (catalog.root / ".agents/alice.yaml").write_text(f"{{{MOCK}, max_tokens: 9}}")
        in_git(catalog, "branch", "awk/review/r1/bob")
        started = await on.start(checked(catalog), repository)
        trees = on.store.reader.now(worktrees.of_run, started.run)
        assert [(tree.agent, tree.branch, tree.state) for tree in trees] == [
            ("alice", "awk/review/r1/alice", "planned"),
            ("bob@review:main#1", "awk/review/r1/bob.2", "planned"),
        ]
        assert {tree.base for tree in trees} == {in_git(catalog, "rev-parse", "HEAD")}
        notes = [
            said.text for said in on.store.reader.now(messages.channel, started.space, 10) if said.kind == "system"
        ]
        assert [note.endswith("uncommitted changes are not included: 1") for note in notes] == [True]


@pytest.mark.promise("P19")
def test_what_trees_run_needs_trust(catalog: Catalog) -> None:
    write(catalog, TREES)
    text = refusal(catalog, asked(trusted=False)).text
    assert "each working tree's setup runs: npm ci" in text
    assert "each working tree's teardown runs: docker rm x" in text
    write(catalog, TREES.replace("npm ci", "'npm ${{ params.x }}'").replace("git: worktree, ", ""))
    assert {error.message for error in faults(checked, catalog)} >= {
        "needs working trees",
        "cannot use variables; the command has environment variables",
    }
