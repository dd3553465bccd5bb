"""``python -I -m kernel.inspect VERB``: one JSON document on stdout. The one place here that sees the real world.

Exit code: 0, 78 where a file is wrong, else that of the refusal; the document then says why.
"""

# ruff: noqa: PLC0415

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kernel.fault_injection import arm
from kernel.source.diagnostics import BadDefinition
from protocol.errors import REFUSALS, Refused
from protocol.inspection import Complaint
from protocol.remote_ref import is_remote
from protocol.text import encode_json, text_environment

if TYPE_CHECKING:
    from kernel.workflows.checkouts import Checkout

Answer = tuple[bytes, int]
_BAD: Final = REFUSALS["bad_definition"].exit_code


def main(words: Sequence[str], environ: Mapping[str, str]) -> Answer:
    """The document that ``words`` ask for, and the exit code."""
    parser = argparse.ArgumentParser(prog="kernel.inspect", allow_abbrev=False)
    verbs = parser.add_subparsers(dest="verb", required=True)
    here = Path.cwd()
    for verb in ("validate", "config", "plan"):
        one = verbs.add_parser(verb)
        one.add_argument("--project", type=Path, default=here, help="the project's root (default: here)")
        one.add_argument("--cwd", type=Path, default=here, help="what paths are relative to (default: here)")
        if verb == "plan":
            one.add_argument("--tag", default="main", help="which instance")
            one.add_argument("--state", type=Path, help="where what is elsewhere is kept once it is fetched")
            one.add_argument("--max-cost", type=float, help="USD that the run may cost")
            one.add_argument("--exit-code-from", help="the agent whose work gives the run's exit code")
            one.add_argument("asked", help="a name, or a path from the project's root")
            one.add_argument("params", nargs="*", help="parameters, after --")
        else:
            if verb == "validate":
                one.add_argument("--state", type=Path, help="where it is kept what is trusted")
            one.add_argument("asked", nargs="*" if verb == "validate" else "?", help="files; of config also a name")
    for verb in ("agents", "agent", "judge", "uses", "solo"):
        one = verbs.add_parser(verb)
        one.add_argument("--project", type=Path, default=here, help="the project's root (default: here)")
        one.add_argument("--new", action="store_true", help="of judge: there must be no such agent")
        if verb != "agents":
            one.add_argument("name", help="of the agent; judge reads its definition from stdin")
    copy = verbs.add_parser("copy-project")
    copy.add_argument("--project", type=Path, default=here, help="the project's root (default: here)")
    copy.add_argument("folder", help="the new folder of the copy")
    copy.add_argument("hidden", help="a folder that is not copied")
    copy.add_argument("--file", default="", help="a file whose text in the copy is read from stdin")
    trust = verbs.add_parser("trust")
    trust.add_argument("--project", type=Path, default=here, help="the project's root (default: here)")
    trust.add_argument("--state", type=Path, help="where what is elsewhere is kept once it is fetched")
    trust.add_argument("asked", nargs="*", help="agents, workflows, or workflow files as seen from the root")
    for verb in ("tools", "skills"):
        one = verbs.add_parser(verb)
        one.add_argument("--project", type=Path, default=here, help="the project's root (default: here)")
    for verb in ("judge-project", "tools-in"):
        verbs.add_parser(verb).add_argument("name", help="of the file, whose text is read from stdin")
    verbs.add_parser("fetch-skills").add_argument("asked", help="github:owner/repo@ref/path")
    _add_state_verbs(verbs.add_parser, here)
    verbs.add_parser("memory-eval")
    growth = verbs.add_parser("memory-growth")
    growth.add_argument("runs", type=int, help="how many")
    growth.add_argument("seed", type=int, help="of what is generated")
    verbs.add_parser("schemas")
    verbs.add_parser("backends")
    for verb in ("schema", "reference"):
        verbs.add_parser(verb).add_argument("kind", choices=("agent", "workflow", "project"), help="which file")
    args = parser.parse_args(words)
    try:
        return run_verb(args, environ)
    except Refused as refused:
        code = refused.meaning.exit_code
        errors = refused.errors if isinstance(refused, BadDefinition) else ()
        complaint = Complaint(code=refused.code, detail=refused.text, hint=refused.hint, exit_code=code, errors=errors)
        return encode_json(complaint), code


OF_STATE: Final = frozenset({"doctor", "backup", "restore", "promote", "standby-check", "df", "needed"})


def _add_state_verbs(add: Callable[[str], argparse.ArgumentParser], here: Path) -> None:
    for verb in sorted(OF_STATE - {"standby-check"}):
        one = add(verb)
        one.add_argument("--project", type=Path, default=here, help="the project's root (default: here)")
        one.add_argument("--state", type=Path, required=True, help="the project's directory of state")
        if verb == "doctor":
            one.add_argument("--runs", action="store_true", help="a kernel is up: its database is left alone")
        elif verb == "df":
            one.add_argument("runs", type=int, help="so many are told at most")
        elif verb != "needed":
            one.add_argument("--force", action="store_true", help="replace, or set aside, what is there")
            one.add_argument("--trust", action="store_true", help="keep consents and commands of a restored database")
            one.add_argument("file", help="of the backup, or the folder of a standby")
    add("standby-check").add_argument("folder", help="of the standby")


def run_verb(args: argparse.Namespace, environ: Mapping[str, str]) -> Answer:  # noqa: C901, PLR0912, PLR0915  (a case for each verb)
    """The document of the verb and the exit code. Each verb pays for its own imports. Raises Refused, BadDefinition."""
    code = 0
    document: object
    match args.verb:
        case "validate":
            from kernel.agents.trust import TrustStore
            from kernel.inspect.validate import validate

            trusted = environ.get("AGENT_WORKER_TRUST") == "1"
            grants = None if args.state is None or trusted else TrustStore(args.state, str(args.project))
            validation = validate(args.project, args.cwd, args.asked, environ, grants)
            document, code = validation, 0 if all(file.ok for file in validation.files) else _BAD
        case "config":
            from kernel.inspect.resolve import resolution

            document = resolution(args.project, args.cwd, args.asked)
        case "plan":
            from kernel.inspect.dry_run import dry_run

            checkout = _fetched(args, environ, args.asked)
            document = dry_run(
                args.project, args.asked, args.tag, args.params, environ, checkout,
                max_usd=args.max_cost, exit_from=args.exit_code_from,
            )  # fmt: skip
        case "agents":
            from kernel.inspect.agents import agent_list

            document = agent_list(args.project)
        case "agent":
            from kernel.inspect.agents import agent_info

            document = agent_info(args.project, args.name, environ)
        case "judge":
            from kernel.inspect.agents import check_agent_text

            document = check_agent_text(args.project, args.name, sys.stdin.buffer.read(), new=args.new)
            code = 0 if document.files[0].ok else _BAD
        case "uses" | "solo":
            from kernel.inspect import agents, solo

            document = (agents.workflows_using if args.verb == "uses" else solo.solo_workflow)(args.project, args.name)
        case "copy-project":
            from kernel.inspect.project_copy import copy_project

            text = sys.stdin.buffer.read().decode() if args.file else ""
            document = copy_project(args.project, args.folder, args.hidden, environ, file=args.file, text=text)
        case "tools" | "skills":
            from kernel.inspect.tools import skill_list, tool_list

            document = (tool_list if args.verb == "tools" else skill_list)(args.project)
        case "judge-project":
            from kernel.inspect.tools import check_project_text

            checked = check_project_text(args.name, sys.stdin.buffer.read())
            document, code = checked, 0 if checked.files[0].ok else _BAD
        case "tools-in":
            from kernel.inspect.tools import tools_in

            document = tools_in(args.name, sys.stdin.buffer.read())
        case "fetch-skills":
            from kernel.inspect.fetch import fetch_skills

            document = fetch_skills(args.asked, environ)
        case "schema" | "reference":
            from kernel.inspect.reference import reference_page
            from kernel.inspect.schema import schema_text

            return (schema_text if args.verb == "schema" else reference_page)(args.kind).encode(), 0
        case "schemas":
            from kernel.inspect.schema import schema_texts

            document = schema_texts()
        case "trust":
            from kernel.inspect.trust import trust_demands

            document = trust_demands(args.project, args.asked, partial(_fetched, args, environ), args.state)
        case verb if verb in OF_STATE:
            document = run_state_verb(args, environ)
        case "memory-eval" | "memory-growth":
            from kernel.inspect import memory_eval, memory_growth

            if args.verb == "memory-growth":
                document = memory_growth.memory_growth(args.runs, args.seed)
            else:
                document = memory_eval.memory_eval(sys.stdin.buffer.read())
        case "backends":
            from kernel.inspect.backends import backends

            document = backends(environ)
        case verb:
            raise AssertionError(f"argparse knows no verb {verb}")
    return encode_json(document), code


def run_state_verb(args: argparse.Namespace, environ: Mapping[str, str]) -> object:
    """The document of a verb about a project's state. Raises Refused."""
    document: object
    match args.verb:
        case "doctor":
            from kernel.inspect.doctor import doctor

            document = doctor(args.project, args.state, environ, now=time.time(), runs=args.runs)
        case "backup" | "restore":
            from kernel.inspect.backup import backup, restore

            act = backup if args.verb == "backup" else partial(restore, trusted=args.trust)
            document = act(args.project, args.state, args.file, now=time.time(), force=args.force)
        case "promote":
            from kernel.inspect.standby import promote

            document = promote(
                args.project, args.state, args.file, now=time.time(), force=args.force, trusted=args.trust
            )
        case "standby-check":
            from kernel.inspect.standby import check_standby

            document = check_standby(args.folder, now=time.time())
        case "df" | "needed":
            from kernel.inspect import disk_usage, needed

            look = partial(disk_usage.disk_usage, runs=args.runs) if args.verb == "df" else needed.needed_kernel
            document = look(args.project, args.state)
        case verb:
            raise AssertionError(f"{verb} is not about the state")
    return document


def _fetched(args: argparse.Namespace, environ: Mapping[str, str], asked: str) -> "Checkout | None":
    if not is_remote(asked):
        return None
    from kernel.inspect.fetch import fetch_readonly

    return fetch_readonly(args.project, args.state, asked, environ)


if __name__ == "__main__":
    arm(os.environ)
    document, exit_code = main(sys.argv[1:], text_environment(os.environ)[0])
    sys.stdout.buffer.write(document + b"\n" * (not document.endswith(b"\n")))
    sys.stdout.buffer.flush()
    sys.stderr.flush()
    os._exit(exit_code)  # to take apart what was imported would take as long as most answers
