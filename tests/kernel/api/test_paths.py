"""Paths, references and names of files in requests: a limited token reaches the project, and no file beside it."""

from itertools import cycle
from pathlib import Path

import pytest

from kernel.source.diagnostics import remote_error
from protocol.api.document import FileError
from protocol.remote_ref import is_remote
from tests.builders.api import ServedKernel
from tests.kernel.api.mcp.rpc import call
from tests.kernel.api.test_tokens import made

CANARY = "hunter2-ghp_SECRET"
CONTENTS = (
    f"https://user:{CANARY}@example.com\n",
    f'{{"token": "{CANARY}", "pid": 1}}\n',
    f"{CANARY}: x\n",
    f"agents:\n  alice: {{ ref: {CANARY} }}\nname: {CANARY}\nkickoff: [{CANARY}]\n",
    f"a: *{CANARY}\n",
    f"agents: {'x' * 600}{CANARY}\nparams: '{CANARY}\n",
)
SCOPES = ("operate", "approve", "approve:alice")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The root of the kernel's project."""
    return tmp_path / "project"


@pytest.fixture
def strange(tmp_path: Path) -> Path:
    """A folder beside the project with a file for each of CONTENTS, and ways from the project to them."""
    folder = tmp_path / "strange"
    folder.mkdir()
    for number, text in enumerate(CONTENTS):
        (folder / f"s{number}.yaml").write_text(text)
    return folder


def spellings(root: Path, strange: Path, number: int) -> tuple[str, ...]:
    """Return every way to name a file beside the project; makes the links for them."""
    file = strange / f"s{number}.yaml"
    for name, target in (("link.yaml", file), (".workflows/linked.yaml", file), ("folder", strange)):
        (root / name).unlink(missing_ok=True)
        (root / name).symlink_to(target)
    return (
        str(file),
        f"../{strange.name}/{file.name}",
        f"{root}/../{strange.name}/{file.name}",
        f".workflows/../../{strange.name}/{file.name}",
        "link.yaml",
        "./link.yaml",
        "linked",
        f"folder/{file.name}",
        f"/proc/self/root{file}",
        f"~/{file.name}",
        "folder/missing.yaml",
        f"github:o/r@main/{file.name}",
        f"{file}\0.yaml",
    )


@pytest.mark.parametrize("number", range(len(CONTENTS)))
async def test_no_token_names_a_workflow_outside_the_project(
    kernel: ServedKernel, root: Path, strange: Path, number: int
) -> None:
    """N1: a token that operates or approves could read any file of the owner through the errors of its definition."""
    tokens = [await made(kernel, scope) for scope in SCOPES]
    for token, path in zip(cycle(tokens), spellings(root, strange, number)):
        for route in ("/workflows", "/run", "/serve"):
            answer = await kernel.ask("POST", route, {"workflow": path}, headers=kernel.headers(token))
            assert answer.status in (403, 404, 422), (route, path, answer.body)
            assert CANARY.encode() not in answer.body, (route, path, answer.body)
        for tool in ("workflow_run", "workflow_start"):
            refused = await call(kernel, tool, {"workflow": path}, token=token)
            assert refused["isError"], (tool, path)
            assert CANARY not in str(refused), (tool, path, refused)


@pytest.mark.parametrize("number", range(len(CONTENTS)))
async def test_no_error_quotes_a_file_outside_the_project(
    kernel: ServedKernel, root: Path, strange: Path, number: int
) -> None:
    """Whoever asks: an answer is logged, kept and passed on."""
    for path in (path for path in spellings(root, strange, number) if not is_remote(path)):
        for route in ("/workflows", "/run", "/serve"):
            answer = await kernel.ask("POST", route, {"workflow": path})
            assert answer.status >= 400, (route, path)
            assert CANARY.encode() not in answer.body, (route, path, answer.body)


async def test_nobody_is_told_which_files_there_are_beside_the_project(
    kernel: ServedKernel, root: Path, strange: Path
) -> None:
    """A limited token gets the same answer for an existing file outside the project and for a missing one."""
    spellings(root, strange, 0)
    headers = kernel.headers(await made(kernel, "operate"))
    there, missing = [
        (await kernel.ask("POST", "/workflows", {"workflow": f"folder/{name}.yaml"}, headers=headers)).json
        for name in ("s0", "s9")
    ]
    assert there["code"] == missing["code"]
    assert str(there).replace("s0", "s9") == str(missing)


async def test_a_token_runs_what_is_in_the_project(kernel: ServedKernel, root: Path) -> None:
    """By name, and by path however it is spelled, through a link that stays inside too."""
    (root / "flows").mkdir()
    (root / "inside").symlink_to(root / "flows")
    (root / "flows/extra.yaml").write_text("agents:\n  alice: { ref: alice }\n")
    headers = kernel.headers(await made(kernel, "operate"))
    paths = ("review", ".workflows/review.yaml", "flows/extra.yaml", f"{root}/flows/extra.yaml", "inside/extra.yaml")
    for number, path in enumerate(paths):
        body = {"workflow": path, "tag": f"t{number}"}
        answer = await kernel.ask("POST", "/workflows", body, headers=headers)
        assert answer.status == 201, (path, answer.body)


async def test_an_error_is_a_place_and_a_message(kernel: ServedKernel, root: Path) -> None:
    """The line itself is in the owner's file, which the command line reads; values are repeated for the owner alone."""
    (root / ".workflows/bad.yaml").write_text(f"agents: {CANARY}\n")
    own = (await kernel.ask("POST", "/workflows", {"workflow": "bad"})).json
    headers = kernel.headers(await made(kernel, "operate"))
    limited = (await kernel.ask("POST", "/workflows", {"workflow": "bad"}, headers=headers)).json
    status = (await kernel.ask("GET", "/status", headers=headers)).json
    for answer in (own["errors"][0], limited["errors"][0], status["broken"][0]):
        assert (answer["path"], answer["line"]) == (".workflows/bad.yaml", 1)
        assert answer.get("source", "") == ""
    assert CANARY not in str(limited)
    assert CANARY not in str(status)


def test_what_a_message_quotes_can_be_cut_off() -> None:
    """Without ``quotes`` the message of a file error has no text of the file."""
    error = FileError(path="a.yaml", line=1, column=1, where="x", message=f"the key '{CANARY}")
    assert CANARY not in remote_error(error, quotes=False).message
    assert CANARY in remote_error(error, quotes=True).message
