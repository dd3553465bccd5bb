"""A mock script's words: which rule plays, and what its ``${{ }}`` stand for. Pure."""

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from protocol.agent import Action, Rule
from worker.models.errors import Failed

_VARIABLE: Final = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")

Values = Mapping[str, str]


def choose(rules: tuple[Rule, ...], text: str) -> tuple[int, Rule, Values] | None:
    """The first rule for ``text``, its number, and the values its actions may use. Raises Failed (bad pattern)."""
    for number, rule in enumerate(rules):
        if rule.when is None:
            return number, rule, {"message.text": text}
        try:
            match = re.search(rule.when, text)
        except re.error as error:
            raise Failed("invalid", f"mock rule {number}: {rule.when!r} is no regular expression: {error}") from error
        if match:
            return number, rule, {"message.text": text, **_groups(match)}
    return None


def _groups(match: re.Match[str]) -> dict[str, str]:
    numbered = {f"match.{i}": group or "" for i, group in enumerate((match[0], *match.groups()))}
    return numbered | {f"match.{name}": group or "" for name, group in match.groupdict().items()}


def fill(action: Action, values: Values) -> Action:
    """``action`` with its variables replaced, once: values are not expanded again. Raises Failed (unknown name)."""
    error = action.error
    return msgspec.structs.replace(
        action,
        text=_filled(action.text, values),
        shell=_filled(action.shell, values),
        args=_filled(action.args, values),
        error=msgspec.structs.replace(error, text=_filled(error.text, values)) if error else None,
    )


def _filled(value: Any, values: Values) -> Any:
    match value:
        case str() if "${{" in value:
            return _VARIABLE.sub(lambda match: _value(match[1], values), value)
        case list():
            return [_filled(item, values) for item in value]
        case dict():
            return {key: _filled(item, values) for key, item in value.items()}
        case _:
            return value


def _value(name: str, values: Values) -> str:
    if name not in values:
        raise Failed("invalid", f"mock script: ${{{{ {name} }}}} is not known here; known: {', '.join(sorted(values))}")
    return values[name]
