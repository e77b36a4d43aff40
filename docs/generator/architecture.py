"""`architecture.md` and `passes.md`: the folders, the grammars of the schedule tree and the tile program, the passes."""

from __future__ import annotations

import ast
import inspect
import re
from types import ModuleType

from andiron.codegen.ir import schedule_tree, tile_ir
from andiron.codegen.pipeline import ONCE, PASSES

from .page import ROOT, with_parts


def passes_page() -> str:
    """The page by hand, with the table of passes in its place."""
    return with_parts("passes.md", {"passes": pass_table()})


def pass_table() -> str:
    """The passes in their order, and why each stands where it stands."""
    rows = ["| | pass | takes | gives | why here |", "|---|---|---|---|---|"]
    for n, x in enumerate(PASSES, 1):
        rows.append(f"| {n} | `{x.name}` | {x.takes} | {x.gives} | {x.why} |")
        if x is ONCE[-1]:
            rows.append("| | *again with each choice that is tried:* | | | |")
    return "\n".join(rows)


def architecture_page() -> str:
    """The page by hand, with the table of folders and the grammars of both intermediate languages in their places."""
    parts = {"folders": folder_table(), "grammar": grammar_of(tile_ir), "tree": grammar_of(schedule_tree)}
    return with_parts("architecture.md", parts)


def grammar_of(module: ModuleType) -> str:
    """The grammar at the top of a module."""
    doc = inspect.cleandoc(module.__doc__ or "")
    grammar = inspect.cleandoc("    " + doc.split("\n\n")[1].strip("\n"))
    return f"```text\n{grammar}\n```"


def folder_table() -> str:
    """Every package of the compiler's parts, in the order of imports, with the first sentence of its docstring."""
    rows = ["| folder | |", "|---|---|"]
    for part in ("grammar", "dsl", "codegen", "runtime", "tools"):
        for file in sorted((ROOT / part).rglob("__init__.py")):
            doc = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
            first = re.split(r"(?<=\.)\s", doc, maxsplit=1)[0].replace("\n", " ")
            rows.append(f"| `{file.parent.relative_to(ROOT).as_posix()}` | {first} |")
    return "\n".join(rows)
