"""Spaces: what was said in one, and who is there."""

from kernel.api.context import Services
from kernel.api.http.not_running import not_running
from kernel.api.http.once import once
from kernel.api.http.route import Call
from kernel.api.reply import Reply
from kernel.store import agents, messages, workflows
from kernel.store.commits.clear import clear
from protocol.api.messages import Channel
from protocol.api.workflows import MemberList, MemberRow
from protocol.errors import Refused
from protocol.names import SpaceId, is_personal, split_space


async def channel(services: Services, call: Call[None]) -> Channel:
    """GET /spaces/:space/channel: the newest ``limit`` messages, or the first ``limit`` after ``since``."""
    space = known_space(services, call.args["space"])
    limit = call.number("limit", 50, low=1, high=messages.LIMIT)
    since = call.number("since", -1) if "since" in call.query else None
    return Channel(space=space, messages=services.reader.now(messages.channel, space, limit, since=since))


async def members(services: Services, call: Call[None]) -> MemberList:
    """GET /spaces/:space/members. A personal space has one: its agent."""
    space = known_space(services, call.args["space"])
    if is_personal(space):
        name = split_space(space)[1]
        looks = await services.reader.read(agents.process, name, services.now_ms())
        rows = (MemberRow(name=name, state=one.shown.state, agent=one.key) for one in (looks,) if one is not None)
    else:
        found = services.reader.now(agents.members, space)
        processes = await services.reader.read(agents.ps, services.now_ms())
        states = {process.key: process.shown.state for process in processes}
        rows = (
            MemberRow(name=member.name, state=states.get(member.key, member.state), agent=member.key)
            for member in found
        )
    return MemberList(space=space, members=tuple(rows))


async def empty(services: Services, call: Call[None]) -> Reply:
    """POST /spaces/:space/clear: the words of what was said and done there are removed from the disk."""
    space = known_space(services, call.args["space"])
    body = await services.writer.commit(once, call.request_key, lambda tx: clear(tx, space), status=200)
    await services.forget_homes(None, space)
    await services.mirror_redo()
    return Reply(200, body)


def known_space(services: Services, text: str) -> SpaceId:
    """The space ``text`` names, if it is there now or was. Raises Refused."""
    name, tag = split_space(text)
    space = SpaceId(f"{name}:{tag}")
    if is_personal(space):
        if services.reader.now(agents.row, tag) is None and not _has_words(services, space):
            raise Refused("unknown_agent", f"there is no agent {tag[:60]!r}", hint="awk ls lists the agents")
    elif services.reader.now(workflows.latest, space) is None:
        raise not_running(services, space, f"nothing was ever started as {space[:100]!r}")
    return space


def _has_words(services: Services, space: SpaceId) -> bool:
    """Whether something that was said there is still kept, although its agent's file is gone."""
    return any(not message.cleared for message in services.reader.now(messages.channel, space, 1))
