"""Resources: long texts of spaces. Here people read those of all spaces, and keep some for agents to read."""

from typing import Final

from kernel.api.http.route import Request
from kernel.operations.context import ProjectFiles, StoreAccess
from kernel.operations.places import known_space
from kernel.store import resources
from kernel.store.rows import LONGEST
from kernel.store.transaction import Transaction
from protocol.api.messages import ResourceInfo, ResourceList, ResourceRequest, ResourceText
from protocol.errors import Refused

_HINT: Final = "awk resource list shows what there is"


async def list_all(call: Request[None], store: StoreAccess) -> ResourceList:
    """GET /resources: of all spaces, the newest first."""
    return await _listed(call, store, None)


async def list_in_space(call: Request[None], store: StoreAccess, files: ProjectFiles) -> ResourceList:
    """GET /spaces/:space/resources: of the workflow that runs there, or ran there last."""
    return await _listed(call, store, known_space(store, files, call.args["space"]))


async def _listed(call: Request[None], store: StoreAccess, space: str | None) -> ResourceList:
    limit = call.number("limit", LONGEST)
    return await store.reader.read(resources.newest, space, limit, call.query.get("before"))


async def create(call: Request[ResourceRequest], store: StoreAccess, files: ProjectFiles) -> ResourceInfo:
    """POST /spaces/:space/resources: keep a text of the user's."""
    space, asked = known_space(store, files, call.args["space"]), call.body

    def change(tx: Transaction) -> ResourceInfo:
        return resources.create(tx, space, asked.content, asked.type)

    return await store.writer.commit(change)


async def show(call: Request[None], store: StoreAccess) -> ResourceText:
    """GET /resources/:id?offset=&limit=: its text, or a part of it by characters. Of whatever space it is."""
    return await _read(call, store, None)


async def show_in_space(call: Request[None], store: StoreAccess, files: ProjectFiles) -> ResourceText:
    """GET /spaces/:space/resources/:id?offset=&limit=: the same, if it is of that space."""
    return await _read(call, store, known_space(store, files, call.args["space"]))


async def _read(call: Request[None], store: StoreAccess, space: str | None) -> ResourceText:
    limit = call.number("limit", 0) if "limit" in call.query else None
    found = await store.reader.read(resources.read, call.args["id"], space, call.number("offset", 0), limit)
    if found is None:
        raise Refused("not_found", f"there is no resource {call.args['id'][:60]!r}", _HINT)
    return found
