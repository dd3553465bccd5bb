"""FILES: the tools that ``tools: [files]`` switches on."""

from typing import Any, Final

from worker.tools.edit_file import EDIT
from worker.tools.file_tool import FileTool
from worker.tools.grep import GREP
from worker.tools.list_files import LIST
from worker.tools.read_file import READ
from worker.tools.write_file import WRITE

FILES: Final[tuple[FileTool[Any], ...]] = (READ, WRITE, EDIT, LIST, GREP)
