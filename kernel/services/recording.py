"""Recording of model requests, according to the key ``recording`` of agents and the project. Secrets are removed."""

import logging
from collections.abc import Callable, Mapping

import msgspec
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
    recorder = WireRecorder(
        writer=writer,
        now_ms=now_ms,
        instruction=leased.instruction,
        epoch=leased.epoch,
        errors_only=recording == "errors",
        secrets=dict(secrets),
    )
    return recorder.keep


class WireRecorder(msgspec.Struct, frozen=True, kw_only=True):
    """Recorder of one attempt of ``instruction``. ``secrets`` maps each secret to its replacement."""

    writer: CommitWriter
    now_ms: Callable[[], int]
    instruction: str
    epoch: int
    errors_only: bool
    secrets: dict[str, str]

    async def keep(self, record: WireRecord) -> None:
        """Store one exchange, if it is recorded. A failure is logged: it must not affect the agent."""
        failed = record.status is None or record.status >= 400 or record.broken
        if self.errors_only and not failed:
            return
        at_ms, redaction = self.now_ms() - record.ms, Redaction(self.secrets)

        def shown(body: bytes) -> bytes:
            text = redaction.of(body.decode("utf-8", "surrogateescape"))
            return text.encode("utf-8", "surrogateescape")

        request = await trio.to_thread.run_sync(shown, record.request)
        response = await trio.to_thread.run_sync(shown, record.response)
        kept = record._replace(request=request, response=response)
        try:
            await self.writer.commit(exchanges.add, self.instruction, self.epoch, kept, at_ms)
        except Refused as refused:
            logger.warning("recording.failed %s: %s", self.instruction, refused.text)
