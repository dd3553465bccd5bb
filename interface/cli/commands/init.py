"""``awk init``: an example to start from, written into the project; what is there already stays as it is."""

import argparse
import re
from pathlib import Path
from typing import Final

from interface.cli.commands.validate import header, write_schemas
from interface.cli.context import Context
from interface.cli.exits import Exit
from interface.failure import Failure
from protocol.backends import BACKENDS, CLIS
from protocol.yaml_writer import inline

EXAMPLES: Final = Path(__file__).parent.parent / "examples"
DEFAULT: Final = "hello"
LIST: Final = "list"
MODELS: Final = {"claude": "sonnet"}
"""The model of a program, where one can be named that its owner is likely to have."""
_SCRIPTED: Final = re.compile(r"^( *)model: mock/.*$", re.MULTILINE)


def configure_init(parser: argparse.ArgumentParser) -> None:
    about = f"which one (default: {DEFAULT}); list: only say which there are"
    parser.add_argument("--example", choices=[*_names(), LIST], default=DEFAULT, help=about)
    about = "this program does the work of its agents, in place of their scripts"
    parser.add_argument("--backend", choices=sorted(name for name in CLIS if BACKENDS[name].binaries), help=about)
    parser.add_argument("-m", "--model", metavar="MODEL", help="with --backend: its model (claude: sonnet)")


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
    engine = _engine(context.args.backend, context.args.model)
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
                content = header(name) + file.read_text(encoding="utf-8")
                if engine:
                    content = _SCRIPTED.sub(lambda found: "\n".join(f"{found[1]}{line}" for line in engine), content)
                new.write(content.encode())
        except FileExistsError:
            context.out.note(f"note: {name} exists and was left alone")
        except OSError as error:
            raise _unwritable(path, error) from error
        else:
            context.out.lines([name])
    context.out.lines(write_schemas(str(root)))
    return Exit.OK


def _engine(backend: str | None, model: str | None) -> tuple[str, ...]:
    if backend is None:
        if model is None:
            return ()
        raise Failure("usage", "--model goes with --backend", "name both: --backend claude --model sonnet")
    chosen = model or MODELS.get(backend)
    if chosen is None:
        raise Failure("usage", f"the model of {backend} is missing", "name one: --model provider/name")
    # Where nobody can be asked before a tool runs, what it does stays in a sandbox.
    alone = BACKENDS[backend].permission_prompt == "no"
    return (
        f"backend: {backend}",
        f"model: {inline(chosen, flow=False)}",
        *(("approval: auto", "sandbox: on") if alone else ()),
    )


def _names() -> list[str]:
    return sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir())


def _unwritable(path: Path, error: OSError) -> Failure:
    return Failure("failed", f"{path} cannot be written: {error.strerror or error}")
