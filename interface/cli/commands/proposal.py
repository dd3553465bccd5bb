"""``awk proposal``: what agents put to the vote, and your say in it.

``awk proposal cancel``: nobody votes on it any more, and nobody wins.

``awk proposal list``: what is put to the vote now; of one workflow, what was as well.

``awk proposal show``: what is voted on, who voted how, and what came of it.

``awk proposal vote``: the user's own vote, which counts beside those of the members.

One proposal: what is voted on, who voted how, and what came of it.

A proposal that was voted on, or called off, just now.

What is put to the vote, or was: one line each.
"""

import argparse
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from interface.cli.context import Context
from interface.cli.output import Screen, escape, one_line, table
from interface.cli.paging import PROPOSALS, PROPOSALS_OF_RUN, count_flag, show_list
from interface.cli.proposal_name import change, full_name, parsed, path_of, proposal_argument
from interface.cli.subcommands import Subcommand, Subcommands
from interface.cli.targets import workflow_target
from interface.client import quoted
from interface.failure import Failure
from protocol.voting import BallotInfo, Option, ProposalList, Resolution, TieBreaker, Vote, Why

VERBS: Final = Subcommands(
    "proposal",
    (
        Subcommand("list", "list what is put to the vote, or was in one workflow"),
        Subcommand("show", "show one proposal, its votes and what came of it"),
        Subcommand("vote", "vote yourself; a vote is final"),
        Subcommand("cancel", "call a vote off, so that nobody wins"),
    ),
)


def configure_proposal(parser: argparse.ArgumentParser) -> None:
    """VERB and what it takes."""
    VERBS.configure(parser)


def run_proposal(context: Context) -> int:
    """Do it."""
    return VERBS.run(context)


def configure_cancel(parser: argparse.ArgumentParser) -> None:
    """PROPOSAL."""
    proposal_argument(parser)
    parser.add_argument("--reason", metavar="TEXT", default="", help="the members read it")


def run_cancel(context: Context) -> int:
    """Call it off."""
    return context.answer(change(context, "cancel", {"reason": context.args.reason}), proposal_changed_lines)


def configure_list(parser: argparse.ArgumentParser) -> None:
    """[@WORKFLOW], [--all]."""
    text = "those of its latest run, ended or not; without it: those that are open, of all workflows"
    parser.add_argument("target", metavar="@WORKFLOW[:TAG]", nargs="?", help=text)
    parser.add_argument("--all", action="store_true", help="without a workflow: those that have ended too")
    count_flag(parser)


def run_list(context: Context) -> int:
    """Print them."""
    target: str | None = context.args.target
    if target is not None and context.args.all:
        raise Failure("usage", "--all is for all workflows: of one, all are shown anyway")
    if target is None:
        query = {} if context.args.all else {"state": "open"}
        return show_list(context, "/proposals", PROPOSALS, proposals_lines, query)
    path = f"/spaces/{quoted(workflow_target(target).space)}/proposals"
    return show_list(context, path, PROPOSALS_OF_RUN, proposals_lines)


def configure_show(parser: argparse.ArgumentParser) -> None:
    """PROPOSAL."""
    proposal_argument(parser, "shown")


def run_show(context: Context) -> int:
    """Print all of it."""
    named = parsed(context.args.shown)
    client = context.kernel()
    return context.answer(client.get(path_of(client, named)), proposal_lines)


def configure_vote(parser: argparse.ArgumentParser) -> None:
    """PROPOSAL CHOICE."""
    proposal_argument(parser)
    parser.add_argument("choice", metavar="CHOICE", help="the id of one of its options: yes or no of an approval")
    parser.add_argument("--reason", metavar="TEXT", default="", help="kept with your vote; the members read it")


def run_vote(context: Context) -> int:
    """Vote, and print how it stands now."""
    body = {"choice": context.args.choice, "reason": context.args.reason}
    return context.answer(change(context, "vote", body), proposal_changed_lines, f"you voted {context.args.choice}")


_WHYS: Final[Mapping[Why | None, str]] = MappingProxyType(
    {
        "quorum": "enough have voted",
        "settled": "more votes would change nothing",
        "creator": "its creator broke the tie",
        "deadline": "its time was up",
    }
)
_TIES: Final[Mapping[TieBreaker | None, str]] = MappingProxyType(
    {"first": "the first of them wins", "random": "it was decided by lot", "creator-decides": "its creator decided"}
)
_RULES: Final = MappingProxyType(
    {
        "plurality": "the most votes win",
        "majority": "more than half of the votes win",
        "unanimous": "all votes have to be equal",
    }
)


def proposal_lines(body: bytes, screen: Screen) -> list[str]:
    """The question, the options with their votes, who is waited for, and the result."""
    one = msgspec.json.decode(body, type=BallotInfo)
    kind = f"binding {one.type}" if one.binding else one.type
    head = screen.style(one_line(f"{full_name(one.id, one.space)}: {one.title}"), "bold")
    about = escape(one.description).strip("\n").split("\n") if one.description.strip() else []
    terms: Resolution = one.resolution
    if one.type == "assignment":
        rule = f"each option gets those who choose it, quorum {terms.quorum} of {len(one.electors)}"
    else:
        tie = f", a tie: {terms.tie_breaker}" if terms.tie_breaker else ""
        rule = f"{_RULES[terms.type]}, quorum {terms.quorum} of {len(one.electors)}{tie}"
    end: list[str]
    if one.state == "open":
        missing = f"; not yet: {', '.join(one.missing)}" if one.missing else ""
        end = [one_line(f"{outcome(one)}{missing}")]
    else:
        why = f" ({_WHYS[one.why]}{_tie(one)})" if one.why in _WHYS else ""
        by = f" by {one.ended_by}" if one.ended_by else ""
        reason = f": {one.reason}" if one.reason else ""
        took = [one_line(f"{option}: {', '.join(names) or 'nobody'}") for option, names in one.assigned.items()]
        silent = [one_line(f"did not vote: {', '.join(one.missing)}")] if one.missing else []
        end = [one_line(f"{outcome(one)}{by}, {one.ended_at}{why}{reason}"), *took, *silent]
    return [
        head,
        one_line(f"{kind} by {one.creator}, {one.created_at}; {rule}"),
        *about,
        *(_option(one, option) for option in one.options),
        *(_vote(vote) for vote in one.votes),
        *end,
    ]


def outcome(one: BallotInfo) -> str:
    """How it stands, in few words."""
    match one.state:
        case "open" if one.tied:
            return f"tied: {one.creator} chooses of {', '.join(one.tied)}"
        case "open":
            return f"open until {one.expires_at}"
        case "resolved" if one.assigned:
            return "assigned"
        case "resolved":
            return "nobody won" if one.winner is None else f"{one.winner} won"
        case _:
            return one.state


def _option(one: BallotInfo, option: Option) -> str:
    count = one.counts.get(option.id, 0)
    votes = "vote" if count == 1 else "votes"
    label = "" if option.label.lower() in ("", option.id.lower()) else f" ({option.label})"
    return f"  {one_line(f'{option.id}: {count} {votes}{label}')}"


def _vote(vote: Vote) -> str:
    why = f": {vote.reason}" if vote.reason else ""
    return f"  {one_line(f'{vote.voter} voted {vote.choice}{why}')}"


def _tie(one: BallotInfo) -> str:
    """How it came that this one won of several with as many votes."""
    most = [option for option, count in one.counts.items() if count == one.counts.get(one.winner or "")]
    return f"; a tie: {_TIES[one.resolution.tie_breaker]}" if len(most) > 1 and one.why != "creator" else ""


def proposal_changed_lines(body: bytes, _screen: Screen, did: str = "") -> list[str]:
    """What was done, and how it stands."""
    one = msgspec.json.decode(body, type=BallotInfo)
    done = f"{did}; " if did else ""
    return [one_line(f"{full_name(one.id, one.space)}: {done}{outcome(one)}")]


_HEADER = ["ID", "TYPE", "VOTES", "STATE", "TITLE"]


def proposals_lines(body: bytes, screen: Screen) -> list[str]:
    """How to name each, how many of those who are waited for voted, and how it stands."""
    rows = [_row(one) for one in msgspec.json.decode(body, type=ProposalList).proposals]
    return table(_HEADER, rows, screen) if rows else ["nothing is put to the vote"]


def _row(one: BallotInfo) -> list[str]:
    kind = f"binding {one.type}" if one.binding else one.type
    voted = f"{len(one.electors) - len(one.missing)}/{len(one.electors)}"
    return [full_name(one.id, one.space), kind, voted, outcome(one), one.title]
