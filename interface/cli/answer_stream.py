"""An answer as it is written: deltas onto stdout, and nothing twice."""

from collections.abc import Callable


class AnswerStream:
    """Prints the deltas of one instruction through ``write`` (which escapes), and at the end what they left out."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._segment = ""
        self._over = False
        self._printed = False

    def delta(self, text: str) -> None:
        """More of the reply that is being written."""
        if self._over:
            self._break_line()
            self._segment, self._over = "", False
        self._segment += text
        self._printed = True
        self._write(text)

    def reply_ended(self) -> None:
        """This reply is whole, or given up; a delta that follows belongs to the next."""
        self._over = bool(self._segment)

    def finish(self, text: str) -> None:
        """The answer is ``text``: print it unless it is what the last reply showed."""
        if text.strip() and self._segment.strip() != text.strip():
            self._break_line()
            self._write(text)
            self._segment, self._printed = text, True
        self._break_line()

    def _break_line(self) -> None:
        if self._printed and not self._segment.endswith("\n"):
            self._write("\n")
            self._segment += "\n"
