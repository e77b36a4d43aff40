"""`read_task_file`: tuning tasks from a file in TOML, with all mistakes of the file at once.

    [defaults]                               what tasks do not say themselves
    target = "cpu"
    top = 10                                 candidates that are measured
    trials = 64                              with those of a search that goes on from them; 0: none does
    seconds = 30                             for measuring them

    [[task]]
    op = "gemm"                              of the library, or of `file`
    file = "mine.sched"                      from the folder of the task file
    sizes = [{ M = 512, N = 512, K = 512 }]  a table, or a list of tables; sizes that are left out stay open
    target = ["cpu", "cuda:sm_90a"]          a name, or a list of names
    schedule = "auto"                        as for `compile`
    threads = 4
    weight = 2.0                             of a task in the summary; heavier ones come first

Each table of sizes for each target is a task.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from math import inf
from pathlib import Path
from typing import Any

from ....dsl.errors import Diagnostics, UserError, UserErrors, did_you_mean
from ....dsl.errors.run import BadTaskFile, NoPackage
from ....dsl.module import Module, load, std_module
from ....dsl.source import Source, Span
from ....dsl.stdlib_files import std_names
from ...compile import CompileRequest, compile_untuned, resolve_request
from ...random_inputs import default_sizes
from ...storage.files import read_text
from ..trials import MOST_TOP, MOST_TRIALS
from .task import task_of
from .task_run import TaskRun

_DEFAULTS: dict[str, Any] = {
    "target": "cpu", "top": 10, "trials": 0, "seconds": 60, "schedule": None, "threads": None, "weight": 1.0
}  # fmt: skip
_EMPTY = "name one or more, or leave the line out"
_HEADER = re.compile(r"^[ \t]*\[+[ \t]*([\w.-]+)[ \t]*\]+")
_KEY = re.compile(r"^[ \t]*([\w-]+)[ \t]*=")
# What a key's value is, in words, and whether a value is that.
_KINDS = {
    "op": ("the name of an op", lambda x: isinstance(x, str)),
    "file": ("the path of a .sched file", lambda x: isinstance(x, str)),
    "sizes": ("a table of integers, or a list of such tables", lambda x: _all(_is_sizes, x)),
    "target": ("the name of a target, or a list of names", lambda x: _all(lambda t: isinstance(t, str), x)),
    "schedule": ("the name of a schedule, or `auto`", lambda x: isinstance(x, str)),
    "threads": ("an integer, 1 or more", lambda x: _is_number(x, int) and x >= 1),
    "top": (f"an integer from 1 to {MOST_TOP}", lambda x: _is_number(x, int) and 1 <= x <= MOST_TOP),
    "trials": (f"an integer from 0 to {MOST_TRIALS}", lambda x: _is_number(x, int) and 0 <= x <= MOST_TRIALS),
    "seconds": ("a number of seconds, more than 0 and finite", lambda x: _is_number(x, int, float) and 0 < x < inf),
    "weight": ("a number, 0 or more and finite", lambda x: _is_number(x, int, float) and 0 <= x < inf),
}


@dataclass(frozen=True)
class FileTask:
    """A task of a file.

    run     ready for a `Campaign`      weight  in the summary
    """

    run: TaskRun
    weight: float


def read_task_file(path: str | Path) -> list[FileTask]:
    """The tasks of a file, the heaviest first, else in their order.

    Raises NoSuchFile, NoPackage, and for mistakes in the file BadTaskFile, or `UserErrors` with several.
    """
    text = read_text(str(path), "a file of tasks in TOML")
    source = Source(str(path), text)
    content = _parsed(source)
    diagnostics = Diagnostics()
    reader = _Reader(source, Path(path).parent, diagnostics)
    tasks = reader.tasks(content)
    diagnostics.raise_if_any()
    return sorted(tasks, key=lambda t: -t.weight)


def _parsed(source: Source) -> dict[str, Any]:
    try:
        import tomllib
    except ImportError:  # before Python 3.11
        try:
            import tomli as tomllib  # type: ignore[import-not-found]
        except ImportError:
            raise NoPackage("a file of tasks takes a package on this Python", help="pip install 'andiron[cluster]'") from None
    try:
        return tomllib.loads(source.text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"\(at line (\d+), column (\d+)\)", str(error))
        line = int(found[1]) if found else max(1, len(source.text.splitlines()))
        message = str(error).partition(" (at ")[0]
        raise BadTaskFile(f"this is no TOML: {message[0].lower()}{message[1:]}", _line_span(source, line)) from None


class _Reader:
    def __init__(self, source: Source, folder: Path, diagnostics: Diagnostics) -> None:
        self.source, self.folder, self.diagnostics = source, folder, diagnostics
        self.places = list(_places(source))
        self.modules: dict[str, Module] = {}

    def tasks(self, content: Mapping[str, Any]) -> list[FileTask]:
        for name in content.keys() - {"defaults", "task"}:
            help = did_you_mean(name, ["defaults", "task"])
            self._mistake(f"a file of tasks has no `{name}`", self._place(name, 0, ""), help)
        defaults, entries = content.get("defaults", {}), content.get("task", [])
        if (
            not isinstance(entries, list)
            or not all(isinstance(x, Mapping) for x in entries)
            or not isinstance(defaults, Mapping)
        ):
            self._mistake("tasks are `[[task]]` tables, and defaults a `[defaults]` table", _line_span(self.source, 1))
            return []
        if not entries:
            self._mistake("the file has no `[[task]]`", _line_span(self.source, 1))
        known = _DEFAULTS | self._checked(defaults, "defaults", 0, _DEFAULTS)
        return [task for number, entry in enumerate(entries) for task in self._entry(entry, number, known)]

    def _entry(self, entry: Mapping[str, Any], number: int, defaults: Mapping[str, Any]) -> Iterator[FileTask]:
        before = len(self.diagnostics.errors)
        values = {**defaults, **self._checked(entry, "task", number, _KINDS)}
        if "op" not in entry and "file" not in entry:
            self._mistake("a task needs an `op`, or a `file`", self._place("task", number, ""))
        if 0 < values["trials"] < values["top"]:
            self._mistake(
                f"`trials` is {values['trials']}, fewer than `top`, {values['top']}: these are measured first",
                self._place("task", number, "trials" if "trials" in entry else "top"),
                "write more `trials`, a smaller `top`, or `trials = 0` for no search",
            )
        if len(self.diagnostics.errors) > before:
            return
        try:
            module = self._module(values, number)
        except UserError as error:
            return self._add(error, self._place("task", number, "file" if "file" in values else "op"))
        for target in dict.fromkeys(_listed(values["target"])):
            for sizes in _listed(values.get("sizes", {})):
                try:
                    request = resolve_request(module, values.get("op"), values["schedule"], target, values["threads"], sizes)
                except UserError as error:
                    key = {"unknown-target": "target", "not-in-module": "op"}.get(error.id, "sizes")
                    self._add(error, self._place("task", number, key))
                    continue
                yield FileTask(_run(request, values), float(values["weight"]))

    def _checked(self, table: Mapping[str, Any], header: str, number: int, known: Any) -> dict[str, Any]:
        """The values that are what they must be. The others are mistakes."""
        found = {}
        for key, value in table.items():
            if key not in known:
                brackets = f"[[{header}]]" if header == "task" else f"[{header}]"
                way_out = did_you_mean(key, known, most=len(known))
                self._mistake(f"`{brackets}` has no `{key}`", self._place(header, number, key), way_out)
            elif value == []:
                self._mistake(f"`{key}` is an empty list, so there is no task", self._place(header, number, key), _EMPTY)
            elif not _KINDS[key][1](value):
                self._mistake(f"`{key}` is {_KINDS[key][0]}", self._place(header, number, key))
            else:
                found[key] = value
        return found

    def _module(self, values: Mapping[str, Any], number: int) -> Module:
        if "file" in values:
            path = str(self.folder / values["file"])
            if path not in self.modules:
                self.modules[path] = load(path)
            return self.modules[path]
        name = library_ops().get(values["op"])
        if name is None:
            way_out = did_you_mean(values["op"], library_ops())
            raise BadTaskFile(f"the library has no op `{values['op']}`", self._place("task", number, "op"), help=way_out)
        return std_module(name)

    # ------------------------------------------------------------ mistakes

    def _mistake(self, message: str, span: Span, help: str | None = None) -> None:
        self.diagnostics.add(BadTaskFile(message, span, help=help))

    def _add(self, error: UserError, span: Span) -> None:
        """Mistakes of a file of ops as they are; others at the line that led to them."""
        for e in error.errors if isinstance(error, UserErrors) else (error,):
            self.diagnostics.add(e if e.span is not None else BadTaskFile(e.message, span, help=e.help))

    def _place(self, header: str, number: int, key: str) -> Span:
        """Where a key of the n-th table of that name is; the table's header where that is not clear."""
        tables = [keys for name, keys in self.places if name == header]
        keys = tables[number] if number < len(tables) else {}
        return keys.get(key) or keys.get("") or _line_span(self.source, 1)


def _run(request: CompileRequest, values: Mapping[str, Any]) -> TaskRun:
    dims = default_sizes(request.op, request.sizes)
    place = 0
    if len(request.schedules) > 1:  # which one is for these sizes shows when it is compiled
        sizes = request.op.all_sizes(dims)
        place = next((i for i, v in enumerate(compile_untuned(request).variants) if v.refusal(sizes) is None), 0)
    task = task_of(request, place, values["top"], float(values["seconds"]), dims, trials=values["trials"])
    return TaskRun(task, request, place)


@cache
def library_ops() -> dict[str, str]:
    """The module of the library that declares an op, by the op's name."""
    names = [name for name in std_names() if name.startswith("ops.")]
    return {op: name for name in reversed(names) for op in std_module(name).ops}


def _places(source: Source) -> Iterator[tuple[str, dict[str, Span]]]:
    """The tables of the file, each with the lines of its keys; `""` is that of its header."""
    name, keys = "", {"": _line_span(source, 1)}
    for number, line in enumerate(source.text.splitlines(), 1):
        if header := _HEADER.match(line):
            first, _, rest = header[1].partition(".")
            if rest and first == name:  # `[task.sizes]` belongs to the task above it
                keys.setdefault(rest, _line_span(source, number))
                continue
            yield name, keys
            name, keys = first, {"": _line_span(source, number)}
        elif key := _KEY.match(line):
            keys.setdefault(key[1], _line_span(source, number))
    yield name, keys


def _line_span(source: Source, number: int) -> Span:
    lines = source.text.splitlines(keepends=True)
    number = min(number, len(lines))
    start = sum(map(len, lines[: number - 1]))
    line = lines[number - 1] if lines else ""
    indent = len(line) - len(line.lstrip())
    return Span(source, start + indent, start + max(indent, len(line.rstrip())))


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _all(holds: Callable[[Any], bool], value: Any) -> bool:
    """Whether it holds of a value, or of each one of a list."""
    return all(holds(x) for x in _listed(value))


def _is_sizes(value: Any) -> bool:
    return isinstance(value, Mapping) and all(_is_number(n, int) for n in value.values())


def _is_number(value: Any, *kinds: type) -> bool:
    return type(value) in kinds
