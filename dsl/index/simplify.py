"""The rules by which `dsl.index.expr` builds expressions in canonical form.

Every rule is exact inside the variables' intervals.

The forms are chosen so that addresses separate into digits: a quotient of a remainder becomes a remainder of a quotient,
quotients of quotients become one, and `x/c*c + x % c` becomes `x` again.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from functools import reduce
from math import gcd
from typing import Any

from ..support.memoised import memoised
from .expr import ONE, ZERO, Atom, Expr, Fn, Var, as_expr, number

# ---------------------------------------------------------------- linear forms


def single_term(atom: Atom, c: int = 1) -> Expr:
    return Expr(((atom, c),))


def build(terms: dict[Atom, int], const: int) -> Expr:
    """The canonical expression of a sum; merges a quotient and its remainder (see `_merge`)."""
    variables: list[Any] = []
    functions: list[Any] = []
    for term in terms.items():
        if term[1]:
            (variables if type(term[0]) is Var else functions).append(term)
    if not variables and not functions:
        return number(const)
    if len(variables) > 1:
        variables.sort(key=key_of)
    if functions and len(terms) > 1:
        merged = _merge(terms, functions)
        if merged is not None:
            return merged + const
        if len(functions) > 1:
            functions.sort(key=key_of)
    return Expr((*variables, *functions), const)


def key_of(term: tuple[Atom, int]) -> tuple:
    return term[0]._key


def merge_terms(kept: list[tuple[Atom, int]], came: list[tuple[Atom, int]], const: int) -> Expr:
    """The sum of terms of a canonical expression, in their order, and of others that came for the rest of its terms."""
    if not came:  # what is left is in order, and nothing more joins
        return Expr(tuple(kept), const)
    terms = dict(kept)
    for a, c in came:
        terms[a] = terms.get(a, 0) + c
    return build(terms, const)


def add(a: Expr, b: Expr, scale: int = 1) -> Expr:
    if not b.terms:
        return a if not b.const else Expr(a.terms, a.const + scale * b.const)
    if not a.terms and scale == 1:
        return Expr(b.terms, a.const + b.const) if a.const else b
    terms = dict(a.terms)
    for atom, c in b.terms:
        terms[atom] = terms.get(atom, 0) + scale * c
    return build(terms, a.const + scale * b.const)


def linear_combination(parts: Iterable[tuple[Expr, int]], const: int) -> Expr:
    """The sum of c * e over the parts (e, c), and a constant."""
    terms: dict[Atom, int] = {}
    for e, c in parts:
        const += c * e.const
        for atom, k in e.terms:
            terms[atom] = terms.get(atom, 0) + c * k
    return build(terms, const)


def scale(a: Expr, c: int) -> Expr:
    if c == 1:
        return a
    return Expr(tuple([(atom, k * c) for atom, k in a.terms]), a.const * c) if c else ZERO


def _merge(terms: dict[Atom, int], functions: list[tuple[Fn, int]]) -> Expr | None:
    """Joins a quotient with its remainder; None where nothing joins. Each rule holds for all integers, x any expression:

    q*c*(x/c) + q*(x % c)           ->  q*x
    q*c*((x + c*y)/c) + q*(x % c)   ->  q*(x + c*y)         a remainder's x has lost what its divisor divides
    q*c*(x/c % d) + q*(x % c)       ->  q*(x % (c*d))
    q*x - q*c*(x/c)                 ->  q*(x % c)
    """
    for low, q in functions:
        if low.kind != "mod" or low.args[1].terms:
            continue
        c, x = low.args[1].const, low.args[0]
        if all([k % (q * c) for k in terms.values()]):
            continue  # nothing is a multiple of the quotient
        quotient = _quotient(low)
        if quotient.terms and all(terms.get(a) == q * c * k for a, k in quotient.terms):
            rest = {a: k for a, k in terms.items() if a is not low and all(a != b for b, _ in quotient.terms)}
            return build(rest, -q * c * quotient.const) + scale(x, q)
        for high, k in functions:
            if high.kind not in ("div", "mod") or k != q * c or high.args[1].terms or high is low:
                continue
            d = high.args[1].const
            if high.kind == "div":
                if d == c and (high.args[0] - x).is_multiple_of(c):
                    rest = {a: k for a, k in terms.items() if a is not low and a is not high}
                    return build(rest, 0) + scale(high.args[0], q)
                continue
            if (high.args[0] - quotient).is_multiple_of(d):
                rest = {a: k for a, k in terms.items() if a is not low and a is not high}
                return build(rest, 0) + scale(x % (c * d), q)
    for high, k in functions:
        if high.kind != "div" or high.args[1].terms or k % high.args[1].const:
            continue
        c = high.args[1].const
        x, q = high.args[0], -k // c
        first, m = x.terms[0]
        if terms.get(first) == q * m and all(terms.get(a) == q * k for a, k in x.terms):
            rest = {a: k for a, k in terms.items() if a is not high and all(a != b for b, _ in x.terms)}
            return build(rest, -q * x.const) + scale(x % c, q)
    return _merge_symbolic(terms, functions)


@memoised
def _quotient(remainder: Fn) -> Expr:
    """Of the operands of a remainder."""
    return remainder.args[0] // remainder.args[1]


def _merge_symbolic(terms: dict[Atom, int], functions: list[tuple[Fn, int]]) -> Expr | None:
    """As `_merge` for divisors that are expressions, which are > 0, in products with any f:

    f*d*(x/d) + f*(x % d)         ->  f*x
    f*d*(x/d % c) + f*(x % d)     ->  f*(x % (d*c))
    """
    for low, q in functions:
        for remainder in low.remainders:
            x, d = remainder.args
            quotient = Fn("div", (x, d))
            parts = (f for a, _ in functions if a is not low for f in _factors(a))
            for high in dict.fromkeys(f for f in parts if isinstance(f, Fn) and _is_of(f, quotient)):
                factors = list(_factors(low))
                factors.remove(remainder)
                others = reduce(operator.mul, map(_whole, factors), ONE)
                product = scale(d * _whole(high) * others, q)
                if product.const or any([terms.get(a) != k for a, k in product.terms]):
                    continue
                gone = dict(product.terms)
                rest = {a: k for a, k in terms.items() if a is not low and a not in gone}
                joined = x if high == quotient else x % (d * high.args[1])
                return build(rest, 0) + scale(joined * others, q)
    return None


def _is_of(f: Atom, quotient: Fn) -> bool:
    """Whether it is the quotient, or a remainder of it alone."""
    if type(f) is not Fn or f.kind == "mul":
        return False
    return f == quotient or (f.kind == "mod" and not f.args[0].const and f.args[0].terms == ((quotient, 1),))


def mul(a: Expr, b: Expr) -> Expr:
    if not b.terms:
        return scale(a, b.const)
    if not a.terms:
        return scale(b, a.const)
    if len(a.terms) == len(b.terms) == 1 and not a.const and not b.const:
        (x, c), (y, d) = a.terms[0], b.terms[0]
        return single_term(product(x, y), c * d)
    terms: dict[Atom, int] = {}
    for x, c in (*a.terms, (None, a.const)):
        for y, d in (*b.terms, (None, b.const)):
            if c * d and (x or y):
                atom = (y if x is None else x) if x is None or y is None else product(x, y)
                assert atom is not None
                terms[atom] = terms.get(atom, 0) + c * d
    return build(terms, a.const * b.const)


def product(x: Atom, y: Atom) -> Fn:
    """The atom x*y: factors in order, nested to the left, two to a node."""
    made, *others = sorted((*_factors(x), *_factors(y)), key=_KEY)
    for f in others:
        made = Fn("mul", (_whole(made), _whole(f)))
    return made  # type: ignore[return-value]


_KEY = operator.attrgetter("_key")


def _whole(atom: Atom) -> Expr:
    return as_expr(atom) if type(atom) is Var else single_term(atom)


def _factors(x: Atom) -> tuple[Atom, ...]:
    if type(x) is Fn and x.kind == "mul":
        return tuple(f for a in x.args for f in _factors(a.terms[0][0]))
    return (x,)


# ---------------------------------------------------------------- quotient and remainder


def div(e: Expr, by: Expr) -> Expr:
    if by.terms:
        whole, rest = _split_symbolic(e, by)
        return whole if rest is None else whole + single_term(Fn("div", (rest, by)))
    c = by.const
    if c <= 0:
        if not c:
            raise ZeroDivisionError(f"({e}) / 0")
        e, c = -e, -c
    if c == 1 or not e.terms:
        return e if c == 1 else number(e.const // c)
    if 0 <= e.const < c and all([k % c for _, k in e.terms]):
        return _small_div(e, c)
    whole = Expr(tuple([(a, k // c) for a, k in e.terms if not k % c]), e.const // c)
    rest = Expr(tuple([(a, k) for a, k in e.terms if k % c]), e.const % c)
    return whole + _small_div(rest, c) if whole.terms or whole.const else _small_div(rest, c)


def _small_div(e: Expr, c: int) -> Expr:
    """e / c where no coefficient is divisible by c."""
    if (q := _one_quotient(e, c)) is not None:
        return number(q)
    if (split := _coarser(e, c)) is not None:
        g, coarse, _ = split
        return coarse // (c // g)
    if len(e.terms) == 1 and type(atom := e.terms[0][0]) is Fn and e.terms[0][1] == 1:
        if atom.kind == "div" and (a := atom.args[1].constant):  # (x/a + r)/c
            return (atom.args[0] + a * e.const) // (a * c)
        if atom.kind == "mod" and not e.const and (a := atom.args[1].constant) and not a % c:  # (x % a)/c
            return (atom.args[0] // c) % (a // c)
    return single_term(Fn("div", (e, number(c))))


def mod(e: Expr, by: Expr) -> Expr:
    if by.terms:
        whole, rest = _split_symbolic(e, by)
        return e - whole * by if rest is None else single_term(Fn("mod", (rest, by)))
    c = by.const
    if c <= 0:
        if not c:
            raise ZeroDivisionError(f"({e}) % 0")
        return -mod(-e, number(-c))
    if c == 1 or not e.terms:
        return number(e.const % c)
    same = 0 <= e.const < c and all([k % c for _, k in e.terms])
    plain = e if same else Expr(tuple([(a, k) for a, k in e.terms if k % c]), e.const % c)
    if (q := _one_quotient(plain, c)) is not None:
        return plain - q * c
    terms: dict[Atom, int] = {}
    inner = ZERO
    for a, k in plain.terms:
        if type(a) is Fn and a.kind == "mod" and (m := a.args[1].constant) and not k * m % c:  # (k*(x % m)) % c, c | k*m
            inner = inner + k * a.args[0]
        else:
            least = k % c
            terms[a] = least = least if 2 * least <= c else least - c
            same = same and least == k
    if inner.terms:
        return (build(terms, plain.const) + inner) % c
    if not same:
        e = build(terms, plain.const)
        if (q := _one_quotient(e, c)) is not None:
            return e - q * c
    if (split := _coarser(e, c)) is not None:
        g, coarse, fine = split
        return g * (coarse % (c // g)) + fine
    return single_term(Fn("mod", (e, number(c))))


def _one_quotient(e: Expr, c: int) -> int | None:
    """q when e / c is q for all values of e, by its interval."""
    lo, hi = e.interval
    return lo // c if lo is not None and hi is not None and lo // c == hi // c else None


def _coarser(e: Expr, c: int) -> tuple[int, Expr, Expr] | None:
    """(g, x, y) with e = g*x + y, 0 <= y < g, g > 1 a divisor of c: what is finer than g does not reach c."""
    common = {gcd(k, c) for _, k in e.terms}
    common.discard(1)
    for g in sorted(common, reverse=True) if len(common) > 1 else common:
        fine = Expr(tuple([(a, k) for a, k in e.terms if k % g]), e.const)
        q = _one_quotient(fine, g)
        if q is not None:
            return g, Expr(tuple([(a, k // g) for a, k in e.terms if not k % g]), q), fine - q * g
    return None


def _split_symbolic(e: Expr, by: Expr) -> tuple[Expr, Expr | None]:
    """(q, r) with e = q*by + r; r is None when it is known to lie in [0, by)."""
    whole = ZERO
    if (one := by.atom) is not None:
        divisor = list(_factors(one))
        for atom, k in e.terms:
            if atom == one:
                whole = whole + k
            elif type(atom) is Fn and atom.kind == "mul":
                factors = list(_factors(atom))
                if all(factors.count(f) >= divisor.count(f) for f in divisor):
                    for f in divisor:
                        factors.remove(f)
                    whole = whole + k * reduce(operator.mul, (single_term(f) for f in factors), ONE)
    else:
        atom, k = by.terms[0]
        c = e.coefficient(atom) if isinstance(atom, Var) else next((c for a, c in e.terms if a == atom), 0)
        if c % k == 0 and all((a, c // k * d) in e.terms for a, d in by.terms):
            whole = number(c // k)
    rest = e - whole * by if whole.terms or whole.const else e
    inside = rest.at_least(0) and (_least_difference(by, rest) or 0) >= 1
    return whole, None if inside else rest


def _least_difference(x: Expr, y: Expr) -> int | None:
    """The lower end of x - y; what has no variable in common does not join."""
    if not x._variables.isdisjoint(y._variables):
        return (x - y).interval[0]
    low, high = x.interval[0], y.interval[1]
    return None if low is None or high is None else low - high


def simplify_extreme(kind: str, xs: Iterable[Expr]) -> Expr:
    flat: list[Expr] = []
    for x in xs:
        nested = x.atom
        flat.extend(nested.args if type(nested) is Fn and nested.kind == kind else (x,))
    kept: list[Expr] = []
    for x in sorted(set(flat), key=_KEY):
        if any(_beats(kind, y, x) for y in kept):
            continue
        kept = [y for y in kept if not _beats(kind, x, y)] + [x]
    if not kept:
        raise ValueError(f"{kind} of nothing")
    return kept[0] if len(kept) == 1 else single_term(Fn(kind, tuple(kept)))


def _beats(kind: str, x: Expr, y: Expr) -> bool:
    """Whether x makes y superfluous in a min or max."""
    low = _least_difference(y, x) if kind == "min" else _least_difference(x, y)
    return low is not None and low >= 0


def xor(a: Expr, b: Expr) -> Expr:
    """Bitwise exclusive or."""
    x, y = sorted((a, b), key=_KEY)
    if not x.terms and not y.terms:
        return number(x.const ^ y.const)
    if x == y:
        return ZERO
    for one, other in ((x, y), (y, x)):
        if one.constant == 0:
            return other
    return single_term(Fn("xor", (x, y)))


def rebuild(kind: str, args: list[Expr]) -> Expr:
    """The simplified atom `kind` of these arguments."""
    if kind in ("min", "max"):
        return simplify_extreme(kind, args)
    return _OF_TWO[kind](args[0], args[1])


_OF_TWO = {"div": div, "mod": mod, "mul": mul, "xor": xor}
