"""What an agent brings along from files of the project, and that each byte of it needs trust (promise P19)."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from kernel.agents.belongings import belongings
from kernel.agents.catalog import Catalog
from kernel.agents.servers import filled
from kernel.agents.skills import told
from kernel.agents.trust import agent_units
from kernel.source.folder import MAX_FILES
from kernel.source.problems import BadDefinition
from protocol.agent import McpServer
from protocol.errors import Refused
from protocol.trust import Unit

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
    """A project with all of that."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def unit_of(root: Path, name: str) -> Unit:
    """What the agent ``name`` needs trust for."""
    catalog = Catalog(root)
    definition = catalog.agent(name).definition
    (found,) = agent_units(definition, catalog.project(), belongings(definition, catalog.project(), root))
    return found


def test_all_that_it_runs_reaches_and_reads_is_told(root: Path) -> None:
    """decisions (Trust): commands verbatim, addresses, names of variables, never their values; a mock runs nothing."""
    tool, github, own, skill = unit_of(root, "alice").demands
    assert tool.startswith("alice runs, as its tool count: tools/count.sh '${path}' (tools/count.sh: sha256:")
    assert github.startswith("alice runs the MCP server github: npx -y gh, with TOKEN=${GH_TOKEN}, MODE=sha256:")
    assert own.startswith("alice runs the MCP server own: python3 serve.py (serve.py: sha256:")
    assert skill.startswith("alice reads the skill counting in skills/counting, content sha256:")
    web = (
        "sends what it likes to the MCP server web at https://x.example/mcp, with Authorization=Bearer ${WEB_KEY:-none}"
    )
    assert unit_of(root, "carl").demands == (f"carl {web}",)
    assert [one.partition(" ")[2][:20] for one in unit_of(root, "bob").demands] == [
        "runs the MCP server ", "sends what it likes ", "reads the skill cook",
    ]  # fmt: skip


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
    "the command of a tool": lambda root: _replace(root / "moniro.yaml", "tools/count.sh", "sh"),
}


def _skill(folder: Path) -> None:
    folder.mkdir()
    (folder / "SKILL.md").write_text("---\ndescription: x\n---\n")


def _replace(path: Path, old: str, new: str) -> None:
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_any_change_is_another_digest(root: Path, change: Callable[[Path], object]) -> None:
    """P19: whatever is run or read is asked about anew."""
    before = unit_of(root, "alice").digest
    change(root)
    assert unit_of(root, "alice").digest != before


def test_a_mock_in_place_of_a_command_needs_no_trust(root: Path) -> None:
    """awk tool mock: nothing runs."""
    _replace(root / "moniro.yaml", "Count, command", "Count, mock: x, command")
    assert not any("count.sh" in demand for demand in unit_of(root, "alice").demands)


def test_a_shell_without_asking_needs_trust(root: Path) -> None:
    """P19: a prompt of a repository must not run commands because its agent's file says that nobody is asked."""
    agent = "model: openai/m\nprompt: { system: x }\ntools: [bash]\napproval: auto\n"
    (root / ".agents/dora.yaml").write_text(agent)
    assert unit_of(root, "dora").demands == ("dora runs whatever its model writes, unasked (bash, approval: auto)",)
    claude = "backend: claude\nmodel: anthropic/m\nprompt: { system: x }\napproval: auto\n"
    (root / ".agents/eve.yaml").write_text(claude)
    assert unit_of(root, "eve").demands == ("eve runs whatever its model writes, unasked (claude, approval: auto)",)


def test_variables_are_filled_in_by_the_kernel_alone() -> None:
    """P18: into environment and headers; one that is not set is named."""
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
        "skills/counting/SKILL.md:3:1", "'Le Count' is no skill's name",
    ),
    "a YAML bomb": (
        {"skills/counting/SKILL.md": "---\ndescription: !!python/object/apply:os.system [ls]\n---\n"},
        "skills/counting/SKILL.md:2:", "",
    ),
    "no such folder": (
        {".agents/alice.yaml": FILES[".agents/alice.yaml"].replace("[skills]", "[skils]")},
        ".agents/alice.yaml:3:1 skills", "'skils' is no folder of the project",
    ),
    "a folder outside": (
        {".agents/alice.yaml": FILES[".agents/alice.yaml"].replace("[skills]", "[../x]")},
        ".agents/alice.yaml:3:1 skills", "leads outside the project",
    ),
    "an empty folder": (
        {".agents/alice.yaml": FILES[".agents/alice.yaml"].replace("[skills]", "[tools]")},
        ".agents/alice.yaml:3:1 skills", "'tools' holds no skill",
    ),
    "a server that .mcp.json has not": (
        {".agents/alice.yaml": FILES[".agents/alice.yaml"].replace("github:", "gitbuh:")},
        ".agents/alice.yaml:4:1 mcp_servers", ".mcp.json has no server gitbuh",
    ),
    "an .mcp.json that is wrong": (
        {".mcp.json": '{"mcpServers": {\n "github": {"url": "x"}}}'}, ".mcp.json:2:13", "is not an http",
    ),
    "an .mcp.json that is none": ({".mcp.json": "[]"}, ".mcp.json:1:1", "has no mcpServers"),
}  # fmt: skip


@pytest.mark.parametrize(("files", "place", "message"), WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_is_told_where_it_is(root: Path, files: dict[str, str], place: str, message: str) -> None:
    """CF02, CF05: a located error in the file that is wrong, or at the key that names one that is not there."""
    for name, text in files.items():
        (root / name).write_text(text)
    with pytest.raises(BadDefinition) as caught:
        Catalog(root).agent("alice")
    assert caught.value.text.startswith(place) and message in caught.value.text


def test_what_other_programs_have_in_mcp_json_is_theirs(root: Path) -> None:
    """A server that no agent names may be of a kind that we do not speak."""
    _replace(root / ".mcp.json", '"web":', '"old": {"type": "sse", "url": "${X}"}, "web":')
    assert "github" in unit_of(root, "alice").demands[1]
    with pytest.raises(BadDefinition, match=r"mcpServers\.old"):
        Catalog(root).agent("bob")


def test_two_skills_of_one_name_are_told(root: Path) -> None:
    """A model could not say which it means."""
    (root / "skills/counting-2").mkdir()
    (root / "skills/counting-2/SKILL.md").write_text(FILES["skills/counting/SKILL.md"])
    with pytest.raises(BadDefinition, match="is called counting too"):
        Catalog(root).agent("alice")


def test_a_folder_without_end_is_not_read_to_it(root: Path) -> None:
    """P10; XF12: bounded, and what is no file is refused without waiting for it."""
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
    """Progressive disclosure for CLIs: names and descriptions in the prompt, the rest in files they read."""
    catalog = Catalog(root)
    skills = belongings(catalog.agent("alice").definition, catalog.project(), root).skills
    assert told(skills).splitlines()[1:] == [f"- counting: How to count ({root}/skills/counting/SKILL.md)"]
    assert told(()) == ""
