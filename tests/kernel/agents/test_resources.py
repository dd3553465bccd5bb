"""What an agent brings along from files of the project, and that each byte of it needs trust."""

import hashlib
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import pytest

from kernel.agents.catalog import Catalog
from kernel.agents.mcp_servers import filled, left_out, servers_of
from kernel.agents.resources import ABSENT, MAX_PROGRAM_BYTES, AgentResources, resources_of, secrets_of
from kernel.agents.skills import skills_prompt
from kernel.agents.trust import agent_units
from kernel.source.diagnostics import BadDefinition
from kernel.source.files import MAX_FILES
from protocol.agent import McpServer
from protocol.errors import Refused
from protocol.trust import TrustUnit
from tests.kernel.inspect.files import write
from tests.kernel.refusals import raised

pytestmark = pytest.mark.promise("P19")

FILES: Final = {
    "moniro.yaml": """\
tools:
  count: { description: Count, command: [tools/count.sh, "${path}"], input: { path: string } }
  canned: { description: Say 1, mock: "1" }
""",
    "tools/count.sh": "wc -l $1\n",
    "serve.py": "serve()\n",
    ".mcp.json": """\
{"mcpServers": {
  "github": {"command": "npx", "args": ["-y", "gh"], "env": {"TOKEN": "${GH_TOKEN}", "MODE": "ro"}, "disabled": false},
  "web": {"type": "http", "url": "https://x.example/mcp", "headers": {"Authorization": "Bearer ${WEB_KEY:-none}"}}
}}
""",
    "skills/counting/SKILL.md": "---\nname: counting\ndescription: How to count\nlicense: MIT\n---\nUse wc.\n",
    "skills/counting/more/tables.md": "rows\n",
    ".agents/skills/cooking/SKILL.md": "---\ndescription: How to cook\n---\n",
    ".agents/alice.yaml": """\
backend: mock
tools: [bash, count, canned]
skills: [skills]
mcp_servers:
  github: { type: project }
  own: { command: python3, args: [serve.py] }
mock: [{ text: hi }]
""",
    ".agents/bob.yaml": "backend: mock\ntools: [skills]\nmcp_servers: .mcp.json\nmock: [{ text: hi }]\n",
    ".agents/carl.yaml": "backend: mock\nmcp_servers: [web]\nmock: [{ text: hi }]\n",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write(tmp_path, FILES)
    return tmp_path


def brought(root: Path, name: str) -> AgentResources:
    """What the agent brings along."""
    catalog = Catalog(root)
    return resources_of(catalog.agent(name).definition, catalog.project(), root)


def units_of(root: Path, name: str) -> tuple[TrustUnit, ...]:
    catalog = Catalog(root)
    return tuple(agent_units(catalog.agent(name).definition, catalog.project(), brought(root, name)))


def unit_of(root: Path, name: str) -> TrustUnit:
    (found,) = units_of(root, name)
    return found


def test_all_that_it_runs_reaches_and_reads_is_told(root: Path) -> None:
    """Commands verbatim, addresses, names of variables, never their values; a mock runs nothing."""
    tool, github, own, skill = unit_of(root, "alice").demands
    assert tool.startswith("alice runs, as its tool count: tools/count.sh '${path}' (tools/count.sh: sha256:")
    assert github.startswith("alice runs the MCP server github: npx -y gh, with TOKEN=${GH_TOKEN}, MODE=ro")
    assert own.startswith("alice runs the MCP server own: python3 serve.py (serve.py: sha256:")
    assert skill.startswith("alice reads the skill counting in skills/counting, content sha256:")
    web = (
        "sends what it likes to the MCP server web at https://x.example/mcp, with Authorization=Bearer ${WEB_KEY:-none}"
    )
    assert unit_of(root, "carl").demands == (f"carl {web}",)
    assert [one.partition(" ")[2][:20] for one in unit_of(root, "bob").demands] == [
        "runs the MCP server ", "sends what it likes ", "reads the skill cook",
    ]  # fmt: skip


def test_what_a_servers_variables_are_set_to_is_shown(root: Path) -> None:
    plain, long = "x, TOKEN=y", "v" * 150
    env = f"env: {{ A: '{plain}', B: {long}, C: '${{HOME}}/x' }}"
    (root / ".agents/dora.yaml").write_text(
        f"backend: mock\nmock: [{{ text: x }}]\nmcp_servers:\n  own: {{ command: serve, {env} }}\n"
        "  web: { url: 'https://x.example', headers: { Authorization: Bearer s3cr3t } }\n"
    )
    own, web = unit_of(root, "dora").demands
    digest = hashlib.sha256(long.encode()).hexdigest()[:16]
    assert own.endswith(f"with A='{plain}', B={'v' * 140}... (sha256:{digest}), C=${{HOME}}/x")
    assert "s3cr3t" not in web and "Authorization=sha256:" in web


def _append(path: Path) -> None:
    path.write_text(path.read_text() + "\n# more\n")


CHANGES: Final[dict[str, Callable[[Path], object]]] = {
    "a byte of a skill": lambda root: _append(root / "skills/counting/more/tables.md"),
    "a new file in a skill": lambda root: (root / "skills/counting/new").write_text(""),
    "a program in a skill": lambda root: (root / "skills/counting/more/tables.md").chmod(0o755),
    "a link in a skill": lambda root: (root / "skills/counting/link").symlink_to("/etc/passwd"),
    "a skill beside it": lambda root: _skill(root / "skills/other"),
    "the program of a tool": lambda root: _append(root / "tools/count.sh"),
    "the program of a server": lambda root: _append(root / "serve.py"),
    "an argument in .mcp.json": lambda root: _replace(root / ".mcp.json", '"gh"', '"gx"'),
    "a variable in .mcp.json": lambda root: _replace(root / ".mcp.json", "${GH_TOKEN}", "${AWS_KEY}"),
    "a value in .mcp.json": lambda root: _replace(root / ".mcp.json", '"ro"', '"rw"'),
    "a tool of a server that runs unasked": lambda root: _add(root / ".agents/alice.yaml", "read_only: [mcp__own__x]"),
    "the command of a tool": lambda root: _replace(root / "moniro.yaml", "tools/count.sh", "sh"),
}


def _add(path: Path, line: str) -> None:
    path.write_text(f"{path.read_text().rstrip()}\n{line}\n")


def _skill(folder: Path) -> None:
    folder.mkdir()
    (folder / "SKILL.md").write_text("---\ndescription: x\n---\n")


def _replace(path: Path, old: str, new: str) -> None:
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_any_change_is_another_digest(root: Path, change: Callable[[Path], object]) -> None:
    before = unit_of(root, "alice").digest
    change(root)
    assert unit_of(root, "alice").digest != before


def test_a_mock_in_place_of_a_command_needs_no_trust(root: Path) -> None:
    _replace(root / "moniro.yaml", "Count, command", "Count, mock: x, command")
    assert not any("count.sh" in demand for demand in unit_of(root, "alice").demands)


def test_a_shell_without_asking_needs_trust(root: Path) -> None:
    """A prompt of a repository must not run commands because its agent's file says that nobody is asked."""
    agent = "model: openai/m\nprompt: { system: x }\ntools: [bash]\napproval: auto\n"
    (root / ".agents/dora.yaml").write_text(agent)
    assert unit_of(root, "dora").demands == ("dora runs whatever its model writes, unasked (bash, approval: auto)",)
    claude = "backend: claude\nmodel: anthropic/m\nprompt: { system: x }\napproval: auto\n"
    (root / ".agents/eve.yaml").write_text(claude)
    assert unit_of(root, "eve").demands == ("eve runs whatever its model writes, unasked (claude, approval: auto)",)


@pytest.mark.parametrize(
    ("keys", "used"),
    [
        ("tools: [count]", "count"),
        ("mcp_servers: [web]", "MCP server web"),
        ("tools: [count, canned, files]\nmcp_servers: [web]", "count, MCP server web"),
        ("tools: [canned]", None),
        ("tools: [reads]", None),
    ],
)
def test_tools_that_change_something_without_asking_need_trust(root: Path, keys: str, used: str | None) -> None:
    _append_tool(root / "moniro.yaml", "reads: { description: R, command: [wc], read_only: true }")
    agent = root / ".agents/dora.yaml"
    agent.write_text(f"backend: mock\nmock: [{{ text: x }}]\n{keys}\n")
    asking = _demands(root, "dora")
    agent.write_text(f"{agent.read_text()}approval: auto\n")
    new = [demand for demand in _demands(root, "dora") if demand not in asking]
    assert new == ([] if used is None else [f"dora uses {used} as its model likes, unasked (approval: auto)"])


def _append_tool(path: Path, line: str) -> None:
    path.write_text(f"{path.read_text()}  {line}\n")


def _demands(root: Path, name: str) -> tuple[str, ...]:
    return tuple(demand for one in units_of(root, name) for demand in one.demands)


def _pinned(root: Path, command: str) -> Mapping[str, str]:
    _append_tool(root / "moniro.yaml", f"made: {{ description: M, command: {command} }}")
    (root / ".agents/dora.yaml").write_text("backend: mock\nmock: [{ text: x }]\ntools: [made]\n")
    return brought(root, "dora").pinned


def test_a_file_that_a_command_names_and_that_is_not_there_is_known_to_be_absent(root: Path) -> None:
    words = f"[node, dist/run.js, gone.py, skills, --x=y, '~/x', ../out, /bin/sh, '{'long ' * 99}', 'a; b']"
    assert _pinned(root, words) == {"dist/run.js": ABSENT, "gone.py": ABSENT, "a; b": ABSENT}


@pytest.mark.promise("P19", "P10")
def test_a_program_that_is_too_large_to_be_looked_at_is_refused(root: Path) -> None:
    with (root / "huge").open("wb") as file:
        file.truncate(MAX_PROGRAM_BYTES + 1)
    with pytest.raises(BadDefinition, match="huge:1:1: is larger than"):
        _pinned(root, "[./huge]")


def test_an_agent_lives_on_when_the_last_skill_is_removed(root: Path) -> None:
    shutil.rmtree(root / ".agents/skills/cooking")
    (root / ".agents/skills/skills.lock").write_text("{}")
    assert brought(root, "bob").skills == ()


def test_hidden_folders_are_no_skills(root: Path) -> None:
    home = root / ".agents/skills"
    shutil.copytree(home / "cooking", home / ".new-cooking")
    skills = brought(root, "bob").skills
    assert [one.name for one in skills] == ["cooking"]
    assert set(skills[0].files) == {"SKILL.md"} and len(skills[0].files["SKILL.md"]) == 64


@pytest.mark.promise("CF02")
@pytest.mark.parametrize("name", [b"sk\xff", b"a\nb"])
def test_a_name_that_cannot_be_told_is_refused(root: Path, name: bytes) -> None:
    folder = os.path.join(os.fsencode(root / "skills"), name)
    os.mkdir(folder)
    Path(os.fsdecode(folder), "SKILL.md").write_text("---\nname: x\ndescription: x\n---\n")
    with pytest.raises(BadDefinition, match="is not a displayable file name"):
        Catalog(root).agent("alice")


@pytest.mark.promise("P18")
def test_a_header_is_one_line() -> None:
    server = {"a": McpServer(url="http://y", headers={"H": "Bearer ${K}"})}
    assert filled(server, {"K": "s3cr3t\n"})["a"].headers == {"H": "Bearer s3cr3t"}
    with pytest.raises(Refused, match=r"\$K contains line breaks") as caught:
        filled(server, {"K": "s3cr3t\r\nX: y"})
    assert "s3cr3t" not in str(caught.value)


@pytest.mark.promise("P18")
def test_variables_are_filled_in_by_the_kernel_alone() -> None:
    servers = {
        "a": McpServer(command="x", env={"T": "${A}", "U": "${B:-b}"}),
        "b": McpServer(url="http://y", headers={"H": "k ${A}"}),
    }
    made = filled(servers, {"A": "1"})
    assert (made["a"].env, made["b"].headers) == ({"T": "1", "U": "b"}, {"H": "k 1"})
    with pytest.raises(Refused, match=r"mcp_servers.a.env needs \$A, which is not set"):
        filled(servers, {})


WRONG: Final[dict[str, tuple[dict[str, str], str, str]]] = {
    "no front matter": ({"skills/counting/SKILL.md": "# x\n"}, "skills/counting/SKILL.md:1:1", "has no front matter"),
    "no description": (
        {"skills/counting/SKILL.md": "---\nname: counting\n---\n"}, "skills/counting/SKILL.md:2:1", "is missing",
    ),
    "a name that is none": (
        {"skills/counting/SKILL.md": "---\ndescription: x\nname: Le Count\n---\n"},
        "skills/counting/SKILL.md:3:1", "'Le Count' is not a valid skill name",
    ),
    "a YAML bomb": (
        {"skills/counting/SKILL.md": "---\ndescription: !!python/object/apply:os.system [ls]\n---\n"},
        "skills/counting/SKILL.md:2:", "",
    ),
    "no such folder": (
        {".agents/alice.yaml": FILES[".agents/alice.yaml"].replace("[skills]", "[skils]")},
        ".agents/alice.yaml:3:1 skills", "'skils' is not a folder of the project",
    ),
    "a folder outside": (
        {".agents/alice.yaml": FILES[".agents/alice.yaml"].replace("[skills]", "[../x]")},
        ".agents/alice.yaml:3:1 skills", "leads outside the project",
    ),
    "an empty folder": (
        {".agents/alice.yaml": FILES[".agents/alice.yaml"].replace("[skills]", "[tools]")},
        ".agents/alice.yaml:3:1 skills", "'tools' contains no skill",
    ),
    "a server that .mcp.json has not": (
        {".agents/alice.yaml": FILES[".agents/alice.yaml"].replace("github:", "gitbuh:")},
        ".agents/alice.yaml:4:1 mcp_servers", "server gitbuh not found in .mcp.json",
    ),
    "an .mcp.json that is wrong": (
        {".mcp.json": '{"mcpServers": {\n "github": {"url": "x"}}}'}, ".mcp.json:2:13", "is not an http",
    ),
    "an .mcp.json that is none": ({".mcp.json": "[]"}, ".mcp.json:1:1", "has no mcpServers"),
}  # fmt: skip


@pytest.mark.promise("CF02", "CF05")
@pytest.mark.parametrize(("files", "place", "message"), WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_is_told_where_it_is(root: Path, files: dict[str, str], place: str, message: str) -> None:
    for name, text in files.items():
        (root / name).write_text(text)
    error = raised(BadDefinition, Catalog(root).agent, "alice")
    assert error.text.startswith(place) and message in error.text


def test_what_other_programs_have_in_mcp_json_is_theirs(root: Path) -> None:
    _replace(root / ".mcp.json", '"web":', '"old": {"type": "sse", "url": "${X}"}, "web":')
    assert "github" in unit_of(root, "alice").demands[1]
    servers = Catalog(root).agent("bob").definition.mcp_servers
    assert list(servers_of(servers, root)) == ["github", "web"]
    assert list(left_out(servers, root)) == ["old of .mcp.json is ignored: type 'sse' is not allowed"]
    (root / ".agents/erin.yaml").write_text("backend: mock\nmcp_servers: [old]\nmock: [{ text: hi }]\n")
    with pytest.raises(BadDefinition, match=r"mcpServers\.old"):
        Catalog(root).agent("erin")


def test_two_skills_of_one_name_are_told(root: Path) -> None:
    (root / "skills/counting-2").mkdir()
    (root / "skills/counting-2/SKILL.md").write_text(FILES["skills/counting/SKILL.md"])
    with pytest.raises(BadDefinition, match="is also named counting"):
        Catalog(root).agent("alice")


@pytest.mark.promise("P10", "XF12")
def test_a_folder_without_end_is_not_read_to_it(root: Path) -> None:
    many = root / "skills/counting/many"
    many.mkdir()
    os.mkfifo(many / "pipe")
    with pytest.raises(BadDefinition, match="many/pipe is no file"):
        Catalog(root).agent("alice")
    (many / "pipe").unlink()
    for number in range(MAX_FILES + 1):
        (many / str(number)).touch()
    with pytest.raises(BadDefinition, match="more than 1000 files"):
        Catalog(root).agent("alice")


def test_a_program_that_reads_files_is_told_where_skills_are(root: Path) -> None:
    skills = brought(root, "alice").skills
    assert skills_prompt(skills).splitlines()[1:] == [f"- counting: How to count ({root}/skills/counting/SKILL.md)"]
    assert skills_prompt(()) == ""


@pytest.mark.promise("P18")
def test_the_secrets_of_an_agent_are_what_its_worker_would_be_given(root: Path) -> None:
    (root / ".agents/dora.yaml").write_text(
        "model: anthropic/claude-sonnet-4-5\nprompt: { system: x }\nenv: [DOOR]\nmcp_servers: .mcp.json\n"
    )
    catalog = Catalog(root)
    dora, project = catalog.agent("dora").definition, catalog.project()
    environ = {"DOOR": "sesame-open", "GH_TOKEN": "gh-4711471", "ANTHROPIC_API_KEY": "sk-ant-1", "OTHER": "not-this"}
    assert secrets_of(dora, project, environ, root) == {
        "sesame-open": "[DOOR]", "gh-4711471": "[secret]", "sk-ant-1": "[key]",
    }  # fmt: skip
    assert secrets_of(dora, project, {}, root) == {}
    (root / ".mcp.json").write_text("{")
    assert secrets_of(dora, project, {"DOOR": "sesame-open"}, root) == {"sesame-open": "[DOOR]"}
