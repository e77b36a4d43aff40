"""Random ops of what the first generator does not write: parameters, shapes that are expressions, windows over two axes, masks,
several reductions in a statement and one inside another, literals of words, truth values that are read, chains of sixty."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from ..case import with_derived
from ..formula import size
from ..model import FLOATS, Apply, Binary, Expr, Named, Number, Op, Read, Reduce, Statement, Tensor, reads, walk
from ..ops import DIMS, SOURCES, Writer
from .left_ranges import windows_of_windows

WIDER = {
    "f32": (*SOURCES["f32"], "tf32", "tf32", "bool", "i16", "i32", "f64"),
    "f64": (*SOURCES["f64"], "bool", "bf16", "i64"),
    "i32": (*SOURCES["i32"], "bool", "i64"),
    "i64": (*SOURCES["i64"], "bool", "u8", "i16", "i4"),
}
STORED = {
    "f32": ("f32", "f32", "f16", "bf16", "tf32", "f8e4m3", "f8e5m2"),
    "f64": ("f64", "f64", "f32", "f16"),
    "i32": ("i32", "i32", "i8", "i16", "u8", "i4"),
    "i64": ("i64", "i64", "i32", "i8"),
    "bool": ("bool",),
}
ROUNDING = (
    "exp", "exp2", "tanh", "sigmoid", "sin", "cos", "tan", "sqrt", "silu", "log1p", "expm1", "atan", "erf", "gelu", "sinh",
    "cosh", "asin", "acos", "log", "log2", "rsqrt", "atan2", "pow", "fma",
)  # fmt: skip
SMALL = ("asin", "acos", "tan", "sinh", "cosh", "exp", "exp2", "expm1", "pow")  # arguments of which are kept within 1
POSITIVE = ("log", "log2", "rsqrt")


class WideWriter(Writer):
    def __init__(self, rng: Random, name: str) -> None:
        super().__init__(rng, name)
        self.params: list[tuple[str, int, int | None]] = []
        self.rounds = rng.random() < 0.25

    # ------------------------------------------------------------ tensors, values

    def literal(self, value: int) -> Expr:
        """Now and then as arithmetic of literals that a word of 32 bits does not hold."""
        if not self.maybe(0.15):
            return super().literal(value)
        product = Binary("*", Number(1 << 16), Number(1 << 16))
        return Apply(self.compute, (Binary("-", product, Number((1 << 32) - value)),))

    def input(self, dims: tuple[str, ...], dtype: str | None = None) -> str:
        return super().input(dims, dtype or self.rng.choice(WIDER[self.compute]))

    def shaped_input(self, shape: tuple[Expr, ...]) -> tuple[str, str]:
        """A tensor whose axes are expressions; only the statement that asks for it reads it. Its name, its type."""
        name, dtype = self.input((), None), ""
        dtype = self.inputs[-1].dtype
        self.inputs[-1] = Tensor(name, dtype, shape)
        del self.held[name]
        return name, dtype

    def param(self, values: tuple[int, ...]) -> Expr:
        """A number, or a parameter of the op that is one."""
        n = self.rng.choice(values)
        if not self.maybe(0.4):
            return Number(n)
        name = ("stride", "offset", "step", "far", "near", "shift")[len(self.params)] if len(self.params) < 6 else None
        if name is None:
            return Number(n)
        default = self.rng.choice((n, n, None, values[0]))
        self.params.append((name, n, default))
        return Named(name)

    def value(self, atoms: list[Expr], depth: int) -> Expr:
        rng = self.rng
        if depth > 0 and self.maybe(0.25):
            a = super().value(atoms, depth - 1)
            pick = rng.random()
            if pick < 0.35:
                return Apply("-", (a,))
            if pick < 0.5:
                return Apply("where", (Number(self.maybe(0.5)), a, rng.choice(atoms)))
            if pick < 0.6 and self.compute in FLOATS:
                return Apply("min", (a, Apply(self.compute, (Number(float("inf")),))))
            if pick < 0.7 and self.compute in FLOATS:
                return Binary("+", a, Number(rng.choice((0.5, 1.5e1, 2.5e-1, 3.0))))
            if self.rounds and self.compute in FLOATS:
                return self.rounding(a, rng.choice(atoms))
        return super().value(atoms, depth)

    def rounding(self, a: Expr, b: Expr) -> Expr:
        function = self.rng.choice(ROUNDING)
        near = Apply("max", (Apply("min", (Binary("*", Number(0.25), a), Number(1.0))), Number(-1.0)))
        if function in ("atan2", "fma"):
            return Apply(function, (a, b) if function == "atan2" else (a, b, self.literal(1)))
        if function == "pow":
            return Apply(function, (Binary("+", Apply("abs", (near,)), Number(0.5)), self.literal(self.rng.randint(0, 3))))
        if function in POSITIVE:
            return Apply(function, (Binary("+", Apply("abs", (a,)), Number(0.5)),))
        if function in SMALL:
            return Apply(function, (near,))
        return Apply(function, (Apply("abs", (Binary("*", Number(0.25), a),)),))

    # ------------------------------------------------------------ statements

    def masked(self, dims: tuple[str, ...]) -> None:
        """Values by comparing indices with each other, with numbers and with sizes."""
        rng = self.rng
        indices = self.indices(dims)
        names = list(indices)
        atoms = self.atoms(indices, 2)
        a = Named(rng.choice(names))
        b = rng.choice((Named(rng.choice(names)), Number(rng.randint(0, 4)), self.param((1, 2, 3)), Named(indices[a.name])))
        left = rng.choice((a, Binary("%", a, Number(rng.randint(2, 4))), Binary("+", a, Number(1))))
        mask = Binary(rng.choice(("<", "<=", "==", "!=", ">", ">=")), left, b)
        if self.maybe(0.3):
            mask = Apply("not", (mask,))
        value = Apply("where", (mask, self.using(atoms, 1), self.literal(rng.randint(0, 2))))
        if self.maybe(0.4) and names:
            over = rng.sample(names, rng.randint(1, len(names)))
            free = [i for i in names if i not in over]
            self.assign(indices, free, Reduce(rng.choice(("sum", "max", "min")), tuple(over), value), self.compute)
        else:
            self.assign(indices, names, value, self.compute)

    def several(self, dims: tuple[str, ...]) -> None:
        """Two reductions in a statement, or one inside another."""
        rng = self.rng
        indices = self.indices(dims)
        names = list(indices)
        if len(names) < 2:
            return self.pointwise(dims)
        rng.shuffle(names)
        free, over = names[: len(names) // 2], names[len(names) // 2 :]
        kind = rng.choice(("sum", "sum", "max", "min"))
        outer = {i: indices[i] for i in free}
        if self.maybe(0.5):
            inner = Reduce(kind, tuple(over), self.using(self.atoms(indices, 2), 1))
            if self.maybe(0.5):
                e: Expr = Binary(rng.choice("+-*"), inner, Reduce(kind, tuple(over), self.using(self.atoms(indices, 1), 1)))
            else:
                e = self.using([inner, *self.atoms(outer, 1)], 1) if outer else inner
            self.assign(indices, free, e, self.compute)
        else:  # over one index outside, over the others inside
            last = over[0] if len(over) == 1 else over[-1]
            rest = [i for i in over if i != last]
            if not rest:
                rest, free = [free[0]], free[1:]
            deep = Reduce(rng.choice(("max", "sum")), tuple(rest), self.using(self.atoms(indices, 1), 1))
            around = {i: indices[i] for i in (*free, last)}
            body = self.using([deep, *self.atoms(around, 1)], 1)
            self.assign(indices, free, Reduce(kind, (last,), body), self.compute)

    def truths(self, dims: tuple[str, ...]) -> None:
        """A tensor of truth values, made of others."""
        indices = self.indices(dims)
        mine = [n for n, (t, own) in self.held.items() if t == "bool" and all(d in dims for d in own)]
        e = self.truth(*(self.rng.choice(self.atoms(indices, 2)) for _ in range(2)))
        for name in mine[:2]:
            at = tuple(Named(self.rng.choice([i for i, d in indices.items() if d == own])) for own in self.held[name][1])
            e = Binary(self.rng.choice(("and", "or")), Read(name, at), e)
        if self.maybe(0.3):
            e = Apply("not", (e,))
        if self.maybe(0.2):
            e = Binary("or", e, Number(False))
        self.assign(indices, list(indices), e, "bool")

    def odd_shape(self, dims: tuple[str, ...]) -> None:
        """An axis that is an expression of sizes: 2*M, M + 2, a constant, a product that a sum walks."""
        rng = self.rng
        d = dims[0]
        i = d.lower()
        rest = [x for x in dims[1:] if x != d][:2]
        plain = tuple(Named(x.lower()) for x in rest)
        shape = tuple(Named(x) for x in rest)
        ranges: dict[str, Expr] = {i: Named(d), **{x.lower(): Named(x) for x in rest}}
        free = list(ranges)
        pick = rng.random()
        own = self.atoms({i: d}, 1)  # what says how far it runs
        if pick < 0.25:  # both halves
            name, dtype = self.shaped_input((Binary("*", Number(2), Named(d)), *shape))
            back = Binary("-", Binary("-", Named(d), Number(1)), Named(i))  # `[i]` would run over the whole axis
            a, b = (Read(name, (at, *plain)) for at in (back, Binary("+", Named(i), Named(d))))
            value: Expr = self.using([Binary(rng.choice("+*-"), self.typed(a, dtype), self.typed(b, dtype)), *own], 1)
        elif pick < 0.45:  # a rim that is there
            rim = rng.randint(1, 3)
            name, dtype = self.shaped_input((Binary("+", Named(d), Number(rim)), *shape))
            near = [Read(name, (Binary("+", Named(i), Number(n)), *plain)) for n in range(1, rim + 1)]
            value = self.using([*own, *(self.typed(x, dtype) for x in rng.sample(near, rng.randint(1, len(near))))], 1)
        elif pick < 0.7:  # so many of each
            n = rng.randint(2, 5)
            ranges["r"] = Number(n)
            name, dtype = self.shaped_input((Binary("*", Number(n), Named(d)), *shape))
            at = Binary("+", Binary("*", Number(n), Named(i)), Named("r"))
            kind = rng.choice(("sum", "max", "min"))
            value = Reduce(kind, ("r",), self.typed(Read(name, (at, *plain)), dtype), ("r",))
            value = self.using([value, *own], 1)
        elif pick < 0.85:  # an axis of a constant
            n = rng.choice((1, 2, 3, 5, 8))
            ranges["c"] = Number(n)
            name, dtype = self.shaped_input((Named(d), Number(n), *shape))
            read = self.typed(Read(name, (Named(i), Named("c"), *plain)), dtype)
            if self.maybe(0.5):
                value = Reduce("sum", ("c",), read)
            else:
                value, free = read, [*free, "c"]
        else:  # a group shares a value
            n = rng.choice((2, 4, 8))
            name, dtype = self.shaped_input((Binary("/", Binary("+", Named(d), Number(n - 1)), Number(n)), *shape))
            shared = self.typed(Read(name, (Binary("/", Named(i), Number(n)), *plain)), dtype)
            value = self.using([shared, *own], 1)
        if self.maybe(0.3):
            rng.shuffle(free)
        target = f"t{len(self.statements)}"
        self.statements.append(Statement(target, tuple(free), value, tuple(ranges.items())))
        self.types[target] = self.compute
        if any(not isinstance(ranges[x], Named) for x in free):
            self.shaped.add(target)  # an axis that no dim of the generator is: an output, which none reads
        else:
            self.held[target] = self.compute, tuple(x.name for f in free if isinstance(x := ranges[f], Named))

    def windows(self, dims: tuple[str, ...]) -> None:
        """Windows over one axis or two: strides, dilations and padding that are numbers or parameters; pooling, convolutions
        over channels, one channel at a time, and in groups."""
        rng = self.rng
        if self.derived:
            return self.pointwise(dims)
        axes = [("W", "R", "P2", "p", "r")] if self.maybe(0.5) else [("W", "R", "P2", "p", "r"), ("H", "T", "Q2", "q", "u")]
        kind = rng.choice(("conv", "conv", "depthwise", "pool"))
        channels = [d for d in dims if d in ("M", "N")][:1]
        at, span, ranges, taps = [], [], {}, []
        for image, tap, out, i, r in axes:
            stride, dilation, pad = self.param((1, 1, 2, 3)), self.param((1, 1, 2)), self.param((0, 1, 2))
            e: Expr = Binary("+", Binary("*", Named(i), stride), Binary("*", Named(r), dilation))
            at.append(Binary("-", e, pad))
            wide: Expr = Number(rng.randint(2, 3)) if kind == "pool" else Named(tap)
            top = Binary(
                "-", Binary("+", Named(image), Binary("*", Number(2), pad)), Binary("*", dilation, Binary("-", wide, Number(1)))
            )
            self.derived.append((out, Binary("+", Binary("/", Binary("-", top, Number(1)), stride), Number(1))))
            ranges[i], ranges[r] = Named(out), wide
            taps.append(tap)
            self.least[image] = 7
            if kind != "pool":
                self.least[tap] = 1
            span.append(r)
        last = self.maybe(0.5)  # channels last
        c = [Named(x.lower()) for x in channels]
        ranges |= {x.lower(): Named(x) for x in channels}
        whole = (*(x[0] for x in axes), *channels) if last else (*channels, *(x[0] for x in axes))
        image = self.input(whole, rng.choice([x for x in WIDER[self.compute] if x != "bool"]))
        floats = self.compute in FLOATS
        reducer = rng.choice(("max", "min", "sum")) if kind == "pool" else "sum"
        fill = Number(0)
        if reducer != "sum" and floats and self.held[image][0] in FLOATS and not self.held[image][0].startswith("f8"):
            fill = Number(float("-inf" if reducer == "max" else "inf"))
        read = self.typed(Read(image, (*at, *c) if last else (*c, *at), fill), self.held[image][0])
        free = [x[3] for x in axes]
        over = list(span)
        if kind == "pool":
            free += [x.lower() for x in channels]
            value: Expr = Reduce(reducer, tuple(over), read, tuple(over))
        elif kind == "depthwise":
            weights = self.input((*channels, *taps))
            free = [*(x.lower() for x in channels), *free]
            read2 = self.typed(Read(weights, (*c, *map(Named, span))), self.held[weights][0])
            value = Reduce("sum", tuple(over), Binary("*", read, read2))
        else:
            weights = self.input(("K", *channels, *taps))
            ranges["k"] = Named("K")
            free = ["k", *free] if not last else [*free, "k"]
            over = [*(x.lower() for x in channels), *over]
            read2 = self.typed(Read(weights, (Named("k"), *c, *map(Named, span))), self.held[weights][0])
            value = Reduce("sum", tuple(over), Binary("*", read, read2))
        target = f"t{len(self.statements)}"
        self.statements.append(Statement(target, tuple(free), value, tuple(ranges.items())))
        self.shaped.add(target)
        back = {x[3]: x[2] for x in axes} | {x.lower(): x for x in channels} | {"k": "K"}
        self.held[target] = self.compute, tuple(back[i] for i in free)
        self.types[target] = self.compute

    def link(self, dims: tuple[str, ...]) -> None:
        """One of a chain or of a DAG: of the last two values, or of three of the last."""
        last = [s.target for s in self.statements[-5:] if self.types[s.target] == self.compute]
        indices = self.indices(dims)
        near = [n for n in last if set(self.held.get(n, ("", ("?",)))[1]) <= set(dims)]
        atoms = [e for n in near[-2 if self.maybe(0.6) else -4 :] if (e := self.read(n, indices, True)) is not None]
        named = {x.name for e in atoms for r in reads(e) for x in r.at if isinstance(x, Named)}
        left = [i for i in indices if i not in named]
        if left:
            atoms.append(self.plain_read(left, indices))
        a = self.using(atoms, self.rng.randint(0, 2))
        if self.maybe(0.5):  # what grows comes back
            a = Apply("max", (Apply("min", (a, self.literal(9))), self.literal(-9)))
        self.assign(indices, list(indices), a, self.compute)

    # ------------------------------------------------------------ the op

    def done(self) -> Op:
        """As the first generator, with more types of results."""
        op = super().done()
        read = {r.tensor for s in self.statements for r in reads(s.value)}
        outputs = tuple(
            replace(t, dtype=self.rng.choice(STORED[self.types[t.name]]))
            if t.name not in read and self.types[t.name] in STORED and self.maybe(0.5) else t for t in op.outputs
        )  # fmt: skip
        used = {x.name for s in op.statements for x in walk((s.value, *(e for _, e in s.ranges))) if isinstance(x, Named)}
        used |= {x.name for _, e in op.derived for x in walk(e) if isinstance(x, Named)}
        return replace(op, outputs=outputs, params=tuple(p for p in self.params if p[0] in used))


def random_wide_op(rng: Random, name: str, long: float = 1.0) -> Op:
    while True:
        op = _draft(rng, name, long)
        known = {*op.dims, *dict(op.derived)}
        if (
            op.statements
            and op.outputs
            and all(e.name in known for s in op.statements for _, e in s.ranges if isinstance(e, Named))
        ):
            return op


def _draft(rng: Random, name: str, long: float) -> Op:
    w = WideWriter(rng, name)
    if rng.random() < 0.03:  # numbers alone
        for _ in range(rng.randint(1, 3)):
            w.pointwise(())
        return w.done()
    style = rng.random()
    if style > 0.88 and rng.random() > long:
        style *= 0.6
    if style < 0.6:  # a few statements, one of them of this generator
        pool, count = DIMS[: rng.randint(1, 4)], rng.choice((0, 0, 1, 1, 2))
        makes = [rng.choice((w.masked, w.several, w.truths, w.odd_shape, w.windows))]
        if _seldom(rng):
            windows_of_windows(w)
        makes += [
            rng.choice((w.pointwise, w.reduction, w.contraction, w.masked, w.several, w.truths, w.odd_shape))
            for _ in range(count)
        ]
        rng.shuffle(makes)
    elif style < 0.75:  # many axes
        pool = DIMS[: rng.randint(5, 8)]
        makes = [rng.choice((w.pointwise, w.reduction, w.contraction, w.several)) for _ in range(rng.randint(1, 3))]
    elif style < 0.88:  # several outputs that read each other
        pool = DIMS[: rng.randint(1, 3)]
        makes = [rng.choice((w.pointwise, w.reduction, w.reduction, w.masked, w.link)) for _ in range(rng.randint(3, 8))]
    else:
        pool, makes = DIMS[: rng.randint(1, 2)], [w.link] * rng.randint(30, 60)
        for _ in range(rng.randint(0, 3)):
            makes[rng.randrange(len(makes))] = rng.choice((w.reduction, w.several))
    for n, make in enumerate(makes):
        dims = rng.sample(pool, rng.randint(1, min(3, len(pool)))) if len(pool) < 5 or n else rng.sample(pool, len(pool))
        if style < 0.75 and rng.random() < 0.15 and len(dims) < 8:
            dims.append(rng.choice(dims))
        make(tuple(dims))
    return w.done()


def _seldom(source: Random) -> bool:
    """A draw of its own: others stay as they are."""
    return Random(str(source.getstate()[1][:8])).random() < 0.1


def with_conditions(rng: Random, op: Op, sizes: dict[str, int]) -> Op:
    """The op with conditions of `where` that these sizes satisfy."""
    known = with_derived(op, sizes)
    out: list[tuple[Expr, str, Expr]] = []
    for _ in range(rng.randint(1, 2)):
        a, b = rng.choice(op.dims), rng.choice(op.dims)
        x, y = known[a], known[b]
        symbol = "==" if x == y and a != b else ">=" if x >= y else "<"
        forms: list[tuple[Expr, str, Expr]] = [
            (Named(a), "<=", Number(x + rng.choice((0, 1, 5, 100)))), (Named(a), "<", Number(x + 1)),
            (Named(a), ">=", Number(max(0, x - rng.choice((0, 1, 2))))), (Number(x + 3), ">", Named(a)),
        ]  # fmt: skip
        if a != b:
            forms += [(Named(a), symbol, Named(b)), (Binary("-", Named(a), Named(b)), symbol, Number(0))]
        for n in (2, 3, 4):
            if x % n == 0:
                forms.append((Binary("%", Named(a), Number(n)), "==", Number(0)))
        out.append(rng.choice(forms))
    true = {"<=": lambda a, b: a <= b, ">=": lambda a, b: a >= b, "<": lambda a, b: a < b, ">": lambda a, b: a > b}
    kept = [
        (a, s, b)
        for a, s, b in out
        if (size(a, known) == size(b, known) if s == "==" else true[s](size(a, known), size(b, known)))
    ]
    return replace(op, conditions=tuple(kept))
