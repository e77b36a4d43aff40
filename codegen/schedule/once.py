"""Factors of products that no instruction reads: made once, in memory, so that the product is one like others.

attention   `o[i, d] = sum(t) exp(s[i, t] - m[i]) * v[t, d]` computes each exponential for each tile along `d`.
f16         `C[m, n] = sum(k) f32(A[m, k]) * f32(B[k, n])` converts an element of `A` for each tile along `n`.

Made by a launch before, an operand is packed, and shared by the rows that a tile has. That pays where both are read more than a
few times; it takes their size in memory. A cell of an LSTM of f16, 512 wide: one row 0.15 ms with weights as they are, 8.2 with
weights made; 32 rows 8.7 and 4.8.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from ...dsl.device import Device
from ...dsl.op import Op, Statement
from ...dsl.values import Cast, Load, loads
from ..lower.work import Work, plain_index, plan
from ..rtile.cpu import FEW, lies_along
from ..rtile.cpu_product import Product, product_of
from .factors import converted, factored, factors, named, windows
from .nests import cores_and_lanes

ROWS = 32  # up to which weights are better read as they lie


def made_once(op: Op, device: Device) -> frozenset[str]:
    """Names of pointwise intermediates, of the op or of factors that `factored` names; for processors whose cores share a
    memory."""
    found = frozenset(name for product, names in opened(op, device) if _pays(product) for name in names)
    return found | _converted_for_windows(op, device)


def opened(op: Op, device: Device) -> Iterator[tuple[Product, frozenset[str]]]:
    """What becomes a product where factors are made, and which ones."""
    if cores_and_lanes(device) is None or not any(s.reduction is not None for s in op.statements):
        return
    whole = factored(op, frozenset(name for s in op.statements for name in _as_taken(s)))
    pointwise = {
        s.target
        for s in whole.statements
        if s.reduction is None and all(plain_index(e) is not None for ld in loads(s.value) for e in ld.indices)
    } - {t.name for t in op.outputs}
    if not pointwise:
        return
    as_it_is = {w.name for w in _works(op, frozenset()) if product_of(device, w) is not None}
    for w in _works(whole, frozenset(pointwise)):
        product = product_of(device, w) if w.reduction is not None and w.name not in as_it_is else None
        if product is not None:
            yield product, frozenset(pointwise & {product.wide.tensor, product.narrow.tensor})


def _converted_for_windows(op: Op, device: Device) -> frozenset[str]:
    """Tensors that a contraction of windows converts again and again, although it is no product that an instruction takes, as
    where channels are last: lanes that gather elements of 8 or 16 bits convert them one by one."""
    if cores_and_lanes(device) is None or all(s.reduction is None for s in op.statements):
        return frozenset()
    whole = factored(op, frozenset(name for s in op.statements for name in _as_taken(s)))
    made = {s.target: s for s in whole.statements if s.reduction is None and isinstance(s.value, Cast) and _whole(s)}
    names: set[str] = set()
    for s in whole.statements:
        read = [x for x in factors(s) if isinstance(x, Load)]
        if any(plain_index(e) is None for ld in read for e in ld.indices):
            names |= {ld.tensor for ld in read if ld.tensor in made and _often(s, made[ld.tensor])}
    return frozenset(names)


def _whole(s: Statement) -> bool:
    """Is it a conversion of a tensor, element by element?"""
    x = s.value.arg if isinstance(s.value, Cast) else None
    return isinstance(x, Load) and tuple(map(plain_index, x.indices)) == s.indices


def _often(reader: Statement, s: Statement) -> bool:
    """Are there so many more iterations than elements that each is read more than a few times? So of sizes that are open."""
    times, elements = (prod(e.constant or 0 for _, e in x.ranges) for x in (reader, s))
    return not elements or not times or times > ROWS * elements


def _as_taken(s: Statement) -> list[str]:
    """Names of the factors of a product as it takes them: converted, where they are."""
    cut = windows(s)
    typed = {name: x for name, x in named(s, converted(s)).items() if x[0] not in {n for n, _ in cut.values()}} | cut
    sides = {n for n, _ in typed.values()}
    return [*typed, *(name for name, (n, _) in named(s).items() if n not in sides)]


def _works(op: Op, apart: frozenset[str]) -> list[Work]:
    return [w for group in plan(op, frozenset(), apart) for w in group]


def _pays(p: Product) -> bool:
    """Both operands are read more than a few times. Where both lie along what is added up, lanes read them as they are."""
    rows, columns = p.most(p.m), p.most(p.n)
    return (rows is None or rows > (ROWS if lies_along(p) else FEW)) and (columns is None or columns > FEW)
