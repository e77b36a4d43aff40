"""A kernel as one page of HTML, with everything inside: pictures as SVG, no script from elsewhere."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from html import escape

from jinja2 import Environment, PackageLoader, StrictUndefined

from ... import __version__
from ...codegen.emit.emitted_lines import EmittedLines
from ...codegen.emit.printers import line_spans
from ...codegen.lower.schedule_trace import TracedLine
from ...dsl.device import Instr
from ...dsl.source import Span
from ...runtime.kernel import Kernel
from ..pictures.bank_accesses import staged_buffers
from ..pictures.banks import banks
from ..pictures.footprints import footprints
from ..pictures.fragments import fragments
from ..pictures.roofline import roofline
from ..pictures.tiles import tiles
from ..pictures.traffic import traffic
from ..repl.view import costs, draft_report
from .machine_code import machine_code


@dataclass(frozen=True)
class PageLine:
    """A line of the explicit schedule on the page; `number` links it to the code printed for it, which knows its `span`."""

    number: int
    margin: int
    line: str
    effect: str
    specs: tuple[str, ...]
    places: tuple[tuple[str, str], ...]
    level: str
    span: Span | None


def page(kernel: Kernel) -> str:
    """The whole page."""
    report = draft_report(kernel)
    device = kernel.program.device
    steps = [_step(n, t) for n, t in enumerate(kernel.trace)]
    first = kernel.variants[0]
    emitted = EmittedLines(kernel.source, line_spans(kernel.program, first.target.family.dialect))
    steps_of_lines = _steps_of_lines(emitted, steps)
    pictures = [
        (
            "Tiles",
            "Each tile cut into those of the next line; one of them larger beside it.",
            tiles(kernel.op, kernel.trace, report.sizes),
        ),
        ("What moves", "Bytes read and written in each memory, every access counted.", traffic(report, device)),
        ("Roofline", "What the device could do at most, and where the kernel stands.", roofline(report, device)),
    ]
    return _environment().get_template("page.html.j2").render(
        version=__version__,
        kernel=kernel,
        op=str(kernel.op),
        report=str(report),
        costs=costs(report, None),
        steps=steps,
        pictures=[p for p in pictures if p[2]],
        fragments=[(i.name, picture) for i in _instructions(kernel) if (picture := fragments(i))],
        banked=[(s.buffer.name, picture) for s in staged_buffers(kernel.program, report.sizes) if (picture := banks(s))],
        code=list(zip(_coloured(kernel.source), steps_of_lines, strict=True)),
        machine=machine_code(first, emitted, steps_of_lines),
        steps_json=_json([{"line": "    " * s.margin + s.line, "specs": s.specs, "effect": s.effect} for s in steps]),
        parts_json=_json(parts) if (parts := footprints(kernel.op, kernel.trace, report.sizes)) else None,
    )  # fmt: skip


def _json(plain: object) -> str:
    """For the script; `<` is escaped, so that no text can end it."""
    return json.dumps(plain).replace("<", "\\u003c")


def _step(number: int, traced: TracedLine) -> PageLine:
    line = traced.line if traced.depth else f"launch: {traced.line}"
    places = tuple(traced.scope.places.items()) if traced.scope else ()
    level = traced.scope.level if traced.scope else ""
    return PageLine(number, traced.depth, line, traced.effect, traced.specs, places, level, traced.span)


def _instructions(kernel: Kernel) -> list[Instr]:
    return list({i.name: i for i in kernel.program.instrs}.values())


def _steps_of_lines(emitted: EmittedLines, steps: list[PageLine]) -> list[int]:
    """For each line of the text, the number of the step that it was printed for; -1 for none.

    A statement of the op, and a brace, belong to the step of the line before, in the same function.
    """
    numbers = {s.span: s.number for s in steps if s.span}
    found, last = [], -1
    for n, text in enumerate(emitted.texts, 1):
        span = emitted.of([n]).span
        last = -1 if span is None else numbers.get(span, last)
        found.append(last if text.strip() else -1)
    return found


def _coloured(source: str) -> list[str]:
    """Each line as HTML, coloured where Pygments is installed."""
    try:
        from pygments import highlight
        from pygments.formatters import HtmlFormatter
        from pygments.lexers import get_lexer_by_name
    except ImportError:
        return [escape(line) for line in source.splitlines()]
    lexer = get_lexer_by_name("cpp", stripnl=False, ensurenl=False)
    text = highlight("\n".join(source.splitlines()), lexer, HtmlFormatter(nowrap=True))
    lines = _whole_spans(text.rstrip("\n").split("\n"))
    wanted = len(source.splitlines())
    return [*lines, *[""] * (wanted - len(lines))][:wanted]


def _whole_spans(lines: list[str]) -> list[str]:
    """A span that goes over lines (a comment) is closed at each end and opened again."""
    out, open_ = [], ""
    for line in lines:
        whole = open_ + line
        opened = re.findall(r'<span class="[^"]*">|</span>', whole)
        stack: list[str] = []
        for tag in opened:
            if tag == "</span>":
                stack.pop()
            else:
                stack.append(tag)
        out.append(whole + "</span>" * len(stack))
        open_ = "".join(stack)
    return out


@lru_cache(maxsize=1)
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("andiron.tools", "view"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals["styles"] = _styles()
    return made


def _styles() -> str:
    """Colours of code, for light and dark pages."""
    try:
        from pygments.formatters import HtmlFormatter
    except ImportError:
        return ""
    light = HtmlFormatter(style="default").get_style_defs(".code")
    dark = HtmlFormatter(style="github-dark").get_style_defs(".code")
    return f"{_plain(light)}\n@media (prefers-color-scheme: dark) {{ {_plain(dark)} }}"


def _plain(css: str) -> str:
    """Only what colours tokens; the page has its own background."""
    return "\n".join(line for line in css.splitlines() if re.match(r"\.code \.\w+ \{", line))
