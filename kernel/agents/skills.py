"""Skills: folders of the project with a ``SKILL.md`` that says, in front, what they are for (agentskills.io).

Here they are found and told apart; what is in them is text for a model, which needs the user's trust as a whole.
"""

import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Final, NamedTuple

from kernel.source.diagnostics import Diagnostics, fail
from kernel.source.files import BadFolder, FolderFile, digest_of, folder_files
from kernel.source.safe_paths import NotInside, plain_path
from kernel.source.yaml_tree import MapNode, Node, ScalarNode, decode_utf8, parse_yaml
from protocol.tools import Skill

INSTRUCTIONS: Final = "SKILL.md"
HOME: Final = ".agents/skills"
"""Where imported skills are, and where an agent's are that names no folder."""
LOCK: Final = "skills.lock"
"""What imported skills are pinned to; it stays when the last of them is removed."""
MAX_SKILLS: Final = 100
MAX_SKILL_FILES: Final = 4000
"""In all skills of one agent: a worker is told of each."""
NAME_LIMIT: Final = 64
DESCRIPTION_LIMIT: Final = 1024
_NAME: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*", re.ASCII)
_MARK: Final = "---"
_KEY: Final = "skills"


class FoundSkill(NamedTuple):
    """One skill. ``path`` is its folder as seen from the root, ``digest`` that of all its files."""

    skill: Skill
    path: str
    digest: str


def skills_of(folders: tuple[str, ...], root: Path) -> tuple[FoundSkill, ...]:
    """The skills in ``folders``: each is one, or holds some. Raises BadDefinition."""
    found: dict[str, FoundSkill] = {}
    for folder in folders:
        for one in _in(folder, root):
            other = found.setdefault(one.skill.name, one)
            if other.path != one.path:
                raise fail(f"{one.path}/{INSTRUCTIONS}", f"{other.path} is called {one.skill.name} too", "rename one")
    if len(found) > MAX_SKILLS:
        raise fail(folders[0], f"there are more than {MAX_SKILLS} skills", "name the folders that the agent needs")
    if sum(len(one.skill.files) for one in found.values()) > MAX_SKILL_FILES:
        raise fail(folders[0], f"its skills have more than {MAX_SKILL_FILES} files", "name those that the agent needs")
    return tuple(found.values())


def home_skills(root: Path) -> tuple[FoundSkill, ...]:
    """The skills in HOME; none where there is no such folder, or nothing but a lock in it. Raises BadDefinition."""
    try:
        names = os.listdir(root / HOME)
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except OSError:
        return skills_of((HOME,), root)  # which says what is wrong with it
    return skills_of((HOME,), root) if any(name[0] != "." and name != LOCK for name in names) else ()


def skills_prompt(skills: tuple[Skill, ...]) -> str:
    """The part of the system prompt that lists ``skills``, for a program that reads files by itself."""
    if not skills:
        return ""
    lines = [f"- {one.name}: {' '.join(one.description.split())} ({one.folder}/{INSTRUCTIONS})" for one in skills]
    return "\n".join(["Before you do one of these, read how it is done here:", *lines])


def read_skill(path: str, files: tuple[FolderFile, ...], root: Path) -> FoundSkill:
    """The skill whose folder ``path`` has ``files``. Raises BadDefinition."""
    for odd in (path, *(file.name for file in files)):
        # Names are bytes, and may hold anything: all of them can be shown and told, or the skill is refused.
        if all(ord(letter) >= 32 and not 0xD800 <= ord(letter) <= 0xDFFF for letter in odd):
            continue
        raise fail(ascii(path)[:200], f"{odd[:200]!a} is no name of a file that can be told", "rename it", where=_KEY)
    shown = f"{path}/{INSTRUCTIONS}"
    data = next((file.data for file in files if file.name == INSTRUCTIONS and file.kind != "link"), None)
    if data is None:
        raise fail(shown, "is not there", f"a skill is a folder with a {INSTRUCTIONS}")
    node, problems = _front(data, shown)
    name = _text(node, "name") or PurePath(path).name
    if len(name) > NAME_LIMIT or not _NAME.fullmatch(name):
        hint = "small letters, digits and single -, as the folder is called"
        problems.add(node.place_of("name"), "name", f"{name[:80]!r} is no skill's name", hint)
    about = _text(node, "description")
    if not about or len(about) > DESCRIPTION_LIMIT:
        message = f"is longer than {DESCRIPTION_LIMIT} characters" if about else "is missing"
        problems.add(node.place_of("description"), "description", message, "say what it is for, and when to use it")
    problems.check()
    contents = {file.name: hashlib.sha256(file.data).hexdigest() for file in files if file.kind != "link"}
    folder = os.path.join(os.path.realpath(root), path)
    skill = Skill(name=name, description=about or "", folder=folder, files=contents)
    return FoundSkill(skill, path, digest_of(files))


def _in(folder: str, root: Path) -> Iterator[FoundSkill]:
    try:
        path = plain_path(folder)
        files = folder_files(str(root), path)
    except (NotInside, BadFolder) as error:
        raise fail(folder[:200], f"{folder[:200]!r} cannot be taken: {error}", where=_KEY) from error
    except OSError as error:
        message = f"{folder[:200]!r} is no folder of the project: {error.strerror}"
        raise fail(folder[:200], message, where=_KEY) from error
    if any(file.name == INSTRUCTIONS for file in files):
        yield read_skill(path, files, root)
        return
    # Folders with instructions in them; hidden ones are on their way in or out (awk skills).
    parts = (PurePath(file.name).parts for file in files)
    names = sorted({one[0] for one in parts if one[1:] == (INSTRUCTIONS,) and not one[0].startswith(".")})
    if not names:
        message = f"{folder[:200]!r} holds no skill: neither a {INSTRUCTIONS}, nor a folder with one"
        raise fail(folder[:200], message, where=_KEY)
    for name in names:
        below = f"{name}/"
        own = (file for file in files if file.name.startswith(below))
        yield read_skill(
            f"{path}/{name}",
            tuple(FolderFile(file.name.removeprefix(below), file.kind, file.data) for file in own),
            root,
        )


def _front(data: bytes, shown: str) -> tuple[MapNode, Diagnostics]:
    """The front matter. Raises BadDefinition where there is none."""
    problems = Diagnostics(shown)
    text = decode_utf8(data, problems)
    problems.check()
    lines = text.splitlines()
    end = next((number for number, line in enumerate(lines[1:], 1) if line.rstrip() == _MARK), None)
    if not lines or lines[0].rstrip() != _MARK or end is None:
        hint = f"begin it with a line {_MARK}, name: and description:, and a line {_MARK}"
        raise fail(shown, "has no front matter", hint)
    problems.text = "\n".join(["", *lines[1:end]])  # the empty line keeps the places right
    node: Node | None = parse_yaml(problems.text, problems)
    problems.check()
    if not isinstance(node, MapNode):
        raise fail(shown, "has no keys in its front matter", "it needs description:")
    return node, problems


def _text(node: MapNode, key: str) -> str | None:
    value = node.get(key)
    return value.text.strip() if isinstance(value, ScalarNode) and not value.is_null else None
