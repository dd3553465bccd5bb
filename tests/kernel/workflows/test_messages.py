"""What a user reads after eight mistakes in one file: whole texts, so that nobody worsens one unseen."""

from pathlib import Path

import pytest

from kernel.agents.catalog import Catalog
from kernel.workflows.load import load_workflow
from tests.kernel.inspect.files import MOCK, write
from tests.kernel.refusals import faults

FILE = """\
agents:
  reviewer: {ref: reviwer}
  coder:
    model: opnai/gpt-5.5
    promt: {system: You write code.}
  Helper: {backend: mock, mock: [{text: hi}]}
limits: {hops: 010, wall_time: 2 hours}
setup:
  - shell: git diff ${{ params.base }}
    as: env
limits: {hops: 3}
kickoff: |
  @coder look at this:
  ${{ dif }}
"""

EXPECTED = """\
2:19 agents.reviewer.ref: agent 'reviwer' not found
    reviewer: {ref: reviwer}
    hint: did you mean reviewer? (defined in .agents/<name>.yaml)
4:5 agents.coder.model: unknown provider 'opnai'; known: anthropic, cursor, deepseek, \
fireworks, google, groq, lmstudio, mistral, mock, moonshot, ollama, openai, openrouter, together, xai
      model: opnai/gpt-5.5
    hint: did you mean openai? (or set base_url under providers: in .agents.yaml (or moniro.yaml))
5:5 agents.coder.promt: unknown key 'promt'
      promt: {system: You write code.}
    hint: did you mean prompt?
6:3 agents.Helper: 'Helper' is not a name: lower-case letters, digits, '_' and '-', starting with a letter, at most 32
    Helper: {backend: mock, mock: [{text: hi}]}
7:16 limits.hops: needs a whole number, has '010'
  limits: {hops: 010, wall_time: 2 hours}
    hint: remove the leading zero: some programs read it as octal
7:32 limits.wall_time: needs a duration, has '2 hours'
  limits: {hops: 010, wall_time: 2 hours}
    hint: write it as 200ms, 30s, 10m, 2h or 1d
9:21 setup[0].shell: unknown variable 'params.base'
    - shell: git diff ${{ params.base }}
    hint: available: workflow.instance, workflow.name, workflow.tag, workspace.dir
10:9 setup[0].as: 'env' is reserved
      as: env
11:1 limits: the key 'limits' is given twice: on line 7 and on line 11
  limits: {hops: 3}
    hint: keep one of them
14:3 kickoff: unknown variable 'dif'
    ${{ dif }}
    hint: available: workflow.instance, workflow.name, workflow.tag, workspace.dir
"""

SECOND = FILE.replace("reviwer", "reviewer").replace("opnai", "openai").replace("promt", "prompt").replace(
    "  Helper: {backend: mock, mock: [{text: hi}]}\n", ""
).replace("limits: {hops: 010, wall_time: 2 hours}\n", "")  # fmt: skip

EXPECTED_SECOND = """\
7:21 setup[0].shell: unknown variable 'params.base'
    - shell: git diff ${{ params.base }}
    hint: available: workflow.instance, workflow.name, workflow.tag, workspace.dir
8:9 setup[0].as: 'env' is reserved
      as: env
12:3 kickoff: unknown variable 'dif'
    ${{ dif }}
    hint: available: workflow.instance, workflow.name, workflow.tag, workspace.dir
"""


def read(root: Path, text: str) -> str:
    write(root, {".workflows/review.yaml": text, ".agents/reviewer.yaml": MOCK})
    lines: list[str] = []
    for error in faults(load_workflow, Catalog(root), "review"):
        lines += [f"{error.line}:{error.column} {error.where}: {error.message}", f"  {error.source}"]
        lines += [f"    hint: {error.hint}"] if error.hint else []
    return "\n".join(lines) + "\n"


@pytest.mark.promise("CF05", "CF06", "CF07", "CF08", "CF10", "CF13", "CF14")
@pytest.mark.parametrize(("text", "expected"), [(FILE, EXPECTED), (SECOND, EXPECTED_SECOND)])
def test_every_mistake_reads_as_a_sentence_with_its_line_and_a_way_out(
    text: str, expected: str, tmp_path: Path
) -> None:
    """contracts 7: errors."""
    assert read(tmp_path, text) == expected
