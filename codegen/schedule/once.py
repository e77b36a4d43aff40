"""Factors of products that no instruction reads: made once, in memory, so that the product is one like others.

attention   `o[i, d] = sum(t) exp(s[i, t] - m[i]) * v[t, d]` computes each exponential for each tile along `d`.
f16         `C[m, n] = sum(k) f32(A[m, k]) * f32(B[k, n])` converts an element of `A` for each tile along `n`.

Made by a launch before, an operand is packed, and shared by the rows that a tile has. That pays where both are read more than a
few times; it takes their size in memory. A cell of an LSTM of f16, 512 wide: one row 0.15 ms with weights as they are, 8.2 with
weights made; 32 rows 8.7 and 4.8.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...dsl.device import Device
from ...dsl.op import Op, Statement
from ...dsl.values import loads
from ..lower.work import Work, plain_index, plan
from ..rtile.cpu import FEW, lies_along
from ..rtile.cpu_product import Product, product_of
from .factors import converted, factored, named
from .nests import cores_and_lanes

ROWS = 32  # up to which weights are better read as they lie


def made_once(op: Op, device: Device) -> frozenset[str]:
    """Names of pointwise intermediates, of the op or of factors that `factored` names; for processors whose cores share a
    memory."""
    return frozenset(name for product, names in opened(op, device) if _pays(product) for name in names)


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


def _as_taken(s: Statement) -> list[str]:
    """Names of the factors of a product as it takes them: converted, where they are."""
    typed = named(s, converted(s))
    sides = {n for n, _ in typed.values()}
    return [*typed, *(name for name, (n, _) in named(s).items() if n not in sides)]


def _works(op: Op, apart: frozenset[str]) -> list[Work]:
    return [w for group in plan(op, frozenset(), apart) for w in group]


def _pays(p: Product) -> bool:
    """Both operands are read more than a few times. Where both lie along what is added up, lanes read them as they are."""
    rows, columns = p.most(p.m), p.most(p.n)
    return (rows is None or rows > (ROWS if lies_along(p) else FEW)) and (columns is None or columns > FEW)
