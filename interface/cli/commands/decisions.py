"""``awk proposal`` and ``rule``: votes of agents, and the rules that files and members define."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from interface.cli.command_parser import Subcommand, Subcommands, generated
from interface.cli.context import Context
from interface.cli.output import Screen, decode, escape, one_line, table
from interface.cli.parsing import WORKFLOW, Arguments, archive_flag, argument, switch
from interface.cli.requests import PROPOSALS, PROPOSALS_OF_RUN, act, count_flag, show_list
from interface.cli.targets import target as any_target
from interface.cli.targets import typed_name, workflow_target
from interface.client import Client, new_key, quoted
from interface.failure import Failure
from protocol.rules import RuleInfo, RuleList, RuleSpec, RuleTrial
from protocol.target import Target, TargetRejected, parse_target
from protocol.voting import BallotInfo, ProposalList
from protocol.yaml_edit import NotYaml, read

_LOOKS: Final = "use a name such as release or release@review[:tag]; list proposals: awk proposal list"
_SHOWN: Final = 8
_CUT: Final = 40
"""Maximum number of characters of an invalid name that an error repeats."""

PROPOSAL_VERBS: Final = Subcommands(
    "proposal",
    (
        Subcommand("list", "List open proposals, or all proposals of one workflow"),
        Subcommand("show", "Show a proposal, its votes and its result"),
        Subcommand("vote", "Vote on a proposal; a vote is final"),
        Subcommand("cancel", "Cancel a proposal: its vote ends without a result"),
    ),
)
_NAMED: Final = "id of the proposal, with its workflow if ambiguous (release@review)"
_PROPOSAL: Final = argument("id", metavar="PROPOSAL", help=_NAMED)
_REASON: Final = argument("--reason", metavar="TEXT", default="", help="reason, visible to the members")
_LISTED: Final = "workflow whose latest run is listed (default: open proposals of all workflows)"
ARGUMENTS: Final[Mapping[str, Arguments]] = {
    "proposal list": (
        argument("target", metavar="@WORKFLOW[:TAG]", nargs="?", help=_LISTED),
        switch("--all", about="include closed proposals if no workflow is given"),
        count_flag,
        archive_flag,
    ),
    "proposal show": (argument("shown", metavar="PROPOSAL", help=_NAMED), archive_flag),
    "proposal vote": (_PROPOSAL, argument("choice", metavar="CHOICE", help="id of an option, or yes or no"), _REASON),
    "proposal cancel": (_PROPOSAL, _REASON),
    "rule add": (
        argument("file", metavar="FILE", help="YAML file with one rule, a list of rules, or the key rules:"),
        WORKFLOW,
    ),
    "rule rm": (argument("name", metavar="RULE", help="name of the rule"), WORKFLOW),
    "rule test": (
        argument("rule", metavar="RULE|FILE", help="file with one rule, or the name of a rule of the run"),
        argument("--run", metavar="RUN", required=True, help="run whose messages are tested"),
    ),
}


def run_proposal_list(context: Context) -> int:
    target: str | None = context.args.target
    if target is not None and context.args.all:
        raise Failure("usage", "--all and a workflow cannot be combined")
    if target is None:
        query = {} if context.args.all else {"state": "open"}
        return show_list(context, "/proposals", PROPOSALS, proposals_lines, query)
    path = f"/spaces/{quoted(workflow_target(target).space)}/proposals"
    return show_list(context, path, PROPOSALS_OF_RUN, proposals_lines)


def proposals_lines(found: ProposalList, screen: Screen) -> list[str]:
    rows: list[list[str]] = []
    for one in found.proposals:
        voted = f"{len(one.electors) - len(one.missing)}/{len(one.electors)}"
        rows.append([typed_name(one.id, one.space), kind_of(one), voted, outcome(one), one.title])
    return table(["ID", "TYPE", "VOTES", "STATE", "TITLE"], rows, screen) if rows else ["no proposals"]


def run_proposal_show(context: Context) -> int:
    named = parsed(context.args.shown)
    client = context.kernel()
    return context.answer(client.get(path_of(client, named)), proposal_lines)


_WHYS: Final[Mapping[str | None, str]] = {
    "quorum": "enough have voted",
    "settled": "more votes would change nothing",
    "creator": "its creator broke the tie",
    "deadline": "its time was up",
}
_TIES: Final[Mapping[str | None, str]] = {
    "first": "the first of them wins",
    "random": "it was decided by lot",
    "creator-decides": "its creator decided",
}
_RULES: Final = {
    "plurality": "the most votes win",
    "majority": "more than half of the votes win",
    "unanimous": "all votes have to be equal",
}


def proposal_lines(one: BallotInfo, screen: Screen) -> list[str]:
    lines = [screen.style(one_line(f"{typed_name(one.id, one.space)}: {one.title}"), "bold")]
    terms = one.resolution
    if one.type == "assignment":
        rule = f"each option gets those who choose it, quorum {terms.quorum} of {len(one.electors)}"
    else:
        tie = f", a tie: {terms.tie_breaker}" if terms.tie_breaker else ""
        rule = f"{_RULES[terms.type]}, quorum {terms.quorum} of {len(one.electors)}{tie}"
    lines.append(one_line(f"{kind_of(one)} by {one.creator}, {one.created_at}; {rule}"))
    lines += escape(one.description).strip("\n").split("\n") if one.description.strip() else []
    for option in one.options:
        count = one.counts.get(option.id, 0)
        votes = "vote" if count == 1 else "votes"
        label = "" if option.label.lower() in ("", option.id.lower()) else f" ({option.label})"
        more = f" {json.dumps(option.metadata, ensure_ascii=False)}" if option.metadata else ""
        lines.append(f"  {one_line(f'{option.id}: {count} {votes}{label}{more}')}")
    for vote in one.votes:
        reason = f": {vote.reason}" if vote.reason else ""
        lines.append(f"  {one_line(f'{vote.voter} voted {vote.choice}{reason}')}")
    if one.state == "open":
        missing = f"; not yet: {', '.join(one.missing)}" if one.missing else ""
        return [*lines, one_line(f"{outcome(one)}{missing}")]
    # After a tie, the line also contains the reason for the winning option.
    most = [option for option, count in one.counts.items() if count == one.counts.get(one.winner or "")]
    tie = f"; a tie: {_TIES[terms.tie_breaker]}" if len(most) > 1 and one.why != "creator" else ""
    why = f" ({_WHYS[one.why]}{tie})" if one.why in _WHYS else ""
    by = f" by {one.ended_by}" if one.ended_by else ""
    reason = f": {one.reason}" if one.reason else ""
    lines.append(one_line(f"{outcome(one)}{by}, {one.ended_at}{why}{reason}"))
    lines += [one_line(f"{option}: {', '.join(names) or 'no agent'}") for option, names in one.assigned.items()]
    return [*lines, one_line(f"did not vote: {', '.join(one.missing)}")] if one.missing else lines


def kind_of(one: BallotInfo) -> str:
    return f"binding {one.type}" if one.binding else one.type


def outcome(one: BallotInfo) -> str:
    match one.state:
        case "open" if one.tied:
            return f"tied: {one.creator} chooses of {', '.join(one.tied)}"
        case "open":
            return f"open until {one.expires_at}"
        case "resolved" if one.assigned:
            return "assigned"
        case "resolved":
            return "no winner" if one.winner is None else f"{one.winner} won"
        case _:
            return one.state


def run_proposal_vote(context: Context) -> int:
    body = {"choice": context.args.choice, "reason": context.args.reason}
    return act_on_proposal(context, "vote", body, f"you voted {context.args.choice}; ")


def run_proposal_cancel(context: Context) -> int:
    return act_on_proposal(context, "cancel", {"reason": context.args.reason})


def act_on_proposal(context: Context, what: str, body: Mapping[str, object], done: str = "") -> int:
    """Post ``what`` (vote, cancel) to the named proposal, and print ``done`` with the resulting state."""

    def lines(document: bytes, _screen: Screen) -> list[str]:
        one = decode(document, BallotInfo)
        return [one_line(f"{typed_name(one.id, one.space)}: {done}{outcome(one)}")]

    named = parsed(context.args.id)
    client = context.kernel()
    return act(context, f"{path_of(client, named)}/{what}", (), lines, body, client=client)


def parsed(text: str) -> Target:
    """Parse the name of a proposal. Raises Failure (usage)."""
    try:
        found = parse_target(text)
    except TargetRejected as error:
        raise Failure("usage", f"{text[:_CUT]!r} is not a proposal", _LOOKS) from error
    if found.agent is None:
        raise Failure("usage", f"{text[:_CUT]!r} is a workflow, not a proposal", _LOOKS)
    return found


def path_of(client: Client, named: Target) -> str:
    """Return the path of a proposal; search all workflows if its name has none. Raises Failure."""
    name = str(named.agent)
    if named.workflow is not None:
        return f"/spaces/{quoted(named.space)}/proposals/{quoted(name)}"
    rows: list[dict[str, Any]] = json.loads(client.get("/proposals"))["proposals"]
    same = [row for row in rows if row["id"] == name]
    found = [row for row in same if row["state"] == "open"] or same
    spaces = list(dict.fromkeys(str(row["space"]) for row in found))
    if not spaces:
        known = {str(row["id"]): str(row["space"]) for row in reversed(rows)}
        import difflib  # noqa: PLC0415  (only a slip needs it)

        close = difflib.get_close_matches(name, known, n=1)
        raise Failure(
            "not_found",
            f"proposal {name[:_CUT]!r} not found",
            f"did you mean {typed_name(close[0], known[close[0]])}?" if close else "list proposals: awk proposal list",
        )
    if len(spaces) > 1:
        which = ", ".join(typed_name(name, space) for space in spaces[:_SHOWN])
        raise Failure("usage", f"{len(spaces)} workflows have a proposal {name[:_CUT]!r}", f"name one: {which}")
    return f"/spaces/{quoted(spaces[0])}/proposals/{quoted(name)}"


RULE_VERBS: Final = Subcommands(
    "rule",
    (
        *generated("rule"),
        Subcommand("add", "Add or replace rules from a file"),
        Subcommand("rm", "Disable a rule without deleting it"),
        Subcommand("test", "Print the effects that a rule would have had on a run"),
    ),
)


def _path(context: Context) -> str:
    return f"/spaces/{quoted(any_target(context.args.target).space)}/rules"


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
    rows += [[one.name, "", "kernel", "on", ",".join(one.kinds), ""] for one in listed.core]
    return table(["NAME", "VERSION", "AUTHOR", "STATE", "WHEN", "DONE"], rows, screen) if rows else ["no rules"]


def rule_lines(one: RuleInfo, screen: Screen) -> list[str]:
    said = msgspec.to_builtins(one.rule)
    fired = f"{one.fired} times, last {one.fired_at}" if one.fired_at else "never"
    return [
        screen.style(one_line(f"{one.name}, version {one.version} by {one.author}, {one.defined_at}"), "bold"),
        one_line(f"state: {'on' if one.enabled else 'off'}"),
        one_line(f"done: {fired}"),
        *(one_line(f"{key}: {json.dumps(value, ensure_ascii=False)}") for key, value in said.items() if key != "name"),
    ]


def run_rule_add(context: Context) -> int:
    wanted = rules_of(context.args.file)
    client, path = context.kernel(), _path(context)
    made = [json.loads(client.post(path, {"rule": rule}, key=new_key())) for rule in wanted]
    return context.answer(_document(made), _changed_lines)


def run_rule_rm(context: Context) -> int:
    body = context.kernel().delete(f"{_path(context)}/{quoted(context.args.name)}")
    return context.answer(_document([json.loads(body)]), _changed_lines)


def _document(rows: list[dict[str, Any]]) -> bytes:
    return json.dumps({"schema": "awk/rules/1", "rules": rows}, ensure_ascii=False).encode()


def _changed_lines(told: dict[str, Any], _screen: Screen) -> list[str]:
    return [
        one_line(f"{row['name']}: version {row['version']}, {'on' if row['enabled'] else 'off'}")
        for row in told["rules"]
    ]


def run_rule_test(context: Context) -> int:
    asked = context.args.rule
    body: dict[str, Any] = {"name": asked}
    if Path(asked).is_file() or "/" in asked or asked.endswith((".yaml", ".yml")):
        found = rules_of(asked)
        if len(found) != 1:
            raise Failure("usage", f"{asked} has {len(found)} rules, but only one can be tested at a time")
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
    """Parse the rules in ``file``. Raises Failure."""

    try:
        data = read(Path(file).read_text("utf-8"))
    except (OSError, UnicodeDecodeError, NotYaml) as error:
        raise Failure("usage", f"{file}: {error}") from error
    found = data.get("rules") if isinstance(data, dict) and "rules" in data else data
    listed = found if isinstance(found, list) else [found]
    if not listed:
        raise Failure("usage", f"{file} contains no rules")
    try:
        # All scalars were read as texts: convert each to the type of its field.
        return [msgspec.to_builtins(msgspec.convert(one, RuleSpec, strict=False)) for one in listed]
    except msgspec.ValidationError as error:
        hint = "a rule requires name:, when: and then:; see docs/how-to/work-together/define-rules.md"
        raise Failure("usage", f"{file}: {_in_words(str(error))}", hint) from error


_KINDS: Final = {"object": "keys", "array": "a list", "str": "a text", "int": "a whole number", "bool": "true or false"}


def _in_words(fault: str) -> str:
    told, _, place = fault.partition(" - at `$.")
    told = told.replace("Object contains unknown field", "unknown key").replace("Object missing required", "missing")
    told = re.sub(r"`(\w+)( \| null)?`", lambda kind: _KINDS.get(kind[1], f"{kind[1]}:"), told).replace("field", "key")
    return f"{place[:-1]}: {told.replace('Expected', 'expected')}" if place else told
