"""Checks memory writes with the guard's model, and summarizes what agents may know of each other's memory. Pure.

The model's input is quoted. Its output is data: values of two enumerations and a boolean, or a text that is quoted
again. Any other output changes nothing.

A colleague sees only part of an agent's memory. Entries that may not be shared are dropped before the search, so that
neither the answer nor its size or time distinguishes an unshareable entry from a missing one. A
colleague receives a shareable entry as an excerpt around the query, and a public entry completely.
Each line is prefixed with ``>``: an entry is quoted data with its source, never an instruction.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple

import msgspec

from kernel.policy.guard import TEXT_BYTES, read_answer
from kernel.policy.recall import asked_words, excerpt, rank, remembered
from protocol.agent_memory import CLASSES, SOURCES_LIMIT, TIERS, Entry, Source, SourceClass, Tier, Visibility, least
from protocol.text import quoted

MOST_GIVEN: Final = 10
"""Maximum entries in one answer."""
EXCERPT_CHARACTERS: Final = 400
"""Limit for a shareable entry."""
WHOLE_CHARACTERS: Final = 4000
"""Limit for a public entry; a longer one is cut and marked as cut."""


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """Memory entry as a colleague receives it; each line of ``text`` is prefixed with ``>``."""

    key: str
    visibility: Visibility
    text: str
    cut: bool
    """The text is incomplete."""
    source: Source
    trust: SourceClass


def may_give(entry: Entry, place: str) -> bool:
    """Return whether a colleague in ``place`` may see ``entry``: it is neither private nor limited to another space."""
    return entry.visibility != "private" and entry.space_only in (None, place)


def answer(entries: Iterable[Entry], query: str, place: str, now_ms: int) -> tuple[Given, ...]:
    """Return excerpts of the shareable entries that match ``query``, ranked like ``memory_recall``."""
    visible = [entry for entry in entries if may_give(entry, place)]
    best = rank([remembered(entry) for entry in visible], query, now_ms, MOST_GIVEN)
    words = asked_words(query)
    return tuple(given(visible[one.place], words) for one in best)


def share(find: Callable[[str], Entry | None], keys: Sequence[str], place: str) -> tuple[tuple[Given, ...], list[str]]:
    """Return the entries of ``keys`` that may be shared in ``place``, and the remaining keys."""
    shared: list[Given] = []
    withheld: list[str] = []
    for key in dict.fromkeys(keys):
        entry = find(key)
        if entry is None or not may_give(entry, place):
            withheld.append(key)
        else:
            shared.append(given(entry, ()))
    return tuple(shared), withheld


def given(entry: Entry, words: Sequence[str]) -> Given:
    """Return ``entry`` as a colleague receives it for the query ``words``."""
    limit = WHOLE_CHARACTERS if entry.visibility == "public" else EXCERPT_CHARACTERS
    text = excerpt(entry.value, words, limit)
    return Given(
        key=entry.key,
        visibility=entry.visibility,
        text=quoted(text),
        cut=len(entry.value) > limit,
        source=entry.source,
        trust=entry.trust,
    )


NEAR: Final = 8
"""Maximum similar entries in a question about an entry."""
NEAR_CHARACTERS: Final = 300
JUDGED_CHARACTERS: Final = 6000
SUMMARY_CHARACTERS: Final = 2000

Why = Literal["good", "junk", "duplicate", "temporary", "secret", "vague"]
REASONS: Final[Mapping[Why, str]] = {
    "good": "it belongs in memory",
    "junk": "it is a work status, a greeting or a fragment",
    "duplicate": "it is already in memory",
    "temporary": "it will soon be outdated",
    "secret": "it contains a password or a key",
    "vague": "it is too vague to act on",
}
"""Reasons that agents receive; the model's own text never reaches them."""

WRITE: Final = """\
An agent wants to store the entry quoted below in its memory. Decide whether to store it and in which tier. Answer as
{"keep": true | false, "tier": "core" | "working" | "archive", "why": "<one of the reasons below>"}

- core is in every prompt, working is included if it fits the work, archive is only found by search.
- why: "good", or the reason against it: "junk" (a work status, a greeting, a fragment), "duplicate" (already in
  memory), "temporary" (outdated within a month), "secret" (a password, a key), "vague" (too vague to act on).
- Most entries are stored in the requested tier. If in doubt, store the entry in that tier."""

ASK: Final = """\
An agent asks for a colleague's knowledge. Summarize the parts of the entries quoted below that answer the question, as
{"summary": "<a few sentences, or nothing>"}

- Use only facts from the entries and give no instructions to the reader. Copy numbers, names and conditions exactly.
- If nothing answers the question, the summary is ""."""

RECALL: Final = """\
An agent starts the work quoted below. Choose the entries of its memory that help with this work, as
{"relevant": [<numbers of entries, the most helpful first>]}

- Leave out entries that only have words in common with the work. If none helps, the list is []."""


class _Judged(msgspec.Struct, frozen=True):
    keep: bool
    tier: Tier
    why: Why


class _Summed(msgspec.Struct, frozen=True):
    summary: str


class _Chosen(msgspec.Struct, frozen=True):
    relevant: tuple[int, ...]


class MemoryVerdict(NamedTuple):
    """Guard's change of a memory write: the entry is not ``kept``, or put into another ``tier``."""

    kept: bool
    tier: Tier
    why: Why

    def message(self, asked: Tier) -> str:
        """Explain the verdict to the agent that requested the tier ``asked``."""
        if self.kept:
            return f"the guard stored it in {self.tier} instead of {asked}: {REASONS[self.why]}"
        return f"the guard did not store it: {REASONS[self.why]}; the previous value is unchanged"


def write_question(entry: Entry, near: Iterable[Entry]) -> str:
    """Build the guard's prompt about storing ``entry``; ``near``: the agent's similar entries."""
    beside = [f"- {one.tier}:\n{quoted(_cut(f'{one.key}: {one.value}', NEAR_CHARACTERS))}" for one in near]
    known = "\n".join(beside[:NEAR]) or "nothing"
    text = _cut(f"{entry.key}: {entry.value}", JUDGED_CHARACTERS)
    return f"{WRITE}\n\nFor {entry.tier}:\n{quoted(text)}\n\nSimilar entries in its memory:\n{known}"


def may_judge(known: Entry, entry: Entry) -> bool:
    """Return whether ``known`` may be shown beside ``entry``: less trusted entries must not influence the verdict."""
    return CLASSES.index(known.trust) <= CLASSES.index(entry.trust)


def verdict(answer: str | None, entry: Entry) -> MemoryVerdict | None:
    """Return the guard's change of a memory write; None: write ``entry`` as requested.

    Only a user's entry can move up a tier: any text in core would be part of every prompt.
    """
    judged = None if answer is None else read_answer(_Judged, answer)
    if judged is None or (not judged.keep and judged.why == "good"):
        return None
    if not judged.keep:
        return MemoryVerdict(False, entry.tier, judged.why)
    up = TIERS.index(judged.tier) < TIERS.index(entry.tier)
    return (
        None
        if judged.tier == entry.tier or (up and entry.trust != "user")
        else MemoryVerdict(True, judged.tier, judged.why)
    )


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """Model-written summary of the entries ``keys``, quoted; trusted no more than the least trusted entry."""

    text: str
    keys: tuple[str, ...]
    source: Source
    trust: SourceClass


def summable(given: Sequence[Given]) -> int:
    """Return how many of the entries ``given``, best first, fit into one question."""
    room = TEXT_BYTES
    for number, one in enumerate(given):
        room -= len(one.text.encode("utf-8", "replace"))
        if room < 0:
            return number
    return len(given)


def ask_question(query: str, given: Sequence[Given]) -> str:
    """Build the request to summarize ``given``, the visible entries that match ``query``."""
    entries = "\n".join(f"- {one.trust}:\n{quoted(one.key)}\n{one.text}" for one in given)
    return f"{ASK}\n\nThe question:\n{quoted(query)}\n\nThe entries:\n{entries}"


def summed_up(answer: str | None, given: Sequence[Given]) -> Summary | None:
    """Return the summary of ``given`` from a model's ``answer``; None without a valid summary.

    All entries that the model saw count as sources, and a model's text is trusted at most like an agent's.
    """
    found = None if answer is None else read_answer(_Summed, answer)
    if found is None or len(found.summary) > SUMMARY_CHARACTERS:
        return None
    lines = ("".join(filter(str.isprintable, line)).rstrip() for line in found.summary.strip().splitlines())
    text = "\n".join(line for line in lines if line)
    if not text:
        return None
    messages = tuple(dict.fromkeys(id_ for one in given for id_ in one.source.messages))[:SOURCES_LIMIT]
    trust = least(("agent", *(one.trust for one in given)))
    source = Source(messages=messages, class_=trust, by="guard")
    return Summary(text=quoted(text), keys=tuple(one.key for one in given), source=source, trust=trust)


def recall_question(work: str, entries: Iterable[Entry]) -> str:
    """Build the request to choose among ``entries``, which a search found for ``work``; each is its first line."""
    lines = (_cut(f"{one.key}: {next(iter(one.value.splitlines()), '')}", NEAR_CHARACTERS) for one in entries)
    listed = "\n".join(f"- {number}:\n{quoted(line)}" for number, line in enumerate(lines, 1))
    return f"{RECALL}\n\nThe work:\n{quoted(_cut(work, JUDGED_CHARACTERS))}\n\nThe entries:\n{listed}"


def chosen(answer: str | None, entries: Sequence[Entry]) -> Sequence[int]:
    """Return positions in ``entries`` by a model's ``answer``; all in their order without a valid one.

    Entries trusted more than the least trusted class are never missing, and come first: no text can keep them out, not
    even by what it puts before them in the budget of a prompt.
    """
    found = None if answer is None else read_answer(_Chosen, answer)
    if found is None or not set(found.relevant) <= set(range(1, len(entries) + 1)):
        return range(len(entries))
    worst = least([one.trust for one in entries])
    trusted = [place for place, one in enumerate(entries) if one.trust != worst]
    return [*trusted, *(number - 1 for number in dict.fromkeys(found.relevant) if number - 1 not in trusted)]


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]} (truncated)"
