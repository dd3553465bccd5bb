"""Paths, references and names of files in requests: a limited token reaches the project, and no file beside it."""

import re
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from urllib.parse import quote

import pytest
from msgspec import inspect

from kernel.api.dispatch import parameters_of
from kernel.api.mcp.tools import MANAGEMENT, TOOLS
from kernel.api.routes import ROUTES
from kernel.policy.access import Access
from kernel.source.diagnostics import remote_error
from protocol.api.document import FileError
from protocol.remote_ref import is_remote
from tests.builders.api import ServedKernel
from tests.kernel.api.mcp.rpc import call
from tests.kernel.api.test_tokens import made

pytestmark = pytest.mark.promise("P57")
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
    for path in (path for path in spellings(root, strange, number) if not is_remote(path)):
        for route in ("/workflows", "/run", "/serve"):
            answer = await kernel.ask("POST", route, {"workflow": path})
            assert answer.status >= 400, (route, path)
            assert CANARY.encode() not in answer.body, (route, path, answer.body)


async def test_nobody_is_told_which_files_there_are_beside_the_project(
    kernel: ServedKernel, root: Path, strange: Path
) -> None:
    spellings(root, strange, 0)
    headers = kernel.headers(await made(kernel, "operate"))
    there, missing = [
        (await kernel.ask("POST", "/workflows", {"workflow": f"folder/{name}.yaml"}, headers=headers)).json
        for name in ("s0", "s9")
    ]
    assert there["code"] == missing["code"]
    assert str(there).replace("s0", "s9") == str(missing)


async def test_a_token_runs_what_is_in_the_project(kernel: ServedKernel, root: Path) -> None:
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
    (root / ".workflows/bad.yaml").write_text(f"agents: {{ alice: {{ ref: {CANARY} }} }}\n")
    own = (await kernel.ask("POST", "/workflows", {"workflow": "bad"})).json
    headers = kernel.headers(await made(kernel, "operate"))
    limited = (await kernel.ask("POST", "/workflows", {"workflow": "bad"}, headers=headers)).json
    status = (await kernel.ask("GET", "/status", headers=headers)).json
    for answer in (own["errors"][0], limited["errors"][0], status["broken"][0]):
        assert (answer["path"], answer["line"]) == (".workflows/bad.yaml", 1)
        assert answer.get("source", "") == ""
    assert (CANARY in str(own), CANARY in str(limited)) == (True, False)
    assert CANARY not in str(status)


def test_what_a_message_quotes_can_be_cut_off() -> None:
    error = FileError(path="a.yaml", line=1, column=1, where="x", message=f"the key '{CANARY}")
    assert CANARY not in remote_error(error, quotes=False).message
    assert CANARY in remote_error(error, quotes=True).message


WORDS = "words"
"""Kept or compared as data; nothing is opened by it."""
NAME = "name"
"""Looked up in rows, or in the names that there are."""
DATABASE_PATH = "path in the database"
"""The path of a document, or the key of an entry: a row; where it is mirrored, ``check_path`` has been passed."""
FILE = "file"
"""A file of the project: ``inside`` decides for all but the administrator."""
COMMAND = "command"
"""Refused in requests but the administrator's; of agents as the rules of tasks have it."""
BRANCH = "branch"
"""A branch of the project's repository: a name that git's own rules allow."""
SECRET = "secret"
"""Compared with what is known."""

KINDS = {
    **dict.fromkeys(
        (
            "agree", "always", "as", "choice", "content", "description", "done", "input.*", "messages.text",
            "metadata.*", "next", "nonce", "observation", "open", "options.id", "options.label",
            "options.metadata.*", "params",
            "params.*", "query", "reason", "reject", "approve", "result", "state", "status", "text", "title", "tool",
            "tool_name", "tool_use_id", "trait", "type", "value", "message", "since", "until", "by", "files",
            "tasks.files", "rule.then.task.files", "tasks.text", "tasks.title",
        ),
        WORDS,
    ),
    **dict.fromkeys(
        (
            "add", "after", "agent", "before", "binds.documents", "binds.suggestion", "binds.tray", "exit_code_from",
            "for", "grant", "id", "ids", "instruction", "key", "keys", "members", "messages.key", "messages.to", "n",
            "name", "proposal", "remove", "request", "rule", "run", "source.messages", "space", "suggestion", "tag",
            "task", "tasks.for", "tasks.key", "tasks.needs", "tasks.parent", "target", "to",
        ),
        NAME,
    ),
    "path": DATABASE_PATH,
    "file": DATABASE_PATH,
    "rule.when.document.file": WORDS,
    "workflow": FILE,
    "check": COMMAND,
    "tasks.check": COMMAND,
    "into": BRANCH,
    "from": BRANCH,
}  # fmt: skip
RULE = re.compile(r"rule\.(when\.\w+|then|then\.vote|then\.task|requires)?\.?[\w.*]+")
"""What a rule compares and says; its files and commands stand in KINDS."""


def texts(kind: inspect.Type, where: str, above: tuple[type, ...] = ()) -> Iterator[str]:
    """Yield the places of all texts in a type."""
    match kind:
        case inspect.StructType(cls=cls) if cls not in above:
            for one in kind.fields:
                yield from texts(one.type, f"{where}.{one.encode_name}".strip("."), (*above, cls))
        case inspect.UnionType():
            for inner in kind.types:
                yield from texts(inner, where, above)
        case inspect.Metadata():
            yield from texts(kind.type, where, above)
        case inspect.ListType() | inspect.VarTupleType() | inspect.SetType() | inspect.FrozenSetType():
            yield from texts(kind.item_type, where, above)
        case inspect.DictType():
            yield from texts(kind.value_type, f"{where}.*", above)
        case inspect.StrType() | inspect.AnyType():
            yield where
        case _:
            pass


def fields() -> Iterator[tuple[str, str]]:
    """Yield every text that a caller without the administrator's token can send, and what takes it."""
    for route in ROUTES:
        if route.needs == "admin" and not route.tokenless:
            continue
        where = f"{route.method} {route.path}"
        yield from ((name, where) for name in re.findall(r"<(?:path:)?(\w+)>", route.path))
        for name, one in parameters_of(route).items():
            if one.low is None and not one.words:
                yield name, where
        if route.asks is not None:
            yield from ((name, where) for name in texts(inspect.type_info(route.asks), ""))
    for tool in (*MANAGEMENT.values(), *TOOLS.values()):
        yield from ((name, tool.name) for name in texts(inspect.type_info(tool.asks), ""))


def test_every_text_of_a_request_is_classified() -> None:
    found = list(fields())
    unknown = {(name, where) for name, where in found if name not in KINDS and not RULE.fullmatch(name)}
    assert unknown == set(), "say in KINDS what it is, and add a probe where it reaches anything"
    assert KINDS.keys() <= {name for name, _ in found}, "no longer sent"
    assert {where for name, where in found if KINDS.get(name) == FILE} == {
        "GET /runs", "POST /workflows", "POST /run", "POST /serve", "workflow_run", "workflow_start", "workflow_stop",
    }  # fmt: skip
    reaching = re.compile(r"(^|[._])(dir|directory|folder|cwd|url|uri|host|program|image|remote|repository|ref)s?$")
    assert [(name, where) for name, where in found if reaching.search(name)] == []


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


async def test_no_variable_of_a_path_leads_out_of_the_project(kernel: ServedKernel, root: Path, strange: Path) -> None:
    spelled = [quote(one, safe="") for one in ("../../strange/s0.yaml", str(strange / "s0.yaml"), "s0.yaml\0")]
    spellings(root, strange, 0)
    await kernel.ask("POST", "/workflows", {"workflow": "review"})
    headers, access = kernel.headers(await made(kernel, "approve")), Access("k1", "approve")
    before = contents(strange)
    for route in ROUTES:
        if route.path == "/events" or route.waits or "<" not in route.path or not route.opened_by(access):
            continue
        whole, _, after = route.path.rpartition("<")
        whole = whole.replace("<space>", "review:main").replace("<name>", "alice").replace("<run>", "r1")
        asked = () if route.asks is None else route.asks.__struct_fields__
        body = {name: "x" for name in ("content", "value", "text") if name in asked} if asked else None
        for word in spelled:
            path = f"{whole}{word}{after.partition('>')[2]}"
            answer = await kernel.ask(route.method, path, body, headers=headers)
            assert CANARY.encode() not in answer.body, (route.path, path)
            assert answer.status != 500, (route.path, path, answer.body)
    assert contents(strange) == before
