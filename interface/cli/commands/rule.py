"""``awk rule``: what follows from what in a workflow, as its file, its agents and the user say it.

A rule is named by its name and its workflow: ``awk rule show fix-after-review @review``. A file of rules is YAML: one
rule, a list of them, or a workflow's ``rules:``.
"""

import argparse
import json
from pathlib import Path
from typing import Any, Final

import msgspec

from interface.cli.command_parser import Subcommand, Subcommands, generated
from interface.cli.context import Context
from interface.cli.output import Screen, one_line, table
from interface.cli.targets import workflow_target
from interface.client import new_key, quoted
from interface.failure import Failure
from protocol.rules import RuleInfo, RuleList, RuleSpec, RuleTrial
from protocol.yaml_reading import NotYaml, read

VERBS: Final = Subcommands(
    "rule",
    (
        generated("rule list"),
        generated("rule show"),
        Subcommand("add", "define the rules of a file, or define them anew"),
        Subcommand("rm", "switch rules off; they are kept, and do nothing"),
        Subcommand("test", "say what a rule would have done in a run; nothing is done"),
    ),
)


def _workflow_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar="@WORKFLOW[:TAG]", help="its latest run")


def _path(context: Context) -> str:
    return f"/spaces/{quoted(workflow_target(context.args.target).space)}/rules"


def rules_lines(listed: RuleList, screen: Screen) -> list[str]:
    rows = [
        [
            one.name,
            f"v{one.version}",
            one.author,
            "on" if one.enabled else "off",
            next((name for name in when.__struct_fields__ if getattr(when, name)), "invoked") if when else "invoked",
            str(one.fired),
        ]
        for one in listed.rules
        for when in (one.rule.when,)
    ]
    rows += [
        [one.name, one.package, "installed", one.state, ",".join(one.kinds) or one.why, str(one.fired)]
        for one in listed.installed
    ]
    return (
        table(["NAME", "VERSION", "AUTHOR", "STATE", "WHEN", "DONE"], rows, screen) if rows else ["there are no rules"]
    )


def rule_lines(one: RuleInfo, screen: Screen) -> list[str]:
    said = msgspec.to_builtins(one.rule)
    fired = f"{one.fired} times, last {one.fired_at}" if one.fired_at else "never"
    return [
        screen.style(one_line(f"{one.name}, version {one.version} by {one.author}, {one.defined_at}"), "bold"),
        one_line(f"state: {'on' if one.enabled else 'off'}"),
        one_line(f"done: {fired}"),
        *(one_line(f"{key}: {json.dumps(value, ensure_ascii=False)}") for key, value in said.items() if key != "name"),
    ]


def configure_add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="YAML: one rule, a list of them, or rules: with a list")
    _workflow_argument(parser)


def run_add(context: Context) -> int:
    wanted = rules_of(context.args.file)
    client, path = context.kernel(), _path(context)
    made = [json.loads(client.post(path, {"rule": rule}, key=new_key())) for rule in wanted]
    return context.answer(_document(made), _changed_lines)


def configure_rm(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="RULE", help="its name")
    _workflow_argument(parser)


def run_rm(context: Context) -> int:
    body = context.kernel().delete(f"{_path(context)}/{quoted(context.args.name)}")
    return context.answer(_document([json.loads(body)]), _changed_lines)


def _document(rows: list[dict[str, Any]]) -> bytes:
    return json.dumps({"schema": "awk/rules/1", "rules": rows}, ensure_ascii=False).encode()


def _changed_lines(told: dict[str, Any], _screen: Screen) -> list[str]:
    return [
        one_line(f"{row['name']}: version {row['version']}, {'on' if row['enabled'] else 'off'}")
        for row in told["rules"]
    ]


def configure_test(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("rule", metavar="RULE|FILE", help="a file with one rule, or the name of one of the run's")
    parser.add_argument("--run", metavar="RUN", required=True, help="whose messages are looked at")


def run_test(context: Context) -> int:
    asked = context.args.rule
    body: dict[str, Any] = {"name": asked}
    if Path(asked).is_file() or "/" in asked or asked.endswith((".yaml", ".yml")):
        found = rules_of(asked)
        if len(found) != 1:
            raise Failure("usage", f"{asked} has {len(found)} rules, and one is tested at a time")
        body = {"rule": found[0]}
    answer = context.kernel().post(f"/runs/{quoted(context.args.run)}/rules/test", body, key=new_key())
    return context.answer(answer, trial_lines)


def trial_lines(trial: RuleTrial, screen: Screen) -> list[str]:
    lines: list[str] = []
    for one in trial.firings:
        lines.append(screen.style(one_line(f"m{one.seq} {one.kind} from {one.sender}: {one.text}"), "bold"))
        lines += ["  " + one_line(f"would {would}") for would in one.would]
    if trial.total > len(trial.firings):
        lines.append(f"… and {trial.total - len(trial.firings)} more messages")
    lines.append(one_line(f"{trial.rule}: set off by {trial.total} of {trial.messages} messages; nothing was done"))
    return lines


def rules_of(file: str) -> list[dict[str, Any]]:
    """The rules in ``file``, as JSON has them. Raises Failure."""

    try:
        data = read(Path(file).read_text("utf-8"))
    except (OSError, UnicodeDecodeError, NotYaml) as error:
        raise Failure("usage", f"{file}: {error}") from error
    found = data.get("rules") if isinstance(data, dict) and "rules" in data else data
    listed = found if isinstance(found, list) else [found]
    if not listed:
        raise Failure("usage", f"{file} has no rules")
    try:
        # Every scalar is a text by now: it is read as what its place wants.
        return [msgspec.to_builtins(msgspec.convert(one, RuleSpec, strict=False)) for one in listed]
    except msgspec.ValidationError as error:
        raise Failure("usage", f"{file}: {error}", "a rule has name:, when: and then:; see docs/rules.md") from error
