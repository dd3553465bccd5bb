"""Calls that were found to break a promise, each with the promise (ruff bans the rest: TID251, S602, BLE)."""

import ast
from collections.abc import Callable
from typing import Final

import pytest

from tests.architecture.sources import Source, dotted, product, sources


def _keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((word.value for word in call.keywords if word.arg == name), None)


def _is_true(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


def _reaps_anyone(call: ast.Call) -> bool:
    anyone = isinstance(call.args[0], ast.UnaryOp) if dotted(call.func) == "os.waitpid" and call.args else False
    return anyone or dotted(call.func) in {"os.wait", "os.wait3", "os.wait4"}


def _opens_the_database(call: ast.Call) -> bool:
    opener = dotted(call.func) in {"open", "os.open", "io.open", "shutil.copy", "shutil.copyfile"} or (
        isinstance(call.func, ast.Attribute) and call.func.attr in {"read_bytes", "read_text", "write_bytes"}
    )
    return opener and "database" in ast.unparse(call).lower()


def _prints_markup(call: ast.Call) -> bool:
    return dotted(call.func).endswith("console.print") and any(isinstance(arg, ast.JoinedStr) for arg in call.args)


BANNED: Final[dict[str, Callable[[ast.Call], bool]]] = {
    "shell=True: text of an agent would be a command": lambda call: _is_true(_keyword(call, "shell")),
    "preexec_fn: unsafe beside threads, and trio spawns in one": lambda call: _keyword(call, "preexec_fn") is not None,
    "yaml.load: files of users go through kernel.source": lambda call: (
        dotted(call.func) in {"yaml.load", "yaml.full_load", "yaml.unsafe_load"}
    ),
    "open() on the database drops SQLite's locks": _opens_the_database,
    "console.print(f-string): markup of an agent would be ours": _prints_markup,
}
VIRTUAL_CLOCKS: Final = frozenset({"autojump_clock", "mock_clock"})
ZYGOTE_SIDE: Final = frozenset(
    {"worker/process_tree.py", "kernel/boot/service_end.py", "interface/cli/commands/start.py"}
)
"""Zygote, keeper, process 1: single-threaded, without trio, parents by profession; they may wait for any child."""


@pytest.mark.promise("SF12", "CF02", "P16")
@pytest.mark.parametrize("reason", BANNED)
def test_no_call_that_breaks_a_promise(reason: str) -> None:
    found = [source.at(call) for source in product() for call in source.calls if BANNED[reason](call)]
    assert found == [], reason


def test_nobody_reaps_the_children_of_others() -> None:
    """waitpid(-1) in the kernel steals trio's children."""
    found = [
        source.at(call)
        for source in product()
        if source.name not in ZYGOTE_SIDE
        for call in source.calls
        if _reaps_anyone(call)
    ]
    assert found == []


def _sleeps(source: Source) -> list[str]:
    sleeps = [call for call in source.calls if dotted(call.func) in {"time.sleep", "trio.sleep", "sleep"}]
    if not sleeps:
        return []
    virtual = {
        call
        for test in ast.walk(source.tree)
        if isinstance(test, ast.AsyncFunctionDef) and {arg.arg for arg in test.args.args} & VIRTUAL_CLOCKS
        for call in ast.walk(test)
    }
    return [source.at(call) for call in sleeps if call not in virtual]


def test_no_test_waits_for_time_to_pass() -> None:
    assert [place for source in sources("tests") for place in _sleeps(source)] == []


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        ("shell=True: text of an agent would be a command", "run('ls', shell=True)"),
        ("preexec_fn: unsafe beside threads, and trio spawns in one", "run(['ls'], preexec_fn=f)"),
        ("yaml.load: files of users go through kernel.source", "yaml.load(text)"),
        ("open() on the database drops SQLite's locks", "open(state / DATABASE)"),
        ("console.print(f-string): markup of an agent would be ours", "self.console.print(f'{name}')"),
    ],
)
def test_each_gate_catches_what_it_is_for(reason: str, text: str) -> None:
    """A gate that never closes is no gate."""
    call = ast.parse(text, mode="eval").body
    assert isinstance(call, ast.Call)
    assert BANNED[reason](call)
