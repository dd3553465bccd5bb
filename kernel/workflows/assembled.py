"""Today's prompt for an instruction: its messages, what was said before them, and who is there."""

from collections.abc import Sequence
from typing import Protocol

from kernel.agents.catalog import Catalog
from kernel.agents.prompt import Prompt, Scene, assemble
from kernel.store import agents, finals, messages
from kernel.store.reader import Reader
from protocol.agent import AgentDefinition
from protocol.names import is_personal


class Told(Protocol):
    """What is asked, of whom, where: leased already or not."""

    @property
    def name(self) -> str:
        """What the agent is called in the space."""
        ...

    @property
    def space(self) -> str:
        """Where."""
        ...

    @property
    def message_seq(self) -> int:
        """The message it was made of."""
        ...

    @property
    def joined(self) -> Sequence[int]:
        """Further messages that were made part of it."""
        ...


def assembled(told: Told, definition: AgentDefinition, catalog: Catalog, reader: Reader) -> Prompt:
    """The prompt that an attempt would begin with now. Raises BadDefinition where a ``system_file`` cannot be read."""
    message, *joined = reader.now(messages.these, (told.message_seq, *told.joined))
    thread = reader.now(messages.thread, told.space, told.message_seq, definition.context.thin_thread)
    scene = _scene(told, reader)
    if scene.alone:
        thread = tuple(said for said in thread if scene.name in (said.sender, *said.to))
    return assemble(definition, catalog.system_text(definition), scene, thread, message, joined)


def _scene(told: Told, reader: Reader) -> Scene:
    if is_personal(told.space):
        return Scene(name=told.name, space=told.space)
    here = reader.now(finals.expected_in, told.space)
    members = tuple(member.name for member in reader.now(agents.members, told.space))
    answers = here.exit_from in (None, told.name) and here.schema is not None
    return Scene(
        name=told.name,
        space=told.space,
        members=members,
        alone=not here.has_channel,
        answer_schema=(here.schema or b"").decode() if answers else "",
    )
