"""What codex is told, and what it takes for its work to be done."""

import json
import os
import subprocess
import tomllib
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import msgspec
import pytest

from protocol.agent import Approval, McpServer
from protocol.backends import MAX_LOGIN_BYTES
from protocol.instruction import Usage
from protocol.ipc import Delta, Entry, Log, Provider
from tests.worker.backends.backend_jobs import KEY, PROVIDER, TOKEN, WELL, make_job, written
from tests.worker.backends.codex_lines import completed, turns
from worker.backends.attempt import MAX_SECRETS, LoginSecrets
from worker.backends.backend import BackendJob, ProgramExit
from worker.backends.codex import KEY as KEY_VARIABLE
from worker.backends.codex import TOKEN as TOKEN_VARIABLE
from worker.backends.codex import open as codex
from worker.kernel_link import ControlChannel, KernelLink
from worker.models.model import Failed


def settings(job: BackendJob) -> dict[str, Any]:
    codex(job).launch()
    return tomllib.loads((job.home / "config.toml").read_text("utf-8"))


@pytest.mark.promise("P18")
def test_secrets_are_in_its_own_environment_alone_under_names_its_shells_do_not_get(tmp_path: Path) -> None:
    """contracts 6: never in argv, nor in a file that outlives the attempt."""
    job = make_job("codex", tmp_path)
    launch = codex(job).launch()
    assert {launch.env[KEY_VARIABLE], launch.env[TOKEN_VARIABLE]} == {KEY, TOKEN}
    (kept,) = settings(job)["shell_environment_policy"]["exclude"]
    assert all(name.startswith(kept.removesuffix("*")) for name in (KEY_VARIABLE, TOKEN_VARIABLE))
    told = repr(launch.argv) + repr(written(tmp_path))
    assert KEY not in told
    assert TOKEN not in told


def test_the_prompt_is_input_and_the_agents_own_prompt_is_in_its_configuration(tmp_path: Path) -> None:
    job = make_job("codex", tmp_path, system='You are "Alice".\n\x7f' + "x" * 200_000)
    launch = codex(job).launch()
    assert launch.stdin == b"do it"
    assert settings(job)["developer_instructions"] == job.start.system
    assert sum(map(len, launch.argv)) < 200
    assert (job.home / "config.toml").stat().st_mode & 0o777 == 0o600


def test_a_thread_is_gone_on_with_under_its_id(tmp_path: Path) -> None:
    argv = codex(make_job("codex", tmp_path, session="t-1")).launch().argv
    assert argv[1:3] == ("exec", "resume")
    assert argv[-2:] == ("t-1", "-")


@pytest.mark.parametrize(
    ("approval", "sandbox", "shell"),
    [
        ("auto", "danger-full-access", True),
        ("ask", "read-only", True),
        ("all", "read-only", False),
        ("deny", "read-only", True),
    ],
)
def test_what_would_be_asked_about_is_refused(tmp_path: Path, approval: Approval, sandbox: str, shell: bool) -> None:
    """Mapped to its own settings, and never to more than was allowed."""
    told = settings(make_job("codex", tmp_path, approval=approval))
    assert (told["approval_policy"], told["sandbox_mode"]) == ("never", sandbox)
    assert told["features"].get("shell_tool", True) is shell
    assert told["mcp_servers"]["daemon"]["default_tools_approval_mode"] == "approve"


def test_it_does_not_begin_without_the_kernels_tools(tmp_path: Path) -> None:
    """Else it would go on without them and exit with 0."""
    daemon = settings(make_job("codex", tmp_path))["mcp_servers"]["daemon"]
    assert daemon["required"] is True
    assert daemon["tool_timeout_sec"] == 5.0


def test_openai_itself_is_asked_where_it_is(tmp_path: Path) -> None:
    provider = msgspec.structs.replace(PROVIDER, base_url=None)
    told = settings(make_job("codex", tmp_path, provider=provider))
    asked = told["model_providers"][told["model_provider"]]
    assert asked["base_url"] == "https://api.openai.com/v1"
    assert (asked["request_max_retries"], asked["stream_max_retries"]) == (0, 0)
    assert told["features"]["unbounded_connection_retries"] is False


def test_an_endpoint_without_a_key_is_asked_without(tmp_path: Path) -> None:
    job = make_job("codex", tmp_path, provider=Provider(name="local", dialect="openai", base_url="http://127.0.0.1:9"))
    launch = codex(job).launch()
    assert KEY_VARIABLE not in launch.env
    assert "env_key" not in next(iter(settings(job)["model_providers"].values()))


def test_a_model_of_nobody_is_an_error_with_words(tmp_path: Path) -> None:
    with pytest.raises(Failed, match="provider"):
        codex(make_job("codex", tmp_path, provider=None)).launch()


def test_only_entries_of_the_same_thread_were_booked_for_it(tmp_path: Path) -> None:
    usage = Usage(input_tokens=10, output_tokens=5)
    entries = (
        Entry(k=0, kind="session", session="lost"),
        Entry(k=1, kind="reply", text="x", usage=msgspec.structs.replace(usage, input_tokens=1000)),
        Entry(k=2, kind="session", session="t-1"),
        Entry(k=3, kind="reply", text="y", usage=usage),
        Entry(k=4, kind="reply", text="z"),
    )
    program = codex(make_job("codex", tmp_path, session="t-1", entries=entries))
    (turn,) = turns(program.read(json.dumps(completed(25, 0, 9)).encode()))
    assert turn.usage == Usage(input_tokens=15, output_tokens=4)


def test_an_answer_that_was_cut_off_is_incomplete(tmp_path: Path) -> None:
    program = codex(make_job("codex", tmp_path))
    message = "Incomplete response returned, reason: max_output_tokens"
    list(program.read(b'{"type":"thread.started","thread_id":"t"}'))
    list(program.read(json.dumps({"type": "turn.failed", "error": {"message": message}}).encode()))
    result = program.conclude(ProgramExit(code=1, signal=None, stderr=""))
    assert (result.status, result.cause) == ("incomplete", "max_tokens")


def test_a_turn_that_completed_is_not_enough(tmp_path: Path) -> None:
    program = codex(make_job("codex", tmp_path))
    list(program.read(json.dumps(completed(1, 0, 1)).encode()))
    with pytest.raises(Failed):
        program.conclude(ProgramExit(code=1, signal=None, stderr="boom"))
    with pytest.raises(Failed):
        codex(make_job("codex", tmp_path)).conclude(WELL)
    assert program.conclude(WELL).status == "done"


@pytest.mark.promise("P18")
def test_its_own_servers_get_their_secrets_and_nobody_else_does(tmp_path: Path) -> None:
    servers = {
        "files": McpServer(command="serve", args=("--fast",), env={"SERVER_KEY": "canary-one"}),
        "web": McpServer(url="https://x.example/mcp", headers={"Authorization": "canary-two"}),
    }
    job = make_job("codex", tmp_path, mcp_servers=servers)
    launch = codex(job).launch()
    told = settings(job)
    assert "canary" not in repr(launch.argv) + repr(written(tmp_path))
    files, web = told["mcp_servers"]["files"], told["mcp_servers"]["web"]
    assert [launch.env[name] for name in files["env_vars"]] == ["canary-one"]
    assert launch.env[web["env_http_headers"]["Authorization"]] == "canary-two"
    kept = told["shell_environment_policy"]["exclude"]
    assert all(any(fnmatch(name, one) for one in kept) for name, value in launch.env.items() if "canary" in value)


@pytest.mark.promise("P18")
def test_servers_with_variables_of_one_name_get_each_its_own(tmp_path: Path) -> None:
    show = ("-c", 'echo "$0 $TOKEN $HTTPS_PROXY"; env', "it's")
    servers = {
        "one": McpServer(command="sh", args=show, env={"TOKEN": "first $HOME", "HTTPS_PROXY": "http://x"}),
        "two": McpServer(command="sh", args=show, env={"TOKEN": "second"}),
        "web": McpServer(url="https://x.example/mcp", headers={"Authorization": "third"}),
    }
    job = make_job("codex", tmp_path, mcp_servers=servers)
    launch, told = codex(job).launch(), settings(job)["mcp_servers"]
    assert not {"TOKEN", "HTTPS_PROXY"} & launch.env.keys()
    assert launch.env[told["web"]["env_http_headers"]["Authorization"]] == "third"
    for name, expected in (("one", "it's first $HOME http://x"), ("two", "it's second ")):
        server = told[name]
        env = {"PATH": os.defpath} | {key: launch.env[key] for key in server["env_vars"]}
        done = subprocess.run([server["command"], *server["args"]], env=env, capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[0] == expected
        assert "PRIVATE" not in done.stdout


@pytest.mark.parametrize(
    ("approval", "mode"), [("auto", "approve"), ("ask", "prompt"), ("all", "prompt"), ("deny", "prompt")]
)
def test_its_own_servers_are_bound_by_the_approval(tmp_path: Path, approval: Approval, mode: str) -> None:
    """Those tools ask like any other; the kernel's never do."""
    job = make_job("codex", tmp_path, approval=approval, mcp_servers={"files": McpServer(command="serve")})
    servers = settings(job)["mcp_servers"]
    modes = {name: server["default_tools_approval_mode"] for name, server in servers.items()}
    assert modes == {"files": mode, "daemon": "approve"}


@pytest.mark.promise("P19")
@pytest.mark.parametrize(
    ("approval", "read_only", "mode", "tools"),
    [
        ("ask", ("mcp__files__look", "mcp__web__x"), "prompt", {"look": {"approval_mode": "approve"}}),
        ("ask", ("mcp__files__*",), "approve", None),
        ("ask", ("mcp__files__lo*",), "prompt", None),
        ("deny", ("mcp__files__look",), "prompt", {"look": {"approval_mode": "approve"}}),
        ("all", ("mcp__files__look",), "prompt", None),
    ],
)
def test_tools_that_the_agents_file_calls_read_only_are_not_refused(
    tmp_path: Path, approval: Approval, read_only: tuple[str, ...], mode: str, tools: object
) -> None:
    files = McpServer(command="serve")
    job = make_job("codex", tmp_path, approval=approval, mcp_servers={"files": files}, read_only=read_only)
    server = settings(job)["mcp_servers"]["files"]
    assert (server["default_tools_approval_mode"], server.get("tools")) == (mode, tools)


@pytest.mark.promise("P18", "P35")
def test_with_a_login_codex_asks_where_that_is_good(tmp_path: Path) -> None:
    bare = msgspec.structs.replace(PROVIDER, name="openai", base_url=None, api_key=None)
    job = make_job("codex", tmp_path, provider=bare, login=True)
    provider = settings(job)["model_providers"]["agent-worker"]
    assert provider["requires_openai_auth"] is True
    assert not {"env_key", "base_url"} & provider.keys()
    assert settings(job)["cli_auth_credentials_store"] == "file"
    assert KEY_VARIABLE not in codex(job).launch().env


@pytest.mark.promise("P18")
def test_people_are_not_shown_a_login(tmp_path: Path) -> None:
    job = make_job("codex", tmp_path, login=True, session_dir=str(tmp_path / "home"))
    login = job.home / "auth.json"
    login.write_text(
        json.dumps({"tokens": {"refresh_token": "r" * 20, "more": [{"id": "a" * 9}]}, "auth_mode": "chatgpt"})
    )
    assert set(LoginSecrets(job.start).now()) == {"r" * 20, "a" * 9}
    assert set(LoginSecrets(make_job("codex", tmp_path, session_dir=str(job.home)).start).now()) == set()
    for held in ("{", "[]", " " * MAX_LOGIN_BYTES + json.dumps(["r" * 20]), '["some words of it"]'):
        login.write_text(held)
        assert set(LoginSecrets(job.start).now()) == set()
    login.unlink()
    assert set(LoginSecrets(job.start).now()) == set()


@pytest.mark.promise("P18")
async def test_people_are_not_shown_what_a_login_was_renewed_to(tmp_path: Path) -> None:
    job = make_job("codex", tmp_path, login=True, session_dir=str(tmp_path / "home"))
    login, lines = job.home / "auth.json", Lines()
    tokens = [f"ey-{letter * 30}" for letter in "abc"]
    link = KernelLink(lines, ControlChannel())
    login.write_text(json.dumps({"tokens": [tokens[0]]}))
    link.hide({}, LoginSecrets(job.start).now)
    for count, token in enumerate(tokens, 1):
        login.write_text(json.dumps({"tokens": [token]}))
        for shown in tokens[:count]:
            await link.log("info", f"cat: {shown}")
            await link.delta(f"it is {shown[:10]}")
            await link.delta(f"{shown[10:]}, ")
            await link.record_last(Entry(k=0, kind="tool", text=shown, call_id="c", name="bash"))
    await link.delta(f"it is no {tokens[0][:8]}")
    login.write_text(json.dumps({"tokens": ["ey-" + "d" * 30]}))
    await link.delta("!")
    told = [msgspec.json.decode(line, type=Log | Delta | Entry) for line in lines.sent]
    assert [one.text for one in told if isinstance(one, Log)] == ["cat: [login]"] * 6
    assert "".join(one.text for one in told if isinstance(one, Delta)) == "it is [login], " * 6 + "it is no ey-aaaaa!"
    assert [one.shown and one.shown.text for one in told if isinstance(one, Entry)] == ["[login]"] * 6


def test_only_so_much_of_a_login_is_looked_for(tmp_path: Path) -> None:
    job = make_job("codex", tmp_path, login=True, session_dir=str(tmp_path / "home"))
    login = job.home / "auth.json"
    login.write_text(json.dumps({"tokens": ["lent-lent-lent"]}))
    secrets = LoginSecrets(job.start)
    assert set(secrets.now()) == {"lent-lent-lent"}
    last: list[str] = []
    for turn in "abc":
        last = [f"{turn}-{number:08}" for number in range(2 * MAX_SECRETS)]
        login.write_text(json.dumps(last))
        assert (len(secrets.now()), len(LoginSecrets(job.start).now())) == (MAX_SECRETS + 1, MAX_SECRETS)
    assert "lent-lent-lent" in secrets.now() and set(secrets.now()) <= {"lent-lent-lent", *last}


class Lines:
    """A pipe to nobody."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    async def send(self, line: bytes) -> None:
        self.sent.append(line)

    hold = send

    async def answered(self) -> None:
        """Nobody is asked."""
