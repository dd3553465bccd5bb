"""The final answer of a run as JSON: all of the text, or all of one fence."""

import json
import re
from typing import Any, Final, NoReturn

_FENCED: Final = re.compile(r"\s*(?P<marks>`{3,})[a-zA-Z]*[ ]*\n(?P<body>.*?)\n(?P=marks)\s*", re.DOTALL)


class NotJson(ValueError):
    """A text that is not one JSON value. The text of the error says where."""


def read_output(text: str) -> Any:
    """The JSON value that ``text`` is, by itself or as one fenced block. Raises NotJson."""
    match = _FENCED.fullmatch(text)
    try:
        return json.loads(match["body"] if match else text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise NotJson(str(error)[:200] if isinstance(error, ValueError) else "it is nested too deeply") from error


def _no_number(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")
