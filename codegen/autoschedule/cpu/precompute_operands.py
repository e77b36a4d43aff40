"""Factors of products that no instruction reads: computed once, into memory, so that the product is an ordinary one.

attention   `o[i, d] = sum(t) exp(s[i, t] - m[i]) * v[t, d]` computes each exponential for each tile along `d`.
f16         `C[m, n] = sum(k) f32(A[m, k]) * f32(B[k, n])` converts an element of `A` for each tile along `n`.

An operand that an earlier launch materialises is packed, and shared by all rows of a tile. It needs its size in memory, and is
worth it if both operands are read more than a few times. A cell of an LSTM of f16, 512 wide, one row: 0.15 ms with weights read
in place, 8.2 ms with materialised weights; 32 rows: 8.7 and 4.8 ms.

SHARED  keys that several heads share are an operand of no matrix product, as results have two indices of rows. A pass goes over
        the rows of one head, and its products are those of one head: what they convert again and again is converted before.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from ....dsl.device import Device
from ....dsl.index.expr import Var, as_expr
from ....dsl.op import Op, Statement
from ....dsl.support.fast_replace import replace
from ....dsl.values import Cast, Load, loads
from ...plan.computations import Computation, indices_of, plain_index, substitute
from ...plan.group_launches import group_launches
from ...plan.name_factors import converted_factors, factors, has_steps, name_factors, named_factor, windows
from ..one_pass.chains import chains_of
from .default_nests import cores_and_lanes
from .matmul import FEW, contiguous_along_k
from .matmul_model import MatmulModel, matmul_of

ROWS = 32  # rows: up to which weights are read faster than they are packed [measured: default-nests; test_first_candidates]


def precomputed_operands(op: Op, device: Device) -> frozenset[str]:
    """Names of pointwise intermediates, of the op or of factors that `name_factors` names; for processors whose cores share a
    memory."""
    if cores_and_lanes(device) is None:
        return frozenset()
    found = list(candidate_matmuls(op, device))
    names = frozenset(name for product, names in found if _pays(product) for name in names)
    return names | _converted_for_windows(op, {product.name for product, _ in found} | _as_it_is(op, device))


def factors_of_moved(op: Op, made: frozenset[str], moved: frozenset[str], result: str | None = None) -> frozenset[str]:
    """Factors `made` by launches of their own, of products with one that reads a moved tensor: the launch of the line that
    moves it reads that. `result`: of the one product that the launch computes; None: of any."""
    if not moved:
        return frozenset()
    reading = {s.target for s in op.statements if s.target in made for ld in loads(s.value) if ld.tensor in moved}
    products = [s for s in op.statements if s.reduction is not None and result in (None, s.target.partition(".")[0])]
    read = [{ld.tensor for ld in loads(s.value)} for s in products]
    return frozenset(t for x in read if not x.isdisjoint(reading) for t in x & made)


def candidate_matmuls(op: Op, device: Device) -> Iterator[tuple[MatmulModel, frozenset[str]]]:
    """Computations that become products if factors are materialised, with these factors: of their possible types, those that
    the device multiplies fastest."""
    if cores_and_lanes(device) is None or not any(s.reduction is not None for s in op.statements):
        return
    as_it_is, in_passes = _as_it_is(op, device), _in_chains(op)
    best: dict[str, tuple[float, MatmulModel, frozenset[str]]] = {}
    for names in _typings(op):
        whole = name_factors(op, names)
        pointwise = {
            s.target
            for s in whole.statements
            if s.reduction is None and all(plain_index(e) is not None for ld in loads(s.value) for e in ld.indices)
        } - {t.name for t in op.outputs}
        for w in _computations(whole, frozenset(pointwise)) if pointwise else ():
            product = matmul_of(device, w) if w.reduction is not None and w.name not in as_it_is else None
            shared = product is None and w.name in in_passes
            if shared:
                product = matmul_of(device, _of_one_head(w))
            made = frozenset(pointwise & {product.wide.tensor, product.narrow.tensor}) if product is not None else frozenset()
            if product is None or (shared and not made):
                continue
            if w.name not in best or product.rate > best[w.name][0]:
                best[w.name] = product.rate, product, made
    yield from ((product, made) for _, product, made in best.values())


def _in_chains(op: Op) -> set[str]:
    """SHARED: the sums of the chains of a statistic."""
    parts = [p.statements for p in chains_of(op)] if op.statements else []
    parts = [p for p in parts if any(s.reduction is not None and s.reduction.kind in ("max", "min") for s in p)]
    return {s.target for p in parts for s in p if s.reduction is not None and s.reduction.kind == "sum"}


def _of_one_head(w: Computation) -> Computation:
    """SHARED: the product for one of all but the last of the rows that only one operand has."""
    reads = loads(w.value)
    if len(reads) != 2:
        return w
    own = [[i for i in w.indices if {i} & indices_of(a, {}) and not {i} & indices_of(b, {})] for a, b in (reads, reads[::-1])]
    heads = {i for rows in own for i in rows[:-1]}
    value = substitute(w.value, {Var(i): as_expr(0) for i in heads})
    return replace(w, indices=tuple(i for i in w.indices if i not in heads), value=value, outputs=())


def _as_it_is(op: Op, device: Device) -> set[str]:
    """What is a product of tensors that are there."""
    return {w.name for w in _computations(op, frozenset()) if matmul_of(device, w) is not None}


def _typings(op: Op) -> Iterator[frozenset[str]]:
    """Names of the factors of all products: in the types that these take, then in each intermediate type. The last has none,
    because factors that lines name have their names already."""
    yield frozenset(name for s in op.statements for name in _as_taken(s))
    steps = {id(s): {x[0].dtype: x for x in has_steps(s) if x[0] is not None} for s in op.statements}
    for dtype in dict.fromkeys(t for x in steps.values() for t in x):
        yield frozenset(name for s in op.statements for name in _as_taken(s, steps[id(s)].get(dtype)))
    yield frozenset()


def _converted_for_windows(op: Op, products: set[str]) -> frozenset[str]:
    """Tensors that a contraction of windows converts again and again, although it is no product that an instruction takes:
    lanes that gather elements of 8 or 16 bits convert them one by one."""
    if all(s.reduction is None for s in op.statements):
        return frozenset()
    whole = name_factors(op, frozenset(name for s in op.statements for name in _as_taken(s)))
    made = {s.target: s for s in whole.statements if s.reduction is None and isinstance(s.value, Cast) and _whole(s)}
    names: set[str] = set()
    for s in (x for x in whole.statements if x.target not in products):
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


def _as_taken(s: Statement, found: tuple[Cast | None, Cast | None] | None = None) -> list[str]:
    """Names of the factors of a product in the types that it takes: converted, where they are, or as `found`."""
    found = found or converted_factors(s)
    cut = windows(s, found)
    typed = {name: x for name, x in named_factor(s, found).items() if x[0] not in {n for n, _ in cut.values()}} | cut
    sides = {n for n, _ in typed.values()}
    return [*typed, *(name for name, (n, _) in named_factor(s).items() if n not in sides)]


def _computations(op: Op, apart: frozenset[str]) -> list[Computation]:
    return [w for group in group_launches(op, frozenset(), apart) for w in group]


def rows_in_place(p: MatmulModel) -> int:
    """Up to how many rows its operands are read in place, faster than they are made and packed: more where lanes lie along a
    contiguous reduced index; one where an instruction that adds several products takes what is made."""
    return ROWS if contiguous_along_k(p) else FEW if p.step == 1 else 1


def _pays(p: MatmulModel) -> bool:
    """Whether both operands are read more than a few times."""
    rows, columns = p.largest_extent(p.m), p.largest_extent(p.n)
    if p.rows_are_windows:
        rows = (
            None
            if None in (rows, *(p.largest_extent(i) for i in p.batch))
            else prod((p.largest_extent(i) or 0) for i in (p.m, *p.batch))
        )
    return (rows is None or rows > rows_in_place(p)) and (columns is None or columns > FEW)
