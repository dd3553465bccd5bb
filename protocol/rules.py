"""Rules in files, requests and answers.

A rule defines the reaction to a message of a workspace: ``when`` a message arrives or work ends, ``then`` run actions.
A rule is data and never code. One struct (``RuleSpec``) describes a rule in a workflow file, in its own file, in an
agent's call and in a request.
"""

from typing import Annotated, Any, Final, Literal

import msgspec

from protocol.api.document import Ask, Body, Document, Page
from protocol.tasks import TITLE_CHARACTERS, OnFailure
from protocol.voting import LONGEST_SECONDS, SHORTEST_SECONDS, BallotType, Method

MESSAGE_CHARACTERS: Final = 4000
PATTERN_CHARACTERS: Final = 500
ACTIONS_LIMIT: Final = 16
"""Maximum number of actions of one rule."""
RULES_LIMIT: Final = 64
"""Maximum number of rules of one workspace, including disabled rules."""
PARAMS_LIMIT: Final = 16
GRANTS_LIMIT: Final = 16
FIRINGS_LIMIT: Final = 500
"""Maximum number of firings that a trial lists."""
PARAMS_BYTES: Final = 16_000
"""Maximum size of the parameters of an invocation, as JSON."""

ParamType = Literal["string", "integer", "number", "boolean", "string?", "integer?", "number?", "boolean?"]
Words = Annotated[str, msgspec.Meta(max_length=MESSAGE_CHARACTERS)]
Pattern = Annotated[str, msgspec.Meta(max_length=PATTERN_CHARACTERS)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
Seconds = Annotated[float, msgspec.Meta(ge=SHORTEST_SECONDS, le=LONGEST_SECONDS)]


class _Watched(Ask, frozen=True, kw_only=True, omit_defaults=True):
    from_: Name | tuple[Name, ...] | None = msgspec.field(default=None, name="from")
    """Authors that match: a member, ``user``, ``system``, or a list. Default: any author."""
    matches: Pattern | None = None
    """Regular expression (google-re2) that the text must match. Its groups are ``${{ match.1 }}`` and so on."""


class WhenSaid(_Watched, frozen=True, kw_only=True, omit_defaults=True):
    """A message in the channel, or the final answer of a member's work."""


class WhenEnded(_Watched, frozen=True, kw_only=True, omit_defaults=True):
    """End of a member's work: ``matches`` tests its final answer, ``from`` names the member."""


class WhenDue(_Watched, frozen=True, kw_only=True, omit_defaults=True):
    """Time of a member's schedule."""


class WhenResolved(_Watched, frozen=True, kw_only=True, omit_defaults=True):
    """End of a vote."""

    proposal: Name | None = None
    """Id of the proposal."""
    winner: Name | None = None
    """Option that won."""


class WhenDocument(_Watched, frozen=True, kw_only=True, omit_defaults=True):
    """Change of a document, or a suggestion that was made or decided."""

    file: Annotated[str, msgspec.Meta(max_length=200)] | None = None
    """Name of the document, or a glob of names: ``docs/*.md``."""


class WhenTask(_Watched, frozen=True, kw_only=True, omit_defaults=True):
    """Change of a task's state."""

    task: Name | None = None
    """Id of the task."""
    state: Literal["ready", "claimed", "done", "failed", "cancelled"] | None = None
    """New state of the task."""


class WhenHook(Ask, frozen=True, kw_only=True, omit_defaults=True):
    """Request to a hook of the project. Its text is untrusted."""

    name: Name | None = None
    """Name of the hook. Default: any hook."""
    matches: Pattern | None = None
    """Regular expression (google-re2) that the text must match. Its groups are ``${{ match.1 }}`` and so on."""


class When(Ask, frozen=True, kw_only=True, omit_defaults=True):
    """Trigger of a rule. Exactly one key is set."""

    said: WhenSaid | None = None
    """A message in the channel, or the final answer of a member's work."""
    done: WhenEnded | None = None
    """A member's work is done."""
    failed: WhenEnded | None = None
    """A member's work failed or ended incomplete."""
    due: WhenDue | None = None
    """The time of a member's schedule has come."""
    resolved: WhenResolved | None = None
    """A vote has ended."""
    document: WhenDocument | None = None
    """A document was changed."""
    task: WhenTask | None = None
    """A task changed its state."""
    hook: WhenHook | None = None
    """A program sent a request to a hook of the project."""


class Requires(Ask, frozen=True, kw_only=True, omit_defaults=True):
    """Approvals that a rule needs before its actions run. ``user`` can always be one of the approvers."""

    grants: Annotated[int, msgspec.Meta(ge=1, le=GRANTS_LIMIT)] = 1
    """Number of required approvals."""
    from_: tuple[Name, ...] = msgspec.field(default=("user",), name="from")
    """Approvers: members and ``user``."""
    timeout_seconds: Seconds = 86_400.0
    """Time to approve in seconds. Without enough approvals the rule does nothing."""


class RuleVote(Ask, frozen=True, kw_only=True, omit_defaults=True):
    """Proposal that all members vote on, as ``team_proposal_create`` creates it. The result is not binding."""

    type: BallotType
    """Type: election of a member, decision between options, approval (yes or no), or assignment (each member takes an
    option)."""
    title: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    """Subject of the vote in one line."""
    description: Words = ""
    """Information that voters need."""
    options: dict[str, str] = {}
    """Options of a decision or an assignment: ids and their meanings."""
    method: Method = "plurality"
    """Counting method: the most votes win (``plurality``), more than half of the votes (``majority``), or all votes
    (``unanimous``)."""
    quorum: Annotated[int, msgspec.Meta(ge=1, le=256)] | None = None
    """Number of members that have to vote. Default: all members."""
    open_seconds: Seconds | None = None
    """Duration of the vote in seconds."""


class RuleTask(Ask, frozen=True, kw_only=True, omit_defaults=True):
    """Task to plan, as ``team_task_plan`` creates it. A task of a rule has no check, because rules run no commands."""

    title: Annotated[str, msgspec.Meta(min_length=1, max_length=TITLE_CHARACTERS)]
    """Goal of the task in one line."""
    text: Words = ""
    """Information that the assignee needs."""
    for_: Name | None = msgspec.field(default=None, name="for")
    """Member who is assigned the task when it is ready. Unset: the first member who claims it."""
    needs: tuple[str, ...] = ()
    """Dependencies: tasks of the workspace by id or key. ``${{ message.about }}`` is the task that triggered the
    rule."""
    parent: Words | None = None
    """Parent task."""
    files: tuple[str, ...] = ()
    """Globs of the files that the task changes. No other member can write there while the task is claimed."""
    on_failure: OnFailure | None = None
    """Effect of a failed dependency on this task."""


class RuleAgent(Ask, frozen=True, kw_only=True, omit_defaults=True):
    """Agent to create in the run: a copy of a member, but without scopes that the author of the rule lacks."""

    name: Name
    """Name of the new member."""
    like: Name | None = None
    """Member to copy. In the rule of an agent it is always the agent."""
    prompt: Annotated[str, msgspec.Meta(min_length=1, max_length=MESSAGE_CHARACTERS)]
    """System prompt. It contains no variables: send such text as a message."""


class RuleSpace(Ask, frozen=True, kw_only=True, omit_defaults=True):
    """Private space to open below the run's, as ``space_create`` opens it."""

    name: Name
    """Name of the space."""
    members: tuple[Name, ...]
    """Members, at least one. An agent that is the rule's author is always one."""
    message: Words = ""
    """First message there. Members named as ``@name`` are woken."""


class RuleStart(Ask, frozen=True, kw_only=True, omit_defaults=True):
    """Workflow to start. It must be trusted, and none of its agents has a scope that the rule's author lacks."""

    workflow: Annotated[str, msgspec.Meta(min_length=1, max_length=400)]
    """Name of the workflow, or its path in the project. It contains no variables."""
    tag: Name = "main"
    """Tag of the run."""
    params: tuple[Words, ...] = ()
    """Parameters, such as ``[--pr, "12"]``."""


Created = RuleAgent | RuleSpace | RuleStart


class Action(Ask, frozen=True, kw_only=True, omit_defaults=True):
    """Action of a rule. Exactly one of ``assign``, ``ask``, ``say``, ``invoke``, ``vote``, ``task``, ``create_agent``,
    ``open_space``, ``start_workflow`` is set."""

    assign: Name | None = None
    """Member who receives ``message`` as work."""
    ask: Name | None = None
    """Member who receives ``message`` as a question, before other waiting work. The answer is posted in the channel."""
    say: Words | None = None
    """Text to post in the channel. Members named as ``@name`` are woken."""
    invoke: Name | None = None
    """Another rule of the workspace, whose actions run with ``params``."""
    vote: RuleVote | None = None
    """Proposal that all members vote on."""
    task: RuleTask | None = None
    """Task to plan."""
    create_agent: RuleAgent | None = None
    """Agent to create. It needs the scope ``agents``."""
    open_space: RuleSpace | None = None
    """Space to open below the run's. It needs the scope ``spaces``."""
    start_workflow: RuleStart | None = None
    """Workflow to start. It needs the scope ``workflows``."""
    message: Words | None = None
    """Text for ``assign`` and ``ask``. Default: the text of the message."""
    params: dict[str, Any] = {}
    """Parameters for ``invoke``. Texts may use ``${{ params.x }}`` and the other variables."""

    @property
    def created(self) -> Created | None:
        """Return what the action creates, if anything."""
        return self.create_agent or self.open_space or self.start_workflow


class RuleSpec(Ask, frozen=True, kw_only=True, omit_defaults=True):
    """Rule as its author defines it.

    In texts, ``${{ message.text }}``, ``${{ message.from }}``, ``${{ match.1 }}`` and ``${{ params.x }}`` are replaced
    as data: the inserted text wakes no member and is not replaced again.
    """

    name: Annotated[str, msgspec.Meta(max_length=64)] = ""
    """Name: lower case letters, digits, - and _, at most 32. The short form creates its own name:
    ``bob-done-carol``."""
    description: Annotated[str, msgspec.Meta(max_length=400)] = ""
    """Purpose of the rule, for readers."""
    when: When | None = None
    """Trigger. Unset: the rule runs only when a member or another rule invokes it."""
    requires: Requires | None = None
    """Approvals that the rule needs before it runs."""
    params: dict[str, ParamType] = {}
    """Parameters of an invocation: a name and its type (string, integer, number, boolean), with ``?`` if optional."""
    then: tuple[Action, ...] = ()
    """Actions, in order."""
    on: Literal["said", "done", "failed", "due"] | None = None
    """Short form of a handover, instead of ``when`` and ``then``: ``{on: done, from: bob, assign: carol}``."""
    from_: Name | tuple[Name, ...] | None = msgspec.field(default=None, name="from")
    """With ``on``: the member whose work triggers the rule."""
    assign: Name | None = None
    """With ``on``: the member who continues the work."""
    message: Words | None = None
    """With ``on``: the instruction for that member. Default: the previous member's name and answer."""
    enabled: bool = True
    """``false``: the rule is kept but disabled."""


class RuleInfo(Body, frozen=True, kw_only=True):
    """Rule of a workspace. Each definition is a message; ``version`` counts them."""

    name: str
    space: str
    version: int
    author: str
    """Member who defined the rule, ``user``, or ``system`` for the workflow file."""
    enabled: bool
    defined_at: str
    message_id: str
    """Message that defined this version."""
    fired: int
    """Number of times that the rule ran or asked for approval, over all versions."""
    fired_at: str | None
    rule: RuleSpec


InstalledState = Literal["on", "off", "left out", "broken"]
"""off: disabled by the project file. left out: disabled after repeated exceptions. broken: the package has no rule that
can be loaded."""


class InstalledRule(Body, frozen=True, kw_only=True):
    """Rule of an installed package. It applies in all spaces."""

    name: str
    package: str
    """Package and version."""
    kinds: tuple[str, ...]
    """Kinds of messages that the rule receives."""
    state: InstalledState
    fired: int
    """Number of times that the rule reacted since the kernel started."""
    raised: int
    why: str = ""
    """Reason of the state ``broken``."""


class CoreRule(Body, frozen=True, kw_only=True):
    """Rule of the kernel, which applies in all spaces. ``takes`` is the JSON Schema of the data that it reacts to."""

    name: str
    kinds: tuple[str, ...]
    does: str
    takes: dict[str, Any]


class RuleList(Page, frozen=True, kw_only=True):
    """``awk rule list``: the rules of a space, at most 64, or of all spaces, and the rules of installed packages."""

    space: str
    rules: tuple[RuleInfo, ...]
    installed: tuple[InstalledRule, ...] = ()
    core: tuple[CoreRule, ...] = ()
    """With ``--all``: the rules of the kernel."""
    schema: str = "awk/rule-list/1"


class RuleDocument(RuleInfo, frozen=True, kw_only=True, tag_field="schema", tag="awk/rule/1"):
    """Rule as printed by ``awk rule show`` and returned after a definition: a RuleInfo with the ``schema`` tag."""


def document(rule: RuleInfo) -> RuleDocument:
    """Return ``rule`` with the ``schema`` tag of a top-level JSON document."""
    return RuleDocument(**{name: getattr(rule, name) for name in rule.__struct_fields__})


class RuleFiring(Body, frozen=True, kw_only=True):
    """Message of a run that would have triggered a rule, and the effects that the rule would have had."""

    seq: int
    kind: str
    sender: str = msgspec.field(name="from")
    text: str
    """Beginning of the message's text."""
    waits_for: tuple[str, ...]
    """Members who would have had to approve."""
    would: tuple[str, ...]
    """Descriptions of the rule's effects."""


class RuleTrial(Document, frozen=True, kw_only=True):
    """``awk rule test``: effects that a rule would have had in a run. A trial changes nothing."""

    run: str
    rule: str
    messages: int
    """Number of messages that were checked."""
    total: int
    """Number of messages that would have triggered the rule."""
    firings: tuple[RuleFiring, ...]
    """First 500 messages that would have triggered the rule."""
    schema: str = "awk/rule-trial/1"
