"""Agents from their files: what is taken, what is refused, what a user reads then."""

from pathlib import Path

import msgspec
import pytest

from kernel.agents import catalog as catalogs
from kernel.agents.catalog import Catalog, context_dir
from kernel.source import files
from kernel.source.diagnostics import BadDefinition
from protocol.agent import Action, AgentDefinition, MockError, MockExit, MockUsage, Rule
from protocol.api.document import FileError
from protocol.errors import Refused
from protocol.limits import AgentBudget, InstructionBudget
from protocol.project import ProjectDefinition
from tests.kernel.inspect.files import write
from tests.kernel.refusals import faults, refused

FULL = """\
name: alice
model: anthropic/claude-sonnet-5-5
prompt:
  system: |
    You are Alice.
soul: {role: reviewer, expertise: [types, tests]}
context: {thin_thread: 4}
max_steps: 7
timeouts: {idle: 5m, total: 1h}
retry: {attempts: 2, backoff: 500ms}
env: [CI]
mock: [ {text: hi} ]
"""
MINIMAL = "model: openai/gpt-5.5\nprompt: {system: hi}\n"


def project(root: Path, **files: str) -> Catalog:
    (root / ".agents").mkdir(exist_ok=True)
    for name, text in files.items():
        (root / ".agents" / f"{name}.yaml").write_text(text)
    return Catalog(root)


def errors(catalog: Catalog, name: str = "alice") -> tuple[FileError, ...]:
    return faults(catalog.agent, name)


def test_an_agent_file_becomes_a_definition_that_survives_storage(tmp_path: Path) -> None:
    loaded = project(tmp_path, alice=FULL).agent("alice")
    assert loaded.path == ".agents/alice.yaml"
    definition = loaded.definition
    assert (definition.name, definition.max_steps, definition.env) == ("alice", 7, ("CI",))
    assert definition.soul == {"role": "reviewer", "expertise": ["types", "tests"]}
    assert (definition.timeouts.idle, definition.timeouts.startup, definition.retry.backoff) == (300.0, 120.0, 0.5)
    assert definition.mock == (Rule(do=(Action(text="hi"),)),)
    assert msgspec.json.decode(msgspec.json.encode(definition), type=AgentDefinition) == definition


@pytest.mark.promise("CF12")
def test_a_context_has_a_folder_of_its_own_in_the_project(tmp_path: Path) -> None:
    there = MINIMAL + "context: {dir: team/./one/}\n"
    catalog = project(tmp_path, alice=there, bob=MINIMAL + "context: {dir: team/one}\n", carl=MINIMAL)
    assert context_dir(catalog.agent("alice").definition) == "team/one"
    assert context_dir(catalog.agent("carl").definition) == ".agents/carl"
    survey = catalog.survey()
    assert [one.definition.name for one in survey.loaded] == ["alice", "carl"]
    [error] = survey.errors
    assert (error.path, error.where) == (".agents/bob.yaml", "context.dir")
    assert error.message == "'team/one' is also the context folder of agent alice"


def test_contexts_outside_the_folder_of_agents_are_known_also_of_agents_whose_files_broke(tmp_path: Path) -> None:
    made = project(tmp_path, a=f"{MINIMAL}context: {{dir: ctx}}\n", b=MINIMAL, c=f"{MINIMAL}context: {{dir: ./x//y}}\n")
    assert made.outside_contexts() == ("ctx", "x/y")
    (tmp_path / ".agents/a.yaml").write_text("model: [\n")
    (tmp_path / ".agents.yaml").write_text("tools: 3\n")
    assert made.outside_contexts() == ("ctx", "x/y")


def test_the_mock_backend_needs_neither_model_nor_prompt(tmp_path: Path) -> None:
    text = """\
backend: mock
mock:
  - when: 'line (\\d+)'
    do:
      - tool: channel_send
        args: {message: "@coder line ${{ match.1 }}", n: 010}
      - shell: echo step
      - sleep: 0.2
      - error: {http_status: 429, retry_after: 2, times: 1}
      - exit: SIGKILL
      - exit: 3
      - exit: {signal: TERM, times: 1}
      - usage: {input_tokens: 1000, output_tokens: 200, cost_usd: 0.25}
      - text: "done: ${{ message.text }}"
"""
    [rule] = project(tmp_path, alice=text).agent("alice").definition.mock
    assert rule.when == "line (\\d+)"
    assert rule.do == (
        Action(tool="channel_send", args={"message": "@coder line ${{ match.1 }}", "n": "010"}),
        Action(shell="echo step"),
        Action(sleep=0.2),
        Action(error=MockError(http_status=429, retry_after=2.0, times=1)),
        Action(exit=MockExit(signal="KILL")),
        Action(exit=MockExit(code=3)),
        Action(exit=MockExit(signal="TERM", times=1)),
        Action(usage=MockUsage(input_tokens=1000, output_tokens=200, cost_usd=0.25)),
        Action(text="done: ${{ message.text }}"),
    )


def test_a_budget_is_read_with_its_window_and_what_each_instruction_may_cost(tmp_path: Path) -> None:
    """Contracts section 1, budget."""
    text = MINIMAL + (
        "budget: {tokens: 5000, usd: 0.5, wall_time: 2h, window: 12h, instruction: {tokens: 100, wall_time: 90s}}\n"
    )
    budget = project(tmp_path, alice=text).agent("alice").definition.budget
    assert budget == AgentBudget(
        tokens=5000,
        usd=0.5,
        wall_time=7200.0,
        window=43_200.0,
        instruction=InstructionBudget(tokens=100, wall_time=90.0),
    )


MOCK = "backend: mock\nmock:\n"


@pytest.mark.promise("CF07", "CF11")
@pytest.mark.parametrize(
    ("text", "where", "message", "hint"),
    [
        ("prompt: {system: x}\n", "model", "is missing", "not needed for backend mock"),
        ("model: openai/x\nprompt: {system: x}\nrestart: {delay: 1m}", "restart.delay", "max_delay (30s)", "shorten"),
        ("model: openai/x\nprompt: {system: x}\nrestart: {window: 2h}", "restart.window", "1h", ""),
        ("backend: claude\nmodel: anthropic/x\nprompt: {system: x}\nreuse: 2", "reuse", "starts a program", "remove"),
        ("backend: exec\ncommand: [x]\nreuse: 2", "reuse", "starts a program for each attempt", "backend: sdk"),
        ("backend: acp\ncommand: [x]\nreuse: 2", "reuse", "starts a program for each attempt", "backend: sdk"),
        ("backend: acp", "command", "backend acp runs a program", "[gemini, --acp]"),
        ("backend: acp\ncommand: [x]\neffort: low", "effort", "not supported by backend acp", "remove it"),
        ("backend: acp\ncommand: [x]\nprovider: openai", "provider", "not supported by backend acp", "remove"),
        ("backend: acp\ncommand: [x]\nmodel: --yolo", "model", "'--yolo' is not a model", "use letters"),
        ("backend: acp\ncommand: [x]\nlogin: true\nsandbox: 'on'", "login", "hides your home", "remove one"),
        ("command: [x]\n" + MINIMAL, "command", "only for the backends acp and exec", "remove it"),
        ("model: openai/x\nprompt: {system: x}\nsandbox: 'on'\nreuse: 2", "reuse", "would share", "remove one"),
        ("model: openai/x\nprompt: {system: x}\nreuse: 0", "reuse", "1", ""),
        ("model: openai/x\nprompt: {system: x}\nreuse: 1001", "reuse", "1000", ""),
        ("model: openai/x\nprompt: {system: x}\nreuse: often", "reuse", "'often' is not allowed", "number: auto"),
        ("model: openai/x\n", "prompt", "is missing", "system_file"),
        ("model: llama\nprompt: {system: x}", "model", "'llama' is not a model", "provider/name"),
        ("model: anthropic/--danger\nprompt: {system: x}", "model", "'anthropic/--danger' is not", "use"),
        ("backend: claude\nmodel: anthropic/-p\nprompt: {system: x}", "model", "'anthropic/-p' is not", "use letters"),
        ("backend: cursor\nmodel: cursor/--force\nprompt: {system: x}", "model", "'cursor/--force' is not", "letters"),
        ("model: 'openai/a b'\nprompt: {system: x}", "model", "'openai/a b' is not a model", "letters, digits"),
        (MOCK + "  - {text: x}\nmodel: mock/--x", "model", "'mock/--x' is not a model", "use letters"),
        ("model: antropic/x\nprompt: {system: x}", "model", "known: anthropic, cursor, deepseek", "mean anthropic?"),
        ("model: openai/x\nprovider: opnai\nprompt: {system: x}", "provider", "unknown provider", "mean openai?"),
        ("model: mock/x\n", "mock", "a mock agent needs a script", "mock: [{text"),
        ("backend: mock\n", "mock", "a mock agent needs a script", ""),
        ("backend: claude\n" + MINIMAL, "backend", "backend claude supports anthropic", "backend: sdk"),
        ("backend: skd\n" + MINIMAL, "backend", "'skd' is not allowed", "did you mean sdk?"),
        ("name: bob\n" + MINIMAL, "name", "must be alice, because the file is named alice.yaml; found 'bob'", "remove"),
        ("memory: {budget: -1}\n" + MINIMAL, "memory.budget", "must be at least 0", ""),
        ("memory: {search: [old]}\n" + MINIMAL, "memory.search[0]", "'old' is not allowed", "core"),
        ("promt: x\n" + MINIMAL, "promt", "unknown key 'promt'", "did you mean prompt?"),
        ("model: openai/x\nsystem_prompt: hi\nprompt: {system: x}", "system_prompt", "unknown key", "prompt: {system"),
        ("model: openai/x\nprompt: You are\n", "prompt", "needs keys, has 'You are'", "system, system_file"),
        ("model: openai/x\nprompt: {append: x}\n", "prompt.append", "only valid in a workflow", ""),
        ("model: openai/x\nprompt: {system: a, system_file: b.md}\n", "prompt.system_file", "cannot be combined", ""),
        ("model: openai/x\nprompt: {system_file: no.md}\n", "prompt.system_file", "no.md not found", ""),
        ("model: openai/x\nprompt: {system_file: ../x}\n", "prompt.system_file", "leads outside", ""),
        ("model: openai/x\nprompt: {system_file: /etc/passwd}\n", "prompt.system_file", "not a path inside", ""),
        ("env: [LD_PRELOAD]\n" + MINIMAL, "env[0]", "LD_PRELOAD cannot be passed", ""),
        ("env: [AGENT_WORKER_TOKEN]\n" + MINIMAL, "env[0]", "cannot be passed", ""),
        ("env: ['A B']\n" + MINIMAL, "env[0]", "not a valid variable name", ""),
        ("provider: {name: x, base_url: ftp://x}\n" + MINIMAL, "provider", "not an http(s) URL", ""),
        ("provider: {name: x, base_url: 'http://u:p@x'}\n" + MINIMAL, "provider", "must not contain a password", ""),
        ("provider: {name: openai, api_key: sk-123}\n" + MINIMAL, "provider", "name a variable, as $NAME", "store"),
        ("context: {dir: /}\n" + MINIMAL, "context.dir", "'/' is not a path inside the project", "team/alice"),
        ("context: {dir: ~}\n" + MINIMAL, "context.dir", "'~' is empty", ""),
        ("context: {dir: ~/alice}\n" + MINIMAL, "context.dir", "is not a path inside the project", ""),
        ("context: {dir: ./}\n" + MINIMAL, "context.dir", "is the project itself", ""),
        ("context: {dir: a/../../b}\n" + MINIMAL, "context.dir", "leads outside the project", ""),
        ("context: {dir: .agents/bob}\n" + MINIMAL, "context.dir", "the context of another agent", ""),
        ("context: {dir: .workflows/alice}\n" + MINIMAL, "context.dir", "contains files that do not belong", ""),
        ('context: {dir: "a\\nb"}\n' + MINIMAL, "context.dir", "contains a control character", ""),
        ("context: {dir: [a]}\n" + MINIMAL, "context.dir", "needs a text, has a list", ""),
        (MOCK + "  - txt: x", "mock[0].do[0].txt", "unknown key 'txt'", "did you mean text?"),
        (MOCK + "  - {text: x, shell: y}", "mock[0].do[0]", "exactly one of", ""),
        (MOCK + "  - {}", "mock[0].do[0]", "found none", ""),
        (MOCK + "  - {text: x, args: {a: 1}}", "mock[0].do[0].args", "args can only be combined with tool", ""),
        (MOCK + "  - {text: x, background: true}", "mock[0].do[0].background", "can only be combined with shell", ""),
        (MOCK + "  - exit: SIGNOPE", "mock[0].do[0].exit", "NOPE is not a signal", "KILL"),
        (MOCK + "  - exit: {times: 1}", "mock[0].do[0].exit", "exactly one of signal and code", ""),
        (MOCK + "  - error: {text: x}", "mock[0].do[0].error", "needs http_status or code", ""),
        ("budget: {tokens: 0}\n" + MINIMAL, "budget.tokens", "must be at least 1", ""),
        ("budget: {usd: much}\n" + MINIMAL, "budget.usd", "needs a number", ""),
        ("budget: {window: 1s}\n" + MINIMAL, "budget.window", "must be at least 1m", ""),
        ("budget: {token: 1}\n" + MINIMAL, "budget.token", "unknown key", "did you mean tokens?"),
        ("budget: {wall_time: 0}\n" + MINIMAL, "budget.wall_time", "must be at least 100ms", ""),
        ("budget: {wall_time: all day}\n" + MINIMAL, "budget.wall_time", "needs a duration", "10m"),
        ("budget: {instruction: {wall_time: -1s}}\n" + MINIMAL, "budget.instruction.wall_time", "duration", "10m"),
        (MOCK + "  - usage: {cost_usd: -1}", "mock[0].do[0].usage.cost_usd", "must be at least 0", ""),
        (MOCK + "  - usage: {tokens: 1}", "mock[0].do[0].usage.tokens", "unknown key", "input_tokens"),
        (MOCK + "  - text: ${{ message.body }}", "mock[0].do[0]", "unknown variable 'message.body'", "message.text"),
        (MOCK + "  - text: ${{ match.1 }}", "mock[0].do[0]", "when has no group", "add when:"),
        (MOCK + "  - {when: '(a)', do: [{text: '${{ match.2 }}'}]}", "mock[0].do[0]", "no group for match.2", ""),
        (MOCK + "  - {when: '(', do: [{text: x}]}", "mock[0].when", "not a regular expression", "single quotes"),
        (MOCK + f"  - {{when: {'a' * 1001}, do: [{{text: x}}]}}", "mock[0].when", "longer than 1000", ""),
        (MOCK + "  - {when: a}", "mock[0].do", "is missing", ""),
    ],
)  # fmt: skip
def test_a_wrong_agent_file_says_what_to_do(text: str, where: str, message: str, hint: str, tmp_path: Path) -> None:
    [error] = errors(project(tmp_path, alice=text))
    assert error.where == where
    assert message in error.message
    assert hint in (error.hint or "")
    assert error.path == ".agents/alice.yaml"


@pytest.mark.promise("CF08")
@pytest.mark.parametrize(
    "name", ["../../x", ".", "system", "user", "all", "a" * 300, "аlice", "Alice", "", "a/b", "a.b", "a\0"]
)  # fmt: skip
def test_a_name_outside_the_grammar_is_nobody(name: str, tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(MINIMAL)
    assert refused(project(tmp_path, alice=MINIMAL).agent, name).code == "unknown_agent"


@pytest.mark.promise("CF10")
def test_an_unknown_agent_lists_those_there_are(tmp_path: Path) -> None:
    catalog = project(tmp_path, alice=MINIMAL, bob=MINIMAL)
    error = refused(catalog.agent, "carol")
    assert error.hint == "available agents: alice, bob (defined in .agents/<name>.yaml)"
    assert "did you mean alice?" in (refused(catalog.agent, "alcie").hint or "")


def test_a_file_with_the_other_suffix_is_pointed_out(tmp_path: Path) -> None:
    catalog = project(tmp_path)
    (tmp_path / ".agents" / "alice.yml").write_text(MINIMAL)
    assert refused(catalog.agent, "alice").hint == "rename .agents/alice.yml to alice.yaml"


def test_a_survey_has_the_sound_ones_and_what_is_wrong_with_the_others(tmp_path: Path) -> None:
    catalog = project(tmp_path, alice=MINIMAL, bob="model: 1\n", Carol=MINIMAL)
    survey = catalog.survey()
    assert [loaded.definition.name for loaded in survey.loaded] == ["alice"]
    assert {error.path for error in survey.errors} == {".agents/bob.yaml", ".agents/Carol.yaml"}
    assert catalog.names() == ("alice", "bob")


def test_a_project_without_agents_is_empty(tmp_path: Path) -> None:
    assert Catalog(tmp_path).names() == ()
    assert Catalog(tmp_path).survey().loaded == ()


@pytest.mark.promise("CF11", "CF18")
def test_a_system_prompt_comes_from_its_file_at_each_reading(tmp_path: Path) -> None:
    write(tmp_path, {"prompts/a.md": "You are A."})
    catalog = project(tmp_path, alice="model: openai/x\nprompt: {system_file: prompts/a.md}\n")
    definition = catalog.agent("alice").definition
    assert catalog.system_text(definition) == "You are A."
    (tmp_path / "prompts" / "a.md").write_text("You are B.")
    assert catalog.system_text(definition) == "You are B."
    (tmp_path / "prompts" / "a.md").unlink()
    with pytest.raises(BadDefinition, match="not found"):
        catalog.system_text(definition)


@pytest.mark.parametrize(
    ("text", "per_provider", "reserve", "starvation"),
    [
        ("limits: {}", None, 0.1, 300.0),
        ("limits: {per_provider: 4, memory_reserve: 5%}\nstarvation: 30s", 4, 0.05, 30.0),
        ("limits: {per_provider: {openai: 2}, memory_reserve: 0.25}", {"openai": 2}, 0.25, 300.0),
    ],
)
def test_limits_of_the_project(
    text: str, per_provider: object, reserve: float, starvation: float, tmp_path: Path
) -> None:
    """Contracts section 1, project."""
    (tmp_path / "moniro.yaml").write_text(text)
    definition = Catalog(tmp_path).project()
    assert (definition.limits.per_provider, definition.limits.memory_reserve) == (per_provider, reserve)
    assert definition.starvation == starvation


@pytest.mark.parametrize(("text", "days"), [("limits: {}", 30), ("retention: 90d", 90), ("retention: 36h", 1.5)])
def test_how_long_the_project_keeps_journals(text: str, days: float, tmp_path: Path) -> None:
    """30 days, configurable."""
    (tmp_path / "moniro.yaml").write_text(text)
    assert Catalog(tmp_path).project().retention == days * 24 * 3600


@pytest.mark.promise("CF10")
def test_the_mistakes_of_a_project_file_come_all_at_once(tmp_path: Path) -> None:
    (tmp_path / "moniro.yaml").write_text(
        "starvation: soon\nlimts: {}\nlimits: {per_provider: {opnai: 2}}\nproviders: {mine: {base_url: x}}\n"
        "workspace: {base: ../out}\nworkflows: {dm: x.yaml}\nagents: {helper: {backend: mock, mock: [{txt: hi}]}}\n"
    )
    told = {(error.line, error.where.partition(".")[0]) for error in faults(Catalog(tmp_path).project)}
    keys = ("starvation", "limts", "limits", "providers", "workspace", "workflows")
    assert told == {(line, key) for line, key in enumerate(keys, 1)}


@pytest.mark.promise("CF07")
@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        ("agents: alice", "agents", "must be a map of names, or a list"),
        ("starvation: soon", "starvation", "needs a duration"),
        ("retention: 1s", "retention", "must be at least"),
        ("limits: {workers: 0}", "limits.workers", "must be at least 1"),
        ("limits: {per_provider: 0}", "limits.per_provider", "must be at least 1"),
        ("limits: {per_provider: {opnai: 2}}", "limits.per_provider.opnai", "unknown provider 'opnai'"),
        ("limits: {memory_reserve: 95%}", "limits.memory_reserve", "must be at most 0.9"),
        ("limits: {memory_reserve: -1%}", "limits.memory_reserve", "needs a number"),
        ("providers: {mine: {}}", "providers.mine", "provider mine has no base_url"),
        ("providers: {mine: {base_url: x}}", "providers.mine", "not an http(s) URL"),
        ("providers: {Mine: {base_url: 'http://x'}}", "providers.Mine", "is not a name"),
        ("workflows: {dm: x.yaml}", "workflows.dm", "is reserved"),
    ],
)
def test_a_wrong_project_file_is_located(text: str, where: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "moniro.yaml").write_text(text)
    [error] = faults(Catalog(tmp_path).project)
    assert (error.path, error.where) == ("moniro.yaml", where)
    assert message in error.message


INLINE = "helper: {backend: mock, mock: [{text: hi}]}"


@pytest.mark.promise("CF07", "CF08", "CF09")
@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        (f"agents: {{Bob: b.yaml, {INLINE}}}", "agents.Bob", "is not a name"),
        (f"agents: {{system: b.yaml, {INLINE}}}", "agents.system", "is reserved"),
        (f"agents: {{{'x' * 300}: b.yaml, {INLINE}}}", f"agents.{'x' * 60}", "is not a name"),
        (f"agents: {{../../x: b.yaml, {INLINE}}}", "agents.../../x", "is not a name"),
        (f"agents: [{{model: sonnet}}, {{name: {INLINE[8:]}]", "agents[0]", "needs a path, or an agent with a name:"),
        (f"agents: [../B.yaml, {{name: {INLINE[8:]}]", "agents[0]", "'B' is not a name"),
        (f"agents: {{bob: [x], {INLINE}}}", "agents.bob", "needs a path, or an agent"),
        (f"agents: {{bob: {{backend: mock}}, {INLINE}}}", "agents.bob.mock", "is missing"),
        (
            f"agents: [a/b.yaml, b.yaml, {{name: {INLINE[8:]}]",
            "agents[1]",
            "b is defined twice in moniro.yaml: also in line 1",
        ),
    ],
)
def test_what_is_wrong_with_one_agent_of_the_project_file_leaves_the_others_alone(
    text: str, where: str, message: str, tmp_path: Path
) -> None:
    (tmp_path / "moniro.yaml").write_text(text.replace("{name: {", "{name: helper, ") + "\nstarvation: 7m\n")
    catalog = project(tmp_path, alice=MINIMAL)
    survey = catalog.survey()
    assert [one.definition.name for one in survey.loaded] == ["alice", "helper"]
    [error] = survey.errors
    assert (error.path, error.where, error.line) == ("moniro.yaml", where, 1)
    assert message in error.message
    assert catalog.project().starvation == 420.0


@pytest.mark.promise("CF18")
def test_an_agent_that_is_wrong_in_the_project_file_is_known_and_not_had(tmp_path: Path) -> None:
    catalog = project(tmp_path)
    (tmp_path / "moniro.yaml").write_text("agents: {bob: {backend: mock, mock: [{txt: hi}]}}")
    assert (catalog.names(), catalog.file_of("bob")) == (("bob",), "moniro.yaml")
    [error] = errors(catalog, "bob")
    assert (error.where, error.hint) == ("agents.bob.mock[0].do[0].txt", "did you mean text?")
    (tmp_path / "moniro.yaml").write_text("agents: {bob: {backend: mock, mock: [{text: hi}]}}")
    assert catalog.agent("bob").path == "moniro.yaml"


def test_the_project_file_goes_by_either_name_but_not_both(tmp_path: Path) -> None:
    (tmp_path / ".agents.yaml").write_text("limits: {workers: 3}")
    assert Catalog(tmp_path).project().limits.workers == 3
    (tmp_path / "moniro.yaml").write_text("limits: {workers: 4}")
    with pytest.raises(BadDefinition, match=r"\.agents\.yaml and moniro\.yaml both exist"):
        Catalog(tmp_path).project()


@pytest.mark.promise("CF18")
def test_what_is_kept_of_a_file_never_outlives_an_edit_of_it_or_of_the_project(tmp_path: Path) -> None:
    catalog = project(tmp_path, alice="model: mine/x\nprompt: {system: a}\n")
    (tmp_path / "moniro.yaml").write_text("providers: {mine: {base_url: 'http://x'}}")
    kept = catalog.agent("alice")
    assert catalog.agent("alice") is kept
    (tmp_path / ".agents" / "alice.yaml").write_text("model: mine/x\nprompt: {system: b}\n")
    assert catalog.agent("alice").definition.prompt.system == "b"
    (tmp_path / "moniro.yaml").write_text("providers: {many: {base_url: 'http://x'}}")
    with pytest.raises(BadDefinition, match="mine"):
        catalog.agent("alice")
    (tmp_path / ".agents" / "alice.yaml").unlink()
    with pytest.raises(Refused, match="agent 'alice' not found"):
        catalog.agent("alice")


@pytest.mark.promise("CF18")
@pytest.mark.parametrize("entry", ["{}", "agents: [./.agents/alice.yaml]"])
def test_a_file_that_is_certainly_the_same_is_not_read_again(
    entry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "SETTLED_SECONDS", 0.0)
    root = project(tmp_path, alice=MINIMAL).root
    (root / "moniro.yaml").write_text(entry)
    catalog = Catalog(root)
    kept = catalog.agent("alice")
    with monkeypatch.context() as patched:
        patched.setattr(catalogs, "read_bytes", None)
        patched.setattr(catalogs, "read_project", None)
        assert catalog.agent("alice") is kept
    project(tmp_path, alice=MINIMAL + "max_steps: 5\n")
    assert catalog.agent("alice").definition.max_steps == 5


@pytest.mark.promise("CF11", "CF18")
def test_a_prompt_in_a_file_of_its_own_is_read_again_when_either_file_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "SETTLED_SECONDS", 0.0)
    for name in ("a", "b"):
        (tmp_path / f"{name}.md").write_text(f"You are {name}.")
    catalog = project(
        tmp_path, **{name: f"model: openai/x\nprompt: {{system_file: {name}.md}}\n" for name in ("a", "b")}
    )
    kept = catalog.survey()
    assert catalog.prompt_files() == {"a.md", "b.md"}
    catalog.survey()  # a file that was seen once may still be written within the same tick of its clock
    parsed: list[str] = []
    parse = catalog.parse
    with monkeypatch.context() as patched:
        patched.setattr(catalogs, "read_bytes", None)
        patched.setattr(catalogs, "read_text", None)
        assert catalog.survey() == kept

    def noted(name: str, path: str, data: bytes, project: ProjectDefinition) -> AgentDefinition:
        parsed.append(name)
        return parse(name, path, data, project)

    monkeypatch.setattr(catalog, "parse", noted)
    before = catalog.stamp()
    (tmp_path / "a.md").unlink()
    assert catalog.stamp() != before
    survey = catalog.survey()
    assert [one.definition.name for one in survey.loaded] == ["b"]
    assert [(error.path, error.where) for error in survey.errors] == [(".agents/a.yaml", "prompt.system_file")]
    assert parsed == ["a"]


def test_a_survey_without_time_says_that_it_is_not_whole_and_goes_on_where_it_was(tmp_path: Path) -> None:
    catalog = project(tmp_path, alice=MINIMAL, bob="model: 1\n")
    cut = catalog.survey(-1.0)
    assert (cut.loaded, cut.errors, cut.whole) == ((), (), False)
    assert catalog.survey(60.0).whole
    assert [one.definition.name for one in catalog.survey().loaded] == ["alice"]


def test_whether_there_is_an_agent_is_known_without_looking_at_all_of_them(tmp_path: Path) -> None:
    catalog = project(tmp_path, alice=MINIMAL, bob="model: 1\n", Carol=MINIMAL)
    (tmp_path / "moniro.yaml").write_text("agents: {helper: lib/h.yaml, wrong: {backend: mock}}\n")
    asked = ("alice", "bob", "helper", "wrong", "Carol", "nobody", "../x", "")
    assert [name for name in asked if catalog.defines(name)] == ["alice", "bob", "helper", "wrong"]
    assert all(catalog.defines(name) == (name in catalog.names()) for name in asked)


DECLARED = "agents:\n  helper: {backend: mock, mock: [{text: hi}]}\n  bob: lib/robert.yaml\n"


@pytest.mark.parametrize("file", ["moniro.yaml", ".agents.yaml"])
def test_the_project_file_defines_agents_beside_the_folder(file: str, tmp_path: Path) -> None:
    """contracts 1: inline and by path, in a map or a list; what lies in .agents/ is found all the same."""
    catalog = project(tmp_path, alice=MINIMAL)
    write(tmp_path, {"lib/robert.yaml": MINIMAL, file: DECLARED})
    assert catalog.names() == ("alice", "bob", "helper")
    paths = {one.definition.name: one.path for one in catalog.survey().loaded}
    assert paths == {"alice": ".agents/alice.yaml", "bob": "lib/robert.yaml", "helper": file}
    (tmp_path / file).write_text(
        "agents: [./.agents/alice.yaml, lib/robert.yaml, {name: helper, model: sonnet, prompt: {system: x}}]"
    )
    paths = {one.definition.name: one.path for one in catalog.survey().loaded}
    assert paths == {"alice": ".agents/alice.yaml", "robert": "lib/robert.yaml", "helper": file}
    assert catalog.agent("helper").definition.prompt.system == "x"


@pytest.mark.promise("CF09")
def test_two_definitions_of_one_name_are_an_error_that_names_both(tmp_path: Path) -> None:
    catalog = project(tmp_path, alice=MINIMAL, helper=MINIMAL, bob=MINIMAL)
    (tmp_path / "moniro.yaml").write_text(DECLARED)
    for name, other, line in (("helper", "moniro.yaml", 2), ("bob", "lib/robert.yaml", 3)):
        [error] = errors(catalog, name)
        assert (error.path, error.line, error.where) == ("moniro.yaml", line, f"agents.{name}")
        assert f"defined twice: in {other} and in .agents/{name}.yaml" in error.message
    survey = catalog.survey()
    assert [one.definition.name for one in survey.loaded] == ["alice"]
    assert [name for name, _ in survey.broken] == ["bob", "helper"]


@pytest.mark.promise("CF11")
def test_a_declared_file_that_cannot_be_had_is_located_in_the_project_file(tmp_path: Path) -> None:
    (tmp_path / "moniro.yaml").write_text("agents:\n  bob: lib/bob.yaml\n  eve: ../eve.yaml\n")
    [error] = errors(Catalog(tmp_path), "bob")
    assert (error.path, error.line, error.message) == ("moniro.yaml", 2, "file lib/bob.yaml not found")
    assert "leads outside the project" in errors(Catalog(tmp_path), "eve")[0].message


@pytest.mark.promise("CF21")
def test_definitions_do_not_lead_in_circles(tmp_path: Path) -> None:
    catalog = project(tmp_path, alice="ref: bob\n", bob="ref: alice\n")
    assert any(error.where == "ref" for error in errors(catalog))
    (tmp_path / "moniro.yaml").write_text("agents: {carl: moniro.yaml}\n")
    assert any(error.where == "agents" for error in errors(catalog, "carl"))


def test_agents_of_the_user_are_there_only_where_a_home_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, root = tmp_path / "home", tmp_path / "project"
    write(home, {".agents/carol.yaml": MOCK + "  - {text: hi}"})
    root.mkdir()
    monkeypatch.setenv("HOME", str(home))
    assert Catalog(root).names() == ()
    assert Catalog(root).users_folder() is None
    assert Catalog(root, home).names() == ("carol",)
    assert Catalog(root, home).agent("carol").path == "~/.agents/carol.yaml"
