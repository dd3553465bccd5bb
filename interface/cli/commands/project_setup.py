"""``awk init``, ``adopt``, ``validate``, ``config``, ``schema``, ``doctor``, ``worker``: examples, checks of setups."""

import json
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from interface import offline
from interface.adoption import Adopter
from interface.agent_dir import open_agents
from interface.cli.command_parser import Subcommand, Subcommands, duration
from interface.cli.context import Context
from interface.cli.exits import Exit
from interface.cli.output import Screen, escape, one_line, table, width
from interface.cli.parsing import Arguments, argument, json_flag, switch
from interface.cli.prompts import can_ask, confirm
from interface.discovery import NotOurKernel, is_locked, recorded_endpoint, reject_reason
from interface.failure import Failure, Unreachable
from interface.safe_dir import SafeDir, Unusable
from protocol.backends import BACKENDS, CLIS
from protocol.discovery import VERSION
from protocol.inspection import Adoption, DoctorReport, DoctorRow, Kind, Resolution, Validation, WorkerCheckReport
from protocol.yaml_writer import entry, inline

KINDS: Final[tuple[Kind, ...]] = ("agent", "workflow", "project")
_NAME: Final = ".schema"
FOLDER: Final = f".agents/{_NAME}"
_MODELINE: Final = "# yaml-language-server: $schema="
_KIND_OF: Final = {".agents": "agent", ".workflows": "workflow", "": "project"}
_COLUMN: Final = 48
"""Column in which origins start, if the value before is short enough."""
_STEP: Final = 2
EXAMPLES: Final = Path(__file__).parent.parent / "examples"
NAMES: Final = sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir())
DEFAULT: Final = "hello"
LIST: Final = "list"
MESSAGE: Final = "Say hello."


def run_validate(context: Context) -> int:
    root, state = offline.paths(context.project)
    shell, cwd = offline.shell_environment(context.environ), Path(context.cwd or root)
    grants = offline.validate.project_grants(root, state, shell)
    checked = offline.validate.validate(root, cwd, context.args.files, shell, grants, reports=context.args.report)
    if not context.args.json:
        for place in offline.places_of(error for file in checked.files for error in file.errors):
            context.out.error(offline.mistake(place))
        for place in offline.places_of(warning for file in checked.files for warning in file.warnings):
            context.out.warning(offline.mistake(place))
    context.answer(checked, validation_lines)
    return Exit.OK if all(file.ok for file in checked.files) else Exit.BAD_CONFIGURATION


def validation_lines(checked: Validation, screen: Screen) -> list[str]:
    lines: list[str] = []
    for file in checked.files:
        name, count = one_line(file.path), len(file.errors)
        wrong = f"{screen.style('wrong', 'red')}  {name}: {count} {'error' if count == 1 else 'errors'}"
        lines.append(wrong if count else f"{screen.style('ok', 'green')}     {name}")
    return lines or ["nothing to check: no .agents, no .workflows, no project file"]


def run_config(context: Context) -> int:
    root = Path(context.project.root)
    found = offline.resolve.resolution(root, Path(context.cwd or root), context.args.asked)
    return context.answer(found, resolution_lines)


def resolution_lines(found: Resolution, screen: Screen) -> list[str]:
    head = f"# {found.kind} {one_line(found.name or found.path or 'no project file: all defaults')}"
    return [head, *_mapping(found.definition, "", found.origins, 0, screen)]


def _mapping(
    values: Mapping[str, Any], where: str, origins: Mapping[str, str], indent: int, screen: Screen
) -> Iterator[str]:
    """Yield the lines of a mapping at the key path ``where``, each value with its origin (file and line)."""
    margin = " " * indent
    for key, value in values.items():
        at = f"{where}.{key}" if where else key
        origin = origins.get(at)
        if origin is not None:
            first, *rest = entry(key, value, indent)
            text = escape(first)
            gap = " " * max(2, _COLUMN - width(text))
            yield f"{text}{gap}{screen.style(f'# {one_line(origin)}', 'dim')}"
            yield from (escape(line) for line in rest)
            continue
        yield f"{margin}{escape(key)}:"
        if isinstance(value, Mapping):
            yield from _mapping(cast("Mapping[str, Any]", value), at, origins, indent + _STEP, screen)
            continue
        for index, item in enumerate(value):  # a list of mappings: the first line of each mapping has the dash
            lines = _mapping(item, f"{at}[{index}]", origins, indent + 2 * _STEP, screen)
            for number, line in enumerate(lines):
                yield line if number else f"{margin}  - {line[indent + 2 * _STEP :]}"


def run_schema(context: Context) -> int:
    if context.args.write:
        context.out.lines(write_schemas(context.project.root))
    if context.args.kind is not None:
        context.out.document(offline.schema.schema_text(context.args.kind))
    elif not context.args.write:
        raise Failure("usage", "KIND is missing: agent, workflow or project", f"see {context.program} schema --help")
    return Exit.OK


def write_schemas(root: str) -> list[str]:
    """Write missing or outdated schemas into the project. Returns the written paths.

    Links are not followed, because the content of a repository is not trusted. Raises Failure.
    """
    written: list[str] = []
    try:
        with open_agents(root, make=True) as agents, agents.folder(_NAME, make=True) as folder:
            for name, text in ((f"{kind}.json", offline.schema.schema_text(kind)) for kind in KINDS):
                with suppress(FileNotFoundError, Unusable):
                    if folder.read(name) == text:
                        continue
                folder.write(name, text)
                written.append(f"{FOLDER}/{name}")
    except OSError as error:
        raise Failure("failed", f"{FOLDER} cannot be written: {error.strerror or error}") from error
    return written


def header(path: str) -> str:
    """Return the schema line of a YAML file at ``path`` (relative to the root); empty if it has no schema."""
    folder, name = os.path.split(path)
    kind = _KIND_OF.get(folder) if name.endswith(".yaml") else None
    if kind is None:
        return ""
    return f"{_MODELINE}{os.path.relpath(f'{FOLDER}/{kind}.json', folder or '.')}\n"


MODELS: Final = {"claude": "sonnet"}
"""Default model by CLI backend: one that users of the CLI usually have access to."""
_SCRIPTED: Final = re.compile(r"^( *)model: mock/.*$", re.MULTILINE)


def run_init(context: Context) -> int:
    """Create the files and print their names, or print the examples. Raises Failure."""
    if context.args.example == LIST:
        for name in NAMES:
            workflow = next((EXAMPLES / name / ".workflows").iterdir())
            with workflow.open(encoding="utf-8") as lines:
                about = lines.readline().lstrip("# ").strip()
            context.out.lines([f"{name:<10} {about}"])
        return Exit.OK
    source = EXAMPLES / context.args.example
    engine = _engine(context.args.backend, context.args.model)
    root = Path(context.project.root)
    made: dict[str, str] = {}
    for file in sorted(path for path in source.rglob("*") if path.is_file()):
        name = file.relative_to(source).as_posix()
        text = header(name) + file.read_text(encoding="utf-8")
        if engine:
            text = _SCRIPTED.sub(lambda found: "\n".join(f"{found[1]}{line}" for line in engine), text)
        made[name] = text
    there = [name for name in made if os.path.lexists(root / name)]
    foreign = [name for name in there if os.lstat(root / name).st_size != len(made[name].encode())]
    if foreign and len(there) < len(made):
        mixed = f"the example {source.name} would mix with other files: {', '.join(foreign)}; nothing was written"
        raise Failure("already_exists", mixed, "create the example in an empty directory, or move these files away")
    for name, text in made.items():
        if _create(str(root), name, text):
            context.out.lines([name])
        else:
            context.out.note(f"note: {name} already exists and was not changed")
    context.out.lines(write_schemas(str(root)))
    return Exit.OK


def _engine(backend: str | None, model: str | None) -> tuple[str, ...]:
    if backend is None:
        if model is None:
            return ()
        raise Failure("usage", "--model requires --backend", "for example: --backend claude --model sonnet")
    chosen = model or MODELS.get(backend)
    if chosen is None:
        raise Failure("usage", f"--model is missing for backend {backend}", "for example: --model provider/name")
    # Without approvals before tool calls, work runs in a sandbox.
    alone = BACKENDS[backend].permission_prompt == "no"
    return (
        f"backend: {backend}",
        f"model: {inline(chosen, flow=False)}",
        *(("approval: auto", "sandbox: on") if alone else ()),
    )


def _create(root: str, path: str, text: str) -> bool:
    """Create a file and its folders, without following links. Returns whether the path was new. Raises Failure."""
    folder, name = os.path.split(path)
    try:
        with SafeDir.within(root, folder, make=True) as place:
            place.write(name, text, new=True)
    except FileExistsError:
        return False
    except OSError as error:
        raise Failure("failed", f"{path} cannot be written: {error.strerror or error}") from error
    return True


def run_adopt(context: Context) -> int:
    root, args = context.project.root, context.args
    plan = Adopter(root).plan(header)
    new = [one for one in plan.files if one.state == "new"]
    if new and not args.yes and not args.json and can_ask(context):
        context.out.notes(adoption_lines(plan, context.out.screen))
        confirm(context, f"write {len(new)} files?", "nothing was written")
    elif new and not args.yes:
        context.out.note("nothing was written: awk adopt --yes writes these files")
        new = []
    new = [one for one in new if _create(root, one.path, one.text)]
    if new:
        write_schemas(root)
        context.out.note("check the files with awk validate, and what they may run with awk trust")
    done = (msgspec.structs.replace(one, state="written") if one in new else one for one in plan.files)
    return context.answer(msgspec.structs.replace(plan, files=tuple(done)), adoption_lines)


def adoption_lines(plan: Adoption, screen: Screen) -> list[str]:
    lines = [one_line(f"found: {', '.join(plan.found) or 'no files of Claude Code, Codex, opencode or Gemini'}")]
    for file in plan.files:
        lines.append(f"{file.state:<7} {screen.style(file.path, 'bold')}  {one_line(', '.join(file.sources))}")
        lines += [f"  | {escape(line)}" for line in file.text.splitlines() if file.state == "new"]
    lines += [] if any(file.state != "kept" for file in plan.files) else ["nothing new to write"]
    lines += ["not adopted:"] if plan.not_adopted else []
    return [*lines, *("  " + one_line(f"{one.source}: {one.reason}") for one in plan.not_adopted)]


def run_doctor(context: Context) -> int:
    kernel = list(kernel_rows(context))
    runs = any(row.detail.startswith("up ") for row in kernel) or is_locked(context.project)
    root, state = offline.paths(context.project)
    shell, now = offline.shell_environment(context.environ), context.clock.wall()
    rows = (*kernel, *offline.doctor.doctor(root, state, shell, now=now, runs=runs).rows)
    context.answer(DoctorReport(rows=rows), doctor_lines)
    return Exit.OK if all(row.ok for row in rows) else Exit.FAILED


def kernel_rows(context: Context) -> Iterator[DoctorRow]:
    """Check the kernel of the project: running, owned, compatible and accepting work."""
    try:
        client = context.find_kernel()
        status = json.loads(client.get("/status"))
    except NotOurKernel as error:
        yield _row(str(error), "end what listens there, or remove the record; then awk start")
        return
    except (Unreachable, Failure) as error:
        reason = reject_reason(context.project)
        if reason is not None:
            yield _row(reason, "chmod 600 it if it is yours; awk start writes another")
        elif recorded_endpoint(context.project) is not None and isinstance(error, Unreachable):
            yield _row("the kernel of the record does not answer: it was killed, or hangs", "awk start")
        elif isinstance(error, Unreachable):
            yield _row("none runs")
        else:
            yield _row(str(error), error.hint or "see awk status")
        return
    found = status["kernel"]
    yield _row(f"up with pid {found['pid']}, version {found['version']}")
    if found["version"] != VERSION:
        yield _row(f"it is version {found['version']}, and this program {VERSION}", "awk restart --kernel")
    if status.get("notice"):
        yield _row(str(status["notice"]), "awk status says more")
    if status.get("needs"):
        yield _row(f"{status['needs']} need you: awk needs")  # a need is no fault of the setup, so no remedy
    with suppress(Unreachable, Failure):  # a kernel of an older version has no nodes
        for node in json.loads(client.get("/nodes"))["nodes"]:
            way_out = {"off": f"{node['why'] or 'it is not tried'}; awk node list", "lost": "awk node list"}
            detail = f"node {node['name']} is {node['state']}"
            yield _row(detail, way_out.get(node["state"]))


def _row(detail: str, fix: str | None = None) -> DoctorRow:
    return DoctorRow(check="kernel", ok=fix is None, detail=detail, fix=fix)


def doctor_lines(report: DoctorReport, screen: Screen) -> list[str]:
    wrong = [row for row in report.rows if not row.ok]
    lines: list[str] = []
    for row in wrong:
        lines += [one_line(f"{row.check}: {row.detail}"), f"  {one_line(str(row.fix))}"]
    right = [[row.check, one_line(row.detail)] for row in report.rows if row.ok]
    return [*lines, *table(["CHECK", "FINE"], right, screen), f"{len(wrong)} wrong" if wrong else "nothing is wrong"]


WORKER_VERBS: Final = Subcommands("worker", (Subcommand("check", "Run a worker program and report protocol errors"),))


def run_worker_check(context: Context) -> int:
    from interface.worker_check import WorkerCheck  # noqa: PLC0415  (threads and http.server, for this alone)

    words: list[str] = [*context.args.command, *context.params]
    command = tuple(shlex.split(words[0])) if len(words) == 1 else tuple(words)
    if not command:
        raise Failure("usage", "CMD is missing", f"{context.program} worker check python3 tools/mine.py")
    root = context.project.root
    program = os.path.join(root, command[0]) if os.sep in command[0] else command[0]
    rows = WorkerCheck((program, *command[1:]), root, context.args.message, context.args.timeout).rows()
    report = WorkerCheckReport(command=command, checks=rows)
    context.answer(report, check_lines)
    return Exit.OK if all(row.ok for row in rows) else Exit.FAILED


def check_lines(found: WorkerCheckReport, screen: Screen) -> list[str]:
    checks = found.checks
    rows = [[row.check, "ok" if row.ok else "FAILED", one_line(row.detail)] for row in checks]
    lines = table(["CHECK", "", "DETAIL"], rows, screen)
    return [*lines, *(f"fix {row.check}: {row.fix}" for row in checks if not row.ok)]


_COMMAND: Final = "worker program and its arguments, as in command:; quote options or put them after --"
_PROGRAM: Final = "program that runs the agents (default: scripted answers without a model)"
_EXAMPLE: Final = f"example to create (default: {DEFAULT}); list: print the examples"
ARGUMENTS: Final[Mapping[str, Arguments]] = {
    "validate": (
        argument("files", metavar="FILE", nargs="*", help="agent, workflow or project files (default: all)"),
        switch("--report", about="warn about workflows that give awk run --report github or sarif no findings"),
        json_flag,
    ),
    "config": (
        argument(
            "asked", metavar="FILE|NAME", nargs="?", help="file, agent, @workflow or agent@workflow (default: project)"
        ),
        json_flag,
    ),
    "schema": (
        argument("kind", choices=KINDS, nargs="?", help="kind of file"),
        switch("--write", about=f"write all schemas to {FOLDER}, which headers of files refer to"),
    ),
    "init": (
        argument("--example", choices=[*NAMES, LIST], default=DEFAULT, help=_EXAMPLE),
        argument("--backend", choices=sorted(name for name in CLIS if BACKENDS[name].binaries), help=_PROGRAM),
        argument("-m", "--model", metavar="MODEL", help="with --backend: model of the agents (claude: sonnet)"),
    ),
    "adopt": (switch("--yes", about="write the files without confirmation"), json_flag),
    "worker check": (
        argument("command", metavar="CMD", nargs="*", help=_COMMAND),
        argument("--message", metavar="TEXT", default=MESSAGE, help=f"message for the worker (default: {MESSAGE})"),
        argument("--timeout", type=duration, metavar="D", default=60.0, help="timeout of each run (default: 60s)"),
    ),
}
