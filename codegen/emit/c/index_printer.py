"""Index expressions as C text: 64-bit integers, floor division, as few parentheses as C needs."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import Any, TypeVar

from ....dsl.errors import InternalError
from ....dsl.index.expr import Atom, Expr, Fn, Var
from .c_expr import ATOM, PRODUCT, SUM

_E = TypeVar("_E")
_Said = TypeVar("_Said")
_NAMES = str.maketrans("_[]", "aaa")  # names, and elements of arrays


class IndexPrinter:
    """`name` gives a variable's text. `needs` gets each helper function that the text calls. `named`: the name of a quotient or
    a remainder that was computed before; None: it has none.

    ONCE: the text of an expression is remembered until a variable gets another name, or other bounds.
    """

    def __init__(
        self, name: Callable[[Var], str], needs: Callable[[str], None], named: Callable[[Fn], str | None] = lambda f: None
    ) -> None:
        self._name, self._needs, self._named = name, needs, named
        self._shown: dict[Any, Any] = {}

    def once(self, e: _E, show: Callable[[_E], _Said]) -> _Said:
        """ONCE: the text that `show` gives for an expression or an atom."""
        found = self._shown.get(e)
        if found is None:
            found = self._shown[e] = show(e)
        return found

    def close(self) -> None:
        """Nothing more is printed, see `Text.close`."""
        self._shown.clear()
        self.__dict__.pop("_name")
        self.__dict__.pop("_named")

    def renamed(self) -> None:
        """A variable has got another name."""
        self._shown.clear()

    def text(self, e: Expr, at_least: int = 0) -> str:
        """The expression, in parentheses when it binds weaker than `at_least`."""
        if not e.terms:
            return str(e.const) if e.const >= 0 or at_least < ATOM else f"({e.const})"
        return self.terms(e.terms, e.const, at_least)

    def terms(self, terms: Sequence[tuple[Atom, int]], const: int, at_least: int = 0, wide: Container[Atom] = ()) -> str:
        """A sum; positive terms first, so that no unary minus is needed where one can be avoided. `wide`: atoms to widen."""
        plus = minus = ""
        single = True
        for a, c in terms:
            if c > 0:
                piece = self._scaled(a, c, a in wide if wide else False)
                plus, single = (f"{plus} + {piece}", False) if plus else (piece, single)
            else:
                minus += f" - {self._scaled(a, -c, a in wide if wide else False)}"
        if const > 0 and not plus:  # 7 - n, not -n + 7
            plus, const = str(const), 0
        text = f"{plus}{minus}" if plus else f"-{minus[3:]}"
        if const:
            text += f" + {const}" if const > 0 else f" - {-const}"
        if at_least <= SUM:
            return text
        single = single and plus and not minus and not const
        precedence = (ATOM if text.translate(_NAMES).isalnum() or self._call(text) else PRODUCT) if single else SUM
        return text if precedence >= at_least else f"({text})"

    @staticmethod
    def _call(text: str) -> bool:
        return text.startswith(("floordiv(", "floormod(", "imin(", "imax(")) and _closes_at_end(text)

    def _scaled(self, atom: Atom, c: int, wide: bool) -> str:
        if type(atom) is Var:
            text = self._name(atom)
        elif c == 1 and not wide:
            return self.atom(atom, PRODUCT)
        else:
            product = atom.kind == "mul" and not _divides_first(atom)  # type: ignore[union-attr]
            text = self.atom(atom, ATOM if wide else PRODUCT if product else PRODUCT + 1)
        if wide:
            text = f"(int64_t){text}"
        return text if c == 1 else f"{c} * {text}"

    def atom(self, atom: Atom, at_least: int) -> str:
        if type(atom) is Var:
            return self._name(atom)
        if (name := self._named(atom)) is not None:  # type: ignore[arg-type]
            return name
        text, precedence = self.once(atom, self._fn)  # type: ignore[arg-type]
        return text if precedence >= at_least else f"({text})"

    def unnamed(self, f: Fn) -> str:
        """The text that computes it."""
        return self.once(f, self._fn)[0]

    def integer(self, f: Fn) -> str:
        """The type of its text."""
        return "int64_t"

    def _fn(self, f: Fn) -> tuple[str, int]:
        a, b = f.args[0], f.args[1]
        if f.kind == "mul":
            return f"{self.text(a, PRODUCT)} * {self.text(b, PRODUCT + 1)}", PRODUCT
        if f.kind == "xor":
            return f"({self.text(a, ATOM)} ^ {self.text(b, ATOM)})", ATOM
        if f.kind in ("div", "mod"):
            # C's / and % are floor's where nothing is negative
            if a.at_least(0):
                return f"{self.text(a, PRODUCT)} {'/' if f.kind == 'div' else '%'} {self.text(b, PRODUCT + 1)}", PRODUCT
            if f.kind == "mod" and (same := _without_signs(a, b.constant)) is not None:
                return f"{self.text(same, PRODUCT)} % {b.const}", PRODUCT
            name = "floordiv" if f.kind == "div" else "floormod"
            self._needs(name)
            return f"{name}({self.text(a)}, {self.text(b)})", ATOM
        if f.kind in ("min", "max"):
            self._needs(f"i{f.kind}")
            text = self.text(f.args[0])
            for other in f.args[1:]:
                text = f"i{f.kind}({text}, {self.text(other)})"
            return text, ATOM
        raise InternalError(f"the index function {f.kind} has no C text")


def _without_signs(e: Expr, divisor: int | None) -> Expr | None:
    """What leaves the same remainder and is never negative: x - 3*y is x + 4*y, divided by 7. None if it may not fit."""
    if divisor is None:
        return None
    same = Expr(tuple([(a, c % divisor) for a, c in e.terms if c % divisor]), e.const % divisor)
    low, high = same.interval
    fits = low is not None and low >= 0 and high is not None and high.bit_length() < 64
    return same if fits else None


def _divides_first(atom: Atom) -> bool:
    """Whether the text of a product may begin with a quotient or a remainder, which a factor before it would become part of."""
    while isinstance(atom, Fn) and atom.kind == "mul":
        first = atom.args[0]
        if len(first.terms) != 1 or first.const or first.terms[0][1] != 1:
            return False
        atom = first.terms[0][0]
    return isinstance(atom, Fn) and atom.kind in ("div", "mod")


def _closes_at_end(text: str) -> bool:
    depth = 0
    for i, ch in enumerate(text):
        depth += (ch == "(") - (ch == ")")
        if depth == 0 and ch == ")":
            return i == len(text) - 1
    return False
