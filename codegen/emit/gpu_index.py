"""Index expressions of one thread: `int` where everything that is formed on the way fits, 64 bits where not.

FITS    a sum whose terms together stay below 2**31 is formed in `int`; else its largest terms are made 64 bits wide first, so
        that what is left does.
STEPS   x / (c*n) is x / n / c, and x % (c*n) is x / n % c * n + x % n, of which no part is more than x.
KNOWN   what an atom's values do not exceed is asked again at each level of a nested expression, so it is remembered until what
        is known of a variable changes. By identity: equal atoms may differ in their variables' intervals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import prod

from ...dsl.index import Atom, Expr, Fn, Var, as_expr
from .index import IndexPrinter

_END = 1 << 31


class GpuIndex(IndexPrinter):
    """`bounds`: the largest absolute values of variables that are `int`; all others are 64 bits wide."""

    def __init__(self, name: Callable[[Var], str], needs: Callable[[str], None]) -> None:
        super().__init__(name, needs)
        self.bounds: dict[Var, int] = {}
        self._cast: tuple[Atom, ...] = ()
        self._known: dict[int, tuple[Fn, int | None]] = {}  # KNOWN
        self._wides: dict[int, tuple[Fn, bool]] = {}

    def learn(self, bounds: Mapping[Var, int | None]) -> None:
        """Absolute values that variables do not exceed; None: nothing is known any more."""
        for var, bound in bounds.items():
            if self.bounds.get(var) == bound:
                continue
            self._known.clear()
            self._wides.clear()
            self.renamed()
            if bound is None:
                del self.bounds[var]
            else:
                self.bounds[var] = bound

    def bound(self, e: Expr) -> int | None:
        """An absolute value that `e` does not exceed, as far as variables that are `int` tell."""
        lo, hi = e.interval
        found = [] if lo is None or hi is None else [max(abs(lo), abs(hi))]
        terms = [self._bound(a) for a, _ in e.terms]
        if None not in terms:
            found.append(abs(e.const) + sum(abs(c) * (b or 0) for (_, c), b in zip(e.terms, terms, strict=True)))
        return min(found, default=None)

    def _bound(self, atom: Atom) -> int | None:
        if isinstance(atom, Var):
            return self.bounds.get(atom)
        found = self._known.get(id(atom))
        if found is None:
            found = self._known[id(atom)] = (atom, self._bound_fn(atom))  # what the key names stays alive
        return found[1]

    def _bound_fn(self, atom: Fn) -> int | None:
        args = [self.bound(e) for e in atom.args]
        lo, hi = atom.interval
        found = [] if lo is None or hi is None else [max(abs(lo), abs(hi))]
        match atom.kind:
            case "mul" if None not in args:
                found.append(prod(b or 0 for b in args))
            case "div" if args[0] is not None:
                found.append(args[0])
            case "mod" if _natural(atom.args[0]):
                found += [b for b in (args[0], args[1] and args[1] - 1) if b is not None]
            case "xor" | "min" | "max" if None not in args:
                found.append(2 * max(b or 0 for b in args))
        return min(found, default=None)

    def fits(self, e: Expr) -> bool:
        """Whether the text of an expression is an `int`."""
        return not any(self._wide(a) for a, _ in e.terms) and self._total(e.terms, e.const) < _END

    def _wide(self, atom: Atom) -> bool:
        """Whether the text of an atom is a 64-bit number."""
        if isinstance(atom, Var):
            return atom not in self.bounds
        found = self._wides.get(id(atom))
        if found is None:
            found = self._wides[id(atom)] = (atom, self._wide_fn(atom))
        return found[1]

    def _wide_fn(self, atom: Fn) -> bool:
        if atom.kind in ("min", "max"):
            return True
        if self._in_steps(atom) is not None:
            return False
        return not all(self.fits(e) for e in atom.args) or (b := self._bound(atom)) is None or b >= _END

    def _total(self, terms: Iterable[tuple[Atom, int]], const: int) -> int:
        return abs(const) + sum(abs(c) * self._of(a) for a, c in terms if not self._wide(a))

    def _of(self, atom: Atom) -> int:
        b = self._bound(atom)
        return _END if b is None else b

    def terms(self, terms: Iterable[tuple[Atom, int]], const: int, at_least: int = 0) -> str:
        terms = list(terms)
        before, total, cast = self._cast, self._total(terms, const), []
        for a, c in sorted(terms, key=lambda t: -abs(t[1]) * self._of(t[0])) if total >= _END else ():
            if total < _END:
                break
            if not self._wide(a):
                cast.append(a)
                total -= abs(c) * self._of(a)
        self._cast = tuple(cast)
        text = super().terms(terms, const, at_least)
        self._cast = before
        return text

    def _scaled(self, atom: Atom, c: int) -> str:
        if atom not in self._cast:
            return super()._scaled(atom, c)
        shown = f"(int64_t){self.atom(atom, 10)}"
        return shown if c == 1 else f"{c} * {shown}"

    def _in_steps(self, f: Fn) -> tuple[Expr, int] | None:
        """STEPS: (n, c) of a quotient or remainder by c*n that is formed in `int`, though c*n may not fit."""
        by = f.args[1] if f.kind in ("div", "mod") else as_expr(0)
        if len(by.terms) != 1 or by.const or by.terms[0][1] < 2 or self.fits(by) or not _natural(f.args[0]):
            return None
        n = Expr(((by.terms[0][0], 1),))
        return (n, by.terms[0][1]) if self.fits(n) and self.fits(f.args[0]) and _natural(n) else None

    def _fn(self, f: Fn) -> tuple[str, int]:
        steps = self._in_steps(f)
        if steps is not None:
            x, n, c = self.text(f.args[0], 5), self.text(steps[0], 6), steps[1]
            return (f"{x} / {n} / {c}", 5) if f.kind == "div" else (f"{x} / {n} % {c} * {n} + {x} % {n}", 4)
        if f.kind == "mul" and all(self.fits(e) for e in f.args) and self._of(f) >= _END:
            return f"(int64_t){self.text(f.args[0], 10)} * {self.text(f.args[1], 6)}", 5
        return super()._fn(f)


def _natural(e: Expr) -> bool:
    low = e.interval[0]
    return low is not None and low >= 0
