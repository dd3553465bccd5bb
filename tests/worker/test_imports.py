"""What a worker loads: an SDK costs seconds and tens of megabytes, so only those pay who use it."""

import inspect
import re
import subprocess
import sys

import pytest

import worker.__main__
from kernel.adoption import WORKERS
from worker.fork.preload import ADAPTERS

ALLOWED = {"msgspec", "h11", "setproctitle", "typing_extensions", "_distutils_hack"}
"""The last one is loaded by setuptools into every interpreter of an environment."""


def run_python(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-I", "-c", code], check=True, capture_output=True, text=True, timeout=60
    ).stdout


@pytest.mark.parametrize("module", ["worker.main", "kernel.__main__, kernel.store.database"])
def test_a_mock_worker_and_a_starting_kernel_import_neither_sdk_nor_event_loop(module: str) -> None:
    """A project of mock agents pays for no SDK, and a kernel accepts requests before it has loaded the rest."""
    loaded = run_python(
        f"import sys; import site; import {module}; "
        "print(*{name.partition('.')[0] for name, module in sys.modules.items()"
        " if 'site-packages' in (getattr(module, '__file__', None) or '')})"
    )
    assert set(loaded.split()) <= ALLOWED | ({"apsw"} if "store" in module else set())


def test_a_version_on_trial_imports_every_module_of_a_worker() -> None:
    """worker.__main__ imports the others late; a version that cannot import one must not take over."""
    late = re.findall(r"^ +from (worker[.\w]*) import (\w+)", inspect.getsource(worker.__main__), re.MULTILINE)
    assert {package in WORKERS or f"{package}.{name}" in WORKERS for package, name in late} == {True}


@pytest.mark.parametrize("dialect", ADAPTERS)
def test_a_missing_model_client_fails_the_work_and_names_the_extra(dialect: str) -> None:
    said = run_python(
        f"import sys; sys.modules['{dialect}'] = None\n"
        "import msgspec; from worker.main import _adapter; from worker.models.model import BLANK, Failed\n"
        "from protocol.ipc import Provider\n"
        f"provider = Provider(name='x', dialect='{dialect}')\n"
        "start = msgspec.structs.replace(BLANK, backend='sdk', provider=provider)\n"
        "try: _adapter(start, None, die=None)\n"
        "except Failed as failed: print(failed.cause, failed.text)"
    )
    assert said == (
        f"spawn_permanent Python package '{dialect}' not installed:"
        f" run pip install 'agent-worker-supervisor[{dialect}]'\n"
    )


@pytest.mark.parametrize(
    ("dialect", "other"),
    [pytest.param("anthropic", "openai", marks=pytest.mark.long("[openai-anthropic]")), ("openai", "anthropic")],
)
def test_warming_leaves_one_thread_and_loads_one_sdk(dialect: str, other: str) -> None:
    said = run_python(
        f"import os, sys; from worker.models.{dialect} import warm; warm(); "
        f"print(len(os.listdir('/proc/self/task')), '{other}' in sys.modules)"
    )
    assert said.split() == ["1", "False"]
