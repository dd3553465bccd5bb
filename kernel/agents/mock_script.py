"""The mock script of an agent: its short forms, and the rules between its keys."""

import re
import signal
from typing import Final

from kernel.source.diagnostics import Diagnostics, Location
from kernel.source.yaml_tree import ListNode, MapNode, Node, ScalarNode
from protocol.agent import Action, MockExit, Rule

MAX_PATTERN: Final = 1000
"""Maximum length of a ``when`` pattern. It runs in the worker, where a slow one delays only its own attempt."""

_ACTIONS: Final = ("tool", "shell", "sleep", "error", "exit", "usage", "text")
_SIGNALS: Final = frozenset(known.name.removeprefix("SIG") for known in signal.Signals)
_RULE_KEYS: Final = frozenset({"do", "when"})
_VARIABLE: Final = re.compile(r"\$\{\{(.*?)\}\}", re.DOTALL)
_KNOWN_VARIABLE: Final = re.compile(r"message\.text|match\.([A-Za-z_]\w*|[0-9]{1,2})", re.ASCII)


def full_rules(node: Node) -> Node:
    """Expand a list of actions to a rule that always matches; leave a list of rules unchanged."""
    if (
        not isinstance(node, ListNode)
        or not node.items
        or any(
            (isinstance(item, MapNode) and any(key.text in _RULE_KEYS for key, _ in item.entries))
            for item in node.items
        )
    ):
        return node
    return ListNode((MapNode(((_word("do", node.place), node),), node.place),), node.place)


def full_exit(node: Node) -> Node:
    """Expand ``exit: SIGKILL`` or ``exit: 3`` to the equivalent mapping."""
    if not isinstance(node, ScalarNode) or node.is_null:
        return node
    key = "code" if node.text.lstrip("-").isdigit() else "signal"
    return MapNode(((_word(key, node.place), node),), node.place)


def check_script(rules: tuple[Rule, ...], node: Node, where: str, problems: Diagnostics) -> None:
    """Report the errors in ``rules``, which were converted from ``node``."""
    full = full_rules(node)
    for index, rule in enumerate(rules):
        spot = _item(full, index)
        at = f"{where}[{index}]"
        pattern: re.Pattern[str] | None = None
        when = spot.get("when") if isinstance(spot, MapNode) else None
        place = (when or spot).place
        if rule.when is not None and len(rule.when) > MAX_PATTERN:
            problems.add(place, f"{at}.when", f"the pattern is longer than {MAX_PATTERN} characters")
        elif rule.when is not None:
            try:
                pattern = re.compile(rule.when)
            except (re.error, RecursionError, OverflowError) as error:
                hint = "use single quotes, which keep \\"
                problems.add(place, f"{at}.when", f"not a regular expression: {error}", hint)
        actions = spot.get("do") if isinstance(spot, MapNode) else None
        for number, action in enumerate(rule.do):
            _Check(problems, _item(actions, number), f"{at}.do[{number}]", rule, pattern).action(action)


def plain_exit(action: Action) -> Action:
    """Return ``action`` with its signal in the worker's spelling: ``KILL``."""
    if action.exit is None or action.exit.signal is None:
        return action
    name = action.exit.signal.removeprefix("SIG")
    return Action(exit=MockExit(signal=name, times=action.exit.times))


class _Check:
    def __init__(
        self, problems: Diagnostics, node: Node, where: str, rule: Rule, pattern: re.Pattern[str] | None
    ) -> None:
        self._problems = problems
        self._node = node
        self._where = where
        self._rule = rule
        self._pattern = pattern

    def action(self, action: Action) -> None:
        keys = [key for key in _ACTIONS if getattr(action, key) is not None]
        if len(keys) != 1:
            said = ", ".join(keys) if keys else "none"
            self._bad("", f"an action needs exactly one of {', '.join(_ACTIONS)}; found {said}")
        if action.args is not None and action.tool is None:
            self._bad(".args", "args can only be combined with tool")
        if action.background is not None and action.shell is None:
            self._bad(".background", "background can only be combined with shell")
        if action.exit is not None:
            ending = action.exit
            if (ending.signal is None) == (ending.code is None):
                self._bad(".exit", "needs exactly one of signal and code")
            if ending.signal is not None and ending.signal.removeprefix("SIG") not in _SIGNALS:
                self._bad(".exit", f"{ending.signal[:40]} is not a signal", "for example KILL or TERM")
        if action.error is not None and action.error.http_status is None and action.error.code is None:
            self._bad(".error", "needs http_status or code")
        self._variables(self._node)

    def _variables(self, node: Node) -> None:
        if isinstance(node, ScalarNode):
            for match in _VARIABLE.finditer(node.text):
                name = match[1].strip()
                written = match[0]
                place = self._problems.find(written, node.place)
                known = _KNOWN_VARIABLE.fullmatch(name)
                if known is None:
                    hint = "available variables: message.text, match.1 and match.name"
                    self._problems.add(place, self._where, f"unknown variable {name[:60]!r}", hint)
                elif known[1] is not None and not self._has_group(known[1]):
                    hint = "add a group ( ) to when" if self._rule.when else "add when: with a group ( )"
                    self._problems.add(place, self._where, f"the pattern in when has no group for {name}", hint)
        else:
            children = node.items if isinstance(node, ListNode) else [value for _, value in node.entries]
            for child in children:
                self._variables(child)

    def _has_group(self, name: str) -> bool:
        if self._rule.when is None:
            return False
        if self._pattern is None:
            return True  # the pattern has its own error
        return int(name) <= self._pattern.groups if name.isdigit() else name in self._pattern.groupindex

    def _bad(self, suffix: str, message: str, hint: str | None = None) -> None:
        key = suffix.lstrip(".").partition(".")[0]
        place = self._node.place_of(key) if isinstance(self._node, MapNode) else self._node.place
        self._problems.add(place, self._where + suffix, message, hint)


def _item(node: Node | None, index: int) -> Node:
    assert isinstance(node, ListNode)
    return node.items[index]


def _word(text: str, place: Location) -> ScalarNode:
    return ScalarNode(text, plain=True, place=place)
