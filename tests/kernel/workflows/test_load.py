"""A workflow file: everything that can be wrong with it is told before anything starts."""

import os
from pathlib import Path

import pytest

from kernel.agents.catalog import Catalog
from kernel.source.diagnostics import BadDefinition
from kernel.workflows.load import LoadedWorkflow, load_workflow
from protocol.agent import Action, AgentDefinition, Prompt, Rule, Timeouts
from protocol.api.document import FileError
from protocol.errors import Refused
from protocol.workflow import Param, Ref, RefPrompt, RunLimits, SetupStep
from tests.kernel.inspect import files
from tests.kernel.refusals import faults

ALICE = "model: openai/gpt-5.5\nprompt: {system: You are Alice}\nsoul: {role: critic}\n"
REVIEW = """\
agents:
  reviewer:
    ref: alice
    prompt: {append: Mind the tests}
    max_steps: 5
    timeouts: {total: 1h}
  coder:
    backend: mock
    mock: [{text: done}]
params:
  - {name: base, short: b, default: 1.10, description: branch}
  - {name: deep, type: bool}
setup:
  - shell: git diff ${{ params.base }}
    as: diff
    timeout: 10s
kickoff: |
  @reviewer look at this, in ${{ workflow.name }}:${{ workflow.tag }}:
  ${{ diff }}
limits: {hops: 4, wall_time: 10m}
workspace: {provider: sqlite}
"""


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    files.write(tmp_path, {".agents/alice.yaml": ALICE, ".workflows/review.yaml": REVIEW})
    return Catalog(tmp_path)


def write(catalog: Catalog, text: str, path: str = ".workflows/review.yaml") -> None:
    (catalog.root / path).write_text(text)


def errors(catalog: Catalog, text: str) -> tuple[FileError, ...]:
    write(catalog, text)
    return faults(load_workflow, catalog, "review")


def refused(catalog: Catalog, asked: str, cwd: Path | None = None) -> Refused:
    with pytest.raises(Refused) as caught:
        load_workflow(catalog, asked, cwd)
    return caught.value


def test_a_workflow_file_becomes_a_definition_with_its_members(catalog: Catalog) -> None:
    """contracts 1: Workflow."""
    loaded = load_workflow(catalog, "review")
    definition = loaded.definition
    assert (definition.name, loaded.path) == ("review", ".workflows/review.yaml")
    assert definition.agents["reviewer"] == Ref(
        ref="alice", prompt=RefPrompt(append="Mind the tests"), max_steps=5, timeouts=Timeouts(total=3600.0)
    )
    assert definition.params == (
        Param(name="base", short="b", default="1.10", description="branch"),
        Param(name="deep", type="bool"),
    )
    assert definition.setup == (SetupStep(shell="git diff ${{ params.base }}", bind="diff", timeout=10.0),)
    assert definition.limits == RunLimits(hops=4, wall_time=600.0)


def test_a_ref_overrides_what_it_may_and_keeps_the_rest(catalog: Catalog) -> None:
    reviewer, coder = load_workflow(catalog, "review").members
    assert reviewer.definition.prompt == Prompt(system="You are Alice", append="Mind the tests")
    assert (reviewer.definition.max_steps, reviewer.definition.timeouts.total) == (5, 3600.0)
    assert (reviewer.definition.name, reviewer.definition.soul) == ("alice", {"role": "critic"})
    assert coder.definition == AgentDefinition(name="coder", backend="mock", mock=(Rule(do=(Action(text="done"),)),))


ONE = "agents: {bob: {backend: mock, mock: [{text: x}]}}\n"
TREES = f"{ONE}workspace: {{git: worktree}}\n"


@pytest.mark.promise("CF07", "CF08", "CF09", "CF10", "CF13", "CF14", "CF21", "P15")
@pytest.mark.parametrize(
    ("text", "where", "place", "message", "hint"),
    [
        ("kickoff: hi\n", "agents", (1, 1), "is missing", "add agents:"),
        ("agents: {}\n", "agents", (1, 1), "needs at least one agent", ""),
        ("agents: {bob: }\n", "agents.bob", (1, 10), "needs ref: or an inline agent", "{ref: <agent"),
        ("agents:\n  Bob: {ref: alice}\n", "agents.Bob", (2, 3), "'Bob' is not a name", ""),
        ("agents:\n  user: {ref: alice}\n", "agents.user", (2, 3), "'user' is reserved", ""),
        ("agents:\n  bob: {ref: alcie}\n", "agents.bob.ref", (2, 14), "agent 'alcie' not found", "mean alice?"),
        ("agents:\n  a: {ref: alice}\n  b: {ref: alice}\n", "agents.b.ref", (3, 12), "refer to the same agent", ""),
        ("agents:\n  alice: {backend: mock, mock: [{text: x}]}\n", "agents.alice", (2, 3), "is defined twice", "ref"),
        ("agents:\n  bob: {ref: alice, soul: {}}\n", "agents.bob.soul", (2, 21), "a ref cannot override soul", "file"),
        ("agents:\n  bob: {ref: alice, prompt: {system: x}}\n", "agents.bob.prompt.system", (2, 30), "cannot", "add"),
        ("agents:\n  bob: {ref: alice, budget: 5}\n", "agents.bob.budget", (2, 29), "needs keys", "tokens"),
        ("budget: {usd: 0}\nagents:\n  bob: {ref: alice}\n", "budget.usd", (1, 15), "must be at least", ""),
        ("agents:\n  bob: {ref: alice, maxsteps: 1}\n", "agents.bob.maxsteps", (2, 21), "unknown key", "max_steps?"),
        ("agents:\n  bob: {ref: alice, model: nope/x}\n", "agents.bob.model", (2, 21), "unknown provider 'nope'", ""),
        ("agents:\n  bob: {ref: alice, backend: mock}\n", "agents.bob.mock", (2, 8), "a mock agent needs a script", ""),
        (TREES + "deliver: {into: awk/x}\n", "deliver.into", (3, 11), "is a branch of an agent", "write the name of"),
        (TREES + 'deliver: {into: "a\\u202Eb"}\n', "deliver.into", (3, 11), "is not the name of a branch", "main"),
        ("agents:\n  bob: {model: openai/x}\n", "agents.bob.prompt", (2, 8), "is missing", ""),
        (
            "agents:\n  b: {backend: mock, mock: [{text: x}], context: {dir: a}}\n",
            "agents.b.context.dir",
            (2, 51),
            "they end with",
            "",
        ),
        (ONE + "workspace: {provider: files}\n", "workspace.provider", (2, 23), "'files' is not allowed", "file?"),
        (ONE + "workspace: true\n", "workspace", (2, 1), "true has no effect", "write false"),
        (ONE + "workspace: {bind: ../x}\n", "workspace.bind", (2, 13), "'../x' leads outside the project", "data/"),
        (ONE + "workspace: {bind: /x}\n", "workspace.bind", (2, 13), "is not a path inside the project", ""),
        (ONE + "workspace: {dir: ./}\n", "workspace.dir", (2, 13), "is the project itself", ""),
        (ONE + "workspace: {dir: .git/x}\n", "workspace.dir", (2, 13), "is in .git, which is reserved", ""),
        (ONE + "workspace: {bind: .workflows/review.yaml}\n", "workspace.bind", (2, 13), "is reserved", ""),
        (ONE + "workspace: {bind: out/x}\n", "workspace.bind", (2, 13), "'out' is a link", ""),
        (ONE + "workspace: {bind: a, dir: b}\n", "workspace.dir", (2, 22), "combined with bind", "remove dir"),
        (ONE + "workspace: {bind: a, provider: memory}\n", "workspace.bind", (2, 13), "memory stores no messages", ""),
        (ONE + "workspace: {bind: '${{ env.X }}'}\n", "workspace.bind", (2, 13), "not 'env.X'", ""),
        (ONE + "workspace: false\nkickoff: x ${{ workspace.dir }}\n", "kickoff", (3, 12), "unknown variable", ""),
        (ONE + "output_schema: {type: objekt}\n", "output_schema.type", (2, 17), "'objekt' is not valid", "2020-12"),
        (ONE + "output_schema: {$ref: 'http://x/y'}\n", "output_schema.$ref", (2, 17), "refers to another", "$defs"),
        (ONE + "output_schema: [a]\n", "output_schema", (2, 16), "needs keys, has a list", ""),
        (ONE + "workspace: {git: tree}\n", "workspace.git", (2, 18), "'tree' is not allowed", "worktree"),
        (ONE + "context: {}\n", "context", (2, 1), "unknown key 'context'", "write workspace"),
        (ONE + "verdict: Go Live!\n", "verdict", (2, 1), "'Go Live!' is not a name", "did you mean go-live?"),
        (ONE + "verdict: 7\n", "verdict", (2, 1), "'7' is not a name", ""),
        ("agents: {bob: {}}\n", "agents.bob", (1, 10), "is empty", "write bob: {ref: bob}"),
        (ONE + "kickoff: ${{ source.repository }}\n", "kickoff", (2, 10), "unknown variable", "source.dir, source.url"),
        (ONE + "verdict: all\n", "verdict", (2, 1), "'all' is reserved", ""),
        (ONE + "verdict: {id: Go Live!}\n", "verdict.id", (2, 11), "'Go Live!' is not a name", "did you mean go-live?"),
        (ONE + "verdict: {type: majority}\n", "verdict.id", (2, 10), "is missing", ""),
        (ONE + "verdict: {id: x, electors: [ann]}\n", "verdict.electors", (2, 18), "'ann' is not an agent", "are bob"),
        (ONE + "verdict: {id: x, quorum: 2}\n", "verdict.quorum", (2, 18), "only 1 can vote", "remove it"),
        (ONE + "verdict: {id: x, quorum: 0}\n", "verdict.quorum", (2, 26), "at least 1", ""),
        (ONE + "verdict: {id: x, timeout: 8d}\n", "verdict.timeout", (2, 27), "at most 7d", ""),
        (ONE + "verdict: {id: x, type: most}\n", "verdict.type", (2, 24), "'most' is not allowed", ""),
        (
            ONE + "verdict: {id: x, type: unanimous, tie_breaker: first}\n",
            "verdict.tie_breaker", (2, 35), "a unanimous vote has no ties", "remove it",
        ),
        (ONE + "verdit: x\n", "verdit", (2, 1), "unknown key", "verdict?"),
        (ONE + "verdict: x\nworkspace: false\n", "verdict", (2, 1), "no channel to vote in", "remove"),
        (ONE + "tasks: [{title: x, needs: [y]}]\n", "tasks[0].needs", (2, 1), "'y' is not the key", "key:"),
        (ONE + "tasks: [{title: x, for: ann}]\n", "tasks", (2, 1), "member 'ann' not found", "members: bob"),
        (ONE + "tasks: [{key: a, title: x, needs: [a]}]\n", "tasks", (2, 1), "depend on each other: a -> a", ""),
        (ONE + "tasks: [{title: '${{ workflow.name }}'}]\n", "tasks[0]", (2, 1), "cannot use variables", "kickoff"),
        (ONE + "tasks: [{title: x, on_failure: stop}]\n", "tasks[0].on_failure", (2, 32), "is not allowed", "hold"),
        (ONE + "tasks: [{title: x}]\nworkspace: false\n", "tasks", (2, 1), "share no tasks", "remove"),
        (ONE + "name: other\n", "name", (2, 7), "must be review", "remove name:"),
        (ONE + "limits: {wall_time: 0s}\n", "limits.wall_time", (2, 21), "must be at least 100ms", ""),
        (ONE + "setup: [{shell: x, as: env}]\n", "setup[0].as", (2, 24), "'env' is reserved", ""),
        (ONE + "setup: [{shell: x, as: a}, {shell: y, as: a}]\n", "setup[1].as", (2, 43), "is already set", ""),
        (ONE + "setup: [{shell: x, as: a b}]\n", "setup[0].as", (2, 24), "not a valid variable name", ""),
        (ONE + "setup: [{shell: ' '}]\n", "setup[0].shell", (2, 17), "the command is empty", ""),
        (ONE + "setup: [{shell: '${{ late }}'}, {shell: x, as: late}]\n", "setup[0].shell", (2, 18), "unknown", ""),
        (ONE + "kickoff: |\n  a\n  b ${{ dif }}\n", "kickoff", (4, 5), "unknown variable 'dif'", "available"),
        (ONE + "kickoff: ${{ params.x }}\n", "kickoff", (2, 10), "unknown variable 'params.x'", ""),
        (ONE + "kickoff: ${{ message.text }}\n", "kickoff", (2, 10), "unknown variable", "only in mock scripts"),
        (ONE + "kickoff: ${{ a b }}\n", "kickoff", (2, 10), "is not a variable", ""),
        (ONE + "kickoff: ${{ open\n", "kickoff", (2, 10), "is not closed", ""),
        (ONE + "params: [{name: A}]\n", "params[0].name", (2, 11), "'A' is not a name", ""),
        (ONE + "params: [{name: a, type: int, default: x}]\n", "params[0].default", (2, 31), "not of type int", ""),
        (ONE + "params: [{name: a, type: int, default: true}]\n", "params[0].default", (2, 31), "not of type int", ""),
        (ONE + "params: [{name: a, short: ab}]\n", "params[0].short", (2, 20), "not a single letter", ""),
        (ONE + "params: [{name: a}, {name: a}]\n", "params[1].name", (2, 22), "declared twice", ""),
        (ONE + "params: [{name: a, required: true, default: x}]\n", "params[0].default", (2, 36), "have a default", ""),
    ],
)  # fmt: skip
def test_a_wrong_workflow_says_where_and_what_to_do(
    catalog: Catalog, text: str, where: str, place: tuple[int, int], message: str, hint: str
) -> None:
    (catalog.root / "out").symlink_to(catalog.root.parent)
    [error] = errors(catalog, text)
    assert error.where == where
    assert (error.line, error.column) == place
    assert message in error.message
    assert hint in (error.hint or "")


@pytest.mark.promise("CF10")
def test_all_mistakes_of_all_files_are_told_at_once(catalog: Catalog) -> None:
    (catalog.root / ".agents" / "broken.yaml").write_text("model: openai/x\npromt: x\n")
    text = "agents:\n  a: {ref: broken}\n  b: {ref: nobody}\n  c: {backend: mokc}\nkickof: x\n"
    found = [(error.path, error.line, error.where) for error in errors(catalog, text)]
    assert found == [
        (".workflows/review.yaml", 3, "agents.b.ref"),
        (".workflows/review.yaml", 4, "agents.c.backend"),
        (".workflows/review.yaml", 5, "kickof"),
        (".agents/broken.yaml", 2, "promt"),
    ]


def test_a_workflow_is_found_by_name_or_by_path(catalog: Catalog, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "mine.yaml").write_text(REVIEW)
    (catalog.root / "flows").mkdir()
    write(catalog, REVIEW, "flows/deep.yaml")
    write(catalog, "workflows: {deep: flows/deep.yaml, out: ../x.yaml}\n", "moniro.yaml")

    def shown(asked: str, cwd: Path | None = None) -> tuple[str, str]:
        loaded: LoadedWorkflow = load_workflow(catalog, asked, cwd)
        return loaded.definition.name, loaded.path

    assert shown("review") == ("review", ".workflows/review.yaml")
    assert shown("deep") == ("deep", "flows/deep.yaml")
    assert shown(".workflows/review.yaml") == ("review", ".workflows/review.yaml")
    assert shown("deep.yaml", catalog.root / "flows") == ("deep", "flows/deep.yaml")
    assert shown("mine.yaml", elsewhere) == ("mine", "mine.yaml")
    assert shown(str(elsewhere / "mine.yaml"))[0] == "mine"
    assert refused(catalog, "out").code == "bad_definition"


@pytest.mark.promise("CF09")
def test_two_files_of_one_name_are_both_named(catalog: Catalog) -> None:
    (catalog.root / "moniro.yaml").write_text("workflows: {review: other.yaml}\n")
    write(catalog, ONE, "other.yaml")
    with pytest.raises(
        BadDefinition, match=r"defined twice: here, according to the project file, and in \.workflows/review\.yaml"
    ):
        load_workflow(catalog, "review")
    assert load_workflow(catalog, "other.yaml").path == "other.yaml"
    (catalog.root / "moniro.yaml").write_text("workflows: {review: ./.workflows/review.yaml}\n")
    assert load_workflow(catalog, "review").definition.name == "review"


@pytest.mark.promise("CF08")
def test_a_path_gives_the_name_unless_the_file_does(catalog: Catalog) -> None:
    write(catalog, ONE, "My.Flow.yaml")
    assert "add name: to the file" in (refused(catalog, "My.Flow.yaml").hint or "")
    write(catalog, ONE + "name: mine\n", "My.Flow.yaml")
    assert load_workflow(catalog, "My.Flow.yaml").definition.name == "mine"


@pytest.mark.parametrize("asked", ["reveiw", "Review", "dm", "", "a" * 300, "rev iew", "revi\0ew"])
def test_an_unknown_workflow_lists_those_there_are(catalog: Catalog, asked: str) -> None:
    """contracts 7: exit 5."""
    error = refused(catalog, asked)
    assert error.code == "unknown_workflow"
    assert "review" in (error.hint or "")


def test_a_missing_file_and_a_remote_one_are_told_apart(catalog: Catalog) -> None:
    """Only what is here is looked for; what is elsewhere is fetched first."""
    assert refused(catalog, "no/such.yaml").code == "unknown_workflow"
    assert refused(catalog, "github:owner/repo@main/x.yaml").code == "bad_request"


@pytest.mark.promise("CF11")
def test_a_workflow_file_that_is_a_pipe_is_refused(catalog: Catalog) -> None:
    os.mkfifo(catalog.root / "pipe.yaml")
    assert refused(catalog, "pipe.yaml").code == "bad_definition"
