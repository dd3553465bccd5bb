"""``python -I -m kernel.inspect VERB``: one JSON document on stdout. The one place here that sees the real world.

Exit code: 0, 78 where a file is wrong, else that of the refusal; the document then says why.
"""

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

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
    for verb in ("agents", "agent", "judge", "uses"):
        one = verbs.add_parser(verb)
        one.add_argument("--project", type=Path, default=here, help="the project's root (default: here)")
        one.add_argument("--new", action="store_true", help="of judge: there must be no such agent")
        if verb != "agents":
            one.add_argument("name", help="of the agent; judge reads its definition from stdin")
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
    verbs.add_parser("schemas")
    verbs.add_parser("backends")
    for verb in ("schema", "reference"):
        verbs.add_parser(verb).add_argument("kind", choices=("agent", "workflow", "project"), help="which file")
    args = parser.parse_args(words)
    try:
        answer: Answer = _VERBS[args.verb](args, environ)
    except Refused as refused:
        code = refused.meaning.exit_code
        errors = refused.errors if isinstance(refused, BadDefinition) else ()
        complaint = Complaint(code=refused.code, detail=refused.text, hint=refused.hint, exit_code=code, errors=errors)
        return encode_json(complaint), code
    return answer


def _validate(args: argparse.Namespace, environ: Mapping[str, str]) -> Answer:
    from kernel.agents.trust import TrustStore  # noqa: PLC0415  (each verb pays for its own imports)
    from kernel.inspect.validate import validate  # noqa: PLC0415  (as above)

    trusted = environ.get("AGENT_WORKER_TRUST") == "1"
    kept = None if args.state is None or trusted else TrustStore(args.state, str(args.project))
    found = validate(args.project, args.cwd, args.asked, environ, kept)
    return encode_json(found), 0 if all(file.ok for file in found.files) else _BAD


def _config(args: argparse.Namespace, environ: Mapping[str, str]) -> Answer:
    from kernel.inspect.resolve import resolution  # noqa: PLC0415  (as above)

    return encode_json(resolution(args.project, args.cwd, args.asked)), 0


def _plan(args: argparse.Namespace, environ: Mapping[str, str]) -> Answer:
    from kernel.inspect.dry_run import dry_run  # noqa: PLC0415  (as above)

    checkout = _fetched(args, environ, args.asked)
    found = dry_run(
        args.project, args.asked, args.tag, args.params, environ, checkout,
        max_usd=args.max_cost, exit_from=args.exit_code_from,
    )  # fmt: skip
    return encode_json(found), 0


def _agents(args: argparse.Namespace, environ: Mapping[str, str]) -> Answer:
    from kernel.inspect.agents import agent_list  # noqa: PLC0415  (as above)

    return encode_json(agent_list(args.project)), 0


def _agent(args: argparse.Namespace, environ: Mapping[str, str]) -> Answer:
    from kernel.inspect.agents import agent_info  # noqa: PLC0415  (as above)

    return encode_json(agent_info(args.project, args.name, environ)), 0


def _judge(args: argparse.Namespace, environ: Mapping[str, str]) -> Answer:
    from kernel.inspect.agents import check_agent_text  # noqa: PLC0415  (as above)

    found = check_agent_text(args.project, args.name, sys.stdin.buffer.read(), new=args.new)
    return encode_json(found), 0 if found.files[0].ok else _BAD


def _uses(args: argparse.Namespace, environ: Mapping[str, str]) -> Answer:
    from kernel.inspect.agents import workflows_using  # noqa: PLC0415  (as above)

    return encode_json(workflows_using(args.project, args.name)), 0


def _tools(args: argparse.Namespace, environ: Mapping[str, str]) -> Answer:
    from kernel.inspect.tools import tool_list  # noqa: PLC0415  (as above)

    return encode_json(tool_list(args.project)), 0


def _judge_project(args: argparse.Namespace, environ: Mapping[str, str]) -> Answer:
    from kernel.inspect.tools import check_project_text  # noqa: PLC0415  (as above)

    found = check_project_text(args.name, sys.stdin.buffer.read())
    return encode_json(found), 0 if found.files[0].ok else _BAD


def _tools_in(args: argparse.Namespace, environ: Mapping[str, str]) -> Answer:
    from kernel.inspect.tools import tools_in  # noqa: PLC0415  (as above)

    return encode_json(tools_in(args.name, sys.stdin.buffer.read())), 0


def _skills(args: argparse.Namespace, environ: Mapping[str, str]) -> Answer:
    from kernel.inspect.skills import skill_list  # noqa: PLC0415  (as above)

    return encode_json(skill_list(args.project)), 0


def _fetch_skills(args: argparse.Namespace, environ: Mapping[str, str]) -> Answer:
    from kernel.inspect.fetch_skills import fetch_skills  # noqa: PLC0415  (as above)

    return encode_json(fetch_skills(args.asked, environ)), 0


def _schema(args: argparse.Namespace, environ: Mapping[str, str]) -> Answer:
    from kernel.inspect.schema import schema_text  # noqa: PLC0415  (as above)

    return schema_text(args.kind).encode(), 0


def _schemas(args: argparse.Namespace, environ: Mapping[str, str]) -> Answer:
    from kernel.inspect.schema import schema_texts  # noqa: PLC0415  (as above)

    return encode_json(schema_texts()), 0


def _reference(args: argparse.Namespace, environ: Mapping[str, str]) -> Answer:
    from kernel.inspect.reference import reference_page  # noqa: PLC0415  (as above)

    return reference_page(args.kind).encode(), 0


def _trust(args: argparse.Namespace, environ: Mapping[str, str]) -> Answer:
    from kernel.inspect.trust import trust_demands  # noqa: PLC0415  (as above)

    return encode_json(trust_demands(args.project, args.asked, partial(_fetched, args, environ))), 0


def _backends(args: argparse.Namespace, environ: Mapping[str, str]) -> Answer:
    from kernel.inspect.backends import backends  # noqa: PLC0415  (as above)

    return encode_json(backends(environ)), 0


def _fetched(args: argparse.Namespace, environ: Mapping[str, str], asked: str) -> "Checkout | None":
    if not is_remote(asked):
        return None
    from kernel.inspect.fetch_readonly import fetch_readonly  # noqa: PLC0415  (as above)

    return fetch_readonly(args.project, args.state, asked, environ)


_VERBS: Final[Mapping[str, Callable[[argparse.Namespace, Mapping[str, str]], Answer]]] = {
    "validate": _validate,
    "config": _config,
    "plan": _plan,
    "agents": _agents,
    "agent": _agent,
    "judge": _judge,
    "uses": _uses,
    "tools": _tools,
    "judge-project": _judge_project,
    "tools-in": _tools_in,
    "skills": _skills,
    "fetch-skills": _fetch_skills,
    "schema": _schema,
    "schemas": _schemas,
    "reference": _reference,
    "trust": _trust,
    "backends": _backends,
}

if __name__ == "__main__":
    document, exit_code = main(sys.argv[1:], text_environment(os.environ)[0])
    sys.stdout.buffer.write(document + b"\n" * (not document.endswith(b"\n")))
    sys.stdout.buffer.flush()
    sys.exit(exit_code)
