"""The ``skill`` tool: instructions that the model reads when needed. The prompt has only names and descriptions."""

import hashlib
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Annotated, Any, Final

import msgspec
import trio

from protocol.tools import BUILT_IN, Skill
from worker.tool import BadArguments, BuiltinTool, ToolArguments, ToolOutcome, read_arguments, tool_spec
from worker.tools.confined_files import ConfinedDir, NotAllowed, Parts, is_binary, shown
from worker.tools.confined_files import read as read_file
from worker.tools.file_search import Walk

INSTRUCTIONS: Final = "SKILL.md"
LIST_CHARACTERS: Final = 20_000
"""Maximum total length of the descriptions of all skills."""
FILES: Final = 200
"""Maximum number of listed files besides the instructions."""
_ABOUT: Final = (
    "Read the instructions for a kind of work before you do it. Pass a skill's name to get its instructions, and a "
    "file path to get a file that they mention. Available skills:"
)


class SkillArguments(ToolArguments, frozen=True, kw_only=True):
    """Arguments of skill."""

    name: Annotated[str, msgspec.Meta(min_length=1, description="Name of the skill.")]
    file: Annotated[str, msgspec.Meta(min_length=1, description="Path of a file in the skill's folder.")] | None = None


class SkillReader:
    """Reader of skills. Files are read on each call, and returned only if their content is still trusted."""

    def __init__(self, skills: Iterable[Skill]) -> None:
        self._skills: Mapping[str, Skill] = {skill.name: skill for skill in skills}

    async def run(self, name: str, args: dict[str, Any], key: str) -> ToolOutcome:
        """Return the instructions of a skill, or one of its files."""
        try:
            asked = read_arguments(SkillArguments, name, args)
        except BadArguments as error:
            return error.outcome
        found = self._skills.get(asked.name)
        if found is None:
            return ToolOutcome(f"skill {asked.name[:80]} not found; available: {', '.join(self._skills)}", True)
        act = partial(_instructions, found) if asked.file is None else partial(_file, found, asked.file)
        try:
            return ToolOutcome(await trio.to_thread.run_sync(act, abandon_on_cancel=True))
        except (NotAllowed, OSError) as error:
            said = error.strerror if isinstance(error, OSError) else error
            return ToolOutcome(f"{asked.file or INSTRUCTIONS}: {said}", True)


def skill(skills: tuple[Skill, ...]) -> BuiltinTool:
    """Return the tool for ``skills``."""
    room = LIST_CHARACTERS // max(len(skills), 1)
    lines = [f"- {one.name}: {' '.join(one.description.split())[:room]}" for one in skills]
    about = "\n".join([_ABOUT, *lines])
    return BuiltinTool(
        hand=SkillReader(skills), spec=tool_spec("skill", about, SkillArguments), read_only=BUILT_IN["skill"].read_only
    )


def _instructions(skill: Skill) -> str:
    place = ConfinedDir(skill.folder, as_it_is=True)
    # Omit the front matter.
    text = _trusted(skill, place, (INSTRUCTIONS,)).decode("utf-8", "replace")
    lines = text.lstrip("\ufeff").splitlines()
    if lines and lines[0].rstrip() == "---":
        ends = [number for number, line in enumerate(lines[1:], 1) if line.rstrip() in {"---", "..."}]
        text = "\n".join(lines[ends[0] + 1 :]).strip() if ends else text
    others = sorted(shown(file.parts) for file in Walk(place, ()) if file.parts != (INSTRUCTIONS,))
    told = [f"- {name}" for name in others[:FILES]]
    folder_text = f"[The folder of this skill is {skill.folder}"
    return "\n".join([text, f"{folder_text}; it also contains:" if told else f"{folder_text}.]", *told])


def _file(skill: Skill, path: str) -> str:
    place = ConfinedDir(skill.folder, as_it_is=True)
    data = _trusted(skill, place, place.find(path))
    return f"[a binary file of {len(data)} bytes]" if is_binary(data) else data.decode("utf-8", "replace")


def _trusted(skill: Skill, place: ConfinedDir, parts: Parts) -> bytes:
    """Return the content of a file of ``skill`` if it is trusted. Raises NotAllowed, OSError."""
    data = read_file(place, parts)
    if skill.files.get("/".join(parts)) != hashlib.sha256(data).hexdigest():
        raise NotAllowed("the file has changed since it was trusted: ask the user")
    return data
