"""Random sums whose terms read an extreme over the same index: what `online` is for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..model import Apply, Binary, Expr, Named, Number, Read, Reduce
from .domains import random_domain

if TYPE_CHECKING:
    from ..ops import Writer


def one_pass(writer: Writer, dims: tuple[str, ...]) -> None:
    """Exponentials of the distances to an extreme, as in a softmax, or quotients by the largest magnitude, as in a norm without
    overflow. Some elements of a row may not count, and some are 0."""
    rng, indices = writer.rng, writer.indices(dims)
    over = rng.sample(list(indices), rng.randint(1, min(2, len(indices))))
    free = [i for i in indices if i not in over]
    at = tuple(map(Named, free))
    body, kind = writer.using(writer.atoms(indices, 2), rng.randint(0, 1)), rng.choice(("max", "min"))
    if writer.maybe(0.4):  # some elements of a row count, or none
        edge = Binary("*", Number(rng.randint(1, 4)), Named(free[0])) if free else Number(rng.randint(0, 2))
        body = Apply("where", (writer.truth(Named(over[0]), edge), body, Number(float("-inf" if kind == "max" else "inf"))))
    domain = random_domain(rng, over, free)

    def reduced(kind: str, body: Expr) -> Expr:
        return Read(writer.assign(indices, free, Reduce(kind, tuple(over), body, domain=domain), writer.compute), at)

    if writer.maybe(0.7):
        extreme = reduced(kind, body)
        term: Expr = Apply("exp", (Binary("-", body, extreme) if kind == "max" else Binary("-", extreme, body),))
        if writer.maybe(0.5):
            term = Binary("*", term, rng.choice(writer.atoms(indices, 1)))
    else:
        largest = reduced("max", Apply("abs", (body,)))
        if writer.maybe(0.3):
            one = writer.literal(1)
            largest = rng.choice((Binary("+", largest, one), Apply("max", (largest, one))))
        term = Binary("/", body, largest)
        if writer.maybe(0.6):
            term = Binary("*", term, rng.choice((term, *writer.atoms(indices, 1))))
    reduced("sum", term)
