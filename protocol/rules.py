"""Rules on the wire: what users and agents define of them, and what anybody is shown.

A rule says what follows from a message of a workspace: ``when`` something is said or ends, ``then`` do this. It is data
and never code. One shape (``RuleSpec``) is a rule in a workflow's file, in a file of its own, in an agent's call and in
a request.
"""

from typing import Annotated, Any, Final, Literal

import msgspec

from protocol.api.document import Ask, Body, Document, Page
from protocol.tasks import TITLE_CHARACTERS, OnFailure
from protocol.voting import LONGEST_SECONDS, SHORTEST_SECONDS, BallotType, Method

MESSAGE_CHARACTERS: Final = 4000
PATTERN_CHARACTERS: Final = 500
ACTIONS_LIMIT: Final = 16
"""Of one rule."""
RULES_LIMIT: Final = 64
"""Of one workspace, those that are switched off included."""
PARAMS_LIMIT: Final = 16
GRANTS_LIMIT: Final = 16
FIRINGS_LIMIT: Final = 500
"""Of a trial, so many are told one by one."""
PARAMS_BYTES: Final = 16_000
"""Of what a rule is invoked with, as JSON."""

ParamType = Literal["string", "integer", "number", "boolean", "string?", "integer?", "number?", "boolean?"]
Words = Annotated[str, msgspec.Meta(max_length=MESSAGE_CHARACTERS)]
Pattern = Annotated[str, msgspec.Meta(max_length=PATTERN_CHARACTERS)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
Seconds = Annotated[float, msgspec.Meta(ge=SHORTEST_SECONDS, le=LONGEST_SECONDS)]


class _Watched(Ask, frozen=True, kw_only=True, omit_defaults=True):
    from_: Name | tuple[Name, ...] | None = msgspec.field(default=None, name="from")
    """Whose it is: a member, ``user`` or ``system``, or a list of these. Anybody's unless given."""
    matches: Pattern | None = None
    """What is in its text: a regular expression of google-re2. Its groups are ``${{ match.1 }}`` and so on."""


class WhenSaid(_Watched, frozen=True, kw_only=True, omit_defaults=True):
    """Something is said in the channel, by a message or by the final answer of somebody's work."""


class WhenEnded(_Watched, frozen=True, kw_only=True, omit_defaults=True):
    """The work of a member ended; its text is the final answer. ``from`` is whose work it was."""


class WhenDue(_Watched, frozen=True, kw_only=True, omit_defaults=True):
    """The schedule of a member came."""


class WhenResolved(_Watched, frozen=True, kw_only=True, omit_defaults=True):
    """Something that was put to the vote is over."""

    proposal: Name | None = None
    """Its id."""
    winner: Name | None = None
    """The option that won."""


class WhenDocument(_Watched, frozen=True, kw_only=True, omit_defaults=True):
    """A document was changed, or a change of it was suggested or decided."""

    file: Annotated[str, msgspec.Meta(max_length=200)] | None = None
    """Its name, or a glob of names: ``docs/*.md``."""


class WhenTask(_Watched, frozen=True, kw_only=True, omit_defaults=True):
    """A task took a step."""

    task: Name | None = None
    """Its id."""
    state: Literal["ready", "claimed", "done", "failed", "cancelled"] | None = None
    """What became of it."""


class WhenHook(Ask, frozen=True, kw_only=True, omit_defaults=True):
    """A program outside sent something to a hook of the project. Its words are a stranger's."""

    name: Name | None = None
    """Of the hook; any hook's unless given."""
    matches: Pattern | None = None
    """What is in its text: a regular expression of google-re2. Its groups are ``${{ match.1 }}`` and so on."""


class When(Ask, frozen=True, kw_only=True, omit_defaults=True):
    """What a rule waits for: exactly one of these."""

    said: WhenSaid | None = None
    """Something is said in the channel, by a message or by the final answer of somebody's work."""
    done: WhenEnded | None = None
    """The work of a member is done."""
    failed: WhenEnded | None = None
    """The work of a member failed, or ended incomplete."""
    due: WhenDue | None = None
    """The schedule of a member came."""
    resolved: WhenResolved | None = None
    """A vote is over."""
    document: WhenDocument | None = None
    """A document was changed."""
    task: WhenTask | None = None
    """A task took a step."""
    hook: WhenHook | None = None
    """A program outside sent something to a hook of the project."""


class Requires(Ask, frozen=True, kw_only=True, omit_defaults=True):
    """Those who have to agree before anything is done. A person may always be one of them."""

    grants: Annotated[int, msgspec.Meta(ge=1, le=GRANTS_LIMIT)] = 1
    """How many have to."""
    from_: tuple[Name, ...] = msgspec.field(default=("user",), name="from")
    """Members, and ``user``."""
    timeout_seconds: Seconds = 86_400.0
    """How long they have; then nothing is done."""


class RuleVote(Ask, frozen=True, kw_only=True, omit_defaults=True):
    """Something to put to the vote of all members, as ``team_proposal_create`` does. Nothing binds by it."""

    type: BallotType
    """election of a member, decision between options, approval (yes or no), assignment (each takes an option)."""
    title: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    """What is voted on, in a line."""
    description: Words = ""
    """All one needs to vote."""
    options: dict[str, str] = {}
    """Of a decision or an assignment: the id of each to what it means."""
    method: Method = "plurality"
    """Most votes win (``plurality``), more than half of them (``majority``), or all are alike (``unanimous``)."""
    quorum: Annotated[int, msgspec.Meta(ge=1, le=256)] | None = None
    """So many members have to vote; all of them unless given."""
    open_seconds: Seconds | None = None
    """It ends then in any case."""


class RuleTask(Ask, frozen=True, kw_only=True, omit_defaults=True):
    """A task to plan, as ``team_task_plan`` does. It has no check: a rule runs no command."""

    title: Annotated[str, msgspec.Meta(min_length=1, max_length=TITLE_CHARACTERS)]
    """What is to be done, in a line."""
    text: Words = ""
    """All that one needs to do it."""
    for_: Name | None = msgspec.field(default=None, name="for")
    """The member who is given it once it is ready. Without it, whoever claims it first."""
    needs: tuple[str, ...] = ()
    """Tasks of the workspace that have to be done before, by id or key; ``${{ message.about }}`` is the task that set
    the rule off."""
    parent: Words | None = None
    """The task that it is a part of."""
    files: tuple[str, ...] = ()
    """What it changes, as globs: nobody else may write there while it is claimed."""
    on_failure: OnFailure | None = None
    """What becomes of it when one that it needs fails."""


class Action(Ask, frozen=True, kw_only=True, omit_defaults=True):
    """One thing to do: exactly one of ``assign``, ``ask``, ``say``, ``invoke``, ``vote``, ``task``."""

    assign: Name | None = None
    """The member who is given ``message`` as work."""
    ask: Name | None = None
    """The member who is asked ``message``, before other work that waits for it. The answer is said in the channel."""
    say: Words | None = None
    """What is said in the channel. Whom it names as ``@name`` is woken."""
    invoke: Name | None = None
    """Another rule of the workspace, whose actions are done with ``params``."""
    vote: RuleVote | None = None
    """What all members vote on."""
    task: RuleTask | None = None
    """What is planned as a task."""
    message: Words | None = None
    """With ``assign`` and ``ask``; the text of the message unless given."""
    params: dict[str, Any] = {}
    """With ``invoke``. In texts ``${{ params.x }}`` and the other variables are replaced."""


class RuleSpec(Ask, frozen=True, kw_only=True, omit_defaults=True):
    """One rule as somebody defines it.

    In texts ``${{ message.text }}``, ``${{ message.from }}``, ``${{ match.1 }}`` and ``${{ params.x }}`` are replaced,
    as data: what they bring in wakes nobody, and is not replaced again.
    """

    name: Annotated[str, msgspec.Meta(max_length=64)] = ""
    """Lower case letters, digits, - and _, at most 32. Only of the short form one is made: ``bob-done-carol``."""
    description: Annotated[str, msgspec.Meta(max_length=400)] = ""
    """What it is for."""
    when: When | None = None
    """What it waits for. Without it, it is done only where another rule or a member invokes it."""
    requires: Requires | None = None
    """Who has to agree before it is done."""
    params: dict[str, ParamType] = {}
    """What it is invoked with: a name to a type (string, integer, number, boolean), ``?`` where it may be missing."""
    then: tuple[Action, ...] = ()
    """What is done, in this order."""
    on: Literal["said", "done", "failed", "due"] | None = None
    """The short form of a hand-over, in place of ``when`` and ``then``: ``{on: done, from: bob, assign: carol}``."""
    from_: Name | tuple[Name, ...] | None = msgspec.field(default=None, name="from")
    """With ``on``: whose."""
    assign: Name | None = None
    """With ``on``: who goes on with it."""
    message: Words | None = None
    """With ``on``: what it is told; who it was and what it said, unless given."""
    enabled: bool = True
    """False: it is kept, and does nothing."""


class RuleInfo(Body, frozen=True, kw_only=True):
    """A rule of a workspace. Each definition is a message, by which its ``version`` counts."""

    name: str
    space: str
    version: int
    author: str
    """The member who defined it; ``user``; or ``system`` for the workflow's file."""
    enabled: bool
    defined_at: str
    message_id: str
    """The message that defined this version."""
    fired: int
    """How often it was done, or who has to agree was asked, in all versions."""
    fired_at: str | None
    rule: RuleSpec


InstalledState = Literal["on", "off", "left out", "broken"]
"""off: by the project file. left out: it raised too often. broken: its package offers none that can be loaded."""


class InstalledRule(Body, frozen=True, kw_only=True):
    """A rule of a package that is installed beside the kernel: it is asked in all spaces."""

    name: str
    package: str
    """With its version."""
    kinds: tuple[str, ...]
    """The kinds of messages that it is asked about."""
    state: InstalledState
    fired: int
    """How often it answered, since the kernel began."""
    raised: int
    why: str = ""
    """Of ``broken``."""


class RuleList(Page, frozen=True, kw_only=True):
    """``awk rule list``: all there are, at most 64, and the rules of installed packages."""

    space: str
    rules: tuple[RuleInfo, ...]
    installed: tuple[InstalledRule, ...] = ()
    schema: str = "awk/rule-list/1"


class RuleDocument(RuleInfo, frozen=True, kw_only=True, tag_field="schema", tag="awk/rule/1"):
    """``awk rule show``, and what a definition answers: a RuleInfo as a document of its own."""


def document(rule: RuleInfo) -> RuleDocument:
    """``rule`` by itself."""
    return RuleDocument(**{name: getattr(rule, name) for name in rule.__struct_fields__})


class RuleFiring(Body, frozen=True, kw_only=True):
    """A message of a run that a rule would have answered, and how."""

    seq: int
    kind: str
    sender: str = msgspec.field(name="from")
    text: str
    """The beginning of its text."""
    waits_for: tuple[str, ...]
    """Who would have had to agree."""
    would: tuple[str, ...]
    """What it would have done, in words."""


class RuleTrial(Document, frozen=True, kw_only=True):
    """``awk rule test``: what a rule would have done in a run. Nothing is done."""

    run: str
    rule: str
    messages: int
    """So many were looked at."""
    total: int
    """So many would have set it off."""
    firings: tuple[RuleFiring, ...]
    """The first 500 of these."""
    schema: str = "awk/rule-trial/1"
