"""Changes the project file, every other byte of it left as it is. What would be wrong is not put in place."""

import os
from collections.abc import Callable
from typing import Final

from interface.failure import Failure
from interface.offline import check_project_text
from interface.safe_dir import SafeDir
from protocol.yaml_edit import Uneditable
from protocol.yaml_reading import NotYaml

NAMES: Final = (".agents.yaml", "moniro.yaml")
"""As the kernel looks for it; the first is made where there is none."""


def file_name(root: str) -> str:
    """The name of the project file here."""
    return next((name for name in NAMES if os.path.lexists(os.path.join(root, name))), NAMES[0])


def read_project_file(root: str) -> str:
    """Its text; "" where there is none. Raises Failure."""
    name = file_name(root)
    try:
        with SafeDir.open(root, ".") as folder:
            return folder.read(name)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise Failure("failed", str(error)) from error


def change_project_file(root: str, change: Callable[[str], str]) -> bool:
    """Put what ``change`` makes of the text in its place. Returns whether it differs.

    Raises Failure: what ``change`` raises, bad_definition with the places, failed.
    """
    name = file_name(root)
    try:
        with SafeDir.open(root, ".") as folder, folder.locked():
            try:
                before = folder.read(name)
            except FileNotFoundError:
                before = ""
            try:
                after = change(before)
            except (NotYaml, Uneditable) as error:
                raise Failure("failed", f"{name}: {error}", "edit it by hand") from error
            if after == before:
                return False
            if not after.strip():
                after = "{}\n"  # an empty file is no project file
            faults = check_project_text(name, after)
            if faults:
                raise Failure(
                    "bad_definition", f"{faults[0].message}; the file is as it was", faults[0].hint, places=faults
                )
            folder.write(name, after)
    except OSError as error:
        raise Failure("failed", f"{name} cannot be changed: {error.strerror or error}") from error
    return True
