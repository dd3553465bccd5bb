"""Why there is nobody in the space of a workflow: it does not run, or there is none of that name."""

from kernel.api.context import Services
from kernel.source.spelling import suggest
from kernel.store import workflows
from kernel.workflows.find import workflow_names
from protocol.errors import Refused
from protocol.names import DEFAULT_TAG, split_space
from protocol.target import Target


def not_running(services: Services, space: str, what: str = "") -> Refused:
    """The refusal, with the command that starts it; of a name that nobody knows the nearest, or those there are.

    ``what`` is said in place of that it does not run.
    """
    name, tag = split_space(space)
    text = what or f"workflow {space[:100]} is not running"
    names = workflow_names(services.catalog, services.catalog.kept_project())
    before = services.reader.now(workflows.newest_at, space)
    start = name if name in names else before and before.file  # it was started from a path, or from elsewhere
    if start is None:
        known = {*names, *(record.name for record in services.reader.now(workflows.running))}
        text = f"{text}, and there is no workflow {name[:60]!r}"
        return Refused("workflow_not_running", text, suggest(name, known, what="workflows here"))
    flag = "" if tag == DEFAULT_TAG else f" --tag {tag[:64]}"
    return Refused("workflow_not_running", text, f"start it: awk start {start}{flag}")


def nothing_to_stop(services: Services, space: str) -> Refused:
    """The refusal where it was to be stopped."""
    running = {str(Target(None, record.name, record.tag)) for record in services.reader.now(workflows.running)}
    name, tag = split_space(space)
    hint = suggest(str(Target(None, name, tag)), running, what="running")
    return Refused("workflow_not_running", f"workflow {space[:100]} is not running", hint)
