"""awk skills: out of a repository into the project, pinned; what was changed here is not lost unasked."""

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from interface.cli.command_table import BY_WORD
from tests.git_host import SERVED, GitHost, git_host
from tests.interface.conftest import Cli

COUNTING = "---\nname: counting\ndescription: How to count\n---\nUse wc.\n"


@pytest.fixture
def host(cli: Cli, tmp_path: Path) -> Iterator[GitHost]:
    """Where commands fetch from."""
    with git_host(tmp_path / "host") as made:
        cli.environ |= made.environ
        yield made


@pytest.mark.promise("XF05", "XF06")
@pytest.mark.long("the other tests of this file")
def test_skills_are_imported_updated_and_removed(cli: Cli, host: GitHost) -> None:
    host.write("all/counting/SKILL.md", COUNTING)
    host.write("all/counting/run.sh", "#!/bin/sh\n")
    (host.work / "all/counting/run.sh").chmod(0o755)
    (host.work / "all/counting/away").symlink_to("/etc/passwd")
    host.write("all/cooking/SKILL.md", COUNTING.replace("count", "cook"))
    host.write("all/README.md", "x")
    first = host.publish("v1")
    imported = cli("skills", "import", f"github:{SERVED}@v1/all", "counting", "--json")
    assert imported.code == 0, imported.err
    (row,) = imported.json()["skills"]
    assert (row["name"], row["path"], row["commit"]) == ("counting", ".agents/skills/counting", first)
    folder = cli.root / ".agents/skills/counting"
    assert sorted(os.listdir(folder)) == ["SKILL.md", "run.sh"]
    assert os.access(folder / "run.sh", os.X_OK) and not os.access(folder / "SKILL.md", os.X_OK)
    lock = json.loads((cli.root / ".agents/skills/skills.lock").read_text())
    assert lock["counting"] == {"source": f"github:{SERVED}@v1/all", "commit": first, "digest": row["digest"]}
    assert cli("skills", "import", f"github:{SERVED}@v1/all", "counting").code == 2

    host.write("all/counting/SKILL.md", COUNTING + "Or count by hand.\n")
    second = host.publish("v1")
    (folder / "SKILL.md").write_text(COUNTING + "Mine.\n")
    kept = cli("skills", "update")
    assert (kept.code, "counting was changed locally" in kept.err) == (1, True)
    updated = cli("skills", "update", "counting", "--force", "--json").json()["skills"]
    assert (updated[0]["commit"], updated[0]["edited"]) == (second, False)
    assert (folder / "SKILL.md").read_text().endswith("Or count by hand.\n")
    (folder / "SKILL.md").write_text("mine, and no skill any more\n")
    for verb in ("update", "rm"):
        assert "counting was changed locally" in cli("skills", verb, "counting").err, "a change is not lost unasked"
    shutil.rmtree(folder)
    assert cli("skills", "update").code == 0
    assert (folder / "SKILL.md").read_text().endswith("Or count by hand.\n"), "what is gone comes again"
    assert cli("skills", "rm", "counting").code == 0
    assert (sorted(os.listdir(folder.parent)), cli("skills", "list").out) == (["skills.lock"], "no skills\n")
    assert cli("skills", "list").err == "", "an empty home is nothing that was skipped"


@pytest.mark.promise("XF05")
@pytest.mark.long("tests/interface/test_skills_commands.py")
def test_a_skill_that_is_wrong_blocks_no_other(cli: Cli, host: GitHost) -> None:
    host.write("all/counting/SKILL.md", COUNTING)
    host.write("all/notes/SKILL.md", "no front matter\n")
    host.publish("v1")
    one = cli("skills", "import", f"github:{SERVED}@v1/all", "counting")
    assert (one.code, one.err) == (0, "")
    asked = cli("skills", "import", f"github:{SERVED}@v1/all", "notes")
    assert (asked.code, "notes/SKILL.md" in asked.err, "no front matter" in asked.err) == (5, True, True)
    rest = cli("skills", "import", f"github:{SERVED}@v1/all", "--force")
    assert (rest.code, "skipped: " in rest.err) == (0, True)
    assert cli("skills", "import", f"github:{SERVED}@v1/all/notes").code == 78


@pytest.mark.promise("XF04")
@pytest.mark.parametrize(
    "source",
    ["github:../x@v1/a", "github:o/r", "github:o/r@--upload-pack=x/a", "github:o/r@v1/../..", "file:///etc", "ext::sh"],
)
def test_a_source_that_is_none_is_refused_before_git_is_thought_of(cli: Cli, source: str) -> None:
    refused = cli("skills", "import", source)
    assert (refused.code, refused.out) == (2, "")
    assert not (cli.root / ".agents/skills").exists()


@pytest.mark.promise("XF05")
def test_no_link_of_the_project_leads_an_import_out(cli: Cli, host: GitHost, tmp_path: Path) -> None:
    outside, home = tmp_path / "outside", cli.root / ".agents/skills"
    outside.mkdir()
    home.mkdir(parents=True)
    for name in (".new-counting", ".old-counting", "counting"):
        (home / name).symlink_to(outside)
    host.write("all/counting/SKILL.md", COUNTING)
    host.publish("v1")
    assert cli("skills", "import", f"github:{SERVED}@v1/all", "--force").code == 0
    assert os.listdir(outside) == []
    assert (sorted(os.listdir(home)), (home / "counting").is_symlink()) == (["counting", "skills.lock"], False)


@pytest.mark.promise("XF05")
def test_a_lock_names_skills_and_no_paths(cli: Cli) -> None:
    (cli.root / ".agents/skills").mkdir(parents=True)
    pin = {"source": "github:o/r@v1/a", "commit": "0" * 40, "digest": "0"}
    (cli.root / ".agents/skills/skills.lock").write_text(json.dumps({"../../src": pin}))
    (cli.root / "src").mkdir()
    refused = cli("skills", "rm", "../../src", "--force")
    assert "not a skill name" in refused.err and (cli.root / "src").is_dir()


@pytest.mark.long("tests/kernel/source")
def test_a_folder_without_a_skill_is_told(cli: Cli, host: GitHost) -> None:
    host.write("none/README.md", "x")
    host.write("bad/SKILL.md", "no front matter")
    host.publish("v1")
    assert cli("skills", "import", f"github:{SERVED}@v1/none").code == 5
    wrong = cli("skills", "import", f"github:{SERVED}@v1/bad")
    assert (wrong.code, "bad/SKILL.md:1:1" in wrong.err) == (78, True)
    assert not (cli.root / ".agents/skills").exists()


@pytest.mark.promise("XF04")
@pytest.mark.parametrize(
    ("source", "gone"),
    [
        (f"github:{SERVED}@v9/all", False),
        *(
            pytest.param(source, gone, marks=pytest.mark.long("[v9]"))
            for source, gone in (("github:owner/none@v1/all", False), (f"github:{SERVED}@v1/all", True))
        ),
    ],
)
def test_what_cannot_be_fetched_is_said_and_what_to_do(cli: Cli, tmp_path: Path, source: str, gone: bool) -> None:
    with git_host(tmp_path / "host") as host:
        cli.environ |= {"AGENT_WORKER_GITHUB_URL": "http://127.0.0.1:1"} if gone else host.environ
        host.publish("v1")
        (cli.root / ".agents/skills").mkdir(parents=True)
        pin = {"source": source, "commit": "0" * 40, "digest": "0"}
        (cli.root / ".agents/skills/skills.lock").write_text(json.dumps({"counting": pin}))
        for words in (("import", source), ("update",)):
            refused = cli("skills", *words)
            assert (refused.code, refused.err.splitlines()[0][:24]) == (1, "error: git fetch failed:")
            assert "hint: check the name" in refused.err and "|" not in refused.err


@pytest.mark.promise("XF12")
def test_a_link_in_place_of_the_folder_is_not_followed(cli: Cli, host: GitHost, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (cli.root / ".agents/skills").symlink_to(outside)
    host.write("counting/SKILL.md", COUNTING)
    host.publish("v1")
    assert cli("skills", "import", f"github:{SERVED}@v1/counting").code != 0
    assert list(outside.iterdir()) == []


def test_a_skill_about_ourselves_is_written_where_coding_agents_look(cli: Cli) -> None:
    written = cli("skills", "install-self").out.splitlines()
    assert written == [".agents/skills/agent-worker/SKILL.md", ".claude/skills/agent-worker/SKILL.md"]
    first, second = [(cli.root / path).read_text("utf-8") for path in written]
    assert first == second
    head = first.split("---")[1]
    assert re.search(r"^name: agent-worker$", head, re.MULTILINE)
    assert len(re.search(r"^description: (.*)$", head, re.MULTILINE)[1]) <= 1024  # type: ignore[index]
    words = set(re.findall(r"^    agent-worker (\w[\w-]*)", first, re.MULTILINE))
    assert words <= set(BY_WORD), "every command that it names is one"
    (cli.root / written[0]).write_text("old")
    assert cli("skills", "install-self", "--json").json()["files"] == written
    assert (cli.root / written[0]).read_text("utf-8") == first
    elsewhere = cli.home / "elsewhere"
    elsewhere.mkdir()
    (cli.root / ".claude/skills/agent-worker/SKILL.md").unlink()
    (cli.root / ".claude/skills/agent-worker").rmdir()
    (cli.root / ".claude/skills/agent-worker").symlink_to(elsewhere)
    assert cli("skills", "install-self").code != 0
    assert list(elsewhere.iterdir()) == []
