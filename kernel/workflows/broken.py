"""What is wrong with the definitions of a project as they stand now: what they said before stays in effect."""

import logging

from kernel.agents.catalog import AGENTS, Catalog
from kernel.source.files import folder_errors
from kernel.source.problems import BadDefinition
from kernel.workflows.find import WORKFLOWS, workflow_names
from kernel.workflows.load import load_workflow
from protocol.api.problem import FileError
from protocol.errors import Refused

logger = logging.getLogger(__name__)


def broken(catalog: Catalog) -> tuple[FileError, ...]:
    """In the project file; where that is right, in the agents' files and in workflows. Blocks: it reads them all."""
    try:
        errors = catalog.survey().errors
    except BadDefinition as error:
        return error.errors
    return (*errors, *broken_workflows(catalog))


def broken_workflows(catalog: Catalog) -> tuple[FileError, ...]:
    """In workflow files; what runs keeps to what it was started with. Blocks."""
    found = list(folder_errors(catalog.root, WORKFLOWS))
    for name in workflow_names(catalog, catalog.kept_project()):
        try:
            load_workflow(catalog, name)
        except BadDefinition as error:
            found += (one for one in error.errors if not one.path.startswith(f"{AGENTS}/"))
        except Refused as refused:
            logger.debug("broken.unread %s: %s", name, refused.text)
    return tuple(found)
