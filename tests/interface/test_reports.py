"""Reports of a run: pure functions over its record, whatever agents wrote into it."""

import itertools
import json
import os
import random
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any, Final

import jsonschema
import msgspec
import pytest
from markdown_it import MarkdownIt

from interface.cli.reports import formats
from interface.cli.reports.markdown import MOST_CHARACTERS, page_of
from interface.cli.reports.record import Rows, RunRecord, RunRefusal, findings_of, path_of, spoken
from interface.failure import Place
from protocol.api.runs import MergeInfo
from protocol.instruction import Usage
from protocol.voting import Vote
from tests.interface.hostile import HOSTILE, obeyed
from tests.interface.samples import AT, instruction, message, need, report, task, vote, worktree

COMMANDS: Final = (
    "::set-output name=run::evil", "::add-mask::1", "::stop-commands::x", "##[error]y", "##vso[task.complete]",
    "%0A::error::z", "\n::set-env name=PATH::/evil", "\r::error::z", "::error file=a,line=1::b", "ghadelimiter_",
    "\nEOF\n", "%3A%2C%25",
)  # fmt: skip
MARKUP: Final = (
    "[x](http://evil)", "![x](http://evil/i.png)", "<img src=x onerror=alert(1)>", "@everyone", "`", "```",
    "````\n", "https://evil.example",
    "~~~", "|", "\\|", "\\", "\n# title\n", "\n---\n", "<!--", "-->", "</code>", "&lt;", "]]>", "\n- item",
    "\n> quote", "#12", "\n\n", "**b**", "{0}",
)  # fmt: skip
PLACES: Final = ("\nsrc/a.py:3: error: ", "\n- `b.ts:4:2`: ", "\n../../etc/passwd:1: ", "\nhttp://x:80: ")
PIECES: Final = (*COMMANDS, *MARKUP, *PLACES, *HOSTILE)
SCHEMAS: Final = "AGENT_WORKER_TEST_SCHEMAS"
WORD: Final = "zqword"
"""Somewhere in all that an agent wrote."""


def record(text: str = "done", **more: Any) -> RunRecord:
    """A record with ``text`` wherever an agent could have put it."""
    usage = Usage(input_tokens=1200, output_tokens=30, cost_usd=0.0123)
    delivery = MergeInfo(id="g1", run="r12", state="refused", into=text, why=text, output=text, files=(text,))
    told = report(
        text, usage=usage, verdict="no", failed_calls={text: 2}, exit_code=8, status="rejected", delivery=delivery
    )
    failed = task("t1", text, state="failed", holder="bob", instruction="i7", claimed_at=AT, ended_by="bob")
    ballot = msgspec.structs.replace(
        vote(text), id="release", type="approval", binding=True, options=(), counts={}, electors=("bob",),
        votes=(Vote(voter="bob", choice=text, reason=text),), winner=text,
    )  # fmt: skip
    made = RunRecord(
        name="review:main", exit_code=8, at=AT, version="1.2.3", report=told, tasks=(failed,), ballots=(ballot,),
        said=(message(1, text, instruction="i7"), message(2, text, "user")), trees=(worktree(text),),
        instructions=(instruction("i7", "done", text), instruction("i8", "dead", text, cause=text)),
        needs=(need(text, run="r12"),), unread=text,
    )  # fmt: skip
    return msgspec.structs.replace(made, **more)


def refused(text: str) -> RunRecord:
    mistake = Place(f".agents/{text}.yaml", 3, 2, "", text, text, text)
    refusal = RunRefusal(code="bad_definition", text=text, hint=text, mistakes=(mistake,))
    return RunRecord(name=text, exit_code=78, at=AT, version="1.2.3", refusal=refusal)


def commanded(log: str) -> list[str]:
    """The lines that a runner takes for a command, as its source reads them."""
    return [
        line for line in re.split(r"\r\n|\r|\n", log) if line.lstrip().startswith("::") or re.search(r"##\w*\[", line)
    ]


def outputs(text: str) -> dict[str, str]:
    """The file of outputs as the runner reads it."""
    found: dict[str, str] = {}
    lines = iter(text.split("\n"))
    for line in lines:
        if line:
            name, _, delimiter = line.partition("<<")
            found[name] = "\n".join(itertools.takewhile(delimiter.__ne__, lines))
    return found


def free_words(page: str) -> list[str]:
    """What of a page is neither code nor a table's or heading's own: there nothing of an agent's may stand."""
    found: list[str] = []
    for token in MarkdownIt("commonmark").enable("table").parse(page):
        assert token.type not in ("html_block", "code_block"), token
        for part in token.children or ():
            assert part.type in ("text", "code_inline", "softbreak"), part
            found += [part.content] if part.type == "text" else []
    return found


def unescaped(message: str) -> str:
    return message.replace("%0A", "\n").replace("%0D", "\r").replace("%25", "%")


ELEMENTS: Final[dict[str, tuple[set[str], set[str], list[str]]]] = {
    "testsuites": (set(), set(), ["testsuite"]),
    "testsuite": (
        {"name", "timestamp", "hostname", "tests", "failures", "errors", "time", "package", "id"},
        {"skipped"},
        ["properties", "testcase", "system-out", "system-err"],
    ),
    "properties": (set(), set(), ["property"]),
    "property": ({"name", "value"}, set(), []),
    "testcase": ({"name", "classname", "time"}, set(), ["skipped", "error", "failure"]),
    "error": ({"type"}, {"message"}, []),
    "failure": ({"type"}, {"message"}, []),
    "skipped": (set(), set(), []),
    "system-out": (set(), set(), []),
    "system-err": (set(), set(), []),
}
"""The schema of Ant's reports (windyroad), which asks for more than that of Jenkins: attributes that have to and may be
there, and elements in their order."""


def check_junit(text: str) -> ET.Element:
    """Raises where ``text`` is not a report by ELEMENTS; returns its suite."""
    root = ET.fromstring(text.encode())
    assert root.tag == "testsuites"
    for element in root.iter():
        needed, allowed, children = ELEMENTS[element.tag]
        assert needed <= set(element.keys()) <= needed | allowed, element.tag
        places = [children.index(child.tag) for child in element]
        assert places == sorted(places)
        assert element.tag != "testcase" or len(places) <= 1
        for name, value in element.items():
            assert value == " ".join(value.split()), name  # a token
    suite = root[0]
    for name, tag in (("tests", "testcase"), ("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        assert int(suite.attrib[name]) == len(list(suite.iter(tag)))
    assert [child.tag for child in suite][-2:] == ["system-out", "system-err"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", suite.attrib["timestamp"])
    return suite


@pytest.mark.promise("P73")
@pytest.mark.parametrize("count", [25, pytest.param(600, marks=pytest.mark.long("[25]"))])
def test_nothing_that_agents_wrote_is_obeyed_by_a_runner_a_page_or_a_terminal(count: int) -> None:
    chance = random.Random(count)
    for number in range(count):
        text = WORD.join(chance.choice(PIECES) for _ in range(chance.randint(2, 7))) + WORD
        made = refused(text) if number % 5 == 0 else record(text)
        page, suite, log, told = (
            page_of(made),
            formats.suite_of(made),
            formats.log_of(made),
            formats.outputs_of(made, "ghadelimiter_1"),
        )
        commands = formats.annotations_of(made)
        for name, report_ in (("md", page), ("junit", suite), ("sarif", log), ("outputs", told)):
            assert (commanded(report_), obeyed(report_)) == ([], []), (name, text)
        assert [word for word in free_words(page) if WORD in word] == []
        check_junit(suite)
        assert len(json.loads(log)["runs"]) == 1
        assert tuple(outputs(told)) == formats.OUTPUTS
        assert commands
        for command in commands:
            match = re.fullmatch(r"::(error|warning|notice) ([^\n\r]*?)::([^\n\r]*)", command)
            assert match is not None, command
            keys = [part.partition("=")[0] for part in match[2].split(",")]
            assert set(keys) <= {"file", "line", "col", "title"}
            assert commanded(unescaped(match[3])) == []
            assert obeyed(command) == []


def test_a_report_is_bounded_however_much_was_said_and_done() -> None:
    """A comment holds 65,536 characters; what is left out is counted."""
    long = "x`|@y " * 500
    many = record(long)
    said = tuple(message(number, f"src/f{number}.py:{number}: {long}") for number in range(1, 1100))
    work = tuple(instruction(f"i{number}", "failed", long) for number in range(100))
    many = msgspec.structs.replace(
        many, said=said, instructions=work, tasks=many.tasks * 300, ballots=many.ballots * 300,
        trees=many.trees * 300, needs=many.needs * 300,
    )  # fmt: skip
    page = page_of(many)
    assert len(page) <= MOST_CHARACTERS + 200
    assert "## What was found (1,000)\n" in page
    assert "- and 970 more\n" in page
    assert page.endswith("More than fits here: `awk show r12`, `awk channel @review:main --run r12`.\n")
    commands = formats.annotations_of(many)
    assert len(commands) == formats.MOST_ANNOTATIONS
    assert commands[-1].endswith("more are in the summary")
    assert [word for word in free_words(page) if "x`" in word] == []


def test_what_agents_say_of_a_line_is_a_finding() -> None:
    """docs/how-to/integrate/run-in-ci.md: path:line: text, on a line of its own; and what is none."""
    text = """
        Two things:
        src/app.py:12: error: off by one
        - `src/app.py:7:3`: warning: unused
        ./lib/x.ts:3 - Note: rename it
        **guide/a.md:1**: typo
        /project/src/app.py:9: absolute
        src/app.py:12: error: off   by one
        at 12:30: lunch
        see http://host.example:80: no
        ../secret.py:1: elsewhere
        /etc/passwd:1: elsewhere
        a//b.py:2: odd
        src/app.py:x: no line
        version:3: no file
        """
    found = findings_of(record(said=(message(4, text, "rev"),), tasks=(), ballots=(), roots=("/project",)))
    assert [(one.level, one.path, one.line, one.column, one.text) for one in found] == [
        ("error", "src/app.py", 12, None, "off by one"),
        ("warning", "guide/a.md", 1, None, "typo"),
        ("warning", "src/app.py", 7, 3, "unused"),
        ("warning", "src/app.py", 9, None, "absolute"),
        ("note", "lib/x.ts", 3, None, "rename it"),
    ]
    assert {(one.author, one.source) for one in found} == {("rev", "m4")}


def test_what_people_and_the_kernel_say_is_no_finding_and_votes_tasks_and_outputs_are() -> None:
    """docs/reference/ci-reports.md: reasons of votes, results of tasks, and findings in a workflow's JSON output."""
    line = "src/app.py:1: "
    output = {
        "findings": [
            {"path": "src/app.py", "line": 4, "text": "from the output", "level": "error", "column": 2},
            {"file": "src/app.py", "line": 5, "message": "as others call it", "severity": "fatal"},
            {"path": "../x.py", "line": 1, "text": "elsewhere"}, {"path": "a.py", "line": True, "text": "no line"},
            3, None,
        ]
    }  # fmt: skip
    made = record(
        f"{line}said", said=(message(1, f"{line}kickoff", "system"), message(2, f"{line}by a person", "user"))
    )
    assert made.report is not None
    made = msgspec.structs.replace(made, report=msgspec.structs.replace(made.report, output=output))
    found = findings_of(made)
    assert [(one.text, one.source, one.level) for one in found] == [
        ("from the output", "output", "error"),
        ("said", "release", "warning"),
        ("as others call it", "output", "warning"),
    ]
    assert made.report is not None
    listed = msgspec.structs.replace(made.report, output=output["findings"])
    assert findings_of(msgspec.structs.replace(made, report=listed)) == found


@pytest.mark.parametrize(
    ("named", "path"),
    [
        ("src/a.py", "src/a.py"), ("./a.py", "a.py"), ("Makefile", None), ("ci/Makefile", "ci/Makefile"),
        ("12.30", None),
        ("/w/t/a.py", "a.py"), ("/w/a.py", "a.py"), ("/elsewhere/a.py", None), ("a/../b.py", None), ("a\\b.py", None),
        ("x" * 400 + ".py", None),
    ],
)  # fmt: skip
def test_a_path_is_one_of_the_project(named: str, path: str | None) -> None:
    assert path_of(named, ("/w/t", "/w")) == path


def test_no_line_makes_the_search_for_findings_slow() -> None:
    for piece in ("`*" * 60, "a/" * 100, " " * 200, "a.py:1:", "- - - "):
        assert list(spoken(piece * (1_000_000 // len(piece)), "x", "m1")) == []


def test_the_same_finding_has_the_same_fingerprint_in_every_run() -> None:
    """SARIF 3.27.17: whichever run, line or author; another file or text has another, and two of one text are two."""

    def prints(*texts: str, **more: Any) -> list[str]:
        said = tuple(message(number, text, "rev") for number, text in enumerate(texts, 1))
        log = json.loads(formats.log_of(record(said=said, tasks=(), ballots=(), **more)))
        return [result["partialFingerprints"][formats.FINGERPRINT] for result in log["runs"][0]["results"]]

    (first,) = prints("src/a.py:3: error: off by 1 in loop")
    assert prints("src/a.py:40: error: Off by 2  in loop", exit_code=0, name="other:main", version="9") == [first]
    others = prints("src/b.py:3: error: off by 1 in loop", "src/a.py:3: error: something else")
    assert len({first, *others}) == 3
    assert prints("src/a.py:3: error: off by 1 in loop", "src/a.py:9: error: off by 1 in loop") == [
        first,
        f"{first[:-1]}2",
    ]


def test_a_report_says_how_the_run_ended() -> None:
    """A suite is red if and only if the run, or a part of it, is; the outputs are those of the run."""
    good = report(usage=Usage(input_tokens=5, output_tokens=7, cache_read_tokens=9, cost_usd=1e-7))
    green = RunRecord(
        name="review:main", exit_code=0, at=AT, version="1", report=good, instructions=(instruction("i7"),)
    )
    suite = check_junit(formats.suite_of(green))
    assert (suite.attrib["tests"], suite.attrib["failures"], suite.attrib["errors"]) == ("2", "0", "0")
    assert outputs(formats.outputs_of(green, "d")) == {
        "run": "r12",
        "status": "done",
        "verdict": "",
        "cost_usd": "0.0000001",
        "tokens": "12",
    }
    suite = check_junit(formats.suite_of(record("no")))
    assert [case.attrib["name"] for case in suite.iter("testcase") if len(case)] == [
        "run",
        "i8",
        "t1 no",
        "verdict",
        "merge into no",
    ]
    assert outputs(formats.outputs_of(record("no"), "d")) == {
        "run": "r12",
        "status": "rejected",
        "verdict": "no",
        "cost_usd": "0.0123",
        "tokens": "1230",
    }
    suite = check_junit(formats.suite_of(refused("no key")))
    assert (suite.attrib["errors"], outputs(formats.outputs_of(refused("x"), "d"))["status"]) == ("1", "error")
    assert formats.annotations_of(green) == []


def test_mistakes_in_files_are_annotations_at_their_lines() -> None:
    made = msgspec.structs.replace(refused("a:b,c"), prefix="services/api/")
    assert formats.annotations_of(made) == [
        "::error file=services/api/.agents/a%3Ab%2Cc.yaml,line=3,col=2,title=a%3Ab%2Cc was not run::a:b,c (a:b,c)"
    ]


def test_of_an_archive_only_what_reports_show_is_kept() -> None:
    rows = Rows()
    rows.take(b'{"part":"transcript","run":"r12","row":{"broken')
    for number in range(Rows.MOST + 3):
        rows.take(msgspec.json.encode({"part": "channel", "run": "r12", "row": message(number, "x")}))
    fields = rows.fields()
    assert (len(fields["said"]), fields["said"][-1].seq, fields["left_out"]) == (Rows.MOST, Rows.MOST + 2, 3)


def test_a_real_reader_reads_the_suite() -> None:
    junitparser = pytest.importorskip("junitparser", reason="junitparser is not installed")
    xml = junitparser.JUnitXml.fromstring(formats.suite_of(record("no")).encode())
    (suite,) = xml
    assert (suite.tests, suite.failures, suite.errors, suite.skipped) == (6, 4, 1, 0)
    assert [type(case.result[0]).__name__ for case in suite if case.result] == [
        "Failure",
        "Error",
        "Failure",
        "Failure",
        "Failure",
    ]


def _shape(*required: str, items: object = None, **properties: object) -> dict[str, object]:
    """A JSON schema: an object with these properties, or a list of ``items``."""
    return {"items": items} if items else {"required": [*required], "properties": properties}


_REGION: Final = _shape(startLine={"minimum": 1}, startColumn={"minimum": 1})
_LOCATION: Final = _shape(
    physicalLocation=_shape(artifactLocation=_shape(uri={"format": "uri-reference"}), region=_REGION)
)
_RESULT: Final = _shape(
    "message",
    level={"enum": ["none", "note", "warning", "error"]},
    message=_shape("text"),
    partialFingerprints={"additionalProperties": {"type": "string"}},
    locations=_shape(items=_LOCATION),
)
_RUN: Final = _shape(
    "tool",
    "results",
    automationDetails={**_shape("id", id={"type": "string"}), "additionalProperties": False},
    columnKind={"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
    invocations=_shape(items=_shape("executionSuccessful")),
    results=_shape(items=_RESULT),
)
SARIF_SHAPE: Final = _shape("version", "runs", version={"const": "2.1.0"}, runs=_shape(items=_RUN)) | {"type": "object"}
"""What of SARIF 2.1.0 a report of ours could get wrong, for machines without its schema."""


def test_the_log_is_sarif() -> None:
    logs = [
        json.loads(formats.log_of(made))
        for made in (record("src/a.py:3: x"), refused("no"), record("\nsrc/a.py:0: \x1b[1m"))
    ]
    for log in logs:
        jsonschema.validate(log, SARIF_SHAPE)
    schema = json.loads((_schemas() / "sarif-schema-2.1.0.json").read_text())
    for log in logs:
        jsonschema.Draft7Validator(schema).validate(log)


def test_the_suite_is_valid_by_the_schemas_of_ant_and_of_jenkins() -> None:
    """windyroad's JUnit.xsd and xunit-plugin's junit-10.xsd themselves, beside ELEMENTS."""
    xmlschema = pytest.importorskip("xmlschema", reason="xmlschema is not installed")
    for name in ("JUnit.xsd", "junit-10.xsd"):
        schema = xmlschema.XMLSchema(_schemas() / name)
        for made in (record("no ]]> \x1b \ud800"), refused("no"), record("")):
            schema.validate(formats.suite_of(made))


def _schemas() -> Path:
    if not os.environ.get(SCHEMAS):
        pytest.skip(f"{SCHEMAS} names no folder with sarif-schema-2.1.0.json, JUnit.xsd and junit-10.xsd")
    return Path(os.environ[SCHEMAS])
