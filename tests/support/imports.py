"""The imports of a Python file: where each stands, and the modules of the package, or the other modules, that it names."""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .paths import ROOT

TOP, LAZY, TYPING = "top", "lazy", "typing"

Graph = Mapping[str, set[str]]


@dataclass(frozen=True)
class Import:
    """One import.

    place     TOP: made when the file is loaded. LAZY: stands inside a function. TYPING: only a type checker looks there
    target    a module of the package without the package's name, "" for the package itself; or the full name of another module
    internal  whether the target is a module of the package
    """

    module: str
    place: str
    target: str
    internal: bool
    line: int


def module_of(path: Path) -> str:
    """The name of a file as a module of the package, without the package's name: "" for the package itself."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix("__init__").removesuffix(".")


@cache
def modules(*folders: str) -> dict[str, Path]:
    """The files of these folders, and those beside them, by the names of their modules."""
    files = [*ROOT.glob("*.py"), *(path for folder in folders for path in (ROOT / folder).rglob("*.py"))]
    return {module_of(path): path for path in sorted(files)}


def imports(path: Path, known: Mapping[str, Path]) -> Iterator[Import]:
    """The imports of a file, anywhere in it. `from x import y` names the module `x.y` where that is one, and otherwise `x`."""
    module = module_of(path)
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    for node, place in _placed(ast.parse(path.read_text(encoding="utf-8")), TOP):
        if isinstance(node, ast.Import):
            yield from (Import(module, place, name.name, False, node.lineno) for name in node.names)
        elif node.level == 0:
            yield Import(module, place, node.module or "", False, node.lineno)
        else:
            base = ".".join([*package[: len(package) - node.level + 1], *(node.module or "").split(".")]).strip(".")
            inner = [f"{base}.{name.name}".lstrip(".") for name in node.names]
            for target in dict.fromkeys(x if x in known else base for x in inner):
                yield Import(module, place, target, True, node.lineno)


def _placed(node: ast.AST, place: str) -> Iterator[tuple[ast.Import | ast.ImportFrom, str]]:
    """The import statements below a node of the syntax tree, each with its place."""
    for inner in ast.iter_child_nodes(node):
        if isinstance(inner, ast.Import | ast.ImportFrom):
            yield inner, place
        elif isinstance(inner, ast.If) and ast.unparse(inner.test).removeprefix("typing.") == "TYPE_CHECKING":
            yield from _placed(ast.Module(inner.body, []), TYPING)
            yield from _placed(ast.Module(inner.orelse, []), place)
        else:
            is_function = isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from _placed(inner, LAZY if is_function and place == TOP else place)


def graph(found: list[Import], known: Mapping[str, Path], places: tuple[str, ...]) -> dict[str, set[str]]:
    """Module -> the modules of the package that it imports at these places."""
    out: dict[str, set[str]] = {module: set() for module in known}
    for x in found:
        if x.internal and x.place in places and x.target in known:
            out[x.module].add(x.target)
    return out


def reached(edges: Graph, start: str) -> set[str]:
    """The modules that are loaded with `start`. It is one of them only on a circle."""
    seen: set[str] = set()
    queue = [start]
    while queue:
        new = edges[queue.pop()] - seen
        seen |= new
        queue += new
    return seen


def circles(edges: Graph) -> list[list[str]]:
    """The strongly connected components of more than one node: those that reach each other."""
    far = {start: reached(edges, start) for start in edges}
    found = {frozenset(x for x in far[start] if start in far[x]) for start in edges if start in far[start]}
    return sorted(sorted(c) for c in found if len(c) > 1)
