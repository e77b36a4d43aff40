"""Notebooks: `%load_ext andiron`, then cells that begin with `%%sched`, and rich pictures of ops, kernels and reports.

    %%sched [NAME] [--target T] [--size M=64,...]

The declarations of the cell become the module NAME (default `sched`), and each of its ops a kernel of its own name, compiled
with the cell's schedules for it. A mistake ends a run of all cells; a diagnostic is shown, and no traceback.
"""

from __future__ import annotations

import argparse
import shlex
from html import escape
from typing import Any, NoReturn

from ..dsl.errors import AndironError, UserError
from ..dsl.errors.repl import BadMagic
from ..dsl.module import Module, load_with_mistakes
from ..dsl.op import Op
from ..dsl.syntax import ScheduleDecl
from ..dsl.text.print_node import format_node
from ..runtime.compile import compile
from ..runtime.kernel import Kernel
from ..runtime.report import Report
from .checks.compile_schedules import check_schedules
from .pictures.roofline import roofline
from .pictures.tiles import tiles
from .repl.view import costs, draft_report
from .size_arguments import assignments

_BOX = "font:12.5px/1.5 ui-monospace,Menlo,Consolas,monospace;white-space:pre;overflow:auto;margin:.5em 0"


def load_ipython_extension(shell: Any) -> None:
    """Registers the cell magic, and how things look."""
    shell.register_magic_function(lambda line, cell: sched(shell, line, cell), "cell", "sched")
    html = shell.display_formatter.formatters["text/html"]
    html.for_type(Op, lambda op: code(str(op)))
    html.for_type(Module, lambda module: code(_declared(module)))
    html.for_type(Kernel, kernel_html)
    html.for_type(Report, report_html)
    html.for_type(ScheduleDecl, lambda schedule: code(format_node(schedule)))
    plain = shell.display_formatter.formatters["text/plain"]
    for cls, said in ((Op, str), (Report, str), (Module, _declared), (ScheduleDecl, format_node)):
        plain.for_type(cls, lambda x, printer, cycle, said=said: printer.text(said(x).rstrip("\n")))


class CellError(AndironError):
    """A cell's mistakes. It ends a run of all cells; IPython shows the diagnostics in the place of a traceback.

    mistakes  what was found
    """

    def __init__(self, mistakes: UserError) -> None:
        super().__init__(str(mistakes))
        self.mistakes = mistakes

    def _render_traceback_(self) -> list[str]:
        return str(self).splitlines()


def sched(shell: Any, line: str, cell: str) -> Module:
    """The cell magic. The module is the cell's result, so it is shown. Raises CellError."""
    try:
        options = _options(line)
        text = "\n".join(cell.splitlines()) + "\n"
        module, mistakes = load_with_mistakes(text=text, name="<cell>", base=".")
        for error in check_schedules(module):
            mistakes.add(error)
        mistakes.raise_if_any()
        kernels = {
            name: compile(module, name, None, options.target, sizes=_for(op, assignments(options.size, "size")))
            for name, op in module.ops.items()
            if ("op", name) in module.declared and module.declared["op", name].span.source.text == text
        }
    except UserError as error:
        raise CellError(error) from None
    shell.push({options.name: module, **kernels})
    return module


class _Parser(argparse.ArgumentParser):
    """Says what is wrong instead of leaving."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


def _options(line: str) -> argparse.Namespace:
    parser = _Parser(prog="%%sched", add_help=False, allow_abbrev=False)
    parser.add_argument("name", nargs="?", default="sched")
    parser.add_argument("--target")
    parser.add_argument("--size", action="append", default=[])
    try:
        found = parser.parse_args(shlex.split(line))
        if not found.name.isidentifier():
            raise ValueError(f"{found.name} is no name")
    except ValueError as error:
        raise BadMagic(f"`%%sched {line}`: {error}", help="%%sched [NAME] [--target T] [--size M=64,...]") from None
    return found


def _for(op: Op, sizes: dict[str, int]) -> dict[str, Any]:
    """Of the sizes, those that the op has."""
    own = {v.name for v in op.dims} | {name for name, _ in op.params}
    return {name: n for name, n in sizes.items() if name in own}


def _declared(module: Module) -> str:
    file = module.file
    return "\n\n".join(format_node(d).rstrip() for d in (*([file.language] if file.language else []), *file.declarations))


def code(text: str, language: str = "sched") -> str:
    """Text as HTML, in colour where Pygments is installed."""
    try:
        from pygments import highlight
        from pygments.formatters import HtmlFormatter
        from pygments.lexers import get_lexer_by_name
    except ImportError:
        return f'<div style="{_BOX}">{escape(text)}</div>'
    return highlight(text, get_lexer_by_name(language), HtmlFormatter(noclasses=True, prestyles=_BOX))


def kernel_html(kernel: Kernel) -> str:
    """Schedule, pictures, report and text of a kernel."""
    report = draft_report(kernel)
    pictures = [tiles(kernel.op, kernel.trace, report.sizes), roofline(report, kernel.program.device)]
    language = "cpp" if kernel.variants[0].target.family.dialect == "cpp" else "cuda"
    return "".join(
        [
            f"<p><b>{escape(kernel.op.name)}</b> for {escape(kernel.target)}: {escape(costs(report, None))}</p>",
            code(kernel.schedule),
            *(f'<div style="overflow:auto">{p}</div>' for p in pictures if p),
            f"<details><summary>report</summary>{report_html(report)}</details>",
            f"<details><summary>code</summary>{code(kernel.source, language)}</details>",
        ]
    )


_TWO_WORDS = ("at least", "between launches")  # names of rows


def report_html(report: Report) -> str:
    """The report as a table."""
    rows = [
        line.split(None, 1) if not line.startswith(("held in", "moved in", *_TWO_WORDS)) else _named(line)
        for line in str(report).splitlines()
    ]
    cells = "".join(
        f"<tr><td>{escape(r[0])}</td><td style='text-align:left'>{escape(r[1] if len(r) > 1 else '')}</td></tr>" for r in rows
    )
    return f"<table>{cells}</table>"


def _named(line: str) -> list[str]:
    """A row whose name has more than one word."""
    name = " ".join(line.split()[: 2 if line.startswith(_TWO_WORDS) else 3])
    return [name, line[len(name) :].strip()]
