"""The terms of a ballot: what is filled in where nothing was said, and what cannot be put to the vote. Pure."""

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from kernel.rule.draft import ProposalOpened, ProposalTerms
from protocol.names import NameRejected, check_name
from protocol.voting import (
    DESCRIPTION_LIMIT,
    LONGEST_SECONDS,
    NO,
    OPTION_ID,
    OPTIONS_LIMIT,
    SHORTEST_SECONDS,
    TITLE_LIMIT,
    USUAL_SECONDS,
    YES,
    Option,
    Resolution,
)
from protocol.workflow import VERDICT_SECONDS, VerdictTerms

Fault = tuple[str, str | None]
"""What is wrong, and what to do."""

_OPTION_ID: Final = re.compile(OPTION_ID)
YES_OR_NO: Final = (Option(id=YES, label="Yes"), Option(id=NO, label="No"))


def with_defaults(
    asked: ProposalTerms, name: str, members: tuple[str, ...], now_ms: int, salt: str = ""
) -> ProposalOpened:
    """What was asked, with its ``name`` and what goes without saying: an election is among the ``members``."""
    # What an election and an approval are about, if nothing else was asked for.
    usual: tuple[Option, ...]
    ids = tuple(option.id for option in asked.options)
    if asked.type == "approval" and set(ids) <= {YES, NO}:
        usual = YES_OR_NO
    elif asked.type == "election" and set(ids) <= set(members):
        usual = tuple(Option(id=member, label=f"@{member}") for member in dict.fromkeys(ids or members))
    else:
        usual = ()
    options = usual or asked.options
    terms = asked.resolution
    timeout_ms = round(USUAL_SECONDS * 1000) if asked.timeout_ms is None else asked.timeout_ms
    return ProposalOpened(
        name=name,
        kind=asked.type,
        title=asked.title,
        description=asked.description,
        options=options,
        rule=terms.type,
        quorum=len(members) if terms.quorum is None else terms.quorum,
        tie_breaker=terms.tie_breaker,
        binding=asked.binding,
        timeout_ms=timeout_ms,
        expires_ms=now_ms + timeout_ms,
        salt=salt,
    )


def decisive(
    asked: ProposalTerms, terms: VerdictTerms, members: tuple[str, ...], now_ms: int, salt: str
) -> ProposalOpened:
    """What decides over a run, under the ``terms`` of its workflow and no others."""
    electors = terms.electors or members
    resolution = Resolution(type=terms.type, quorum=terms.quorum or len(electors), tie_breaker=terms.tie_breaker)
    under = msgspec.structs.replace(asked, resolution=resolution, timeout_ms=_verdict_ms(terms))
    opened = with_defaults(under, terms.id, members, now_ms, salt)
    return msgspec.structs.replace(opened, electors=electors, strict=True)


def not_its_terms(asked: ProposalTerms, terms: VerdictTerms, members: tuple[str, ...]) -> Fault | None:
    """Why ``asked`` cannot be what decides over a run; None where it says nothing that its workflow says otherwise."""
    if asked.type != "approval" or not asked.binding:
        text = f"{terms.id} is the verdict of this workflow: it has to be a binding approval"
        return text, "give it type approval and binding: true, or another id"
    given, usual = asked.resolution, Resolution()
    quorum = terms.quorum or len(terms.electors or members)
    other = [
        *(["quorum"] if given.quorum not in (usual.quorum, quorum) else []),
        *(["type"] if given.type not in (usual.type, terms.type) else []),
        *(["tie_breaker"] if given.tie_breaker not in (usual.tie_breaker, terms.tie_breaker) else []),
        *(["timeout_seconds"] if asked.timeout_ms not in (None, _verdict_ms(terms)) else []),
    ]
    if not other:
        return None
    text = f"{terms.id} is the verdict of this workflow, whose file says how it is decided"
    return f"{text}: {', '.join(other)} cannot be changed", "ask again without resolution and timeout_seconds"


def _verdict_ms(terms: VerdictTerms) -> int:
    return round((VERDICT_SECONDS if terms.timeout is None else terms.timeout) * 1000)


def binds_nothing(asked: ProposalTerms, verdict: str | None) -> Fault | None:
    """Why ``asked``, which is no verdict, cannot be binding; None where it does not say that it is."""
    if not asked.binding:
        return None
    hint = "leave binding out: everybody reads what comes of it"
    if verdict is not None:
        hint = f"{hint}; the approval {verdict} decides over this workflow"
    return "nothing relies on what comes of it, so it cannot be binding", hint


def check_terms(opened: ProposalOpened, electors: int) -> Fault | None:
    """Why it cannot be put to the vote of so many ``electors``; None where it can."""
    return next((wrong for wrong in _faults(opened, electors) if wrong is not None), None)


def _faults(opened: ProposalOpened, electors: int) -> Iterable[Fault | None]:
    yield _name(opened.name)
    yield _words(opened)
    yield _options(opened)
    yield _terms(opened)
    if not 1 <= opened.quorum <= electors:
        yield f"a quorum of {opened.quorum} cannot be: {electors} can vote", "leave it out to wait for all of them"
    if not SHORTEST_SECONDS <= opened.timeout_ms / 1000 <= LONGEST_SECONDS:
        text = f"timeout_seconds has to be from {SHORTEST_SECONDS:g} to {LONGEST_SECONDS:g} (7 days)"
        yield text, None


def _name(name: str) -> Fault | None:
    try:
        check_name(name)
    except NameRejected as rejected:
        return f"{rejected}", "leave the id out to be given one"
    return None


def _words(opened: ProposalOpened) -> Fault | None:
    if not opened.title.strip():
        return "the title is empty", "say in it what is voted on"
    if len(opened.title) > TITLE_LIMIT or len(opened.description) > DESCRIPTION_LIMIT:
        text = f"a title can have {TITLE_LIMIT} characters, a description {DESCRIPTION_LIMIT}"
        return text, "put the rest into a file and name that"
    return None


def _options(opened: ProposalOpened) -> Fault | None:
    ids = [option.id for option in opened.options]
    if opened.kind == "approval" and opened.options != YES_OR_NO:
        return "the options of an approval are yes and no", "leave options out, or make it a decision"
    if opened.kind == "election" and any(option.label != f"@{option.id}" for option in opened.options):
        return "the options of an election are members", "leave options out, or make it a decision"
    if any(_OPTION_ID.fullmatch(one) is None for one in ids):
        return (
            "an option's id has letters, digits, dots, dashes and underscores, at most 64",
            "say the rest in its label",
        )
    least = 1 if opened.kind in ("assignment", "election") else 2
    if not least <= len(ids) <= OPTIONS_LIMIT:
        text = f"{len(ids)} options: a {opened.kind} has from {least} to {OPTIONS_LIMIT}"
        return text, "give options as [{id, label}, ...]"
    if len({one.lower() for one in ids}) < len(ids):
        return "two options have the same id", None
    return None


def _terms(opened: ProposalOpened) -> Fault | None:
    if opened.tie_breaker is not None and (opened.rule == "unanimous" or opened.kind == "assignment"):
        what = "an assignment" if opened.kind == "assignment" else "a unanimous vote"
        return f"{what} has no ties", "leave tie_breaker out"
    if opened.kind == "assignment" and opened.rule != "plurality":
        return "an assignment has no winner: everybody gets what they choose", "leave the resolution's type out"
    return None
