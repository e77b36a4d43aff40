"""The launch of one pass: products around a statistic of rows, such as attention, that one loop over the keys computes.

What it computes is the same for all devices. How it is laid out is in `cpu.one_pass` and `gpu.passes.one_pass`.

NO_STATISTIC  A product of a product, as two layers of a network, is a pass without a statistic: the scores are the results of
              the first one, and the keys are what the second one reduces.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....dsl.errors import UserError
from ....dsl.index.expr import Expr
from ....dsl.support.cached import cached_property
from ....dsl.support.fast_replace import replace
from ....dsl.values import loads
from ...lower.reductions.dependent_reductions import dependences
from ...lower.spec import Focus
from ...plan.computations import Computation, computation_extents, indices_of, reads_in_terms_alone
from ..instr_mappings import is_loaded


@dataclass(frozen=True)
class OnePass:
    """What the launch of a pass computes. `rows`: the indices of the statistic, first those that keys have, as heads. `key`:
    what it reduces. `statistics`: one, or none (NO_STATISTIC).

    scores      products with rows and keys           values     what is computed of them for each row and key
    sums        for each row, over the keys           products   with more indices than the rows
    operands    elements of memory that are converted where they are staged, for a product
    beside      those of the sums that read no running value; the loop has them if they are open around it
    """

    rows: tuple[str, ...]
    key: str
    statistics: tuple[Computation, ...]
    scores: tuple[Computation, ...]
    values: tuple[Computation, ...]
    sums: tuple[Computation, ...]
    products: tuple[Computation, ...]
    operands: tuple[Computation, ...] = ()
    beside: tuple[Computation, ...] = ()

    def features(self, product: Computation) -> tuple[str, ...]:
        """The indices of a product beside the rows."""
        return tuple(i for i in product.indices if i not in self.rows)

    @property
    def only_product(self) -> Computation | None:
        """The product over the keys, where there is one, and no sum `beside` it."""
        return self.products[0] if len(self.products) == 1 and not self.beside else None

    @property
    def all_features(self) -> frozenset[str]:
        """The indices of products and scores beside the rows and the keys."""
        return frozenset(i for w in (*self.scores, *self.products) for i in w.all_indices) - {*self.rows, self.key}

    @property
    def over_keys(self) -> tuple[Computation, ...]:
        """What reduces the keys."""
        return (*self.statistics, *self.sums, *self.products)

    @cached_property
    def indices_of_keys(self) -> frozenset[str]:
        """The indices of what products read along the keys."""
        made = {t for w in self.every for t in w.targets}
        factors = (ld for w in (*self.operands, *self.scores, *self.products) for ld in loads(w.value))
        read = (indices_of(ld, {}) for ld in factors if ld.tensor not in made)
        return frozenset(i for names in read if self.key in names for i in names)

    @property
    def every(self) -> tuple[Computation, ...]:
        return (*self.statistics, *self.scores, *self.values, *self.sums, *self.products)

    @property
    def extents(self) -> dict[str, Expr]:
        return {i: e for w in self.every for i, e in computation_extents(w).items()}


def one_pass_of(computations: tuple[Computation, ...]) -> OnePass | None:
    """None where the computations are something else."""
    operands = tuple(w for w in computations if _is_operand(w, computations))
    computations = tuple(w for w in computations if w not in operands)
    statistics = [w for w in computations if w.reduction is not None and w.reduction.kind in ("max", "min")]
    if len(statistics) != 1 or len(statistics[0].reduced) != 1 or not statistics[0].indices:
        return None
    (statistic,) = statistics
    rows, (key,) = statistic.indices, statistic.reduced
    both = {*rows, key}
    scores = tuple(w for w in computations if w.reduction is not None and set(w.indices) == both)
    values = tuple(w for w in computations if w.reduction is None and set(w.indices) == both)
    over = tuple(w for w in computations if w is not statistic and w.reduced == (key,) and set(rows) <= set(w.indices))
    sums = tuple(w for w in over if set(w.indices) == set(rows))
    products = tuple(w for w in over if w not in sums)
    found = OnePass(rows, key, (statistic,), scores, values, sums, products, operands)
    found = replace(found, rows=tuple(sorted(rows, key=lambda i: i not in found.indices_of_keys)))
    finishes = [w for w in computations if w.reduction is None and set(w.indices) <= set(rows)]  # after the pass
    if 1 + len(scores) + len(values) + len(over) + len(finishes) != len(computations) or not scores or not over:
        return None
    if len({found.features(w) for w in products}) > 1:
        return None
    try:
        chain = dependences(Focus(computations, {}, "", "", {}), key, None)
    except UserError:
        return None
    if any(not _is_read(w, computations) and _follows(w, computations) for w in values):
        return None
    follow = {d.reduction.name for d in chain}
    found = replace(found, beside=tuple(w for w in over if w.name not in follow))
    return found if set(found.beside) <= set(sums) else None


def _is_operand(w: Computation, computations: tuple[Computation, ...]) -> bool:
    """Is it an element of memory, converted, that products alone read? Each of them has more indices."""
    readers = [x for x in computations if not x.reads.isdisjoint(w.targets)]
    made = {t for x in computations for t in x.targets}
    alone = all(x.reduction is not None and {*w.indices} < {*x.all_indices} for x in readers)
    return w.reduction is None and bool(readers) and alone and is_loaded(w.value) and w.reads.isdisjoint(made)


def _is_read(w: Computation, computations: tuple[Computation, ...]) -> bool:
    return any(not x.reads.isdisjoint(w.targets) for x in computations)


def _follows(w: Computation, computations: tuple[Computation, ...]) -> bool:
    """Is it computed of the statistic, or of a sum? In a pass these have running values, and no others are stored."""
    known = {t for x in computations if x.reduction is not None and set(x.indices) < set(w.indices) for t in x.targets}
    for x in computations:
        known |= set(x.targets) if not x.reads.isdisjoint(known) else set()
    return not w.reads.isdisjoint(known)


def product_of_product(computations: tuple[Computation, ...]) -> OnePass | None:
    """NO_STATISTIC. None where the computations of a launch are something else.

    The first one's results, with what is computed of each where they are stored, are a factor of the second one and of nothing
    else.
    """
    if len(computations) != 2:
        return None
    first, second = computations
    if any(w.reduction is None or w.reduction.kind != "sum" or w.fused for w in computations):
        return None
    if len(second.reduced) != 1 or len(first.targets) != 1:
        return None
    if any(v.name in first.reduced for c in first.domain for v in c.variables()):
        return None  # some of its own terms: a tile of it is no product of an instruction
    (key,), (tensor,) = second.reduced, first.targets
    rows = tuple(i for i in first.indices if i != key)
    own = first.subscripts_of(tensor)
    alone = reads_in_terms_alone(second, tensor, own)
    if not alone or key not in first.indices or not rows or not set(rows) < set(second.indices):
        return None
    both = computation_extents(first).items() & computation_extents(second).items()
    if {*first.all_indices} & {*second.all_indices} - {i for i, _ in both}:
        return None  # an index of two extents
    return OnePass(rows, key, (), (first,), (), (), (second,))


def name_of(w: Computation, found: OnePass) -> str:
    """The tensor of it that others read, else that it stores."""
    read = {t for x in found.every for t in x.reads}
    return next((t for t in w.targets if t in read), w.targets[-1])
