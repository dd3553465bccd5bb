"""Programs that work with their owner's login in a real kernel: who may, what they see, and what stays of it."""

import ctypes
import json
import os
import shlex
import shutil
import struct
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from tests.architecture.sources import ROOT
from tests.e2e.engines import BY_NAME, fingerprint, place
from tests.e2e.processes import wait_until
from tests.project import Project
from tests.worker.backends.subject import CLIS
from tests.worker.scripted_api import Say, ScriptedApi

CLAUDE: Final = ".claude/.credentials.json"
LOGIN: Final = {
    "claudeAiOauth": {
        "accessToken": "sk-ant-oat01-decoy",
        "refreshToken": "sk-ant-ort01-decoy",
        "expiresAt": 4_000_000_000_000,
        "scopes": ["user:inference", "user:profile"],
        "subscriptionType": "max",
    }
}
RENEWED: Final = {"claudeAiOauth": {**LOGIN["claudeAiOauth"], "accessToken": "sk-ant-oat01-renewed"}}
DECOYS: Final = {
    CLAUDE: json.dumps(LOGIN),
    ".claude/settings.json": '{"hooks": {}}',
    ".claude/CLAUDE.md": "the user's own words",
    ".codex/auth.json": json.dumps({"auth_mode": "apikey", "OPENAI_API_KEY": "sk-decoy-codex", "tokens": None}),
    ".codex/config.toml": 'model = "users-own"\n',
    ".codex/AGENTS.md": "the user's own words",
    ".local/share/opencode/auth.json": json.dumps(
        {name: {"type": "api", "key": "sk-decoy-opencode"} for name in ("openai", "anthropic")}
    ),
}
FILES: Final = {"claude": CLAUDE, "codex": ".codex/auth.json", "opencode": ".local/share/opencode/auth.json"}
AGENT: Final = "backend: claude\nmodel: sonnet\nprompt: { system: hi }\nlogin: true\nretry: { backoff: 0.05s }\n"
IN_OPEN: Final = 0x20


@contextmanager
def opened(home: Path) -> Generator[set[str]]:
    """The files in folders of ``home`` that anybody opens meanwhile; known when the block has ended."""
    libc = ctypes.CDLL(None, use_errno=True)
    watch = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    folders = {}
    for folder in (home, *(path for path in home.rglob("*") if path.is_dir())):
        number = libc.inotify_add_watch(watch, os.fsencode(folder), IN_OPEN)
        assert number > 0, os.strerror(ctypes.get_errno())
        folders[number] = folder
    found: set[str] = set()
    try:
        yield found
        with os.fdopen(os.dup(watch), "rb", buffering=0) as stream:
            while data := stream.read(64 * 1024):
                while data:
                    number, _, _, length = struct.unpack_from("iIII", data)
                    name = data[16 : 16 + length].rstrip(b"\0").decode()
                    if (folders[number] / name).is_file():
                        found.add(str((folders[number] / name).relative_to(home)))
                    data = data[16 + length :]
    finally:
        os.close(watch)


class Desk:
    """A project with decoys at home and a stand-in for claude."""

    def __init__(self, project: Project, folder: Path) -> None:
        self.project = project
        self.notes = folder / "notes"
        self.notes.mkdir()
        for name, text in DECOYS.items():
            (project.home / name).parent.mkdir(parents=True, exist_ok=True)
            (project.home / name).write_text(text)
        project.write("moniro.yaml", "conversations: false\n")
        words = [sys.executable, "-m", "tests.e2e.login_cli", str(self.notes)]
        (folder / "bin").mkdir()
        place(folder / "bin/claude", f'PYTHONPATH={shlex.quote(str(ROOT))} exec {shlex.join(words)} "$@"')
        self.environ = {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "ANTHROPIC_API_KEY": "sk-key"}

    def start(self) -> None:
        assert self.project.awk("start", "--trust", env=self.environ).code == 0

    def words(self) -> list[dict[str, Any]]:
        return [json.loads(path.read_text()) for path in sorted(self.notes.glob("*.json"))]

    def kept(self) -> Any:
        return json.loads((self.project.home / CLAUDE).read_text())

    def copies(self) -> list[Path]:
        return [path for path in self.project.state_home.rglob("*") if path.name in {".credentials.json", "auth.json"}]


@pytest.fixture
def desk(project: Project, tmp_path: Path) -> Desk:
    return Desk(project, tmp_path)


@pytest.mark.promise("P19", "P35")
def test_without_consent_no_login_is_opened_and_nothing_runs(desk: Desk) -> None:
    desk.project.write(".agents/alice.yaml", AGENT)
    indented = "".join(f"    {line}\n" for line in AGENT.splitlines())
    desk.project.write(".workflows/team.yaml", f"agents:\n  bob:\n{indented}kickoff: '@bob go'\n")
    with opened(desk.project.home) as found:
        assert desk.project.awk("start", env=desk.environ).code == 0
        for words in (("send", "alice", "go"), ("run", "team")):
            asked = desk.project.awk(*words)
            assert (asked.code, "uses your login of Claude Code" in asked.err) == (7, True), asked
        assert desk.project.awk("stop", "--yes").code == 0
    assert (found, desk.words()) == (set(), [])


@pytest.mark.promise("P18", "P35")
def test_with_consent_its_program_has_exactly_that_file(desk: Desk) -> None:
    desk.project.write(".agents/alice.yaml", AGENT)
    (desk.notes / "renew").write_text(json.dumps(RENEWED))
    before = fingerprint(desk.project.home)
    with opened(desk.project.home) as found:
        desk.start()
        assert desk.project.awk("send", "alice", "go", "--wait").code == 0
        wait_until(lambda: desk.copies() == [])
        assert desk.project.awk("stop", "--yes").code == 0
    (word,) = desk.words()
    assert word["held"] == DECOYS[CLAUDE]
    assert "sk-" not in repr(word["env"]) and "apiKeyHelper" not in repr(word["argv"])
    assert found <= {CLAUDE, f"{CLAUDE}.agent-worker"} and CLAUDE in found
    assert desk.kept() == RENEWED
    after = fingerprint(desk.project.home)
    assert {path for path in after.keys() | before.keys() if after.get(path) != before.get(path)} == {
        str(desk.project.home / CLAUDE)
    }


@pytest.mark.promise("P27", "P35")
def test_requests_with_a_login_are_counted_and_the_budget_holds_between_reports(desk: Desk) -> None:
    desk.project.write(".agents/alice.yaml", f"{AGENT}budget: {{ tokens: 4000 }}\nmax_tokens: 100\n")
    (desk.notes / "ask").touch()
    with ScriptedApi(otherwise=Say(text="hello", input_tokens=1500)) as api:
        desk.environ["ANTHROPIC_BASE_URL"] = api.url
        desk.start()
        ended = desk.project.ended(desk.project.send("alice"))
        usage = desk.project.awk("stats", "--json").json()["total"]["usage"]
        assert desk.project.awk("stop", "--yes").code == 0
    assert (ended["status"], ended["cause"]) == ("incomplete", "budget")
    assert {request.headers["authorization"] for request in api.requests} == {"Bearer sk-ant-oat01-decoy"}
    assert {request.headers.get("x-api-key") for request in api.requests} == {None}
    assert (len(api.requests), usage["input_tokens"], usage["output_tokens"]) == (3, 4500, 15)


SECRETS: Final = {"claude": "sk-ant-oat01-decoy", "codex": "sk-decoy-codex", "opencode": "sk-decoy-opencode"}
SONNET, GPT = "anthropic/claude-sonnet-4-5", "openai/gpt-5.5"


@pytest.mark.promise("P18", "P35")
@pytest.mark.parametrize(
    ("name", "model", "sandbox", "token"),
    [
        ("claude", SONNET, "off", None),
        ("claude", SONNET, "off", "sk-ant-oat01-token"),
        ("claude", SONNET, "on", None),
        ("codex", GPT, "off", None),
        ("codex", GPT, "on", None),
        ("opencode", GPT, "off", None),
        ("opencode", SONNET, "off", None),
    ],
)
def test_the_real_ones_work_with_a_login(
    name: str, model: str, sandbox: str, token: str | None, project: Project, tmp_path: Path
) -> None:
    engine = BY_NAME[name]
    if engine.missing:
        pytest.skip(f"{name} is not installed: AGENT_WORKER_TEST_CLIS")
    if sandbox == "on" and shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    desk = Desk(project, tmp_path)
    project.write("CLAUDE.md", "Use tabs, says the canary.\n")
    project.write("AGENTS.md", "Use tabs, says the canary.\n")
    keys = "prompt: { system: hi }\nlogin: true\nproject_rules: true\nretry: { attempts: 1 }\n"
    project.write(".agents/alice.yaml", f'backend: {name}\nmodel: {model}\nsandbox: "{sandbox}"\n{keys}')
    before = fingerprint(project.home)
    with ScriptedApi([engine.tells("hello"), Say(text="done")]) as api, opened(project.home) as found:
        # The folder that the program is installed in: a sandbox shows what belongs to it.
        kernel_env = {
            "PATH": f"{CLIS}/{name}/node_modules/.bin:{os.environ['PATH']}",
            "ANTHROPIC_BASE_URL": api.anthropic_url,
            "OPENAI_BASE_URL": api.openai_url,
            **({} if token is None else {"CLAUDE_CODE_OAUTH_TOKEN": token}),
        }
        assert project.awk("start", "--trust", env=kernel_env).code == 0
        asked = project.awk("send", "alice", "go", "--wait", seconds=120)
        assert (asked.code, asked.out.strip().splitlines()[-1:]) == (0, ["done"]), asked
        wait_until(lambda: desk.copies() == [])
        assert project.awk("stop", "--yes").code == 0
    secret = token or SECRETS[name]
    shown = {request.headers.get("authorization") or request.headers.get("x-api-key") for request in api.requests}
    assert shown <= {secret, f"Bearer {secret}"} and shown
    assert {request.headers["accept-encoding"] for request in api.requests} == {"identity"}  # they pass the gateway
    assert json.dumps(api.requests[0].body).count("says the canary") == 1
    assert found == ({FILES[name]} if token is None else set())
    assert fingerprint(project.home) == before


@pytest.mark.promise("P18", "P35")
@pytest.mark.long("test_without_consent_no_login_is_opened_and_nothing_runs")
def test_without_the_key_no_login_is_opened(desk: Desk) -> None:
    desk.project.write(".agents/alice.yaml", AGENT.replace("login: true\n", ""))
    before = fingerprint(desk.project.home)
    with opened(desk.project.home) as found:
        desk.start()
        assert desk.project.awk("send", "alice", "go", "--wait").code == 0
        assert desk.project.awk("stop", "--yes").code == 0
    assert found == set()
    assert [word["held"] for word in desk.words()] == [None]
    assert fingerprint(desk.project.home) == before
