"""The files of the page: small, alone in the world, without any way to make markup, and with words for all they say."""

import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final, get_args

import msgspec
import pytest

from interface.cli.output import escape
from interface.cli.process_table import COLUMNS, cells, sort_key, target_of
from protocol.api.agents import AgentCondition, AgentStatus
from protocol.api.approvals import NeedKind
from protocol.api.processes import PsRow, PsTask, Queue
from protocol.api.runs import DiffStat
from protocol.instruction import STATUSES, Usage
from protocol.tasks import TASK_STATES

WEB: Final = Path(__file__).parents[2] / "interface/web"
FILES: Final = {path.name: path.read_text() for path in sorted(WEB.iterdir()) if path.is_file()}
VENDOR: Final = WEB / "vendor"
LARGEST_BYTES: Final = 300 * 1024
NOW: Final = 1_767_225_610.0
COMMANDS: Final = {
    "awk approve a3": ("approve", False, ["approval", "a3"]),
    "awk deny a3": ("approve", False, ["approval", "a3"]),
    "awk answer i5 done": ("approve", False, ["instruction", "i5"]),
    "awk cancel i1 i2": ("operate", True, ["/instructions/i1/cancel", "/instructions/i2/cancel"]),
    "awk retry i1": ("operate", False, ["/instructions/i1/retry"]),
    "awk stop @review:pr-1": ("operate", True, ["DELETE/workflows/review/pr-1"]),
    "awk continue @review~design": ("approve", False, ["/workflows/review/main/continue"]),
    "awk continue alice@review": ("approve", False, ["/agents/{alice%40review}/continue"]),
    "awk reset alice": ("operate", False, ["/agents/{alice}/reset"]),
    "awk task done @h t1 t2": ("operate", False, ["/spaces/h%3Amain/tasks/t1/done", "/spaces/h%3Amain/tasks/t2/done"]),
    "awk task cancel @h~x t3": ("operate", True, ["/spaces/h%3Amain~x/tasks/t3/cancel"]),
    "awk proposal vote rel@h yes": ("approve", False, ["/spaces/h%3Amain/proposals/rel/vote?yes"]),
    "awk proposal cancel rel@h:x": ("operate", True, ["/spaces/h%3Ax/proposals/rel/cancel"]),
    "awk agent memory al@h tray reject t1": ("approve", False, ["/agents/{al%40h}/tray/t1/reject"]),
    "awk agent soul al approve s2": ("approve", False, ["/agents/{al}/soul/s2/approve"]),
    "awk webhook retry w12ab": ("operate", False, ["/webhooks/w12ab/retry"]),
}
TERMINAL: Final = ("awk trust --yes x", "awk dead --clear", "awk approve a3; rm", "rm -rf x", "awk cancel all")
ROWS: Final = (
    PsRow(name="idle", space=None, state="idle"),
    PsRow(
        name="coder",
        space="review:main",
        state="backoff",
        reason="provider",
        until="2026-01-01T00:01:00Z",
        pid=4711,
        backend="sdk",
        model="anthropic/opus",
        step=3,
        doing="bash\n\x1b[31mred \u202e<b>",
        queue=Queue(immediate=1, normal=2),
        restarts=1,
        last_exit="SIGKILL",
        cpu_percent=12.34,
        rss_bytes=123_456_789,
        usage=Usage(input_tokens=1200, output_tokens=34, cache_write_tokens=6, cost_usd=0.12345),
        last_event_at="2025-12-31T23:00:00Z",
        status=AgentStatus(task="t3", state="reads", metadata=None, instruction="i1", at=""),
        diff=DiffStat(added=3, deleted=1),
        tasks=tuple(
            PsTask(id=f"t{n}", title="", state="open", blocked_by=("t1", "t2") if n == 4 else ()) for n in range(3, 8)
        ),
    ),
    PsRow(name="small", space="dm:small", state="running", rss_bytes=900, last_event_at="2026-01-01T00:00:00Z"),
)


def test_the_page_is_small() -> None:
    assert sum(path.stat().st_size for path in WEB.rglob("*")) <= LARGEST_BYTES


def test_each_library_is_the_released_file_and_has_its_license() -> None:
    rows = json.loads((VENDOR / "VENDORED.json").read_text())
    named = {"VENDORED.json", *(row[key] for row in rows for key in ("file", "license_file"))}
    assert named == {path.name for path in VENDOR.iterdir()}
    for row in rows:
        assert hashlib.sha256((VENDOR / row["file"]).read_bytes()).hexdigest() == row["sha256"], row["file"]
        assert row["package"] and row["version"] and row["license"] == "MIT"
        assert "Permission is hereby granted" in (VENDOR / row["license_file"]).read_text()


@pytest.mark.promise("P16")
def test_nothing_makes_markup_of_text_or_asks_another_host() -> None:
    sinks = r"[iI]nnerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|setHTML|srcdoc|DOMParser"
    for name, content in FILES.items():
        assert not re.search(f"{sinks}|cookie", content), name
        assert not re.findall(r"\bhttps?://(?!www\.w3\.org/)\S+", content), name
    assert not re.search(r"<script>|<style|\son\w+=|\sstyle=|javascript:", FILES["index.html"])
    for target in re.findall(r'(?:src|href)="(/[^"]*)"', FILES["index.html"]):
        assert (WEB / target.removeprefix("/page/")).is_file()
    for name, content in FILES.items():
        for target in re.findall(r'from "\./([^"]*)"', content):
            assert (WEB / target).is_file(), name


def test_the_modules_keep_what_they_say() -> None:
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    main = FILES["main.js"]  # which begins at once; the others are loaded below
    subprocess.run(["node", "--input-type=module", "--check"], input=main, text=True, check=True, timeout=60)
    found = _ask_modules()
    assert found["paths"] == {
        **{
            command: {"scope": scope, "sure": sure, "paths" if "/" in made[0] else "show": made}
            for command, (scope, sure, made) in COMMANDS.items()
        },
        **dict.fromkeys(TERMINAL),
    }
    blocks = ("".join(map(chr, range(first, first + 256))) for first in range(0, 0x110000, 256))
    suspect = "".join(block for block in blocks if escape(block) != block)
    assert found["escaped"] == [[ord(one), escape(one)] for one in suspect if escape(one) != one]
    assert len(found["long"]) == 20
    assert found["columns"] == [[column.title, column.right] for column in COLUMNS]
    assert found["cells"] == [[_shown(text) for text in cells(row, NOW)] for row in ROWS]
    for column in COLUMNS:
        if column.right:
            ordered = sorted(ROWS, key=sort_key(column.title.lower().rstrip("%$")))
            assert found["orders"][column.title] == [row.name for row in ordered], column
    assert sorted(map(target_of, ROWS)) == [row[0] for row in sorted(found["cells"])]
    _check_words(dict(found["words"]))


def _shown(text: str) -> str:
    return escape(re.sub(r"[\n\t ]+", " ", text).strip())


def _ask_modules() -> dict[str, Any]:
    question = {
        "commands": [*COMMANDS, *TERMINAL],
        "tasks": [["t1"], ["t2", "t1"], ["t3", "t1"], ["t4", "t2", "t3"], ["t5"], ["t6", "t5", "t4", "gone"]],
        "rows": msgspec.to_builtins(ROWS),
        "now_ms": NOW * 1000,
    }
    units = Path(__file__).with_name("page_units.mjs")
    done = subprocess.run(
        ["node", str(units)], input=json.dumps(question), text=True, capture_output=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _check_words(words: dict[str, list[str]]) -> None:
    for key, (english, chinese) in words.items():
        assert english and chinese, key
        assert sorted(re.findall(r"\{\w+\}", english)) == sorted(re.findall(r"\{\w+\}", chinese)), key
    code = "".join(content for name, content in FILES.items() if name.endswith(".js"))
    asked = set(re.findall(r'\bt\("(\w+)"', code)) | set(re.findall(r'labelled\("(\w+)"', code))
    asked |= {f"need_{kind}" for kind in get_args(NeedKind)}
    states = (*STATUSES, *TASK_STATES, *get_args(AgentCondition.__annotations__["state"]))
    asked |= {f"state_{word}" for word in states}
    asked |= {f"fact_{word}" for word in _fact_names(code)}
    assert asked <= words.keys(), asked - words.keys()
    groups = "action bar by entry found help mark need out send state tab tile"
    dynamic = tuple(f"{group}_" for group in groups.split())
    unused = {key for key in words if key not in asked and not key.startswith(dynamic) and f'"{key}"' not in code}
    assert not unused


def _fact_names(code: str) -> set[str]:
    names: set[str] = set()
    for after in code.split("facts({")[1:]:
        given = "{" + re.sub(r"`[^`]*`|\"[^\"]*\"", "x", after)
        while (inner := re.sub(r"(?<!^)(\([^(){}\[\]]*\)|\[[^(){}\[\]]*\]|\{[^(){}\[\]]*\})", "", given)) != given:
            given = inner
        names |= {part.partition(":")[0].strip() for part in given[1 : given.index("}")].split(",")} - {""}
    return names
