"""kernel.inspect as a process: one document, the right exit code, and nothing that a kernel would need."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kernel.inspect.__main__ import main
from tests.kernel.inspect.files import review, write


def _ask(root: Path, *words: str) -> tuple[int, Any]:
    argv = [sys.executable, "-I", "-m", "kernel.inspect", *words]
    done = subprocess.run(argv, cwd=root, stdin=subprocess.DEVNULL, capture_output=True, timeout=30, check=False)
    assert done.stderr == b""
    return done.returncode, json.loads(done.stdout)


def test_it_answers_with_one_document_and_the_exit_code_of_the_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """contracts 7: 0, 78 for a file that is wrong, else the code of the refusal."""
    review(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main(("validate",), os.environ)[1] == 0
    code, unknown = _ask(tmp_path, "config", "nobody")
    assert (code, unknown["schema"], unknown["code"], unknown["exit_code"]) == (5, "awk/error/1", "unknown_agent", 5)
    write(tmp_path, {".agents/alice.yaml": "modell: x\n"})
    code, found = _ask(tmp_path, "validate")
    assert (code, found["schema"], [file["ok"] for file in found["files"]]) == (
        78,
        "awk/validate/1",
        [True, False, True],
    )
    document, code = main(("config", "alice"), os.environ)
    broken = json.loads(document)
    assert (code, broken["code"], broken["errors"][0]["where"]) == (78, "bad_definition", "modell")


def test_it_has_no_event_loop_no_database_and_no_model_client(tmp_path: Path) -> None:
    """It starts in a fraction of the time of a kernel because it leaves these out."""
    review(tmp_path)
    heavy = "{'trio', 'apsw', 'quart', 'hypercorn', 'mcp', 'anthropic', 'openai', 'genai_prices', 'asyncio'}"
    program = (
        "import sys; from kernel.inspect.__main__ import main; import os; "
        "verbs = (['validate'], ['config', 'review'], ['plan', 'review', '--', '-b', 'x'], ['schema', 'agent']); "
        "codes = [main(words, os.environ)[1] for words in verbs]; "
        f"print(codes, sorted({heavy} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.stdout, done.stderr) == ("[0, 0, 0, 0] []\n", "")


@pytest.mark.parametrize(
    ("words", "given"),
    [
        (("skills",), b""),
        (("tools",), b""),
        (("judge", "alice"), b"modell: x\n"),
        (("judge-project", "moniro.yaml"), b"tools: {count: {description: x, comand: [wc]}}\n"),
        (("tools-in", "moniro.yaml"), b"tools: {count: {description: x, command: [wc]}}\n"),
        (("fetch-skills", "file:///etc"), b""),
    ],
)
def test_a_process_answers_as_its_function_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], given: bytes
) -> None:
    review(tmp_path)
    argv = [sys.executable, "-I", "-m", "kernel.inspect", *words]
    done = subprocess.run(argv, cwd=tmp_path, input=given, capture_output=True, timeout=30, check=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
    document, code = main(words, os.environ)
    assert (done.returncode, done.stderr, done.stdout.rstrip(b"\n")) == (code, b"", document.rstrip(b"\n"))
