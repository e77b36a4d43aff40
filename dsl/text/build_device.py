"""The rules of devices and instructions."""

from __future__ import annotations

from typing import Any

from .. import syntax as s
from ..errors import syntax as errors
from .builder_base import Parts, TreeRules


class DeviceRules(TreeRules):
    def device(self, c: Parts) -> s.DeviceDecl:
        keyword, name, parent, *items = c
        if not items and not parent:
            self.diagnostics.add(
                errors.EmptyBlock(
                    f"device `{name}` says nothing",
                    self.span(keyword, name),
                    help="give it levels and memories, or let it `extends` another",
                )
            )
        return s.DeviceDecl(str(name), parent and str(parent), tuple(items), span=self.span(keyword, parent or name))

    def level(self, c: Parts) -> s.LevelDecl:
        keyword, name, *facts = c
        return s.LevelDecl(str(name), tuple(facts), span=self.span(keyword, facts))

    def memory(self, c: Parts) -> s.MemoryDecl:
        keyword, name, level, *facts = c
        return s.MemoryDecl(str(name), str(level), tuple(facts), span=self.span(keyword, facts))

    def limits(self, c: Parts) -> s.LimitDecl:
        return s.LimitDecl(tuple(c), span=self.span(c[0], c))

    def fact(self, c: Parts) -> s.Fact:
        parts = tuple(p if isinstance(p, s.Quantity) else str(p) for p in c)
        return s.Fact(parts, span=self.span(c[0], c[-1]))

    def quantity(self, c: Parts) -> s.Quantity:
        number, unit = c
        return s.Quantity(self.number(number), str(unit or ""), span=self.span(number, unit))

    def counted(self, c: Parts) -> s.Quantity:
        count, number, unit = c
        return s.Quantity(self.number(number), str(unit or ""), self.int_of(count), span=self.span(count, number, unit))

    def number(self, token: Any) -> int | float:
        return self.int_of(token) if token.type == "INT" else self.float_of(token)

    def instr(self, c: Parts) -> s.InstrDecl:
        keyword, name, level, family, kinds, *lines = c
        span = self.span(keyword, name)
        ops: list[Any] = []
        places: list[s.OperandPlace] = []
        emits: list[s.Emit] = []
        facts: list[s.Fact] = []
        awaits: list[s.Fact] = []
        valued: list[s.Kind] = []
        for what, value in lines:
            if what in ("facts", "kind"):
                {"facts": facts, "kind": valued}[what].extend(value)
                continue
            {"op": ops, "place": places, "emit": emits, "await": awaits}[what].append(value)
        if kinds and valued:
            self.diagnostics.add(
                errors.InstructionOp(
                    f"instruction `{name}` says twice what it is for", valued[0].span, help="keep its `for` lines, one for each"
                )
            )
        if not ops:
            self.diagnostics.add(
                errors.InstructionOp(f"instruction `{name}` has no `op`", span, help="add `op (...):` with its statement")
            )
            ops.append(((), (), (), None))
        for _, _, _, extra in ops[1:]:
            self.diagnostics.add(
                errors.InstructionOp(
                    f"instruction `{name}` has two ops", extra, help="an instruction computes one thing; write two instructions"
                )
            )
        for extra in awaits[1:]:
            self.diagnostics.add(
                errors.InstructionOp(f"instruction `{name}` is awaited in two ways", extra.span, help="keep one `await` line")
            )
        operands, results, body, _ = ops[0]
        return s.InstrDecl(
            str(name),
            str(level),
            family and str(family),
            operands,
            results,
            body,
            tuple(places),
            tuple(emits),
            tuple(facts),
            awaits[0] if awaits else None,
            kinds or tuple(valued),
            span=span,
        )

    def kinds(self, c: Parts) -> tuple[s.Kind, ...]:
        return tuple(k for k in c if k is not None)

    def kind(self, c: Parts) -> s.Kind:
        dtype, count = c
        return s.Kind(str(dtype), None if count is None else self.int_of(count), span=self.span(dtype, count))

    def every_type(self, c: Parts) -> s.Kind:
        number, unit = c
        if unit != "B":
            self.diagnostics.add(
                errors.InstructionOp(f"`for {number} {unit}`: an amount of bytes, such as `for 16 B`", self.span(number, unit))
            )
        return s.Kind(None, self.int_of(number), span=self.span(number, unit))

    def kind_line(self, c: Parts) -> tuple[str, Any]:
        kinds = [x for x in c if isinstance(x, s.Kind)]
        values = tuple(x for x in c if isinstance(x, s.KindValue))
        return "kind", [s.Kind(k.dtype, k.count, values, span=self.span(kinds[0], values)) for k in kinds]

    def kind_value(self, c: Parts) -> s.KindValue:
        name, _, value = c
        meant = self.string(value) if value.type == "TEXT" else str(value) if value.type == "NAME" else self.number(value)
        return s.KindValue(str(name), meant, value.type == "TEXT", span=self.span(name, value))

    def instr_op(self, c: Parts) -> tuple[str, Any]:
        keyword, operands, results, body = c
        for t in operands + (results or ()):
            if isinstance(t, s.IntParam):
                self.diagnostics.add(
                    errors.InstructionOp(
                        f"`{t.name}: int` cannot be an operand of an instruction",
                        t.span,
                        help="operands are tensors or scalars",
                    )
                )
        return "op", (operands, results or (), body, self.span(keyword, keyword))

    def place(self, c: Parts) -> tuple[str, Any]:
        operand, memory, (coords, close), *maps = c
        pairs = tuple(pair for pair, _ in maps)
        span = self.span(operand, close, [m for _, m in maps])
        return "place", s.OperandPlace(str(operand), str(memory), coords, pairs, span=span)

    def coords(self, c: Parts) -> tuple[tuple[str, ...], Any]:
        return tuple(map(str, c[1:-1])), c[-1]

    def map(self, c: Parts) -> tuple[tuple[str, s.Expr], s.Expr]:
        name, _, value = c
        return (str(name), value), value

    def emit(self, c: Parts) -> tuple[str, Any]:
        keyword, dialect, text = c
        return "emit", s.Emit(str(dialect), self.string(text), span=self.span(keyword, dialect))

    def instr_facts(self, c: Parts) -> tuple[str, Any]:
        return "facts", c

    def awaits(self, c: Parts) -> tuple[str, Any]:
        return "await", c[1]
