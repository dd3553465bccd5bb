"""What keeps an agent to its place: sandbox, limits, environment; and that nothing of it stays behind."""

import os
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psutil
import pytest

from tests.e2e.processes import marked, wait_until
from tests.project import BWRAP, TRUST, Project
from tests.worker.scripted_api import Call, Say, ScriptedApi

# -- sandbox ------------------------------------------------------------------------------------------


@pytest.mark.promise("XF19")
@pytest.mark.long("tests/kernel/services/test_confinement.py")
def test_who_asks_for_a_sandbox_that_is_not_there_is_warned(project: Project) -> None:
    project.agent("alice", "shell: touch ran", "text: hi", more="sandbox: on")
    nowhere = {"AGENT_WORKER_BWRAP": "no-such-bwrap"}
    assert "warning: sandbox: bubblewrap (bwrap) is not installed here" in project.awk("validate", env=nowhere).err
    assert project.awk("agent", "info", "alice", "--json", env=nowhere).json()["sandbox"] == "missing"
    assert "sandbox:     on, but bubblewrap is not installed" in project.awk("agent", "info", "alice", env=nowhere).out


@pytest.mark.promise("P6", "XF19")
@pytest.mark.skipif(BWRAP is None, reason="bubblewrap is not installed (AGENT_WORKER_TEST_BWRAP names one)")
def test_a_hostile_shell_in_a_sandbox_finds_no_way_to_the_admin_token(confining: Project) -> None:
    project, state, home = confining, confining.state, confining.home
    (home / ".ssh").mkdir()
    (home / ".ssh/id").write_text("canary-of-the-home")
    ways = (
        f"cat {state}/daemon.json {state}/admin.json",
        f"cat {project.state_home}/daemon.json",
        f"strings {state}/agent-worker.db",
        f"ls {state}/run",
        f"cat {state}/kernel.log",
        "cat /proc/[0-9]*/environ",
        "cat /proc/[0-9]*/cmdline",
        f"cat {home}/.ssh/id",
        f"find {home} -name daemon.json",
        f"ln -s {state}/admin.json link && cat link",
        f"mount --bind {state} . || unshare -Ur mount --bind {state} .",
        f"touch {project.root}/.agents/intruder.yaml",
        "mv .git .git.old; cp -r .git.old .git; echo hostile > .git/config",
        "mkdir evil; echo $PWD/evil > .git/commondir; echo hostile > .git/config.worktree",
        *(
            f"mkdir -p {name}; echo hostile > {name}/settings.json"
            for name in (".vscode", ".idea", ".claude", ".cursor")
        ),
        "rm -f .envrc; echo hostile > .envrc",
        "nsenter -t 1 -m cat /etc/hostname; chroot /proc/1/root ls",
        "echo own > own.txt",
        "kill -9 -1",
    )
    project.write("steal.sh", "".join(f"({way})\n" for way in ways))
    project.agent("thief", 'shell: "sh steal.sh > stolen.txt 2>&1"', "text: done", more="sandbox: on")
    before = sorted(path.name for path in project.root.iterdir())
    assert project.awk("send", "thief", "x", "--wait", env=TRUST).code == 0
    assert project.ask("GET", "/agents/thief")["sandbox"] == "on"
    stolen = (project.root / "stolen.txt").read_text(errors="replace")
    assert project.record()["token"] not in stolen
    assert project.record()["limited"] not in stolen
    assert "canary-of-the-home" not in stolen
    assert "Bearer" not in stolen
    assert (project.root / "own.txt").read_text() == "own\n"
    assert not (project.root / ".agents/intruder.yaml").exists()
    its_own = {*before, "own.txt", "stolen.txt", "link", "evil", ".git.old"}
    wait_until(lambda: {path.name for path in project.root.iterdir()} <= its_own)  # the rest goes with the attempt


@pytest.mark.promise("PF14", "XF19")
@pytest.mark.skipif(BWRAP is None, reason="bubblewrap is not installed (AGENT_WORKER_TEST_BWRAP names one)")
def test_what_a_confined_agent_writes_to_its_tmp_is_memory_of_its_own(confining: Project) -> None:
    """500 MB do not fit under 64 MiB."""
    script = 'shell: "head -c 500M /dev/zero > /tmp/a; head -c 500M /dev/zero > /dev/shm/b; sleep 4711.9"'
    confining.agent("filler", script, "text: done", more="sandbox: on\nlimits: {memory: 64MiB}")
    result = confining.ended(confining.send("filler"))
    assert (result["status"], result["cause"]) == ("incomplete", "resource")
    assert "of files in memory (/tmp of a sandbox), and may use 64 MiB" in result["text"]
    assert marked("4711.9") == []


THIEF: Final = """
import http.client, json, pathlib, sys
record, admin = [json.loads(pathlib.Path(path).read_text()) for path in sys.argv[1:]]
for route in ("POST /shutdown", "POST /agents", "DELETE /agents/bob", "POST /spaces/dm:bob/clear"):
    method, path = route.split()
    asked = http.client.HTTPConnection(record["host"], record["port"])
    fields = {"Authorization": "Bearer " + admin["token"], "Content-Type": "application/json"}
    asked.request(method, path, b'{"model": "mock/x"}' if path == "/agents" else b"{}", fields)
    print(asked.getresponse().status)
"""


@pytest.mark.promise("XF19", "P6")
def test_without_a_sandbox_a_stolen_admin_token_ends_and_removes_nothing(confining: Project) -> None:
    confining.write("admin.py", THIEF)
    steal = f"setsid {sys.executable} admin.py {confining.state}/daemon.json {confining.state}/admin.json > got.txt"
    confining.agent("admin", f'shell: "{steal}"', "text: done")
    assert confining.ended(confining.send("admin"))["status"] == "done"
    assert (confining.root / "got.txt").read_text().split() == ["403"] * 4
    assert confining.awk("status").code == 0


# -- limits -------------------------------------------------------------------------------------------

CROWD: Final = "for n in $(seq 40); do sleep 4711.5 & done; wait"
"""Forty sleepers, and not one more."""


@pytest.mark.promise("PF14", "PF15")
def test_an_agent_that_takes_too_much_of_the_machine_is_ended_and_nobody_else(confining: Project) -> None:
    confining.agent("crowd", f'shell: "{CROWD}"', "text: hi", more="limits: {processes: 20, memory: 2GiB}")
    confining.agent("other", "text: still here")
    sent = confining.awk("send", "crowd", "x", "--wait", "--json", env=TRUST)
    [result] = sent.json()["results"]
    assert (sent.code, result["status"], result["cause"]) == (6, "incomplete", "resource")
    assert "processes at once; the limit is 20 (limits.processes)" in result["text"]
    assert marked("4711.5") == []
    assert confining.awk("ask", "other", "x").out == "still here\n"
    assert "limits:      2048 MiB of memory, 20 processes" in confining.awk("agent", "info", "crowd").out


# -- secrets ------------------------------------------------------------------------------------------

KEY, OTHER, PLANTED = "canary-key-1f2e", "canary-other-3d4c", "canary-file-5b6a"


@contextmanager
def watched_words(*secrets: str) -> Generator[list[str]]:
    """Command lines of any process, that hold one of ``secrets``, seen while the block runs."""
    found: list[str] = []
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.05):
            for entry in Path("/proc").iterdir():
                if entry.name.isdecimal():
                    try:
                        words = (entry / "cmdline").read_bytes().decode("utf-8", "replace")
                    except OSError:
                        continue
                    found.extend(words for secret in secrets if secret in words)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield found
    finally:
        over.set()
        thread.join()


@pytest.mark.promise("P18", "XF10", "XF22")
@pytest.mark.long("tests/kernel/agents/test_environment.py, tests/protocol/test_redaction.py")
def test_secrets_are_found_nowhere_but_where_they_belong(project: Project) -> None:
    (project.home / ".netrc").write_text(PLANTED)
    secrets = {"SCRIPTED_KEY": KEY, "AWS_SECRET_ACCESS_KEY": OTHER, "LD_LIBRARY_PATH": OTHER, "GIT_ASKPASS": OTHER}
    assert project.awk("start", "--trust", env=secrets).code == 0
    token = project.record()["token"]
    dump = "env; cat /proc/$PPID/cmdline; cat /proc/$PPID/environ"
    project.agent("alice", f'shell: "{dump}"', f'tool: channel_send, args: {{message: "@user {dump}"}}', "text: hi")
    moves = [Say(text="look", calls=(Call("bash", f'{{"command": "{dump}"}}'),)), Say(text="done")]
    fake = project.write("fake-cli", "#!/bin/sh\nenv >&2; cat /proc/$PPID/cmdline >&2; exit 3\n")
    fake.chmod(0o755)
    project.write(".agents/eve.yaml", "backend: exec\ncommand: [./fake-cli]\nretry: {attempts: 1}\n")
    with ScriptedApi(moves) as api, watched_words(KEY, OTHER, token) as words:
        project.write(
            ".agents/bob.yaml",
            f"""
            model: scripted/m
            provider: {{name: scripted, base_url: "{api.anthropic_url}", dialect: anthropic, api_key: $SCRIPTED_KEY}}
            prompt: {{system: x}}
            tools: [bash]
            approval: auto
            """,
        )
        assert project.awk("send", "alice", "x", "--wait", env=TRUST).code == 0
        assert [project.ended(project.send(name))["status"] for name in ("bob", "eve")] == ["done", "dead"]
        told = [
            project.awk(*asked).out for asked in (("events",), ("logs",), ("dead",), ("peek", "bob"), ("show", "i2"))
        ]
    assert words == []
    assert KEY in str(dict(api.requests[0].headers))
    assert "PATH=" in str(api.requests[1].body), "the tool's output reached the model"
    assert project.awk("stop", "--yes").code == 0
    kept = [path for path in (*project.state.rglob("*"), *project.root.rglob("*")) if path.is_file()]
    for secret in (KEY, OTHER, PLANTED, token):
        assert [path for path in kept if secret.encode() in path.read_bytes()] == [], secret
        assert not any(secret in text for text in told), secret
        assert secret not in str([request.body for request in api.requests])


# -- lifecycle ----------------------------------------------------------------------------------------

ATTEMPTS: Final = int(os.environ.get("AWK_TEST_ATTEMPTS", "20"))
"""The soak makes it 200."""


@pytest.mark.promise("P7")
def test_attempts_leave_no_process_socket_or_folder(confining: Project) -> None:
    leave = "(setsid sleep 4711.75 >/dev/null 2>&1 &) ; mktemp -d -p $PWD/tmp >/dev/null"
    confining.agent("leaving", f'shell: "{leave}"', "text: hi")
    confining.write(
        ".agents/mallory.yaml",
        f"backend: mock\nretry: {{attempts: 1}}\nmock: [{{shell: '{leave}'}}, {{exit: SIGKILL}}]\n",
    )
    (confining.root / "tmp").mkdir()
    assert confining.ended(confining.send("leaving"))["status"] == "done"
    kernel = psutil.Process(int(confining.record()["pid"]))
    before = (kernel.num_fds(), len(kernel.net_connections("unix")))
    for number in range(ATTEMPTS - 2):
        confining.send("leaving", str(number))
    assert confining.ended(confining.send("mallory"))["status"] == "dead"
    assert confining.ended(confining.send("leaving", "last"))["status"] == "done"
    assert len(list((confining.root / "tmp").iterdir())) > ATTEMPTS
    wait_until(lambda: marked("4711.75") == [])
    wait_until(lambda: [path for path in (confining.state / "run").iterdir() if path.name.startswith("i")] == [])
    wait_until(lambda: kernel.num_fds() <= before[0] + 4)
    assert len(kernel.net_connections("unix")) <= before[1] + 2
    assert not (confining.state / "sessions").exists()
