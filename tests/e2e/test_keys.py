"""A provider's key is known to the kernel and the provider, and to no process, argument, variable or file between them.

Each attempt is inspected while its request is being answered, as root or the same user could: environ, argv and memory
of every process below the kernel, and all files. ``scripts/soak keys RUNS`` repeats it.
"""

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil
import pytest

from tests.e2e.engines import PROGRAMS, Engine, environ
from tests.e2e.far_machines import AGENT_WORKER
from tests.e2e.processes import wait_until
from tests.project import Project
from tests.worker.scripted_api import Say, ScriptedApi

RUNS: Final = int(os.environ.get("AWK_TEST_KEY_RUNS", "1"))
KEY: Final = "sk-canary-" + "0815" * 4
VARIABLES: Final = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "SCRIPTED_KEY")
PROGRAM: Final = r"""
import json, os, sys, urllib.error, urllib.request

def tell(**frame):
    print(json.dumps(frame), flush=True)

def ask(url, body, method="POST", **fields):
    data = json.dumps(body).encode() if method == "POST" else None
    request = urllib.request.Request(url, data, fields, method=method)
    try:
        with urllib.request.urlopen(request) as response:
            return response.read() and response.status
    except urllib.error.HTTPError as error:
        return error.code

tell(t="ready", pid=os.getpid(), version="1", protocol=[1, 0])
start = json.loads(sys.stdin.readline())
env = {name: value for name, value in os.environ.items() if name.endswith(("_API_KEY", "_BASE_URL"))}
said = {"env": env, "provider": start["provider"], "model": start["model"]}
if "ANTHROPIC_BASE_URL" in env:
    url, key, body = env["ANTHROPIC_BASE_URL"], env["ANTHROPIC_API_KEY"], {"model": start["model"], "stream": True}
    said["asked"] = ask(url + "/v1/messages", body, **{"x-api-key": key})
    if "hostile" in start["message"]:
        host, good = url.partition("/gateway")[0], {"x-api-key": key}
        other = open("kept").read() if os.path.exists("kept") else "awk-i1-1-0123456789012345678901"
        there = url + "/v1/messages"
        tricks = [(there, body, "POST", {"x-api-key": one}) for one in ("", "x", other, key + "x", key[:-1])]
        tricks += [(there, {"model": one}, "POST", good) for one in ("m", "", start["model"] + "x", 7, None)]
        tricks += [(host + path, body, "POST", good) for path in (
            "/gateway/anthropic/v1/files", "/gateway/anthropic/../admin", "/gateway/anthropic//v1/messages",
            "/gateway/anthropic/v1/%6dessages", "/gateway/anthropic/v1/messages/", "/gateway/http://x/v1/messages",
            "/gateway/anthropic/v1/messages?key=x&url=http://x", "/gateway/openai/v1/chat/completions",
            "/gateway/gemini/v1beta/models/m:generateContent", "/gateway/x@evil/v1/messages")]
        tricks += [(there, body, method, good) for method in ("GET", "PUT", "DELETE", "PATCH", "HEAD")]
        said["tricks"] = [ask(one, asked, method, **fields) for one, asked, method, fields in tricks]
        open("kept", "w").write(key)
tell(t="entry", k=0, kind="reply", text=json.dumps(said), usage={"input_tokens": 999, "output_tokens": 999})
sys.stdin.readline()
tell(t="result", status="done", text=json.dumps(said))
"""


def places(process: psutil.Process, key: bytes) -> Iterator[str]:
    """Yield each part of ``process`` that contains ``key``."""
    place = Path(f"/proc/{process.pid}")
    for name in ("environ", "cmdline"):
        if key in (place / name).read_bytes():
            yield name
    with (place / "mem").open("rb", 0) as memory:
        for line in (place / "maps").read_text().splitlines():
            start, end = (int(one, 16) for one in line.split()[0].split("-"))
            if line.split()[1].startswith("rw") and end - start < 2**28:
                with suppress(OSError, OverflowError):  # it is not readable, or was unmapped
                    memory.seek(start)
                    if key in memory.read(end - start):
                        yield f"memory {line}"


def holders(kernel: psutil.Process, key: bytes) -> list[str]:
    """Return all places below the kernel that contain ``key``."""
    found = []
    for process in kernel.children(recursive=True):
        with suppress(OSError, psutil.Error):  # it has exited
            found += [f"{process.cmdline()}: {place}" for place in places(process, key)]
    return found


def files_with(folder: Path, key: bytes) -> list[Path]:
    found = []
    for path in folder.rglob("*"):
        try:
            if path.is_file() and not path.is_symlink() and key in path.read_bytes():
                found.append(path)
        except OSError:
            continue
    return found


def add_agent(project: Project, name: str, api: ScriptedApi, more: str = "") -> None:
    """Write an agent whose program is PROGRAM."""
    where = {"base_url": api.anthropic_url, "dialect": "anthropic", "api_key": "$SCRIPTED_KEY"}
    program = project.write("program", f"#!{sys.executable} -IS\n{PROGRAM}")
    program.chmod(0o755)
    project.write(
        f".agents/{name}.yaml",
        f"backend: exec\ncommand: [./program]\nmodel: scripted/claude-sonnet-4-5\n"
        f"provider: {json.dumps({'name': 'scripted', **where})}\nretry: {{ attempts: 1 }}\n{more}\n",
    )


def inspected(project: Project, tmp_path: Path, api: ScriptedApi, name: str) -> None:
    """Have ``name`` work RUNS times, and look everywhere while the provider answers."""
    kernel = project.kernel()
    for _ in range(RUNS):
        hold = threading.Event()
        api.asked.clear()
        api.add(Say(text="All is said.", hold=hold))
        sent = project.send(name)
        assert api.asked.wait(120), project.ask("GET", f"/instructions/{sent}")
        try:
            assert holders(kernel, KEY.encode()) == []
            assert files_with(project.state, KEY.encode()) + files_with(project.root, KEY.encode()) == []
        finally:
            hold.set()
        assert project.ended(sent)["status"] == "done"
        request = api.requests[-1]
        assert KEY in str(dict(request.headers)) and "awk-i" not in str(dict(request.headers))
    assert files_with(tmp_path, KEY.encode()) == []


def test_the_search_finds_what_is_there() -> None:
    assert any(place.startswith("memory") for place in places(psutil.Process(), KEY.encode()))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can hide the memory of a process")
def test_the_kernel_hides_its_memory() -> None:
    call = (
        "import ctypes; from kernel.boot.arguments import hide_memory; hide_memory(); print(ctypes.CDLL(None).prctl(3))"
    )
    assert subprocess.run([sys.executable, "-c", call], capture_output=True, check=True).stdout == b"0\n"


@pytest.mark.promise("P18")
@pytest.mark.parametrize("engine", PROGRAMS, ids=lambda engine: engine.name)
def test_no_process_of_a_program_knows_the_key(engine: Engine, project: Project, tmp_path: Path) -> None:
    if engine.missing:
        pytest.skip(f"{engine.name} is not installed: AGENT_WORKER_TEST_CLIS")
    if engine.name == "cursor":
        pytest.skip("the documented exception: its program talks only to its own vendor")
    with ScriptedApi() as api:
        engine.agent(project, "alice", api)
        keys = dict.fromkeys(VARIABLES, KEY)
        assert project.awk("start", "--trust", env={**environ(tmp_path), **keys}).code == 0
        inspected(project, tmp_path / "state", api, "alice")


@pytest.mark.promise("P18")
@pytest.mark.parametrize("kind", ["anthropic", "openai", "exec"])
def test_no_process_of_the_built_in_loop_or_of_a_program_of_ones_own_knows_the_key(
    kind: str, project: Project, tmp_path: Path
) -> None:
    with ScriptedApi() as api:
        if kind == "exec":
            add_agent(project, "alice", api)
        else:
            url = api.anthropic_url if kind == "anthropic" else api.openai_url
            where = {"name": "scripted", "base_url": url, "dialect": kind, "api_key": "$SCRIPTED_KEY"}
            project.write(
                ".agents/alice.yaml",
                f"model: scripted/m\nprovider: {json.dumps(where)}\nprompt: {{ system: hi }}\ntools: [bash]\n",
            )
        assert project.awk("start", "--trust", env=dict.fromkeys(VARIABLES, KEY)).code == 0
        inspected(project, tmp_path, api, "alice")
        if kind == "exec":
            usage = project.awk("stats", "--json").json()["total"]["usage"]
            assert (usage["input_tokens"], usage["output_tokens"]) == (10 * RUNS, 5 * RUNS)


@pytest.mark.promise("P18")
def test_a_program_of_ones_own_gets_its_variables_if_it_has_a_model(project: Project) -> None:
    with ScriptedApi(otherwise=Say(text="hello")) as api:
        add_agent(project, "alice", api)
        project.write(".agents/bare.yaml", "backend: exec\ncommand: [./program]\n")
        assert project.awk("start", "--trust", env=dict.fromkeys(VARIABLES, KEY)).code == 0
        said, bare = (json.loads(project.ended(project.send(name))["text"]) for name in ("alice", "bare"))
    port = project.record()["port"]
    assert said["asked"] == 200
    assert said["env"]["ANTHROPIC_BASE_URL"] == f"http://127.0.0.1:{port}/gateway/anthropic"
    assert re.fullmatch(r"awk-i1-1-[A-Za-z0-9_-]{16,}", said["env"].pop("ANTHROPIC_API_KEY"))
    assert said["env"].keys() == {"ANTHROPIC_BASE_URL"}
    assert (bare["env"], bare["provider"]) == ({}, None)


@pytest.mark.promise("P18")
def test_a_hostile_program_gets_nothing_through(project: Project) -> None:
    """Other placeholders, models, paths and methods; ``kept`` is the placeholder of its attempt before."""
    with ScriptedApi(otherwise=Say(text="hello")) as api:
        add_agent(project, "eve", api)
        assert project.awk("start", "--trust", env=dict.fromkeys(VARIABLES, KEY)).code == 0
        for n in range(1, 9):
            said = json.loads(project.ended(project.send("eve", "be hostile"))["text"])
            assert (said["asked"], len(said["tricks"])) == (200, 25)
            assert {401, 403, 404} <= {*said["tricks"]} <= {400, 401, 403, 404, 405, 422}, said["tricks"]
            assert len(api.requests) == n


@pytest.mark.promise("P18")
def test_attempts_on_a_node_ask_through_its_connection_and_the_key_stays_here(project: Project, far: Path) -> None:
    node = f"{{via: command, argv: [env, AGENT_WORKER_HOME={far}], command: {AGENT_WORKER}, labels: [gpu], workers: 3}}"
    project.write("moniro.yaml", f"nodes:\n  g1: {node}\n")
    with ScriptedApi() as api:
        add_agent(project, "exec", api, "needs: { labels: [gpu] }")
        where = {"name": "scripted", "base_url": api.openai_url, "dialect": "openai", "api_key": "$SCRIPTED_KEY"}
        keys = "prompt: { system: hi }\nneeds: { labels: [gpu] }\n"
        project.write(".agents/sdk.yaml", f"model: scripted/m\nprovider: {json.dumps(where)}\n{keys}")
        project.commit()
        assert project.awk("start", "--trust", env=dict.fromkeys(VARIABLES, KEY)).code == 0
        wait_until(lambda: '"up"' in project.awk("node", "list", "--json").out, 60)
        for name in ("exec", "sdk"):
            inspected(project, far, api, name)
    shown = [project.ask("GET", f"/instructions/i{n}")["attempts"][0]["node"] for n in (1, 1 + RUNS)]
    assert shown == ["g1", "g1"]
