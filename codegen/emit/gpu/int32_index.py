"""Index expressions of one thread: `int` where all intermediate results fit, else 64 bits.

FITS    a sum whose terms together stay below 2**31 is formed in `int`; otherwise its largest terms become 64 bits wide first,
        so that the others fit.
STEPS   x / (c*n) is x / n / c, and x % (c*n) is x / n % c * n + x % n, of which no part exceeds x.
KNOWN   each level of a nested expression needs the upper bound of its atoms, so bounds are remembered until the interval of a
        variable changes.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from math import prod
from operator import itemgetter

from ....dsl.index.expr import Atom, Expr, Fn, Var
from ...ir.limits import INT_END
from ..c.index_printer import IndexPrinter


class GpuIndex(IndexPrinter):
    """`bounds`: the largest absolute values of variables that are `int`; all others are 64 bits wide."""

    def __init__(
        self, name: Callable[[Var], str], needs: Callable[[str], None], named: Callable[[Fn], str | None] = lambda f: None
    ) -> None:
        super().__init__(name, needs, named)
        self.bounds: dict[Var, int] = {}
        self._known: dict[Fn, int | None] = {}  # KNOWN
        self._mosts: dict[Fn, int | None] = {}

    def learn(self, bounds: Mapping[Var, int | None]) -> None:
        """Absolute values that variables do not exceed; None: nothing is known any more."""
        for var, bound in bounds.items():
            if self.bounds.get(var) == bound:
                continue
            if var in self.bounds:  # nothing was said of others
                self._known.clear()
                self._mosts.clear()
                self.renamed()
            if bound is None:
                del self.bounds[var]
            else:
                self.bounds[var] = bound

    def bound(self, e: Expr) -> int | None:
        """An upper bound on the absolute value of `e`, from variables that are `int`."""
        lo, hi = e.interval
        known = None if lo is None or hi is None else max(abs(lo), abs(hi))
        total = self._total(e, self._bound)
        return known if total is None or (known is not None and known < total) else total

    def _total(self, e: Expr, of: Callable[[Atom], int | None]) -> int | None:
        """The sum of upper bounds of the terms; None if one is unknown. `of`: the bound of an atom that is not a variable."""
        total = abs(e.const)
        bounds = self.bounds
        for a, c in e.terms:
            most = bounds.get(a) if type(a) is Var else of(a)
            if most is None:
                return None
            total += most * c if c > 0 else -most * c
        return total

    def _bound(self, atom: Atom) -> int | None:
        if type(atom) is Var:
            return self.bounds.get(atom)
        found = self._known.get(atom, -1)  # type: ignore[arg-type]
        if found == -1:
            found = self._known[atom] = self._bound_fn(atom)  # type: ignore[index, arg-type]
        return found

    def _bound_fn(self, atom: Fn) -> int | None:
        args = [self.bound(e) for e in atom.args]
        lo, hi = atom.interval
        found = [] if lo is None or hi is None else [max(abs(lo), abs(hi))]
        match atom.kind:
            case "mul" if None not in args:
                found.append(prod(b or 0 for b in args))
            case "div" if args[0] is not None:
                found.append(args[0])
            case "mod" if atom.args[0].at_least(0):
                found += [b for b in (args[0], args[1] and args[1] - 1) if b is not None]
            case "xor" | "min" | "max" if None not in args:
                found.append(2 * max(b or 0 for b in args))
        return min(found, default=None)

    def fits(self, e: Expr) -> bool:
        """Whether the text of an expression is an `int`."""
        total = self._total(e, self._most)
        return total is not None and total < INT_END

    def integer(self, f: Fn) -> str:
        return "int" if self.fits(Expr(((f, 1),))) else super().integer(f)

    def _most(self, atom: Atom) -> int | None:
        """An upper bound on an atom whose text is an `int`; None if it is a 64-bit number."""
        if type(atom) is Var:
            return self.bounds.get(atom)
        found = self._mosts.get(atom, -1)  # type: ignore[arg-type]
        if found == -1:
            found = self._mosts[atom] = None if self._wide(atom) else self._of(atom)  # type: ignore[index, arg-type]
        return found

    def _wide(self, atom: Fn) -> bool:
        if atom.kind in ("min", "max"):
            return True
        if self._in_steps(atom) is not None:
            return False
        return not all(map(self.fits, atom.args)) or (b := self._bound(atom)) is None or b >= INT_END

    def _of(self, atom: Atom) -> int:
        b = self._bound(atom)
        return INT_END if b is None else b

    def _formed(self, terms: Sequence[tuple[Atom, int]]) -> int:
        """An upper bound on the sum of the terms that are `int`."""
        total = 0
        bounds = self.bounds
        for a, c in terms:
            most = bounds.get(a) if type(a) is Var else self._most(a)
            if most is not None:
                total += most * c if c > 0 else -most * c
        return total

    def terms(self, terms: Sequence[tuple[Atom, int]], const: int, at_least: int = 0, wide: Container[Atom] = ()) -> str:
        total = abs(const) + self._formed(terms)
        if total >= INT_END:
            wide = []
            sized = [(abs(c) * self._of(a), a) for a, c in terms]
            for size, a in sorted(sized, key=itemgetter(0), reverse=True):
                if total >= INT_END and self._most(a) is not None:
                    wide.append(a)
                    total -= size
        return super().terms(terms, const, at_least, wide)

    def _in_steps(self, f: Fn) -> tuple[Expr, int] | None:
        """STEPS: (n, c) of a quotient or remainder by c*n that is formed in `int`, though c*n may not fit."""
        if f.kind not in ("div", "mod"):
            return None
        by = f.args[1]
        if len(by.terms) != 1 or by.const or by.terms[0][1] < 2 or self.fits(by) or not f.args[0].at_least(0):
            return None
        n = Expr(((by.terms[0][0], 1),))
        return (n, by.terms[0][1]) if self.fits(n) and self.fits(f.args[0]) and n.at_least(0) else None

    def _fn(self, f: Fn) -> tuple[str, int]:
        steps = self._in_steps(f)
        if steps is not None:
            x, n, c = self.text(f.args[0], 5), self.text(steps[0], 6), steps[1]
            return (f"{x} / {n} / {c}", 5) if f.kind == "div" else (f"{x} / {n} % {c} * {n} + {x} % {n}", 4)
        if f.kind == "mul" and all(map(self.fits, f.args)) and self._of(f) >= INT_END:
            return f"(int64_t){self.text(f.args[0], 10)} * {self.text(f.args[1], 6)}", 5
        return super()._fn(f)
