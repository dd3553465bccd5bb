"""``awk init``: an example to start from, written into the project; what is there already stays as it is."""

import argparse
from pathlib import Path
from typing import Final

from interface.cli.commands.validate import header, write_schemas
from interface.cli.context import Context
from interface.cli.exits import Exit
from interface.failure import Failure

EXAMPLES: Final = Path(__file__).parent.parent / "examples"
DEFAULT: Final = "hello"
LIST: Final = "list"


def configure_init(parser: argparse.ArgumentParser) -> None:
    """[--example NAME]."""
    about = f"which one (default: {DEFAULT}); list: only say which there are"
    parser.add_argument("--example", choices=[*_names(), LIST], default=DEFAULT, help=about)


def run_init(context: Context) -> int:
    """Print every file that was written, or the examples there are. Raises Failure."""
    if context.args.example == LIST:
        for name in _names():
            workflow = next((EXAMPLES / name / ".workflows").iterdir())
            with workflow.open(encoding="utf-8") as text:
                about = text.readline().lstrip("# ").strip()
            context.out.lines([f"{name:<10} {about}"])
        return Exit.OK
    source = EXAMPLES / context.args.example
    root = Path(context.project.root)
    for file in sorted(path for path in source.rglob("*") if path.is_file()):
        name = file.relative_to(source).as_posix()
        path = root / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _unwritable(path.parent, error) from error
        try:
            with path.open("xb") as new:  # unless something is there, even a dangling link
                new.write(header(name).encode() + file.read_bytes())
        except FileExistsError:
            context.out.note(f"note: {name} exists and was left alone")
        except OSError as error:
            raise _unwritable(path, error) from error
        else:
            context.out.lines([name])
    context.out.lines(write_schemas(context.environ, str(root)))
    return Exit.OK


def _names() -> list[str]:
    return sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir())


def _unwritable(path: Path, error: OSError) -> Failure:
    return Failure("failed", f"{path} cannot be written: {error.strerror or error}")
