"""Recording of model requests, according to the key ``recording`` of agents and the project. Secrets are removed."""

import logging
from collections.abc import Callable, Mapping

import trio

from kernel.gateway.access import Record
from kernel.store import exchanges
from kernel.store.exchanges import WireRecord
from kernel.store.transitions.lease import Leased
from kernel.store.writer import CommitWriter
from protocol.agent import AgentDefinition
from protocol.errors import Refused
from protocol.project import ProjectDefinition
from protocol.redaction import Redaction

logger = logging.getLogger(__name__)


def recorder_for(
    leased: Leased,
    definition: AgentDefinition,
    project: ProjectDefinition,
    secrets: Mapping[str, str],
    writer: CommitWriter,
    now_ms: Callable[[], int],
) -> Record | None:
    """Return the recorder of an attempt, or None. A login is recorded only at the agent's own request.

    ``secrets`` maps each secret of the attempt, including the provider's key, to its replacement.
    """
    recording = definition.recording or ("off" if definition.login else project.recording)
    if recording == "off" or (definition.login and recording != "on"):
        return None
    redaction = Redaction(secrets)

    def shown(body: bytes) -> bytes:
        return redaction.of(body.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

    async def keep(record: WireRecord) -> None:
        failed = record.status is None or record.status >= 400 or record.broken
        if recording == "errors" and not failed:
            return
        at_ms = now_ms() - record.ms
        request = await trio.to_thread.run_sync(shown, record.request)
        response = await trio.to_thread.run_sync(shown, record.response)
        kept = record._replace(request=request, response=response)
        try:
            await writer.commit(exchanges.add, leased.instruction, leased.epoch, kept, at_ms)
        except Refused as refused:  # a failure must not affect the agent
            logger.warning("recording.failed %s: %s", leased.instruction, refused.text)

    return keep
