"""``awk init``: an example to start from, written into the project; what is there already stays as it is."""

import argparse
from pathlib import Path
from typing import Final

from interface.cli.context import Context
from interface.cli.exits import Exit

EXAMPLES: Final = Path(__file__).parent.parent / "examples"
DEFAULT: Final = "hello"


def configure(parser: argparse.ArgumentParser) -> None:
    """Which example."""
    names = sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir())
    parser.add_argument("--example", choices=names, default=DEFAULT, help=f"which one (default: {DEFAULT})")


def run(context: Context) -> int:
    """Print every file that was written."""
    source = EXAMPLES / context.args.example
    root = Path(context.project.root)
    for file in sorted(path for path in source.rglob("*") if path.is_file()):
        name = file.relative_to(source)
        if _write_new(root / name, file.read_bytes()):
            context.out.lines([str(name)])
        else:
            context.out.note(f"note: {name} exists and was left alone")
    return Exit.OK


def _write_new(path: Path, content: bytes) -> bool:
    """Write ``path`` unless something is there, even a dangling link."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("xb") as file:
            file.write(content)
    except FileExistsError:
        return False
    return True
