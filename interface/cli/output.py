r"""Output: results on stdout, everything else on stderr; plain text without a terminal.

Colors, widths and truncation apply to terminals only. JSON is printed as the kernel wrote it. Text of agents is escaped
for terminals: characters that would move the cursor, or restyle, hide or reorder text, are printed as ``\x1b`` or
``\u202e``. This module does not use rich, which would parse text of agents as markup.

In the log of a CI job, commands for its runner are also escaped (interface.cli.runner_log).
"""

import json
import os
import re
import unicodedata
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any, Final, NamedTuple, TextIO, TypeVar

from interface.cli.runner_log import is_read_by_runner, neutral_json
from interface.failure import Failure

T = TypeVar("T")

_CONTROL: Final = "\x00-\x08\x0b-\x1f\x7f-\x9f"
"""C0 without tab and newline, DEL, and C1 (0x9b alone starts a control sequence)."""
_BIDI: Final = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_INVISIBLE: Final = (
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2028\u2029\u2060-\u2065\u206a-\u206f\u3164"
    "\ufe00-\ufe0d\ufeff\uffa0\ufff0-\uffff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Zero-width and default-ignorable characters, line separators, tags. U+FE0E and U+FE0F pass: emoji need them."""
_SURROGATES: Final = "\ud800-\udfff"
_UNSAFE: Final = f"[{_CONTROL}{_BIDI}{_INVISIBLE}{_SURROGATES}]"
"""Pattern for unsafe characters, compiled at the first text that may contain one; most texts are plain ASCII."""
_BREAKS: Final = r"[\n\t ]+"


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable()


def escape(text: str) -> str:
    """Return ``text`` with all characters visible that a terminal could interpret."""

    def visible(match: re.Match[str]) -> str:
        code = ord(match[0])
        if code <= 0xFF:
            return f"\\x{code:02x}"
        return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"

    return text if _is_plain(text) else re.sub(_UNSAFE, visible, text)


def one_line(text: str) -> str:
    """Escape ``text`` on one line, for cells of a table and log lines."""
    return escape(re.sub(_BREAKS, " ", text).strip())


def escape_json(document: str) -> str:
    """Return the same JSON value with all terminal control characters escaped.

    In valid JSON such characters occur inside strings only, where ``\\uXXXX`` means the same.
    """

    def spelled(match: re.Match[str]) -> str:
        code = ord(match[0])
        if code == 0x0D:
            return " "  # the one of them that JSON allows outside strings, as white space
        if code <= 0xFFFF:
            return f"\\u{code:04x}"
        code -= 0x10000
        return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"

    return document if _is_plain(document) else re.sub(_UNSAFE, spelled, document)


DEFAULT_WIDTH: Final = 80
_STYLES: Final = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


class Screen(NamedTuple):
    """Capabilities of an output; ``width`` is None if texts are not truncated."""

    colour: bool = False
    width: int | None = None

    def style(self, text: str, style: str) -> str:
        """Return ``text`` (already escaped) in a style if colours are on."""
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if self.colour else text


class OutputLost(Exception):
    """The output cannot be written, for the reason in the text. A closed pipe raises BrokenPipeError instead."""


@contextmanager
def _writing() -> Generator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputLost(error.strerror or str(error)) from error


class Output:
    """Standard output and standard error of a command, and their capabilities."""

    def __init__(self, stdout: TextIO, stderr: TextIO, environ: Mapping[str, str]) -> None:
        self._stdout = stdout
        self._stderr = stderr
        self._environ = environ
        self.unattended = bool(environ.get("CI"))
        """Whether no user is present for live tables or questions."""
        self._if_heard = False
        self.leave_aside()

    def leave_aside(self) -> None:
        """Unregister the progress lines below the output."""
        self.aside: Callable[[], AbstractContextManager[object]] = nullcontext
        """Hides the lines below the output while a block prints (run_progress)."""
        self.hide_aside: Callable[[], None] = lambda: None
        """Hides the lines below the output until something is printed."""

    @property
    def shows_progress(self) -> bool:
        """Return whether progress lines can be drawn below the output on standard error, and removed."""
        return self._stderr.isatty() and not self.unattended and self._environ.get("TERM") != "dumb"

    @property
    def is_terminal(self) -> bool:
        """Return whether stdout is a terminal."""
        return self._stdout.isatty()

    @property
    def screen(self) -> Screen:
        """Return the capabilities of stdout."""
        return Screen(self._colour(self._stdout), self.width() if self.is_terminal else None)

    @property
    def error_screen(self) -> Screen:
        """Return the capabilities of stderr."""
        return Screen(self._colour(self._stderr), self.width() if self._stderr.isatty() else None)

    def width(self) -> int:
        """Return the width of the terminal: COLUMNS, or else the terminal's own value."""
        asked = self._environ.get("COLUMNS", "")
        if asked.isdecimal() and int(asked) > 0:
            return int(asked)
        for stream in (self._stdout, self._stderr):
            try:
                return os.get_terminal_size(stream.fileno()).columns or DEFAULT_WIDTH
            except (OSError, ValueError):
                continue
        return DEFAULT_WIDTH

    def lines(self, lines: Iterable[str]) -> None:
        """Print lines that are already escaped, and flush the output."""
        with self.aside(), _writing():
            for line in lines:
                self._stdout.write(line + "\n")
            self._stdout.flush()

    def text(self, text: str) -> None:
        """Print a part of an agent's text: escaped, without an additional line end."""
        with self.aside(), _writing():
            self._stdout.write(escape(text))
            self._stdout.flush()

    def content(self, text: str) -> None:
        """Print a text exactly, in UTF-8 regardless of the locale; escaped on a terminal or in a CI job."""
        if self.is_terminal or is_read_by_runner(self._environ):
            self.text(text)
            return
        with self.aside(), _writing():
            self._stdout.flush()
            self._stdout.buffer.write(text.encode())
            self._stdout.buffer.flush()

    def document(self, body: bytes | str) -> None:
        """Print one JSON document, or one line of a stream of documents, in UTF-8 regardless of the locale."""
        text = escape_json(body.decode("utf-8", "replace") if isinstance(body, bytes) else body)
        if is_read_by_runner(self._environ):
            text = neutral_json(text)
        with self.aside(), _writing():
            self._stdout.flush()
            binary = self._stdout.buffer
            binary.write(text.rstrip("\n").encode() + b"\n")
            binary.flush()

    def note(self, text: str) -> None:
        """Print ``text``, which is not part of the result, to standard error."""
        try:
            with self.aside(), _writing():
                self._stderr.write(text + "\n")
                self._stderr.flush()
        except (BrokenPipeError, OutputLost):
            if not self._if_heard:
                raise
            _to_nowhere(self._stderr)

    def notes(self, lines: Iterable[str]) -> None:
        """Print ``lines``, which are escaped and not part of the result, to standard error in one write."""
        if text := "\n".join(lines):
            self.note(text)

    def command(self, lines: Iterable[str]) -> None:
        """Print commands for the runner of a CI job to standard error, unescaped."""
        with self.aside(), _writing():
            self._stderr.flush()
            self._stderr.buffer.write("".join(f"{line}\n" for line in lines).encode("utf-8", "backslashreplace"))
            self._stderr.buffer.flush()

    def draw(self, text: str) -> None:
        """Write text and cursor movements of this program to standard error, unescaped."""
        with _writing():
            self._stderr.write(text)
            self._stderr.flush()

    def ask(self, question: str) -> None:
        """Print ``question`` to standard error without a line end: the user answers on the same line."""
        self.hide_aside()
        self._stderr.write(escape(question))
        self._stderr.flush()

    def error(self, failure: Failure) -> None:
        """Print ``error: text``, the locations and the hint."""
        self.note("\n".join(error_lines(failure, self.error_screen)))

    def warning(self, failure: Failure) -> None:
        """Print a warning in the form of an error."""
        self.note("\n".join(error_lines(failure, self.error_screen, ("warning: ", "yellow"))))

    def silence(self) -> None:
        """Redirect stdout to the null device: its pipe is closed, and the interpreter would report an error at exit."""
        _to_nowhere(self._stdout)

    def speak_if_heard(self) -> None:
        """Ignore failures to write to standard error from now on, because cleanup has to finish."""
        self._if_heard = True

    def _colour(self, stream: TextIO) -> bool:
        plain = self._environ.get("NO_COLOR") or self._environ.get("TERM") == "dumb" or self.unattended
        return stream.isatty() and not plain


def _to_nowhere(stream: TextIO) -> None:
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except (OSError, ValueError):
        return


def error_lines(failure: Failure, screen: Screen, called: tuple[str, str] = ("error: ", "red")) -> list[str]:
    """Return the error as lines for people, with text of agents and files escaped."""
    # Remove the location that the kernel puts before the problem for readers of a single line.
    if not failure.places:
        what = failure.text
    else:
        first = failure.places[0]
        what = failure.text.removeprefix(f"{first.path}:{first.line}:{first.column}").removeprefix(":").lstrip()
    lines = [screen.style(*called) + escape(what)]
    for place in failure.places:
        told = "" if place.message in what else f": {place.message}"
        where = f"{place.path}:{place.line}:{place.column} {place.where}".rstrip()
        lines.append(f"  at {escape(where + told)}")
        if place.source.strip():
            # The line and a caret below column (from 1). Tabs become one space, so that the caret stays true.
            source = place.source
            source = source.rstrip("\n").replace("\t", " ")
            before = escape(source[: max(place.column - 1, 0)])
            lines += [f"    {escape(source)}", f"    {' ' * len(before)}^"]
        if place.hint:
            lines.append(f"  hint: {escape(place.hint)}")
    if failure.hint and failure.hint not in {place.hint for place in failure.places}:
        lines.append(f"  hint: {escape(failure.hint)}")
    return lines


def decode(body: bytes, type_: type[T]) -> T:
    """Decode a document of the kernel. Imports msgspec, which only views need."""
    import msgspec  # noqa: PLC0415  (25 ms, which --json does without)

    return msgspec.json.decode(body, type=type_)


def view_lines(view: Callable[..., list[str]], document: object, screen: Screen, *more: object) -> list[str]:
    """Return the lines of ``view`` for a document, which it gets as the type of its first parameter.

    The type is bytes, dict or a Struct. A document that is already a Struct is passed unchanged.
    """
    kind = next(iter(getattr(view, "func", view).__annotations__.values()))
    if isinstance(document, bytes) and kind is not bytes:
        document = decode(document, kind) if hasattr(kind, "__struct_fields__") else json.loads(document)
    return view(document, screen, *more)


def read_fields(body: bytes) -> Any:
    """Return a document of the kernel with its fields as attributes, without validation.

    Frequent views use this function, because msgspec would double the time of ``ps``.
    """
    return json.loads(body, object_hook=lambda fields: SimpleNamespace(**fields))


_GAP: Final = "  "


def table(
    header: Sequence[str], rows: Sequence[Sequence[str]], screen: Screen, *, right: frozenset[str] = frozenset()
) -> list[str]:
    """Return the lines of a table, cut to the width of ``screen``, if any; columns ``right`` are right-aligned."""
    cells = [[one_line(cell) for cell in row] for row in rows]
    widths = [max([width(title), *(width(row[place]) for row in cells)]) for place, title in enumerate(header)]
    lines: list[str] = []
    for row in [list(header), *cells]:
        aligned: list[str] = []
        for cell, size, title in zip(row, widths, header, strict=True):
            space = " " * (size - width(cell))
            aligned.append(space + cell if title in right else cell + space)
        lines.append(cut(_GAP.join(aligned).rstrip(), screen.width))
    return [screen.style(lines[0], "bold"), *lines[1:]]


def width(text: str) -> int:
    """Return the number of columns of ``text`` on a terminal (East Asian wide characters take two)."""
    if text.isascii():
        return len(text)
    return sum(_width_of(character) for character in text)


def cut(text: str, columns: int | None) -> str:
    """Return ``text`` in at most ``columns`` (None: no limit), with an ellipsis if it is truncated."""
    if columns is None or width(text) <= columns:
        return text
    kept, used = [], 1
    for character in text:
        used += _width_of(character)
        if used > columns:
            break
        kept.append(character)
    return "".join(kept) + "…"


def wrapped(text: str, columns: int) -> list[str]:
    """Split ``text`` (one line, escaped) into rows of at most ``columns`` characters.

    Tabs become blanks, because their width depends on the start of a row.
    """
    rows, row, used = [], "", 0
    for character in text.expandtabs():
        size = _width_of(character)
        if used + size > columns:
            rows.append(row)
            row, used = "", 0
        row, used = row + character, used + size
    return [*rows, row]


def behind(mark: str, text: str, columns: int | None) -> list[str]:
    """Return ``text`` (one line, escaped) in rows of at most ``columns`` (None: no limit), each after ``mark``.

    The mark in every row distinguishes the text from lines of this program.
    """
    rows = [text] if columns is None else wrapped(text, max(columns - width(mark), 20))
    return [f"{mark}{row}".rstrip() for row in rows]


_WIDER: Final = ((0x2630, 0x2637), (0x268A, 0x268F), (0x3248, 0x324F), (0x4DC0, 0x4DFF), (0x1D300, 0x1D376))
"""Ranges of characters that are wide in newer Unicode tables than those of Python or the C library."""


def _width_of(character: str) -> int:
    """Return the maximum width of a row in any terminal, because rows that are too long would wrap."""
    if unicodedata.combining(character) and unicodedata.category(character) == "Mn":
        return 0
    wide = unicodedata.east_asian_width(character) in "WF" or any(a <= ord(character) <= b for a, b in _WIDER)
    return 2 if wide else 1
