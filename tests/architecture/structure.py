"""Figures of the code's shape (sizes, imports, names, docstrings) and their ranges; ``scripts/structure`` prints them.

The ranges are not caps: folding code together until a number turns is as wrong as cutting it up. LIMITS has the target
of each figure, recorded.json the value that must not get worse while the target is not reached.
"""

import ast
import graphlib
import json
import re
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Final, NamedTuple

from tests.architecture import language
from tests.architecture.sources import ROOT, Source, product

LEAVES: Final = frozenset({"protocol", "osfiles"})
"""Everything may import them, so these imports are not counted in the density."""
EMPTY_PACKAGE: Final = 8
"""An ``__init__.py`` of fewer lines only marks its package and counts as no file."""
CLAUSE: Final = re.compile(r"^(TODO|What|Whether|Who|Whom|Whose|Where|How|Why|When|Which)\b")
FIGURATIVE_MODULES: Final = frozenset(
    """
    ancestry appearance approval_words asking assembled ballot ballots ballot_rows ballot_terms ballot_words
    belongings beneath blank books boots bounds briefing broken cadence changing checkout consent consents
    continuation declared deciding delivery departure desk dialogue doorstep ending fetched finals fit fitting folders
    freeze front gate glance go_on ground hall handshake hearing heap held homes hops house http1 in_hand insist
    inspecting keeping kept key_fault last_words later launches launching level litter live located look_over mirrored
    modern murmur not_running note old on_trio once opening own_tools pages partial passing patience pinned place
    plain previous probe pulse purse question reckoning reclock recorder refusals registry rehearsal rehearse remains
    reopen roster running saying shown sigchld spare_dirs spares spelling standing standstill started start_lines
    straying sweep_old take_up takes team telling tick titles tolerant toolbox tree_terms trip unasked unkeyed uses
    verdict verdict_terms verbs vitals vouch waits_for waking watching whereabouts wipe woken words workplace
    """.split()  # noqa: SIM905 - a list of words reads better
)
"""No module has such a name: figurative or private words, or second words for a term of docs/reference/glossary.md."""
FIGURATIVE_CLASSES: Final = frozenset(
    """
    Alarms Belongings Book Books Briefing Briefings Conclusion Departure Desk Dialogue Doorman Doorstep Ears Flight
    Folders Front Gate Glance Glances Ground Hall Hearing Homes Hopeless House InHand Jobs Kept LastWords Launches
    Leave Lifeline Live Look Mending Murmur Opening Passing Post Pulse Purse PutToVote Put Reached Said Seat Shapes
    Standstill Strays Takes Teller Told Tried Trip Turns Vitals Waits Woken World Workplace
    """.split()  # noqa: SIM905 - a list of words reads better
)
COMMANDS: Final = "interface/cli/commands/"
"""A module there is called like the command that users type."""

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
BLOCKS: Final = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.Match)


class Limit(NamedTuple):
    """The target range of a figure."""

    at_least: float | None = None
    at_most: float | None = None


LIMITS: Final[dict[str, Limit]] = {
    "files": Limit(at_most=560),
    "lines": Limit(at_most=98_000),
    "test-lines": Limit(at_most=85_000),
    "file-median": Limit(80, 250),
    "file-in-range": Limit(at_least=60),
    "file-over-400": Limit(at_most=3),
    "file-over-600": Limit(at_most=0),
    "file-small": Limit(at_most=15),
    "function-median": Limit(6, 9),
    "function-p90": Limit(20, 35),
    "function-long": Limit(at_most=0),
    "import-density": Limit(at_most=25),
    "import-circles": Limit(at_most=0),
    "used-once": Limit(at_most=12),
    "docstring-clause": Limit(at_most=1),
    "twin-types": Limit(at_most=25),
    "unused-rules": Limit(at_most=0),
    "module-names": Limit(at_most=0),
    "class-names": Limit(at_most=0),
    "homonyms": Limit(at_most=0),
    "phrases-code": Limit(at_most=3),
    "phrases-docs": Limit(at_most=3),
    "phrases-visible": Limit(at_most=0),
    "change-field": Limit(at_most=7),
    "change-vote": Limit(at_most=8),
}


RECORDED: Final[dict[str, float]] = json.loads((ROOT / "tests/architecture/recorded.json").read_text("utf-8"))
"""Figures that miss their target: they may fall, and test_structure.py refuses a commit that raises one."""


class Figure(NamedTuple):
    """One measured value and the findings behind it, worst first. Shares are in percent."""

    value: float
    findings: list[str]


class Function(NamedTuple):
    """A function or method, and how it is told to a reader."""

    node: FunctionNode
    source: Source

    @property
    def lines(self) -> int:
        """From ``def`` to the end, docstring included, decorators not."""
        return (self.node.end_lineno or self.node.lineno) - self.node.lineno + 1

    def __str__(self) -> str:
        return f"{self.source.at(self.node)} {self.node.name}"


def holds(name: str, value: float) -> bool:
    """Return whether a value is in the figure's range, or not above the recorded one."""
    low, high = LIMITS[name]
    high = RECORDED.get(name, high)
    return (low is None or value >= low) and (high is None or value <= high)


def _percent(part: int, whole: int) -> float:
    return round(100 * part / max(1, whole), 1)


def _name(source: Source) -> str:
    return source.name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


@cache
def _modules() -> dict[str, Source]:
    counted = (file for file in product() if file.path.name != "__init__.py" or file.lines >= EMPTY_PACKAGE)
    return {_name(source): source for source in counted}


@cache
def _functions() -> tuple[Function, ...]:
    return tuple(
        Function(node, source)
        for source in _modules().values()
        for node in ast.walk(source.tree)
        if isinstance(node, FunctionNode)
    )


@cache
def _imports() -> dict[str, set[str]]:
    names = _modules().keys()
    found: dict[str, set[str]] = {}
    for name, source in _modules().items():
        imported: set[str] = set()
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                within = {f"{node.module}.{alias.name}" for alias in node.names}
                imported |= (within & names) | ({node.module} if within - names else set())
        found[name] = (imported & names) - {name}
    return found


def _sizes() -> Iterator[tuple[str, Figure]]:
    sizes = [source.lines for source in _modules().values()]
    by_size = sorted(((source.lines, name) for name, source in _modules().items()), reverse=True)
    small = [f"{n} {name}" for n, name in reversed(by_size) if n <= 50 and not name.endswith("__main__")]
    over = [f"{n} {name}" for n, name in by_size if n > 400]
    huge = [f"{n} {name}" for n, name in by_size if n > 600]
    yield "files", Figure(len(sizes), [])
    yield "lines", Figure(sum(sizes), [f"{n} {name}" for n, name in by_size])
    tests = [len(path.read_bytes().splitlines()) for path in (ROOT / "tests").rglob("*.py")]
    yield "test-lines", Figure(sum(tests), [])
    yield "file-median", Figure(statistics.median(sizes), [])
    yield "file-in-range", Figure(_percent(sum(80 <= n <= 400 for n in sizes), len(sizes)), [])
    yield "file-over-400", Figure(_percent(len(over), len(sizes)), over)
    yield "file-over-600", Figure(len(huge), huge)
    yield "file-small", Figure(_percent(len(small), len(sizes)), small)


def _depth(node: ast.AST, level: int = 0) -> int:
    return max(
        (_depth(child, level + isinstance(child, BLOCKS)) for child in ast.iter_child_nodes(node)), default=level
    )


def _bodies() -> Iterator[tuple[str, Figure]]:
    functions = _functions()
    lengths = sorted(function.lines for function in functions)
    long = [one for one in functions if one.lines > 100 or (one.lines > 60 and _depth(one.node) > 3)]
    once = [
        str(one)
        for one in functions
        if one.node.name.startswith("_") and not one.node.name.endswith("__") and _named(one.source)[one.node.name] == 1
    ]
    yield "function-median", Figure(statistics.median(lengths), [])
    yield "function-p90", Figure(lengths[int(len(lengths) * 0.9)], [])
    yield "function-long", Figure(len(long), [f"{one.lines} {one}" for one in long])
    yield "used-once", Figure(_percent(len(once), len(functions)), once)


@cache
def _named(source: Source) -> Counter[str]:
    return Counter(
        node.id if isinstance(node, ast.Name) else node.attr
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Name | ast.Attribute)
    )


def _structure_of_imports() -> Iterator[tuple[str, Figure]]:
    edges = {
        name: {one for one in imported if one.split(".")[0] not in LEAVES} for name, imported in _imports().items()
    }
    total = sum(source.lines for source in _modules().values())
    most = sorted(((len(imported), name) for name, imported in edges.items()), reverse=True)
    density = round(1000 * sum(len(imported) for imported in edges.values()) / total, 1)
    yield "import-density", Figure(density, [f"{n} {name}" for n, name in most])
    try:
        graphlib.TopologicalSorter(_imports()).prepare()
        circle: list[str] = []
    except graphlib.CycleError as found:
        circle = [" -> ".join(found.args[1])]
    yield "import-circles", Figure(len(circle), circle)


def _docstrings() -> Iterator[tuple[str, Figure]]:
    texts = [
        (source.at(node), text)
        for source in _modules().values()
        for node in ast.walk(source.tree)
        if isinstance(node, FunctionNode | ast.ClassDef | ast.Module) and (text := ast.get_docstring(node))
    ]
    clauses = [f"{place} {text.splitlines()[0][:80]}" for place, text in texts if CLAUSE.match(text)]
    yield "docstring-clause", Figure(_percent(len(clauses), len(texts)), clauses)


def _classes() -> Iterator[tuple[str, ast.ClassDef]]:
    for source in _modules().values():
        for node in ast.walk(source.tree):
            if isinstance(node, ast.ClassDef):
                yield f"{source.name}:{node.name}", node


def _types() -> Iterator[tuple[str, Figure]]:
    fields: list[tuple[str, set[str]]] = []
    for place, node in _classes():
        own = {n.target.id for n in node.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)}
        if len(own) >= 5 and sum(isinstance(n, FunctionNode) for n in node.body) <= 1:
            fields.append((place, own))
    pairs = [
        (len(both), f"{len(both)} fields: {one} ~ {other}")
        for index, (one, mine) in enumerate(fields)
        for other, others in fields[index + 1 :]
        if len(both := mine & others) >= 5 and len(both) >= 0.6 * min(len(mine), len(others))
    ]
    yield "twin-types", Figure(len(pairs), [text for _, text in sorted(pairs, reverse=True)])


def _names() -> Iterator[tuple[str, Figure]]:
    modules = [
        name
        for name, source in _modules().items()
        if FIGURATIVE_MODULES & set(name.split(".")[1:]) and not source.name.startswith(COMMANDS)
    ]
    classes = [place for place, node in _classes() if node.name.lstrip("_") in FIGURATIVE_CLASSES]
    yield "module-names", Figure(len(modules), modules)
    yield "class-names", Figure(len(classes), classes)
    defined: defaultdict[str, set[str]] = defaultdict(set)
    for place, node in _classes():
        defined[node.name].add(place)
    homonyms = [" ".join(sorted(places)) for _, places in sorted(defined.items()) if len(places) >= 3]
    yield "homonyms", Figure(len(homonyms), homonyms)


def _language() -> Iterator[tuple[str, Figure]]:
    code, total = language.in_code(), sum(source.lines for source in _modules().values())
    documents = language.in_files(*language.DOCUMENTS)
    visible = language.in_files(*language.VISIBLE)
    yield "phrases-code", Figure(round(1000 * len(code) / total, 1), [*code])
    share = round(1000 * len(documents) / language.lines_of(*language.DOCUMENTS), 1)
    yield "phrases-docs", Figure(share, documents)
    yield "phrases-visible", Figure(len(visible), visible)


def _unused_rules() -> Iterator[tuple[str, Figure]]:
    used: defaultdict[str, int] = defaultdict(int)
    for source in _modules().values():
        for name, times in _named(source).items():
            used[name] += times
        for node in ast.walk(source.tree):
            if isinstance(node, ast.alias):
                used[node.name] += 1
    imported: set[str] = set().union(*_imports().values())
    unused: list[str] = []
    for name, source in _modules().items():
        if not name.startswith(("kernel.policy", "kernel.rule")):
            continue
        if name not in imported:
            unused.append(f"{source.name} (the whole module)")
            continue
        public = (n for n in source.tree.body if isinstance(n, ast.FunctionDef) and not n.name.startswith("_"))
        unused += [f"{source.at(node)} {node.name}" for node in public if not used[node.name]]
    yield "unused-rules", Figure(len(unused), unused)


def _changes() -> Iterator[tuple[str, Figure]]:
    field = [source.name for source in _modules().values() if re.search(r"\battended\b", source.text)]
    word = re.compile(r"(^|_)(ballots?|proposals?|votes?|voting|propose)(_|$)")
    voting = [source.name for source in _modules().values() if word.search(source.path.stem)]
    yield "change-field", Figure(len(field), field)
    yield "change-vote", Figure(len(voting), voting)


def measure() -> dict[str, Figure]:
    """Measure every figure that LIMITS names."""
    parts: Iterable[Iterator[tuple[str, Figure]]] = (
        _sizes(),
        _bodies(),
        _structure_of_imports(),
        _docstrings(),
        _types(),
        _unused_rules(),
        _names(),
        _language(),
        _changes(),
    )
    found = dict(pair for part in parts for pair in part)
    return {name: found[name] for name in LIMITS}


def forget() -> None:
    for cached in (_modules, _functions, _imports, _named, language.in_code):
        cached.cache_clear()


def told(name: str) -> str:
    """Put a figure's range into words."""
    low, high = LIMITS[name]
    range_ = (
        f"{low} to {high}" if low is not None and high is not None else f">= {low}" if high is None else f"<= {high}"
    )
    return f"{range_} (recorded: {RECORDED[name]:g})" if name in RECORDED else range_


def main(arguments: list[str]) -> int:
    """Print all figures, or with names the findings behind those. Return 1 if one is out of its range."""
    figures = measure()
    if arguments:
        sys.stdout.writelines(f"{finding}\n" for name in arguments for finding in figures[name].findings)
        return 0
    for name, (value, _) in figures.items():
        sys.stdout.write(f"{name:18} {value:>8}  {'ok  ' if holds(name, value) else 'MISS'}  {told(name)}\n")
    return int(any(not holds(name, figure.value) for name, figure in figures.items()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
