"""validate: every mistake of every file, each in the file it is in."""

import os
from pathlib import Path

import msgspec
import pytest

from kernel.agents import catalog
from kernel.agents.catalog import Catalog
from kernel.inspect.resolve import resolution
from kernel.inspect.validate import validate
from protocol.agent import AgentDefinition
from protocol.errors import Refused
from protocol.inspection import CheckedFile
from protocol.project import ProjectDefinition
from tests.kernel.inspect.files import MOCK, PROJECT, review, write


def _check(root: Path, *asked: str) -> dict[str, CheckedFile]:
    return {file.path: file for file in validate(root, root, asked).files}


def _wrong(files: dict[str, CheckedFile]) -> dict[str, list[tuple[int, str]]]:
    return {name: [(e.line, e.where) for e in file.errors] for name, file in files.items() if not file.ok}


def _warned(root: Path, path: str = "/bin") -> dict[str, tuple[bool, list[tuple[int, str]]]]:
    found = validate(root, root, (), {"PATH": path}).files
    return {file.path: (file.ok, [(one.line, one.where) for one in file.warnings]) for file in found}


def test_a_sound_project_is_all_ok_with_what_each_file_is(tmp_path: Path) -> None:
    """contracts 9: validate; the project file, agents, workflows."""
    review(tmp_path)
    files = _check(tmp_path)
    assert [(file.path, file.kind, file.ok) for file in files.values()] == [
        ("moniro.yaml", "project", True),
        (".agents/alice.yaml", "agent", True),
        (".workflows/review.yaml", "workflow", True),
    ]


def test_all_mistakes_of_all_files_come_at_once_in_the_order_of_the_files(tmp_path: Path) -> None:
    files = {
        ".agents/alice.yaml": """
            model: antropic/x
            prompt: { system: hi, system_file: x.md }
            max_steps: yes
            sol: {}
            """,
        ".agents/bob.yaml": "backend: mock\n",
        ".workflows/review.yaml": """
            agents: {alice: {ref: alise}}
            limits: {hops: 0}
            setup: [{shell: date, timeout: soon, as: now}]
            params: [{name: n, type: int, default: many}]
            workspace: {bind: ../x}
            kickoff: "@alice ${{ now }}"
            """,
    }
    write(tmp_path, files)
    keys = ["agents.alice.ref", "limits.hops", "setup[0].timeout", "params[0].default", "workspace.bind"]
    assert _wrong(_check(tmp_path)) == {
        ".agents/alice.yaml": [(1, "model"), (2, "prompt.system_file"), (3, "max_steps"), (4, "sol")],
        ".agents/bob.yaml": [(1, "mock")],
        ".workflows/review.yaml": list(enumerate(keys, 1)),
    }


def test_what_only_follows_from_a_mistake_is_not_told(tmp_path: Path) -> None:
    files = {
        ".agents/alice.yaml": "model: sonnet\npromt: {system: hi}\n",
        ".agents/bob.yaml": "model: sonnet\nbackend: sdkk\n",
    }
    write(tmp_path, files)
    assert _wrong(_check(tmp_path)) == {".agents/alice.yaml": [(2, "promt")], ".agents/bob.yaml": [(2, "backend")]}


def test_a_mistake_goes_to_the_file_it_is_in_whoever_led_there(tmp_path: Path) -> None:
    write(tmp_path, {".agents/alice.yaml": "modell: x\n", ".workflows/w.yaml": "agents: {alice: {ref: alice}}\n"})
    files = _check(tmp_path, ".workflows/w.yaml")
    assert _wrong(files) == {".agents/alice.yaml": [(1, "modell")]}
    assert files[".workflows/w.yaml"].ok


def test_a_broken_project_file_does_not_hide_what_else_is_wrong_nor_invent_it(tmp_path: Path) -> None:
    review(tmp_path)
    write(tmp_path, {"moniro.yaml": PROJECT + "    starvation: soon\n", ".agents/carl.yaml": "model: sonnet\n"})
    assert _wrong(_check(tmp_path)) == {"moniro.yaml": [(5, "starvation")], ".agents/carl.yaml": [(1, "prompt")]}


@pytest.mark.promise("CF08")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        (".agents/Bob.yaml", "is not a name"),
        (".agents/user.yaml", "is reserved"),
        (".agents/bob.yml", "is not read"),
        (".workflows/Re View.yaml", "is not a name"),
        (".workflows/dm.yaml", "it marks personal spaces"),
    ],
)
def test_a_file_with_a_name_that_nothing_can_have_is_told(name: str, message: str, tmp_path: Path) -> None:
    write(tmp_path, {name: MOCK if name.startswith(".agents") else "agents: {x: {backend: mock, mock: [{text: x}]}}"})
    (error,) = _check(tmp_path)[name].errors
    assert message in error.message


def test_files_elsewhere_are_known_by_what_they_say(tmp_path: Path) -> None:
    files = {
        ".git/HEAD": "",
        "drafts/bob.yaml": MOCK,
        "drafts/deploy.yaml": "agents: {x: {backend: mock, mock: [{text: x}]}}\nkickoff: '@y hi'\n",
        "drafts/team.yaml": "providers: {acme: {}}\n",
    }
    write(tmp_path, files)
    found = validate(tmp_path, tmp_path / "drafts", ["bob.yaml", "deploy.yaml", "team.yaml", "none.yaml"]).files
    assert {file.path: (file.kind, file.ok) for file in found} == {
        "drafts/bob.yaml": ("agent", True),
        "drafts/deploy.yaml": ("workflow", True),
        "drafts/team.yaml": ("project", False),
        "drafts/none.yaml": ("agent", False),
    }


def test_a_workflow_that_the_project_file_names_in_vain_is_its_mistake(tmp_path: Path) -> None:
    write(tmp_path, {"moniro.yaml": "workflows:\n  gone: flows/gone.yaml\n"})
    (error,) = _check(tmp_path)["moniro.yaml"].errors
    assert (error.line, error.where, error.message) == (2, "workflows.gone", "file flows/gone.yaml not found")


@pytest.mark.promise("CF11")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / ".agents").mkdir()
    os.mkfifo(tmp_path / ".agents" / "alice.yaml")
    (error,) = _check(tmp_path)[".agents/alice.yaml"].errors
    assert error.message == "is not a regular file"


@pytest.mark.promise("CF08")
def test_a_name_that_is_no_text_can_be_told(tmp_path: Path) -> None:
    write(tmp_path, {".agents/alice.yaml": MOCK})
    os.rename(tmp_path / ".agents" / "alice.yaml", os.fsencode(tmp_path / ".agents") + b"/al\xffce.yaml")
    found = validate(tmp_path, tmp_path, [])
    assert msgspec.json.decode(msgspec.json.encode(found))["files"][0]["path"] == ".agents/al\\xffce.yaml"


def test_a_name_is_looked_up_where_definitions_are(tmp_path: Path) -> None:
    review(tmp_path)
    assert list(_check(tmp_path, "alice", "review")) == [".agents/alice.yaml", ".workflows/review.yaml"]


DECLARED = """
    agents:
      - team/carl.yaml
      - name: dora
        backend: mock
        mock: [{ text: done }]
"""


def test_agents_that_the_project_file_declares_are_looked_at(tmp_path: Path) -> None:
    files = {
        "moniro.yaml": DECLARED,
        "team/carl.yaml": "backend: mok\n",
        ".workflows/w.yaml": "agents: {carl: {ref: carl}, dora: {ref: dora}}\n",
    }
    write(tmp_path, files)
    assert _wrong(_check(tmp_path)) == {"team/carl.yaml": [(1, "backend")]}
    assert _wrong(_check(tmp_path, "team/carl.yaml")) == {"team/carl.yaml": [(1, "backend")]}


def test_agents_that_a_broken_project_file_declares_are_not_missed(tmp_path: Path) -> None:
    """Only those that it does not declare are."""
    files = {
        "moniro.yaml": DECLARED + "    starvation: soon\n",
        "team/carl.yaml": MOCK,
        ".workflows/w.yaml": "agents: {carl: {ref: carl}, dora: {ref: dorra}}\n",
    }
    write(tmp_path, files)
    assert _wrong(_check(tmp_path)) == {
        "moniro.yaml": [(6, "starvation")],
        ".workflows/w.yaml": [(1, "agents.dora.ref")],
    }


def test_a_script_that_calls_what_is_not_there_is_warned_of(tmp_path: Path) -> None:
    """Each such call would fail in every attempt; those of an agent's own servers are known only once these run."""
    calls = "mock: [{tool: chanel_send, args: {}}, {tool: channel_send, args: {}}, {tool: mcp__x__y}, {tool: bash}]\n"
    write(tmp_path, {".agents/a.yaml": f"model: mock/m\nprompt: {{system: x}}\n{calls}"})
    (warning,) = (one for file in validate(tmp_path, tmp_path, (), {"PATH": "/bin"}).files for one in file.warnings)
    assert (warning.line, warning.where) == (3, "mock")
    assert warning.message == "tool 'chanel_send' not found, so the call will fail; did you mean channel_send?"


@pytest.mark.promise("XF19")
def test_a_key_that_is_not_set_is_warned_of(tmp_path: Path) -> None:
    files = {
        ".agents/alice.yaml": "prompt: {system: hi}\nmodel: sonnet\n",
        ".workflows/review.yaml": "agents: {bob: {model: openai/m, prompt: {system: s}}, alice: {ref: alice}}\n",
    }
    write(tmp_path, files)

    def warned(environ: dict[str, str]) -> list[tuple[int, str, str]]:
        found = validate(tmp_path, tmp_path, (), {"PATH": "/bin", **environ}).files
        return [(one.line, one.where, one.message) for file in found for one in file.warnings]

    hint = "set ANTHROPIC_API_KEY in the environment of the kernel"
    missing = f"API key for anthropic not found: {hint} (checked in the environment of this shell)"
    other = missing.replace("anthropic", "openai").replace("ANTHROPIC", "OPENAI")
    assert warned({}) == [(2, "model", missing), (1, "agents.bob.model", other)]
    assert warned({"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k"}) == []


@pytest.mark.promise("XF19")
def test_a_command_line_in_place_of_a_program_is_warned_of(tmp_path: Path) -> None:
    keys = 'mcp_servers: {s: {command: "python3 srv.py", args: [-x]}}'
    write(tmp_path, {".agents/alice.yaml": f"backend: mock\nmock: [{{text: hi}}]\n{keys}\n"})
    (warning,) = (one for file in validate(tmp_path, tmp_path, (), {"PATH": "/bin"}).files for one in file.warnings)
    assert warning.where == "mcp_servers.s.command"
    assert 'write command: python3, args: ["srv.py", "-x"]' in warning.message


@pytest.mark.promise("XF19")
def test_what_is_right_and_not_possible_on_this_machine_is_warned_of(tmp_path: Path) -> None:
    files = {
        ".agents/alice.yaml": "backend: mock\nmock: [{text: hi}]\nsandbox: on\n",
        ".workflows/review.yaml": """
            agents:
              alice: {ref: alice}
              bob: {backend: mock, mock: [{text: hi}], sandbox: on}
            workspace: {git: worktree}
            """,
    }
    write(tmp_path, files)
    assert _warned(tmp_path, str(tmp_path)) == {
        ".agents/alice.yaml": (True, [(3, "sandbox")]),
        ".workflows/review.yaml": (True, [(3, "agents.bob.sandbox"), (4, "workspace.git")]),
    }
    (tmp_path / "bwrap").touch(mode=0o755)
    (tmp_path / ".git").mkdir()
    assert not any(file.warnings for file in validate(tmp_path, tmp_path, (), {"PATH": str(tmp_path)}).files)


@pytest.mark.promise("CF13", "CF21")
def test_what_would_lead_nowhere_is_warned_of(tmp_path: Path) -> None:
    agent = "backend: mock\nmock: [{{text: hi}}]\nschedule: {{wakeup: 5m, workspace: {}}}\n"
    files = {
        ".agents/alice.yaml": agent.format("reveiw"),
        ".agents/bob.yaml": agent.format("review:pr-1"),
        ".workflows/review.yaml": "agents: {alice: {ref: alice}}\nkickoff: alice, @nobody, begin\n",
        ".workflows/other.yaml": "agents: {alice: {ref: alice}}\nkickoff: '@alice begin'\n",
    }
    write(tmp_path, files)
    assert _warned(tmp_path) == {
        ".agents/alice.yaml": (True, [(3, "schedule.workspace")]),
        ".agents/bob.yaml": (True, []),
        ".workflows/other.yaml": (True, []),
        ".workflows/review.yaml": (True, [(2, "kickoff")]),
    }


def test_a_review_without_findings_is_warned_of_where_reports_are_wanted(tmp_path: Path) -> None:
    """In a prompt of an agent, inline or by its file, or in the kickoff."""
    prompts = {
        "none": "You review.", "inline": "Write `file:line: severity: text`.", "file": "<path>:<line>: note: x",
    }  # fmt: skip
    files = {
        ".agents/rev.yaml": MOCK + "    prompt: { system_file: rev.md }\n",
        ".workflows/w.yaml": "agents: { rev: { ref: rev } }\nkickoff: '@rev go'\n",
    }
    for name, text in prompts.items():
        write(tmp_path, files | {"rev.md": text})
        found = {
            reports: [one.where for file in validate(tmp_path, tmp_path, (), {"PATH": "/bin"}, reports=reports).files
                      for one in file.warnings]
            for reports in (False, True)
        }  # fmt: skip
        assert found == {False: [], True: ["agents"] if name == "none" else []}


def test_an_escalation_to_somebody_who_is_no_member_is_warned_of(tmp_path: Path) -> None:
    person = "backend: human\ntimeouts: {answer: 1h, escalate: dave}\n"
    agents = "  carol: {ref: carol}\n  eve: {backend: human, timeouts: {answer: 1h, escalate: nobody}}\n"
    files = {
        ".agents/carol.yaml": person,
        ".agents/dave.yaml": "backend: human\n",
        ".workflows/alone.yaml": f"agents:\n{agents}kickoff: '@carol begin'\n",
        ".workflows/both.yaml": "agents: {carol: {ref: carol}, dave: {ref: dave}}\nkickoff: '@carol begin'\n",
    }
    write(tmp_path, files)
    found = validate(tmp_path, tmp_path, (), {"PATH": "/bin"}).files
    assert all(file.ok for file in found)
    assert {file.path: [(one.line, one.where) for one in file.warnings] for file in found if file.warnings} == {
        ".workflows/alone.yaml": [(2, "agents.carol"), (3, "agents.eve.timeouts.escalate")]
    }


def test_a_variable_in_a_prompt_is_warned_of(tmp_path: Path) -> None:
    """contracts 1: variables are replaced in setup and kickoff; a prompt reaches the model as it is written."""
    files = {
        ".agents/alice.yaml": "backend: mock\nmock: [{text: hi}]\nprompt: {system_file: a.md}\n",
        "a.md": "Work for ${{ params.who }}.",
        ".workflows/review.yaml": """
            agents:
              alice:
                ref: alice
                prompt: {append: "In ${{ workflow.name }}."}
              bob:
                backend: mock
                mock: [{text: "${{ message.text }}"}]
                prompt: {system: "Costs ${ 5 }, {{ x }}, ${{ no name }}."}
              carl:
                backend: mock
                mock: [{text: hi}]
                prompt: {system: "For ${{ params.who }}."}
            """,
    }
    write(tmp_path, files)
    assert _warned(tmp_path) == {
        ".agents/alice.yaml": (True, [(3, "prompt.system_file")]),
        ".workflows/review.yaml": (True, [(4, "agents.alice.prompt.append"), (12, "agents.carl.prompt.system")]),
    }


@pytest.mark.parametrize("verb", ["validate", "config"])
def test_what_is_elsewhere_is_not_said_to_be_missing(verb: str, tmp_path: Path) -> None:
    """contracts 7: both look at files that are here; what fetches one is named."""
    remote = "github:owner/repo@v1/flows/review.yaml"
    with pytest.raises(Refused, match="is not fetched yet: the first run fetches it") as caught:
        validate(tmp_path, tmp_path, (remote,)) if verb == "validate" else resolution(tmp_path, tmp_path, remote)
    assert "--dry-run" in (caught.value.hint or "")


def test_every_agent_is_looked_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".agents").mkdir()
    for number in range(40):
        (tmp_path / f".agents/a{number}.yaml").write_text("model: mock/m\nprompt: {system: x}\nmock: [{text: hi}]\n")
    parsed: list[str] = []
    contexts: list[str] = []
    parse, context = Catalog.parse, catalog.context_dir

    def counted_parse(self: Catalog, name: str, path: str, data: bytes, project: ProjectDefinition) -> AgentDefinition:
        parsed.append(name)
        return parse(self, name, path, data, project)

    def counted_context(definition: AgentDefinition) -> str:
        contexts.append(definition.name)
        return context(definition)

    monkeypatch.setattr(Catalog, "parse", counted_parse)
    monkeypatch.setattr(catalog, "context_dir", counted_context)
    assert all(one.ok for one in validate(tmp_path, tmp_path, [], {"PATH": ""}).files)
    assert sorted(parsed) == sorted(contexts) == sorted(f"a{number}" for number in range(40))


@pytest.mark.promise("P45")
def test_a_file_of_an_agents_memory_is_checked_with_the_rest_and_by_its_name(tmp_path: Path) -> None:
    files = {
        ".agents/alice.yaml": "backend: mock\nmock: [{text: hi}]\ncontext: {dir: team/alice}\n",
        ".agents/bob.yaml": MOCK,
        "team/alice/memory/core.yaml": "a: 1\nb: {value: 2, tire: x}\n",
        ".agents/bob/memory/working.yaml": "a: fine\n",
        ".agents/bob/memory/torn.yaml": "a: 1\nb: 'torn\n",
    }
    write(tmp_path, files)
    checked = _check(tmp_path)
    assert [(file.path, file.kind) for file in checked.values() if file.kind == "memory"] == [
        (".agents/bob/memory/torn.yaml", "memory"),
        (".agents/bob/memory/working.yaml", "memory"),
        ("team/alice/memory/core.yaml", "memory"),
    ]
    wrong = _wrong(checked)
    assert wrong["team/alice/memory/core.yaml"] == [(2, "")]
    assert sorted(wrong) == [".agents/bob/memory/torn.yaml", "team/alice/memory/core.yaml"]
    (told,) = checked["team/alice/memory/core.yaml"].errors
    assert (told.message[:16], told.source) == ("b: unknown tire;", "b: {value: 2, tire: x}")
    assert list(_wrong(_check(tmp_path, ".agents/bob/memory/torn.yaml"))) == [".agents/bob/memory/torn.yaml"]
