"""`constants.md`: the numbers of the compiler's modules and of the cycle model, from the comments beside them.

    ENTER = 40.0  # cycles: to begin and end a register tile [measured: cpu-products; test_first_candidates]

A comment gives the unit, the meaning, and in brackets where the value comes from and the test that fails when it changes. It
stands behind the value, or above it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from .page import DOCS, MADE, ROOT, TESTS

KINDS = {
    "measured": "measured, as the page says",
    "estimate": "a round figure, which ranks candidates or sets a threshold",
    "tried": "values that a search tries",
    "limit": "bounds the time or memory of compilation, or the length of the text",
    "fact": "given by hardware, a format, the language or arithmetic",
}
FOLDERS = ("codegen", "runtime/machine_code")
CHOSEN = ("measured", "estimate", "tried")  # a test fails when one of these changes
FORM = "# unit: meaning [kind: source; test]"
_COMMENT = re.compile(
    r"(?P<unit>[^:\[]+): (?P<meaning>.+) \[(?P<kind>\w+)(?:: (?P<source>[^;\]]+))?(?:; (?P<test>test_\w+))?\]$"
)


@dataclass(frozen=True)
class Constant:
    """`value` is its text. `test`: the name of a test that fails when the value changes; "": there is none."""

    file: str
    name: str
    value: str
    unit: str
    meaning: str
    kind: str
    source: str
    test: str


class BadComment(Exception):
    """A number of a module without a comment of the form, or a comment that names what does not exist."""


def constants() -> Iterator[Constant]:
    """The numbers of all modules below the folders. Raises BadComment."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield from constants_of(path.read_text(encoding="utf-8"), path.relative_to(ROOT).as_posix())


def constants_of(text: str, file: str) -> Iterator[Constant]:
    """The numbers of one module: names in capitals that a literal of numbers is assigned to. Raises BadComment."""
    lines = text.splitlines()
    for s in ast.parse(text).body:
        if not isinstance(s, (ast.Assign, ast.AnnAssign)) or s.value is None or not _is_numeric(s.value):
            continue
        targets = s.targets if isinstance(s, ast.Assign) else [s.target]
        names = [x.id for t in targets for x in (t.elts if isinstance(t, ast.Tuple) else [t]) if isinstance(x, ast.Name)]
        if not any(x.isupper() for x in names):
            continue
        place = f"{file}:{s.lineno}: {', '.join(names)}"
        found = _COMMENT.match(_comment(lines, s.lineno, s.end_lineno or s.lineno))
        if len(names) > 1 or found is None:
            raise BadComment(f"{place}: write one number a line, each with a comment `{FORM}`")
        kind, source, test = found["kind"], found["source"] or "", found["test"] or ""
        if kind not in KINDS or (kind in ("measured", "fact")) != bool(source):
            raise BadComment(f"{place}: the kinds are {', '.join(KINDS)}; `measured` and `fact` have a source, the others none")
        if kind == "measured" and _page(source) is None:
            raise BadComment(f"{place}: there is no page docs/decisions/{source}.md or docs/measurements/{source}.md")
        if kind in CHOSEN and not test:
            raise BadComment(f"{place}: a number of kind `{kind}` names the test that fails when it changes")
        if test and _file_of(test) is None:
            raise BadComment(f"{place}: there is no test `{test}`")
        value = re.sub(r"\s+", " ", ast.get_source_segment(text, s.value) or "")
        yield Constant(file, names[0], value, found["unit"], found["meaning"], kind, source, test)


def _is_numeric(e: ast.expr) -> bool:
    match e:
        case ast.Constant(value=value):
            return isinstance(value, (int, float)) and not isinstance(value, bool)
        case ast.UnaryOp(operand=a):
            return _is_numeric(a)
        case ast.BinOp(left=a, right=b):
            return _is_numeric(a) and _is_numeric(b)
        case ast.Tuple(elts=several) | ast.List(elts=several) | ast.Set(elts=several) | ast.Dict(values=several):
            return bool(several) and all(map(_is_numeric, several))
    return False


def _comment(lines: list[str], first: int, last: int) -> str:
    """The comment behind the statement at these lines, else the one above it, as one line."""
    behind = lines[last - 1].partition("  # ")[2]
    if behind:
        return behind
    start = first - 1
    while start > 0 and lines[start - 1].startswith("# "):
        start -= 1
    return " ".join(x[2:] for x in lines[start : first - 1])


def _page(name: str) -> str | None:
    """The page of a measurement, as a link from this folder's pages."""
    found = (f"{folder}/{name}.md" for folder in ("decisions", "measurements"))
    return next((x for x in found if (DOCS / x).exists()), None)


def _file_of(test: str) -> str | None:
    """The file that defines the test."""
    return _tests().get(test)


@lru_cache(maxsize=1)
def _tests() -> dict[str, str]:
    found = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        for name in re.findall(r"^def (test_\w+)\(", path.read_text(encoding="utf-8"), re.MULTILINE):
            found[name] = path.relative_to(ROOT).as_posix()
    return found


def constants_page() -> str:
    """The tables, a section for each folder."""
    found = list(constants())
    tested = sum(1 for c in found if c.test)
    out = [
        f"{MADE}# Constants\n\nThe numbers of the compiler's modules and of the model of an SM: the unit and meaning of each,",
        "the source of its value, and the test that fails when it changes.",
        f"There are {len(found)}, {tested} of them with such a test: all that are {', '.join(CHOSEN[:-1])} or {CHOSEN[-1]}.",
        "A change of another number shows in this page alone.\n",
        "\n".join(f"- **{kind}**: {meaning}." for kind, meaning in KINDS.items()),
        f"\nEach stands beside its value, as `{FORM}`.\n",
    ]
    for folder in dict.fromkeys(c.file.rpartition("/")[0] for c in found):
        rows = [c for c in found if c.file.rpartition("/")[0] == folder]
        out.append(f"## {folder}\n\n| constant | value | unit | meaning | source | test |\n|---|---|---|---|---|---|")
        out.append("\n".join(map(_row, rows)) + "\n")
    return "\n".join([*out, _namesakes(found)])


def _namesakes(found: list[Constant]) -> str:
    """The section on names that several files give to numbers of their own."""
    files: dict[str, list[Constant]] = {}
    for c in found:
        files.setdefault(c.name.lstrip("_"), []).append(c)
    several = {name: cs for name, cs in sorted(files.items()) if len({c.value for c in cs}) > 1}
    lines = [
        "## One name, several numbers\n",
        "Files of these rows give one name to numbers that differ, since they count different things or belong to different",
        "models. A number with one meaning stands in one file.\n",
        "| name | numbers |\n|---|---|",
        *(f"| `{name}` | {'; '.join(f'`{_module(c)}` {c.value} {c.unit}' for c in cs)} |" for name, cs in several.items()),
    ]
    return "\n".join(lines) + "\n"


def _module(c: Constant) -> str:
    return c.file.rpartition("/")[2].removesuffix(".py")


def _row(c: Constant) -> str:
    page = _page(c.source) if c.kind == "measured" else None
    source = f"measured: [{c.source}]({page})" if page else c.kind + (f": {c.source}" if c.source else "")
    test = f"`{c.test}`" if c.test else "none"
    return f"| `{_module(c)}.{c.name}` | `{c.value}` | {c.unit} | {c.meaning} | {source} | {test} |"
