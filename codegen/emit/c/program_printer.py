"""What the printers of all dialects have: names for a program's tensors and sizes, and the texts of its launches."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....dsl.errors import InternalError
from ....dsl.index.expr import Var
from ....dsl.source import Span
from ...abi import symbol
from ...ir.program import Program
from ...name_mangling import NameSupply
from .c_expr import Helper
from .c_text import PrintedLine, printable, printed_spans
from .index_printer import IndexPrinter
from .text_builder import SourceText


class ProgramPrinter:
    """One program in a dialect. Its tensors and sizes are named once: launches use the same names for their locals.

    own    names that the text around the launches has      bodies   of each launch: the line above it, and its lines
    """

    def __init__(self, program: Program, own: Sequence[str] = ()) -> None:
        self.program = program
        self.needs: dict[Helper, None] = {}
        self.names = NameSupply()
        self.symbol = self.names.fresh(symbol(program))
        for name in own:
            self.names.fresh(name)
        self.field = {b.name: self.names.fresh(b.name) for b in program.buffers}
        self.size = {v.name: self.names.fresh(v.name) for v in program.call_sizes}
        self.head = [printable(x) for x in program.head.strip("\n").splitlines()]
        self.bodies: list[tuple[str, list[PrintedLine]]] = []

    @property
    def host(self) -> IndexPrinter:
        """Prints what the host's code computes. It is not kept: it and the printer would keep each other."""
        return IndexPrinter(self.size_name, self.need)

    def size_name(self, v: Var) -> str:
        """What the host's code calls a size."""
        if v.name not in self.size:
            raise InternalError(f"a value of the host depends on {v}, which the call does not know")
        return self.size[v.name]

    def need(self, name: str) -> None:
        self.needs[Helper(name)] = None

    def new_text(self, program: Program, outside: Callable[[Var], str], index: type[IndexPrinter] = IndexPrinter) -> SourceText:
        """The text of a launch of the program, with the names set aside that it has from outside. `outside` binds variables."""
        text = SourceText(outside, self.need, index)
        for name in (*self.field.values(), *self.size.values()):
            text.names.fresh(name)
        text.constants = set(program.call_sizes)
        return text

    def render(self) -> str:
        raise NotImplementedError

    def line_spans(self) -> dict[int, Span]:
        """Of the text that `render` gives."""
        return printed_spans(self.render(), self.bodies)
