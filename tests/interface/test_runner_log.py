"""Text of agents in the log of a CI job: read there, and never obeyed."""

import io
import json
import os
import re
import subprocess
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interface.cli.runner_log import RunnerStream, is_read_by_runner, neutral_json
from tests.interface.conftest import AWK, Cli
from tests.interface.kernel_double import KernelDouble, Stream, sse
from tests.interface.samples import event, read_answers

HOSTILE: Final = "::stop-commands::x\n \t\u00a0::error::y\nsee ##[endgroup] and ##vso[task.complete]"


def _obeyed(log: str) -> list[str]:
    lines = re.split(r"\r\n|\r|\n", log)
    return [line for line in lines if line.lstrip().startswith("::") or re.search(r"##\w*\[", line)]


def _written(*pieces: str) -> str:
    raw = io.BytesIO()
    stream = RunnerStream(io.TextIOWrapper(raw, "utf-8"))
    for piece in pieces:
        assert stream.write(piece) == len(piece)
    stream.flush()
    return raw.getvalue().decode()


def test_both_forms_are_neutral_and_readable() -> None:
    assert _obeyed(HOSTILE) == HOSTILE.split("\n")
    assert (
        _written(HOSTILE)
        == ":\\:stop-commands::x\n \t\u00a0:\\:error::y\nsee ##\\[endgroup] and ##vso\\[task.complete]"
    )
    harmless = "a::b\n# ## [x]\n : :\n### title [1]\nstd::vector\n"
    assert _written(harmless) == harmless


@given(st.lists(st.text(alphabet=":# [\n\tvso\u3000", max_size=6), max_size=8))
def test_no_pieces_make_a_command_together(pieces: list[str]) -> None:
    written = _written(*pieces)
    assert _obeyed(written) == []
    assert written.replace("\\", "") == "".join(pieces)


@given(st.text(alphabet=':# [\n"\\vso', max_size=30))
def test_json_is_neutral_and_the_same_value(text: str) -> None:
    document = neutral_json(json.dumps({"text": text}))
    assert _obeyed(document) == []
    assert json.loads(document) == {"text": text}


@pytest.mark.parametrize("name", ["GITHUB_ACTIONS", "CI", "TF_BUILD", "TEAMCITY_VERSION"])
def test_every_runner_is_known_by_its_variable(name: str) -> None:
    assert is_read_by_runner({name: "true"})
    assert not is_read_by_runner({"HOME": "/home/me"})


@pytest.mark.promise("P73")
@pytest.mark.parametrize(
    "words",
    [
        ["peek", "alice"], ["peek", "alice", "--json"], ["channel", "@review"], ["logs"], ["logs", "--jsonl"],
        ["events"], ["events", "--jsonl"], ["queue", "alice"], ["inbox", "alice"], ["show", "i1"], ["dead"],
        ["feedback", "list"], ["diff"], ["ps"], ["ls"], ["stats"], ["pending"], ["runs"], ["nosuch\n::error::x"],
        ["help", "##[error]x"], ["validate", "--project", "/::x/##[error]"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_no_command_prints_what_a_runner_obeys(words: list[str], cli: Cli, kernel: KernelDouble) -> None:
    kernel.answers |= read_answers(HOSTILE)
    line = sse("worker.log", event("worker.log", 1, data={"text": HOSTILE}), 1)
    kernel.answers["GET /events"] = Stream([line])
    environ = {**cli.environ, "GITHUB_ACTIONS": "true", "HOME": os.devnull}
    ran = subprocess.run([*AWK, *words], cwd=cli.root, env=environ, capture_output=True, timeout=30, check=False)
    log = ran.stdout.decode() + "\n" + ran.stderr.decode()
    assert _obeyed(log) == []
    assert log.strip()
    assert "Traceback" not in log
