"""The rules of schedules and strategies: lines and their modifiers."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from .. import syntax as s
from ..errors import syntax as errors
from ..errors.base import Label
from .builder_base import Parts, TreeRules


class MoveView:
    """`as (m, k)`, before or after the arrow of a `move`."""

    def __init__(self, names: tuple[str, ...], span: Any) -> None:
        self.names, self.span = names, span


def _word(part: Any) -> str | None:
    """A name, or None for `auto`."""
    return None if part is None or isinstance(part, s.Auto) else str(part)


class ScheduleRules(TreeRules):
    def schedule(self, c: Parts) -> s.ScheduleDecl:
        keyword, name, (op, role, bindings), device, where, lines = c
        return s.ScheduleDecl(
            str(name), op, role, bindings, device and str(device), where or (), lines, span=self.span(keyword, name)
        )

    def for_op(self, c: Parts) -> tuple[str, str | None, Any]:
        op, _, role, bindings = c
        return str(op), role and str(role), bindings or ()

    def for_several(self, c: Parts) -> tuple[str, None, Any]:
        self.not_yet("a schedule for several ops", self.span(c[0], c[-1]), "write one schedule for each op")
        return c[1], None, ()

    def several(self, c: Parts) -> str:
        return str(c[0])

    def bindings(self, c: Parts) -> tuple[Any, ...]:
        return tuple(c[1:-1])

    def binding(self, c: Parts) -> tuple[str, str]:
        return str(c[0]), str(c[2])

    def strategy(self, c: Parts) -> s.StrategyDecl:
        keyword, name, _, *params, _, lines = c
        return s.StrategyDecl(str(name), tuple(params), lines, span=self.span(keyword, name))

    def strategy_param(self, c: Parts) -> tuple[str, s.Expr | None]:
        return str(c[0]), c[2]

    def block(self, c: Parts) -> tuple[Any, ...]:
        return tuple(line for line in c if line is not None)

    def names(self, c: Parts) -> Parts:
        return c

    def sizes(self, c: Parts) -> Parts:
        return c

    # ------------------------------------------------------------ lines

    def tile(self, c: Parts) -> s.Tile:
        keyword, *axes, level, modifiers = c
        span = self.span(keyword, axes, level, modifiers)
        return s.Tile(tuple(axes), level and str(level), self.settle("tile", modifiers)[0], span=span)

    def axis(self, c: Parts) -> s.TileAxis:
        name, size, every = c
        size = size or s.Auto(span=self.span(name, name))
        return s.TileAxis(str(name), size, every, span=self.span(name, size, every))

    def sparse_axis(self, c: Parts) -> s.TileAxis:
        span = self.span(c[0], c[-1])
        self.not_yet("tiling the stored elements of a sparse tensor", span, "tile an index")
        return s.TileAxis(str(c[2]), c[-1], span=span)

    def move(self, c: Parts) -> s.Move:
        keyword, tensor, *middle, modifiers = c[: -1 if isinstance(c[-1], tuple) else None]
        block = c[-1] if isinstance(c[-1], tuple) else None
        before = middle[0] if len(middle) == 2 else None
        memory = middle[-1] if middle else None
        kept, view = self.settle("move", modifiers)
        if before and view:
            self.diagnostics.add(errors.DuplicateModifier("this move has two views", view.span, help="keep one `as (...)`"))
        view = before or view
        span = self.span(keyword, tensor, memory, modifiers, view)
        return s.Move(str(tensor), _word(memory), view.names if view else None, kept, block, span=span)

    def view(self, c: Parts) -> MoveView:
        return MoveView(tuple(map(str, c[2])), self.span(c[0], c[-1]))

    def keep(self, c: Parts) -> s.Keep:
        keyword, names, memory, modifiers, *block = c
        span = self.span(keyword, names, memory, modifiers)
        return s.Keep(
            tuple(map(str, names)), _word(memory), self.settle("keep", modifiers)[0], block[0] if block else None, span=span
        )

    def inline(self, c: Parts) -> s.Inline:
        return s.Inline(tuple(map(str, c[1])), span=self.span(c[0], c[1]))

    def fuse(self, c: Parts) -> s.Fuse:
        keyword, names, _, name = c
        return s.Fuse(tuple(map(str, names)), str(name), span=self.span(keyword, name))

    def compute(self, c: Parts) -> s.Compute:
        keyword, modifiers = c
        kept, _ = self.settle("compute", modifiers)
        withs = [m for m in kept if m.name == "with"]
        instr = None if not withs else withs[0].words[0] if withs[0].words else withs[0].values[0]
        rest = tuple(m for m in kept if m.name != "with")
        return s.Compute(instr, rest, span=self.span(keyword, modifiers))  # type: ignore[arg-type]

    def apply(self, c: Parts) -> s.Apply:
        keyword, name, *args = c
        span = self.span(keyword, name, args[-1] if args else None)
        named = tuple((str(a[0]), a[1]) for a in args[1:-1] if isinstance(a, tuple))
        for before, after in pairwise(args[1:-1]):
            if isinstance(before, tuple) and not isinstance(after, tuple):
                self.diagnostics.add(
                    errors.PositionalAfterNamed(
                        f"`{after.span.text}` stands after a named argument", after.span, help="positional arguments come first"
                    )
                )
        return s.Apply(str(name), tuple(a for a in args[1:-1] if not isinstance(a, tuple)), named, span=span)

    def named(self, c: Parts) -> tuple[Any, s.Expr]:
        return c[0], c[2]

    def param(self, c: Parts) -> s.Param:
        keyword, name, values, _, default = c
        return s.Param(str(name), tuple(values), default, span=self.span(keyword, values, default))

    def auto_line(self, c: Parts) -> s.AutoLine:
        return s.AutoLine(span=self.span(c[0], c[0]))

    def budget(self, c: Parts) -> None:
        self.not_yet("`budget`", self.span(c[0], c[-1]), "leave the line out")

    def share(self, c: Parts) -> None:
        self.not_yet("`share`", self.span(c[0], c[-1]), "leave the line out")

    # ------------------------------------------------------------ modifiers

    def modifiers(self, c: Parts) -> Parts:
        return c

    def _modifier(self, keyword: Any, *rest: Any, values: Any = (), words: Any = (), maps: Any = ()) -> s.Modifier:
        span = self.span(keyword, rest)
        return s.Modifier(str(keyword), tuple(values), tuple(map(str, words)), tuple(maps), span=span)

    def unroll(self, c: Parts) -> s.Modifier:
        return self._modifier(c[0], c[1], values=c[1:] if c[1] else ())

    def one_value(self, c: Parts) -> s.Modifier:
        return self._modifier(c[0], c[1], values=c[1:])

    def pipeline(self, c: Parts) -> s.Modifier:
        return self._modifier(c[0], c[1:], values=c[1:2], words=c[2:] if c[2] else ())

    def order(self, c: Parts) -> s.Modifier:
        return self._modifier(c[0], c[1:], words=c[1:])

    multicast = order
    by = order
    within = order

    def arrange(self, c: Parts) -> s.Modifier:
        keyword, unit, *maps = c
        return self._modifier(keyword, [e for _, e in maps], words=(unit,), maps=[pair for pair, _ in maps])

    def swizzle(self, c: Parts) -> s.Modifier:
        return self._modifier(c[0], c[-1], values=c[2:-1])

    def layout(self, c: Parts) -> s.Modifier:
        return self._modifier(c[0], c[-1], values=c[2:-1])

    def panels(self, c: Parts) -> s.Modifier:
        return self._modifier(c[0], c[-1], words=(c[1],), maps=c[3:-1])

    def digit(self, c: Parts) -> tuple[str, s.Expr]:
        return str(c[0]), c[1]

    def plain(self, c: Parts) -> s.Modifier:
        return self._modifier(c[0])

    def with_instr(self, c: Parts) -> s.Modifier:
        return (
            self._modifier(c[0], c[1], words=c[1:])
            if c[1] != "auto"
            else self._modifier(c[0], c[1], values=(s.Auto(span=self.span(c[1], c[1])),))
        )

    def settle(self, line: str, modifiers: Parts) -> tuple[tuple[s.Modifier, ...], MoveView | None]:
        """The modifiers of a line, each at most once, and its view."""
        seen: dict[str, Any] = {}
        for m in modifiers:
            name = "as" if isinstance(m, MoveView) else m.name
            if name in seen:
                self.diagnostics.add(
                    errors.DuplicateModifier(
                        f"`{name}` stands twice on this line",
                        m.span,
                        labels=[Label(seen[name].span, "first here")],
                        help="keep one of them",
                    )
                )
            elif name == "as" and line != "move":
                self.diagnostics.add(
                    errors.MisplacedView(
                        f"`as (...)` does not belong to `{line}`", m.span, help="it says how a `move` stages a tensor"
                    )
                )
            seen.setdefault(name, m)
        return tuple(m for m in seen.values() if not isinstance(m, MoveView)), seen.get("as")

    def not_yet(self, what: str, span: Any, way: str) -> None:
        self.diagnostics.add(errors.NotYet(f"{what} cannot be compiled yet", span, help=way))
