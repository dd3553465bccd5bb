"""Skills of a project, and rules in its nearest CLAUDE.md and AGENTS.md.

A skill is a folder with a ``SKILL.md`` whose front matter describes its purpose (agentskills.io). Skills are found and
checked here; their content is text for a model, and needs the user's trust as a whole.

Rules in folders of the project are reported when a file tool first accesses a file below (``worker.tools.files``); here
they are found and pinned, so that an agent only follows rules that the user has granted.
"""

import hashlib
import os
import re
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Final, NamedTuple

from kernel.source.diagnostics import BadDefinition, Diagnostics, fail
from kernel.source.files import BadFolder, FileMissing, FolderFile, digest_of, folder_files, read_bytes
from kernel.source.safe_paths import NotInside, plain_path
from kernel.source.yaml_tree import MapNode, Node, ScalarNode, decode_utf8, parse_yaml
from protocol.tools import RULES_FILES, Skill

INSTRUCTIONS: Final = "SKILL.md"
HOME: Final = ".agents/skills"
"""Folder of imported skills, and the default folder of an agent's skills."""
LOCK: Final = "skills.lock"
"""Lock file of imported skills; it remains when the last skill is removed."""
MAX_SKILLS: Final = 100
MAX_SKILL_FILES: Final = 4000
"""Maximum number of files in all skills of one agent: a worker receives a list of them."""
NAME_LIMIT: Final = 64
DESCRIPTION_LIMIT: Final = 1024
_NAME: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*", re.ASCII)
_MARK: Final = "---"
_KEY: Final = "skills"


class FoundSkill(NamedTuple):
    """A skill. ``path`` is its folder relative to the root, ``digest`` covers all its files."""

    skill: Skill
    path: str
    digest: str


def skills_of(folders: tuple[str, ...], root: Path) -> tuple[FoundSkill, ...]:
    """Return the skills in ``folders``, which are or contain skills. Raises BadDefinition."""
    found: dict[str, FoundSkill] = {}
    for folder in folders:
        for one in _in(folder, root):
            other = found.setdefault(one.skill.name, one)
            if other.path != one.path:
                raise fail(f"{one.path}/{INSTRUCTIONS}", f"{other.path} is also named {one.skill.name}", "rename one")
    if len(found) > MAX_SKILLS:
        raise fail(folders[0], f"more than {MAX_SKILLS} skills found", "list only the folders that the agent needs")
    if sum(len(one.skill.files) for one in found.values()) > MAX_SKILL_FILES:
        raise fail(
            folders[0],
            f"the skills have more than {MAX_SKILL_FILES} files",
            "list only the skills that the agent needs",
        )
    return tuple(found.values())


def home_skills(root: Path) -> tuple[FoundSkill, ...]:
    """Return the skills in HOME; none if the folder does not exist or contains only a lock. Raises BadDefinition."""
    try:
        names = os.listdir(root / HOME)
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except OSError:
        return skills_of((HOME,), root)  # reports the error
    return skills_of((HOME,), root) if any(name[0] != "." and name != LOCK for name in names) else ()


def skills_prompt(skills: tuple[Skill, ...]) -> str:
    """Return the part of the system prompt that lists ``skills``, for a program that reads files itself."""
    if not skills:
        return ""
    lines = [f"- {one.name}: {' '.join(one.description.split())} ({one.folder}/{INSTRUCTIONS})" for one in skills]
    return "\n".join(["Read the matching file before you do one of these tasks:", *lines])


def read_skill(path: str, files: tuple[FolderFile, ...], root: Path) -> FoundSkill:
    """Return the skill in the folder ``path`` with the content ``files``. Raises BadDefinition."""
    for odd in (path, *(file.name for file in files)):
        # File names are arbitrary bytes: a name that cannot be displayed makes the skill invalid.
        if all(ord(letter) >= 32 and not 0xD800 <= ord(letter) <= 0xDFFF for letter in odd):
            continue
        raise fail(ascii(path)[:200], f"{odd[:200]!a} is not a displayable file name", "rename it", where=_KEY)
    shown = f"{path}/{INSTRUCTIONS}"
    data = next((file.data for file in files if file.name == INSTRUCTIONS and file.kind != "link"), None)
    if data is None:
        raise fail(shown, "not found", f"a skill is a folder with a {INSTRUCTIONS}")
    node, problems = _front(data, shown)
    name = _text(node, "name") or PurePath(path).name
    if len(name) > NAME_LIMIT or not _NAME.fullmatch(name):
        hint = "use lowercase letters, digits and single hyphens, like the folder name"
        problems.add(node.place_of("name"), "name", f"{name[:80]!r} is not a valid skill name", hint)
    about = _text(node, "description")
    if not about or len(about) > DESCRIPTION_LIMIT:
        message = f"is longer than {DESCRIPTION_LIMIT} characters" if about else "is missing"
        problems.add(node.place_of("description"), "description", message, "describe its purpose and when to use it")
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
        raise fail(folder[:200], f"folder {folder[:200]!r} cannot be used: {error}", where=_KEY) from error
    except OSError as error:
        message = f"{folder[:200]!r} is not a folder of the project: {error.strerror}"
        raise fail(folder[:200], message, where=_KEY) from error
    if any(file.name == INSTRUCTIONS for file in files):
        yield read_skill(path, files, root)
        return
    # Folders with instructions; hidden ones are being installed or removed (awk skills).
    parts = (PurePath(file.name).parts for file in files)
    names = sorted({one[0] for one in parts if one[1:] == (INSTRUCTIONS,) and not one[0].startswith(".")})
    if not names:
        message = f"{folder[:200]!r} contains no skill: neither a {INSTRUCTIONS}, nor a folder with one"
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
    problems = Diagnostics(shown)
    text = decode_utf8(data, problems)
    problems.check()
    lines = text.splitlines()
    end = next((number for number, line in enumerate(lines[1:], 1) if line.rstrip() == _MARK), None)
    if not lines or lines[0].rstrip() != _MARK or end is None:
        hint = f"start it with a line {_MARK}, name: and description:, and a line {_MARK}"
        raise fail(shown, "has no front matter", hint)
    problems.text = "\n".join(["", *lines[1:end]])  # the empty line keeps the line numbers correct
    node: Node | None = parse_yaml(problems.text, problems)
    problems.check()
    if not isinstance(node, MapNode):
        raise fail(shown, "has no keys in its front matter", "add description:")
    return node, problems


def _text(node: MapNode, key: str) -> str | None:
    value = node.get(key)
    return value.text.strip() if isinstance(value, ScalarNode) and not value.is_null else None


KEY: Final = "project_rules"
MAX_RULES_BYTES: Final = 64 * 1024
"""Maximum size of one file."""


class RulesFile(NamedTuple):
    """A file with rules. ``path`` is relative to the project root."""

    path: str
    text: str
    digest: str


FOLDERS: Final = 2000
"""Maximum number of searched folders of a project, upper ones first; rules in further ones are ignored."""
_PASSED_BY: Final = frozenset({"node_modules", "__pycache__"})


class _Walked(NamedTuple):
    """The searched folders of a project with their modification times, and the rule files in them."""

    folders: tuple[tuple[str, int], ...]
    found: tuple[str, ...]


_walked: Final[dict[str, _Walked]] = {}


def rules_of(root: Path) -> tuple[RulesFile, ...]:
    """Return rules of the nearest folder with rules: the project or a parent in its repository.

    Raises BadDefinition for a file that is too large, not text, or a link: a link could expose another file, such as
    ``.env``. A link between the two names is allowed and ignored.
    """
    real = Path(os.path.realpath(root))
    folders = [real, *real.parents]
    top = next((number for number, folder in enumerate(folders) if (folder / ".git").exists()), 0)
    for folder in folders[: top + 1]:
        found: dict[bytes, RulesFile] = {}
        for name in RULES_FILES:
            if _names_the_other(folder / name):
                continue
            shown = os.path.relpath(folder / name, real)
            with suppress(FileMissing):
                data = read_bytes(folder / name, shown, MAX_RULES_BYTES, KEY, links=False)
                problems = Diagnostics(shown)
                text = decode_utf8(data, problems)
                problems.check()
                # The two files may be copies: use the text once.
                found.setdefault(data, RulesFile(shown, text, hashlib.sha256(data).hexdigest()))
        if found:
            return tuple(found.values())
    return ()


def _names_the_other(file: Path) -> bool:
    try:
        target = os.readlink(file)
    except OSError:
        return False
    return target in RULES_FILES and not (file.parent / target).is_symlink()


def nested_rules(root: Path) -> dict[str, str]:
    """Return the rule files in folders of the project, with the SHA-256 of each. Blocks while they are read.

    Files that cannot be shown (too large, a link) are left out: they can be neither granted nor reported.
    """
    real = os.path.realpath(root)
    known = _walked.get(real)
    if known is None or any(_changed_ns(folder) != at for folder, at in known.folders):
        known = _walked[real] = _walk(real)
    pinned: dict[str, str] = {}
    for file in known.found:
        shown = os.path.relpath(file, real)
        with suppress(FileMissing, BadDefinition, OSError, UnicodeDecodeError):
            data = read_bytes(Path(file), shown, MAX_RULES_BYTES, KEY, links=False)
            data.decode()  # raises UnicodeDecodeError for other content
            pinned[shown] = hashlib.sha256(data).hexdigest()
    return pinned


def _walk(root: str) -> _Walked:
    folders: list[tuple[str, int]] = []
    found: list[str] = []
    pending = deque([root])
    while pending and len(folders) < FOLDERS:
        folder = pending.popleft()
        try:
            # Stat before listing: a file created in between then counts as a change.
            folders.append((folder, _changed_ns(folder)))
            with os.scandir(folder) as entries:
                names = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            continue
        found += [entry.path for entry in names if entry.name in RULES_FILES and folder != root and entry.is_file()]
        inner = (entry for entry in names if entry.name[0] != "." and entry.name not in _PASSED_BY)
        pending += [entry.path for entry in inner if entry.is_dir(follow_symlinks=False)]
    return _Walked(tuple(folders), tuple(path for path in found if not _names_the_other(Path(path))))


def _changed_ns(folder: str) -> int:
    try:
        return os.stat(folder, follow_symlinks=False).st_mtime_ns
    except OSError:
        return 0
