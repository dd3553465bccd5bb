"""What commands that change tools of the project file have in common."""

from collections.abc import Callable
from typing import Any, cast

import msgspec

from interface.cli.context import Context
from interface.failure import Failure
from interface.project_file import change_project_file, file_name, read_project_file
from interface.yaml_reading import NotYaml, read
from protocol.toolbox import ProjectWritten

KEY = "tools"


def written(context: Context, names: tuple[str, ...], change: Callable[[str], str]) -> int:
    """Change the project file, and print its name. Raises Failure."""
    root = context.project.root
    changed = change_project_file(root, change)
    if not changed:
        context.out.note("note: nothing was changed")
    document = ProjectWritten(file=file_name(root), tools=names, changed=changed)
    return context.answer(msgspec.json.encode(document), "agent_file")


def tools_in(text: str, shown: str) -> dict[str, dict[str, Any]]:
    """The key ``tools`` of a project file. Raises Failure (bad_definition)."""
    try:
        data = read(text)
    except NotYaml as error:
        raise Failure("bad_definition", f"{shown} is no YAML: {error}") from error
    found = cast("dict[str, object]", data).get(KEY) if isinstance(data, dict) else None
    tools = cast("dict[str, object]", found) if isinstance(found, dict) else {}
    return {name: cast("dict[str, Any]", tool) for name, tool in tools.items() if isinstance(tool, dict)}


def own_tools(context: Context) -> dict[str, dict[str, Any]]:
    """Those of this project. Raises Failure."""
    root = context.project.root
    return tools_in(read_project_file(root), file_name(root))


def require(context: Context, name: str) -> None:
    """Raise Failure (not_found) unless the project has the tool ``name``."""
    own = own_tools(context)
    if name not in own:
        hint = f"it has {', '.join(own)}" if own else f"make one: {context.program} tool add"
        raise Failure("not_found", f"the project has no tool {name[:60]!r} of its own", hint)
