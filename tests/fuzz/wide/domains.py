"""Random domains of reductions and of what they read."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from ..model import FLOATS, Apply, Binary, Expr, Named, Number, Read, Reduce, Statement

if TYPE_CHECKING:
    from ..ops import Writer


def random_domain(source: Random, over: list[str], free: list[str]) -> tuple[tuple[Expr, str, Expr], ...]:
    """Conditions on a reduced index, between it and another one, or a number. Draws of its own: others stay as they are."""
    rng = Random(str(source.getstate()[1][:4]))
    if rng.random() > 0.2:
        return ()
    at: Expr = Named(rng.choice(over))
    others = [Named(i) for i in free] or [Number(rng.randint(2, 9))]
    other, start = rng.choice(others), rng.randint(-2, 2)
    end = Binary("+", other, Number(start + 5)) if rng.random() < 0.3 else other
    out: list[tuple[Expr, str, Expr]] = []
    if rng.random() < 0.8:
        out.append((at, rng.choice(("<=", "<")), end))
    if not out or rng.random() < 0.4:
        twice = Binary("*", Number(2), at) if rng.random() < 0.2 else at
        out.append((twice, rng.choice((">=", ">")), Binary("-", other, Number(4 - start))))
    if rng.random() < 0.3:
        out.append((Binary("+", at, other), "<", Number(rng.randint(20, 60))))
    return tuple(out)


def prefix(writer: Writer, dims: tuple[str, ...]) -> None:
    """A reduction in which each row has the terms of the row before, and more: what `carry` is for. Now and then it has not.
    Many a sum has terms that are multiples of those of the row before."""
    rng, indices = writer.rng, writer.indices(dims)
    over = rng.sample(list(indices), min(len(indices), rng.choice((1, 1, 2))))
    row, end = "row", rng.choice((0, 0, 0, -1, -3, 1, 4))
    sign = rng.choice(("<=", "<=", "<=", "<", ">="))
    domain: list[tuple[Expr, str, Expr]] = [(Named(over[0]), sign, Binary("+", Named(row), Number(end)) if end else Named(row))]
    if writer.maybe(0.2):
        domain.append((Named(over[-1]), ">=", Number(2)))
    all_of = {**indices, row: indices[over[0]]}
    body = writer.using(writer.atoms(all_of if writer.maybe(0.1) else indices, 2), rng.randint(0, 1))
    free = [i for i in all_of if i not in over]
    rng.shuffle(free)
    kind = rng.choice(("sum", "sum", "max", "min"))
    if kind == "sum" and _draw(rng, 12, 0.6):
        body = Binary("*", _decay(writer, row, over[0], indices[over[0]]), body)
        if len(over) > 1 and _draw(rng, 20, 0.6):  # what goes on has an element for each of the other index
            name = writer.input((indices[over[0]], indices[over[1]]), writer.compute)
            body = Binary("*", Read(name, (Named(row), Named(over[1]))), body)
    if kind == "sum" and _draw(rng, 28, 0.25):
        body = Binary("*", _scores(writer, row, over[0], indices[over[0]]), body)
    value = Reduce(kind, tuple(over), body, (), tuple(domain))
    writer.shaped.add(writer.assign(all_of, free, value, writer.compute))


def _decay(writer: Writer, row: str, index: str, dim: str) -> Expr:
    """A factor that depends on the row: of the two places, of their distance, or of the row alone. Draws of its own."""
    rng = Random(str(writer.rng.getstate()[1][16:20]))
    name = writer.input((dim,), writer.compute)
    here, there = Read(name, (Named(row),)), Read(name, (Named(index),))
    if writer.compute not in FLOATS:
        return here
    distance = Binary("-", Named(row), Named(index))

    def size(e: Expr) -> Expr:
        return Binary("+", Apply("abs", (e,)), writer.literal(1))

    return rng.choice(
        (
            Apply("exp2", (Binary("-", here, there),)),
            Apply("exp2", (Binary("-", here, there),)),
            Apply("exp", (Binary("*", Apply(writer.compute, (distance,)), writer.literal(-1)),)),
            Apply("pow", (Binary("/", writer.literal(1), writer.literal(2)), Apply(writer.compute, (distance,)))),
            Binary("/", size(here), size(there)),
            here,
        )
    )


def _scores(writer: Writer, row: str, index: str, dim: str) -> Expr:
    """A sum for each row and index, which a statement has: lines may keep it in the tile that carries."""
    left, right = (writer.input((dim, dim), writer.compute) for _ in range(2))
    product = Binary("*", Read(left, (Named(row), Named("inner"))), Read(right, (Named(index), Named("inner"))))
    value = Reduce("sum", ("inner",), product)
    name = writer.assign({row: dim, index: dim, "inner": dim}, [row, index], value, writer.compute)
    return Read(name, (Named(row), Named(index)))


def partly(writer: Writer, kind: str, indices: dict[str, str], over: list[str], free: list[str], body: Expr) -> Reduce:
    """A reduction, perhaps of the terms in a domain, which it states, or an intermediate that it reads does."""
    domain = () if kind.startswith("arg") else random_domain(writer.rng, over, free)
    if not domain or not _draw(writer.rng, 4, 0.4):
        stated = over[-1:] if domain and _draw(writer.rng, 8, 0.3) else ()  # its range, though a shape tells it
        return Reduce(kind, tuple(over), body, tuple(stated), domain)
    name, ranges = f"t{len(writer.statements)}", tuple((i, Named(d)) for i, d in indices.items())
    writer.statements.append(Statement(name, tuple(indices), body, ranges, domain))
    writer.types[name] = "bool" if kind in ("any", "all") else writer.compute
    return Reduce(kind, tuple(over), Read(name, tuple(map(Named, indices))), (), domain, inherited=True)


def _draw(source: Random, at: int, share: float) -> bool:
    """A draw of its own."""
    return Random(str(source.getstate()[1][at : at + 4])).random() < share
