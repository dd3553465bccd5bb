"""``awk rule``: what follows from what in a workflow, as its file, its agents and the user say it.

A rule is named by its name and its workflow: ``awk rule show fix-after-review @review``. A file of rules is YAML: one
rule, a list of them, or a workflow's ``rules:``.
"""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from interface.cli.command_parser import Subcommand, Subcommands, generated
from interface.cli.context import Context
from interface.cli.output import Screen, decode, one_line, table
from interface.cli.targets import workflow_target
from interface.client import new_key, quoted
from interface.failure import Failure

if TYPE_CHECKING:
    from protocol.rules import RuleSpec

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


def configure_rule(parser: argparse.ArgumentParser) -> None:
    VERBS.configure(parser)


def run_rule(context: Context) -> int:
    return VERBS.run(context)


def _workflow_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar="@WORKFLOW[:TAG]", help="its latest run")


def _path(context: Context) -> str:
    return f"/spaces/{quoted(workflow_target(context.args.target).space)}/rules"


def rules_lines(body: bytes, screen: Screen) -> list[str]:
    """One line for each: whose it is, what it waits for, and how often it was done."""
    from protocol.rules import RuleList  # noqa: PLC0415  (JSON needs no types)

    listed = decode(body, RuleList)
    rows = [
        [
            one.name,
            f"v{one.version}",
            one.author,
            "on" if one.enabled else "off",
            _waits_for(one.rule),
            str(one.fired),
        ]
        for one in listed.rules
    ]
    rows += [
        [one.name, one.package, "installed", one.state, ",".join(one.kinds) or one.why, str(one.fired)]
        for one in listed.installed
    ]
    return (
        table(["NAME", "VERSION", "AUTHOR", "STATE", "WHEN", "DONE"], rows, screen) if rows else ["there are no rules"]
    )


def _waits_for(rule: "RuleSpec") -> str:
    when = rule.when
    kind = None if when is None else next((name for name in when.__struct_fields__ if getattr(when, name)), None)
    return "invoked" if kind is None else kind


def rule_lines(body: bytes, screen: Screen) -> list[str]:
    """One rule: its author, how often it was done, and its text, as JSON with a key on a line."""
    import msgspec  # noqa: PLC0415  (not every command needs it)

    from protocol.rules import RuleInfo  # noqa: PLC0415  (JSON needs no types)

    one = decode(body, RuleInfo)
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


def _changed_lines(body: bytes, _screen: Screen) -> list[str]:
    return [
        one_line(f"{row['name']}: version {row['version']}, {'on' if row['enabled'] else 'off'}")
        for row in json.loads(body)["rules"]
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


def trial_lines(body: bytes, screen: Screen) -> list[str]:
    """A line for each message that would have set it off, and below it what it would have done."""
    from protocol.rules import RuleTrial  # noqa: PLC0415  (JSON needs no types)

    trial = decode(body, RuleTrial)
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
    import msgspec  # noqa: PLC0415  (not every command needs it)

    from protocol.rules import RuleSpec  # noqa: PLC0415  (JSON needs no types)
    from protocol.yaml_reading import NotYaml, read  # noqa: PLC0415  (YAML takes its time)

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
