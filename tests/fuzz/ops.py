"""Random op trees: a DAG of statements over inputs that may be read many times, by any number of indices.

Indices that run over one size may be several, so that Gram matrices, squares and diagonals come by themselves; what a statement
lacks of a tensor's axes is a broadcast. Valid by construction, but for what only the compiler can prove of accesses.
"""

from __future__ import annotations

from random import Random

from .model import FLOATS, INTS, Apply, Binary, Expr, Named, Number, Op, Read, Reduce, Statement, Tensor, computes_in, reads
from .wide.domains import partly, prefix, random_domain
from .wide.left_ranges import with_ranges
from .wide.statistics import one_pass

DIMS = ("M", "N", "K", "L", "P", "Q", "R", "S")
SOURCES = {
    "f32": ("f32", "f32", "f32", "f32", "f16", "f16", "bf16", "f8e4m3", "f8e5m2", "i8", "u8", "i4", "f64"),
    "f64": ("f64", "f64", "f64", "f32", "f16", "i32"),
    "i32": ("i32", "i32", "i8", "u8", "i16", "i4"),
    "i64": ("i64", "i64", "i32", "i8"),
}
RESULTS = {
    "f32": ("f32", "f32", "f32", "f16", "bf16", "f8e5m2"),
    "f64": ("f64",),
    "i32": ("i32", "i32", "i8", "i16", "u8"),
    "i64": ("i64",),
    "bool": ("bool",),
}
ROUNDING = ("exp", "tanh", "sigmoid", "sin", "sqrt", "silu", "log1p", "atan")
KINDS = ("sum", "sum", "sum", "max", "min", "prod", "any", "all", "argmax", "argmin")


class Writer:
    """An op being written. `held`: tensors that may be read -> (type, dims)."""

    def __init__(self, rng: Random, name: str) -> None:
        self.rng, self.name = rng, name
        self.compute = rng.choices(("f32", "f64", "i32", "i64"), (10, 2, 4, 1))[0]
        self.inputs: list[Tensor] = []
        self.statements: list[Statement] = []
        self.held: dict[str, tuple[str, tuple[str, ...]]] = {}
        self.types: dict[str, str] = {}  # of statements' values
        self.shaped: set[str] = set()  # results whose own shape bounds an index: outputs, or their ranges are written
        self.nonempty: set[str] = set()
        self.least: dict[str, int] = {}
        self.derived: list[tuple[str, Expr]] = []
        self.rounds = rng.random() < 0.12  # functions and quotients that round
        self.plain = rng.random() < 0.6  # subscripts are plain indices

    def maybe(self, chance: float) -> bool:
        return self.rng.random() < chance

    # ------------------------------------------------------------ tensors and reads

    def input(self, dims: tuple[str, ...], dtype: str | None = None) -> str:
        name = "ABCDEFGHIJ"[len(self.inputs)] if len(self.inputs) < 10 else f"A{len(self.inputs)}"
        dtype = dtype or self.rng.choice(SOURCES[self.compute])
        self.inputs.append(Tensor(name, dtype, tuple(Named(d) for d in dims)))
        self.held[name] = dtype, dims
        return name

    def typed(self, e: Expr, dtype: str) -> Expr:
        """A value of this declared type in the type of the op."""
        if dtype == "bool":
            return Apply("where", (e, Number(self.rng.randint(0, 2)), self.literal(1)))
        if computes_in(dtype) != self.compute or (dtype != self.compute and self.maybe(0.5)):
            return Apply(self.compute, (e,))
        return e

    def literal(self, value: int) -> Expr:
        return Apply(self.compute, (Number(value),))

    def read(self, name: str, indices: dict[str, str], plain: bool = False) -> Expr | None:
        """A read by these indices (index -> dim); None where the statement has no index for an axis."""
        dtype, dims = self.held[name]
        at: list[Expr] = []
        leaves = False
        for d in dims:
            mine = [i for i, own in indices.items() if own == d]
            if mine and (plain or self.plain or self.maybe(0.75)):
                at.append(Named(self.rng.choice(mine)))
                continue
            if plain:
                return None
            e, may_leave = self.subscript(d, mine, list(indices))
            at.append(e)
            leaves |= may_leave
        fill: Expr | None = None
        if leaves:
            fill = Number(self.rng.randint(0, 2)) if dtype != "bool" else Binary("<", Number(0), Number(1))
        return self.typed(Read(name, tuple(at), fill), dtype)

    def subscript(self, dim: str, mine: list[str], others: list[str]) -> tuple[Expr, bool]:
        """Steps, shifts, reversals, quotients and remainders; whether it may leave the axis."""
        rng = self.rng
        pick = rng.random()
        if not others or pick < 0.1:
            return Number(rng.randint(0, 2)), True
        i = Named(rng.choice(mine or others))
        if mine and pick < 0.25:
            return Binary("-", Binary("-", Named(dim), Number(1)), i), False
        if mine and pick < 0.4:
            return Binary("/", i, Number(rng.randint(2, 5))), False
        if pick < 0.5:
            return Binary("%", i, Number(rng.randint(2, 5))), True
        if pick < 0.65 and len(others) > 1:
            return Binary(rng.choice("+-"), i, Named(rng.choice(others))), True
        e: Expr = Binary("*", Number(rng.randint(2, 3)), i) if self.maybe(0.4) else i
        return Binary(rng.choice("+-"), e, Number(rng.randint(1, 3))), True

    # ------------------------------------------------------------ values

    def value(self, atoms: list[Expr], depth: int) -> Expr:
        rng = self.rng
        if depth <= 0 or self.maybe(0.2):
            return rng.choice(atoms) if self.maybe(0.85) else self.literal(rng.randint(0, 3))
        a, b = self.value(atoms, depth - 1), self.value(atoms, depth - 1)
        pick = rng.random()
        if pick < 0.5:
            return Binary(rng.choice("++--*"), a, b)
        if pick < 0.62:
            return Apply(rng.choice(("max", "min")), (a, b) if self.maybe(0.8) else (a, b, rng.choice(atoms)))
        if pick < 0.75:
            return Apply("where", (self.truth(a, b), rng.choice(atoms), b))
        if pick < 0.82:
            return Apply(rng.choice(("relu", "abs")), (a,))
        if pick < 0.88 and self.compute in INTS:
            return Binary(rng.choice("/%"), a, Number(rng.choice((2, 3, 5, 7))))
        if pick < 0.9 and self.compute in ("f32", "i32"):
            narrow = "f16" if self.compute == "f32" else "i8"
            return Apply(self.compute, (Apply(narrow, (a,)),))
        if self.rounds and self.compute in FLOATS:
            if self.maybe(0.3):
                return Binary("/", a, Binary("+", Apply("abs", (b,)), self.literal(1)))
            return Apply(rng.choice(ROUNDING), (Apply("abs", (Binary("*", Number(0.25), a),)),))
        return Binary("-", a, rng.choice(atoms))

    def truth(self, a: Expr, b: Expr) -> Expr:
        e: Expr = Binary(self.rng.choice(("<", "<=", "==", "!=", ">", ">=")), a, b)
        if self.maybe(0.15):
            e = Apply("not", (e,))
        if self.maybe(0.15):
            e = Binary(self.rng.choice(("and", "or")), e, Binary("<", b, self.literal(1)))
        return e

    def using(self, atoms: list[Expr], depth: int) -> Expr:
        """A value that reads every atom."""
        e = self.value(atoms, depth)
        found = set(reads(e))
        for a in atoms:
            if not set(reads(a)) <= found:
                e = Binary(self.rng.choice("+-"), e, a)
        return e

    # ------------------------------------------------------------ statements

    def indices(self, dims: tuple[str, ...]) -> dict[str, str]:
        """An index for each; several over one size have names of their own."""
        out: dict[str, str] = {}
        letters = self.rng.sample("abcdefgh", 8) if self.maybe(0.1) else None
        for n, d in enumerate(dims):
            name = letters[n] if letters else d.lower()
            while name in out:
                name += "2"
            out[name] = d
        return out

    def atoms(self, indices: dict[str, str], most: int) -> list[Expr]:
        """Reads of tensors that are there, or of new inputs; together they subscript each index plainly."""
        rng = self.rng
        names = list(self.held)
        rng.shuffle(names)
        out: list[Expr] = []
        for name in names[: rng.randint(1, most)] if names else []:
            if any(d not in indices.values() for d in self.held[name][1]) and self.maybe(0.7):
                continue
            if (e := self.read(name, indices)) is not None:
                out.append(e)
        named = {x.name for e in out for r in reads(e) for x in r.at if isinstance(x, Named)}
        left = [i for i in indices if i not in named]
        while left:
            count = rng.randint(1, len(left)) if self.maybe(0.3) else len(left)
            mine = left[:count]
            extra = [i for i in indices if i not in mine and self.maybe(0.5 if not out else 0.2)]
            order = [*mine, *extra]
            rng.shuffle(order)
            out.append(self.plain_read(order, indices))
            left = left[count:]
        return out or [self.typed(Read(self.input(())), self.inputs[-1].dtype)]

    def plain_read(self, order: list[str], indices: dict[str, str]) -> Expr:
        """A read of exactly these indices: a tensor that is there, or a new input."""
        dims = tuple(indices[i] for i in order)
        fits = [n for n, (t, own) in self.held.items() if own == dims and t != "bool"]
        again = bool(fits) and (len(self.inputs) >= 8 or self.maybe(0.6))
        name = self.rng.choice(fits) if again else self.input(dims)
        return self.typed(Read(name, tuple(Named(i) for i in order)), self.held[name][0])

    def assign(self, indices: dict[str, str], free: list[str], value: Expr, dtype: str) -> str:
        name = f"t{len(self.statements)}"
        ranges = tuple((i, Named(d)) for i, d in indices.items())
        self.statements.append(Statement(name, tuple(free), value, ranges))
        self.held[name] = dtype, tuple(indices[i] for i in free)
        self.types[name] = dtype
        return name

    def pointwise(self, dims: tuple[str, ...]) -> None:
        indices = self.indices(dims)
        free = list(indices)
        self.rng.shuffle(free)
        self.assign(indices, free, self.using(self.atoms(indices, 3), self.rng.randint(0, 3)), self.compute)

    def fill(self, dims: tuple[str, ...]) -> None:
        """An output that one number, one row or the indices' numbers fill: it is an output, whose shape bounds its indices."""
        indices = self.indices(dims)
        some = {i: d for i, d in indices.items() if self.maybe(0.4)}
        atoms = self.atoms(some, 2) if some or self.maybe(0.5) else [self.literal(3)]
        if self.maybe(0.3) and indices:
            atoms = [*atoms, Apply(self.compute, (Named(self.rng.choice(list(indices))),))]
        self.shaped.add(self.assign(indices, list(indices), self.using(atoms, 1), self.compute))

    def reduction(self, dims: tuple[str, ...]) -> None:
        rng = self.rng
        kind = rng.choice(KINDS)
        indices = self.indices(dims)
        over = rng.sample(list(indices), rng.randint(1, len(indices)))
        free = [i for i in indices if i not in over]
        if self.maybe(0.4):
            rng.shuffle(free)
        atoms = self.atoms(indices, 2)
        body = self.using(atoms, rng.randint(0, 2))
        dtype = self.compute
        if kind == "prod":
            body = Apply("max", (Apply("min", (body, self.literal(2))), self.literal(-1)))
        elif kind in ("any", "all"):
            body, dtype = self.truth(body, self.literal(rng.randint(-1, 1))), "bool"
        elif kind.startswith("arg"):
            dtype = "i64"
            self.nonempty |= {indices[i] for i in over}
        e: Expr = partly(self, kind, indices, over, free, body)
        if dtype == self.compute and self.maybe(0.25):  # what follows the reduction stands in one statement with it
            e = self.after(e, free, indices)
        self.assign(indices, free, e, dtype)

    def after(self, e: Expr, free: list[str], indices: dict[str, str]) -> Expr:
        more = [self.literal(self.rng.randint(1, 3))]
        if free:
            more = self.atoms({i: indices[i] for i in free}, 1)
        return self.using([e, *more[:2]], 1)

    def contraction(self, dims: tuple[str, ...]) -> None:
        """A sum of products of two; they may be the same tensor."""
        rng = self.rng
        indices = self.indices(dims)
        names = list(indices)
        rng.shuffle(names)
        over = names[: max(1, rng.randint(1, max(1, len(names) // 2)))]
        free = [i for i in names if i not in over]
        roles = {i: rng.choice("lrlrb") for i in free}
        left = [*over, *(i for i in free if roles[i] in "lb")]
        right = [*over, *(i for i in free if roles[i] in "rb")]
        for x in (left, right):
            if self.maybe(0.5):
                rng.shuffle(x)
        both = Binary("*", self.plain_read(left, indices), self.plain_read(right, indices))
        e: Expr = Reduce("sum", tuple(over), both, domain=random_domain(self.rng, over, free))
        if self.maybe(0.3):
            e = self.after(e, free, indices)
        if self.maybe(0.7):
            free = [i for i in indices if i in free]
        self.assign(indices, free, e, self.compute)

    def window(self, dims: tuple[str, ...]) -> None:
        """A window that slides over the first axis, with a stride, a dilation and padding."""
        rng = self.rng
        stride, dilation, pad = rng.choice((1, 1, 2, 3)), rng.choice((1, 1, 2)), rng.choice((0, 1, 2))
        kind = rng.choice(("conv", "conv", "pool", "causal"))
        rest = [d for d in dims[1:] if d not in ("R", "W")]
        indices = self.indices(("W", "R", *rest)) if kind != "pool" else self.indices(("W", *rest))
        at = Binary(
            "-", Binary("+", Binary("*", Number(stride), Named("p")), Binary("*", Number(dilation), Named("r"))), Number(pad)
        )
        image = self.input(("W", *rest))
        read = self.typed(
            Read(image, (at, *(Named(i) for i in list(indices)[1 + (kind != "pool") :])), Number(0)), self.held[image][0]
        )
        ranges: dict[str, Expr] = {i: Named(d) for i, d in indices.items() if d not in ("W", "R")}
        free = ["p", *ranges]
        span: Expr = Number(dilation) if kind == "pool" else Binary("*", Number(dilation), Binary("-", Named("R"), Number(1)))
        over = ["r"]
        if kind != "pool" and rest and self.maybe(0.6):
            over.append(free.pop())
        if kind == "pool":
            value: Expr = Reduce(rng.choice(("max", "sum", "min")), ("r",), read, ("r",))
            ranges["r"] = Number(2)
        else:
            taps = self.input(("R", *rest))
            both = Binary(
                "*", read, self.typed(Read(taps, (Named("r"), *(Named(i) for i in list(indices)[2:]))), self.held[taps][0])
            )
            value = Reduce("sum", tuple(over), both)
            ranges["r"] = Named("R")
            self.least["R"] = 1
        if "P2" not in dict(self.derived):
            top = Binary("-", Binary("-", Binary("+", Named("W"), Number(2 * pad)), span), Number(1))
            self.derived.append(("P2", Binary("+", Binary("/", top, Number(stride)), Number(1))))
            self.least["W"] = 6
        ranges["p"] = Named("P2")
        name = f"t{len(self.statements)}"
        self.statements.append(Statement(name, tuple(free), value, tuple(ranges.items())))
        self.shaped.add(name)
        self.held[name] = self.compute, tuple("P2" if i == "p" else indices[i] for i in free)
        self.types[name] = self.compute

    # ------------------------------------------------------------ the op

    def done(self) -> Op:
        """Results that nobody reads are outputs, and some others."""
        read = {r.tensor for s in self.statements for r in reads(s.value)}
        outputs = []
        for n, s in enumerate(self.statements):
            dtype = self.types[s.target]
            unknown = s.target in self.shaped
            self.statements[n] = s = with_ranges(self.rng, s, unknown and s.target in read)
            if s.target in read and (not unknown or s.stated) and not (self.maybe(0.12) and len(outputs) < 3):
                continue
            stored = self.rng.choice(RESULTS[dtype]) if s.target not in read else dtype
            outputs.append(Tensor(s.target, stored, tuple(s.extent(i) for i in s.indices)))
        used = [d for t in self.inputs for e in t.shape if isinstance(e, Named) for d in (e.name,)]
        dims = tuple(dict.fromkeys(used))
        return Op(
            self.name, dims, tuple(self.inputs), tuple(outputs), tuple(self.statements), tuple(self.derived),
            frozenset(self.nonempty), tuple(self.least.items()),
        )  # fmt: skip


def _some(rng: Random, pool: tuple[str, ...], most: int) -> tuple[str, ...]:
    """Dims of a statement: some of the pool, now and then one of them twice."""
    dims = rng.sample(pool, rng.randint(1, min(most, len(pool))))
    if rng.random() < 0.2:
        dims.append(rng.choice(dims))
    return tuple(dims)


def random_op(rng: Random, name: str, long: float = 1.0) -> Op:
    """An op; equal states of the generator give equal ops. Its sizes are all among the shapes of its inputs. `long`: how many
    of the ops that would be chains are."""
    while True:
        op = _draft(rng, name, long)
        known = {*op.dims, *dict(op.derived)}
        if op.statements and all(e.name in known for s in op.statements for _, e in s.ranges if isinstance(e, Named)):
            return op


def _draft(rng: Random, name: str, long: float) -> Op:
    w = Writer(rng, name)
    style = rng.random()
    if style >= 0.9 and rng.random() > long:
        style = 0.4 * rng.random()
    if style < 0.5:  # one or two statements
        pool = DIMS[: rng.randint(1, 4)]
        count = rng.choice((1, 1, 2))
    elif style < 0.8:
        pool = DIMS[: rng.randint(1, 3)]
        count = rng.randint(2, 5)
    elif style < 0.9:  # many axes
        pool, count = DIMS[: rng.randint(5, 8)], rng.randint(1, 2)
    else:  # chains, and DAGs that share
        pool, count = DIMS[: rng.randint(1, 2)], rng.randint(6, 40)
    if rng.random() < 0.08:
        w.window(_some(rng, pool, 3))
    if 0.46 <= style < 0.5 and w.compute in FLOATS:
        one_pass(w, _some(rng, pool, 3))
    if 0.42 <= style < 0.46:
        prefix(w, _some(rng, pool, 3))
    makes = (w.pointwise, w.reduction, w.contraction, w.fill)
    weights = (8, 2, 1, 0) if count > 5 else (3, 5, 5, 0.6)
    for n in range(count):
        make = rng.choices(makes, weights)[0]
        dims = tuple(rng.sample(pool, len(pool))) if 0.8 <= style < 0.9 and n == 0 else _some(rng, pool, 3)
        make(dims)
    return w.done()
