"""Random ops: the text of an op, valid by construction, from a seeded generator.

Values are small integers and most functions arithmetic, so that results are exact and every schedule must be bit-equal to
the reference; `exact` is false where a function or a quotient rounds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

DIMS = ("M", "N", "K", "L", "P", "Q")
INDICES = ("i", "j", "k", "l", "p", "q")
FLOATS = ("f32", "f32", "f32", "f64", "f16")
INTS = ("i32", "i32", "i8")


@dataclass(frozen=True)
class RandomOp:
    """`nonempty`: sizes that no test may make 0 (an argmax runs over them). `least`: the smallest legal sizes."""

    text: str
    exact: bool
    nonempty: frozenset[str] = frozenset()
    least: dict[str, int] = field(default_factory=dict)


class Writer:
    """The parts of an op being written."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.inputs: list[tuple[str, str, tuple[str, ...]]] = []  # name, type, sizes
        self.outputs: list[tuple[str, str, str]] = []  # name, type, shape as text
        self.lines: list[str] = []
        self.exact = True
        self.nonempty: set[str] = set()
        self.least: dict[str, int] = {}
        self.where = ""
        self.compute = rng.choice(("f32", "f32", "f32", "f64", "i32"))

    # ------------------------------------------------------------ inputs

    def element_type(self) -> str:
        if self.compute == "f32":
            return self.rng.choice(("f32", "f32", "f32", "f16"))
        if self.compute == "i32":
            return self.rng.choice(("i32", "i8"))
        return self.rng.choice(("f64", "f64", "f32"))

    def input(self, sizes: tuple[str, ...], name: str | None = None, dtype: str | None = None) -> str:
        name = name or "ABCDEFGH"[len(self.inputs)]
        self.inputs.append((name, dtype or self.element_type(), sizes))
        return name

    def load(self, name: str, subscripts: str) -> str:
        """A load cast to the op's type where it must be."""
        dtype = next(t for n, t, _ in self.inputs if n == name)
        text = f"{name}[{subscripts}]" if subscripts else name
        computes = {"f16": "f32", "i8": "i32"}.get(dtype, dtype)
        if computes != self.compute or (dtype != self.compute and self.rng.random() < 0.7):
            return f"{self.compute}({text})"
        return text

    def result_type(self) -> str:
        if self.compute == "f32":
            return self.rng.choice(("f32", "f32", "f32", "f16"))
        return self.compute if self.compute == "f64" else self.rng.choice(("i32", "i32", "i8"))

    # ------------------------------------------------------------ expressions

    def expr(self, atoms: list[str], depth: int = 2) -> str:
        rng = self.rng
        if depth == 0 or rng.random() < 0.15:
            return rng.choice(atoms) if rng.random() < 0.85 else str(rng.randint(0, 3))
        a, b = self.expr(atoms, depth - 1), self.expr(atoms, depth - 1)
        pick = rng.random()
        if pick < 0.5:
            return f"({a} {rng.choice('+-*' if depth < 3 else '+-')} {b})"
        if pick < 0.65:
            return f"{rng.choice(('max', 'min'))}({a}, {b})"
        if pick < 0.75:
            return f"where({a} {rng.choice(('<', '<=', '==', '>'))} {b}, {rng.choice(atoms)}, {b})"
        if pick < 0.85:
            return f"{rng.choice(('relu', 'abs'))}({a} + {rng.choice(atoms)})"
        if self.compute != "i32" and pick < 0.9:
            self.exact = False
            return f"{rng.choice(('tanh', 'sigmoid', 'exp'))}(0.25 * {rng.choice(atoms)})"
        return f"({a} - {rng.choice(atoms)})"

    def use(self, atoms: list[str], depth: int = 2) -> str:
        """An expression that reads every atom."""
        text = self.expr(atoms, depth)
        for a in atoms:
            if a not in text:
                text = f"({text} {self.rng.choice('+-')} {a})"
        return text

    def cast(self, text: str, dtype: str) -> str:
        return text

    def text(self, name: str) -> str:
        dims = list(dict.fromkeys(d for _, _, sizes in self.inputs for d in sizes))
        shape = lambda s: f"[{', '.join(s)}]" if s else "[]"  # noqa: E731
        ins = ", ".join(f"{n}: {t}{shape(s)}" for n, t, s in self.inputs)
        outs = ", ".join(f"{n}: {t}{s}" for n, t, s in self.outputs)
        head = f"op {name}[{', '.join(dims)}]({ins}) -> ({outs})" + (f" where {self.where}" if self.where else "")
        return "\n".join([head + ":", *("    " + x for x in self.lines)]) + "\n"


def shuffled(rng: Random, items) -> tuple:
    items = list(items)
    rng.shuffle(items)
    return tuple(items)


def subset(rng: Random, items, least: int = 0) -> tuple:
    items = list(items)
    return tuple(rng.sample(items, rng.randint(min(least, len(items)), len(items))))


def at(indices) -> str:
    return ", ".join(indices)


def spot(name: str, indices) -> str:
    return f"{name}[{at(indices)}]" if indices else name


def sizes_of(indices) -> tuple[str, ...]:
    return tuple(DIMS[INDICES.index(i)] for i in indices)


def shape_of(indices) -> str:
    return f"[{', '.join(sizes_of(indices))}]"


# ---------------------------------------------------------------- families


def pointwise(w: Writer) -> None:
    """Chains of pointwise statements, with halos, reversals, and intermediates that several read."""
    rng = w.rng
    own = INDICES[: rng.randint(1, 4)]
    w.input(sizes_of(shuffled(rng, own)))
    for _ in range(rng.randint(0, 2)):
        w.input(sizes_of(subset(rng, own)))
    atoms = [_reading(w, n, s) for n, _, s in w.inputs]
    first = w.inputs[0]
    if rng.random() < 0.4:
        atoms.append(_reading(w, first[0], first[2], halo=True))
    for n in range(rng.randint(0, 2)):
        name = f"t{n}"
        mine = shuffled(rng, own)
        w.lines.append(f"{spot(name, mine)} = {w.use(atoms)}")
        atoms = [*subset(rng, atoms, 1), spot(name, mine)]
        if rng.random() < 0.2:
            d = rng.randrange(len(mine))
            atoms.append(f"{name}[{at([*mine[:d], f'{mine[d]} - 1', *mine[d + 1 :]])} else 0]")
    _outputs(w, own, atoms)


def _reading(w: Writer, name: str, sizes: tuple[str, ...], halo: bool = False) -> str:
    rng = w.rng
    subscripts = [INDICES[DIMS.index(s)] for s in sizes]
    if halo and subscripts:
        d = rng.randrange(len(subscripts))
        if rng.random() < 0.3:
            subscripts[d] = f"{sizes[d]} - 1 - {subscripts[d]}"
            return w.load(name, at(subscripts))
        subscripts[d] = f"{rng.choice(('', '2*'))}{subscripts[d]} {rng.choice('+-')} {rng.randint(1, 2)}"
        return w.load(name, at(subscripts) + f" else {rng.randint(0, 2)}")
    return w.load(name, at(subscripts))


def _outputs(w: Writer, own, atoms: list[str], names=("Y", "Z")) -> None:
    rng = w.rng
    for n in range(2 if rng.random() < 0.3 else 1):
        mine = shuffled(rng, own)
        w.outputs.append((names[n], w.result_type(), shape_of(mine)))
        w.lines.append(f"{spot(names[n], mine)} = {w.use(atoms, rng.randint(0, 2))}")
        if rng.random() < 0.5:
            value = spot(names[n], mine)
            atoms = [*atoms, f"{w.compute}({value})"]


def reduction(w: Writer) -> None:
    """One reduction of a pointwise body, perhaps with an epilogue or a transposed result."""
    rng = w.rng
    own = INDICES[: rng.randint(1, 4)]
    reduced = subset(rng, own, 1)
    free = shuffled(rng, [i for i in own if i not in reduced])
    kind = rng.choice(("sum", "sum", "max", "min", "prod", "any", "all", "argmax", "argmin"))
    w.input(sizes_of(shuffled(rng, own)))
    for _ in range(rng.randint(0, 1)):
        w.input(sizes_of(subset(rng, own, 1)))
    atoms = [_reading(w, n, s) for n, _, s in w.inputs]
    if rng.random() < 0.2:
        atoms.append(_reading(w, w.inputs[0][0], w.inputs[0][2], halo=True))
    if kind == "prod":
        body = f"min(max({w.use(atoms, 0)}, -1), 1)"
    elif kind in ("any", "all"):
        body = f"({w.use(atoms, 0)} {rng.choice(('>', '<='))} {rng.choice(('1', '-1', '0'))})"
    else:
        body = f"({w.use(atoms, rng.randint(0, 2))})"
    value = f"{kind}({at(reduced)}) {body}"
    if kind.startswith("arg"):
        w.nonempty |= set(sizes_of(reduced))
        w.outputs.append(("Y", "i64", shape_of(free)))
        w.lines.append(f"{spot('Y', free)} = {value}")
        return
    if kind in ("any", "all"):
        w.outputs.append(("Y", "bool", shape_of(free)))
        w.lines.append(f"{spot('Y', free)} = {value}")
        return
    _finish(w, free, value)


def _finish(w: Writer, free, value: str) -> None:
    """The result of a reduction is an output, or goes through an epilogue."""
    rng = w.rng
    pick = rng.random()
    if pick < 0.4:
        w.outputs.append(("Y", w.compute, shape_of(free)))
        w.lines.append(f"{spot('Y', free)} = {value}")
        if pick < 0.12:  # an output that a later statement reads
            w.outputs.append(("Z", w.result_type(), shape_of(free)))
            w.lines.append(f"{spot('Z', free)} = {w.use([spot('Y', free)])}")
        return
    atoms = [spot("h", free)] if pick < 0.8 else [f"({value})"]
    if pick < 0.8:
        w.lines.append(f"{spot('h', free)} = {value}")
    if free and rng.random() < 0.5:
        bias = subset(rng, free, 1)
        atoms.append(w.load(w.input(sizes_of(bias)), at(bias)))
    if rng.random() < 0.25 and w.compute != "i32" and w.inputs[0][2]:
        atoms.append(w.inputs[0][2][0])  # a size, named in the value
    if pick < 0.8:
        _outputs(w, free, atoms)
    else:
        w.outputs.append(("Y", w.result_type(), shape_of(free)))
        w.lines.append(f"{spot('Y', free)} = {w.use(atoms, 1)}")


def contraction(w: Writer) -> None:
    """Sums of products of two tensors, in all orders of their axes."""
    rng = w.rng
    count = rng.choice(((0, 1, 1, 1), (0, 1, 1, 1), (1, 1, 1, 1), (0, 1, 0, 1), (0, 2, 1, 1), (0, 1, 1, 2), (1, 1, 0, 1)))
    pool = list(INDICES)
    b, m, n, k = ([pool.pop(0) for _ in range(c)] for c in count)
    plain = rng.random() < 0.6
    dtype = w.compute if plain else None
    left = w.load(w.input(sizes_of(a := shuffled(rng, b + m + k)), dtype=dtype), at(a))
    right = w.load(w.input(sizes_of(a := shuffled(rng, b + n + k)), dtype=dtype), at(a))
    if rng.random() < 0.2:
        left = f"({left} + 1)"
    if rng.random() < 0.15:
        w.lines.append(f"{spot('t', b + n + k)} = {w.use([right], 1)}")
        right = spot("t", b + n + k)
    free = shuffled(rng, b + m + n)
    _finish(w, free, f"sum({at(shuffled(rng, k))}) {left} * {right}")


def statistics(w: Writer) -> None:
    """Rows normalised by what is reduced of them: several reductions over the same axis, one after another."""
    rng = w.rng
    rows = INDICES[: rng.randint(0, 2)]
    j = INDICES[len(rows)]
    name = w.input(sizes_of((*rows, j)))
    x = w.load(name, at((*rows, j)))
    top, total = spot("top", rows), spot("total", rows)
    w.lines.append(f"{top} = {rng.choice(('max', 'min', 'sum'))}({j}) {x}")
    e = f"({x} - {top})"
    if rng.random() < 0.6:
        w.lines.append(f"{spot('e', (*rows, j))} = {w.use([x, top], 1)}")
        e = spot("e", (*rows, j))
    w.nonempty |= set(sizes_of((j,)))  # the identity of max is infinite, and inf - inf no number
    w.lines.append(f"{total} = {rng.choice(('sum', 'max'))}({j}) {e}")
    mine = shuffled(rng, (*rows, j)) if rng.random() < 0.4 else (*rows, j)
    w.outputs.append(("Y", w.result_type(), shape_of(mine)))
    w.lines.append(f"{spot('Y', mine)} = {w.use([e, total], 1)}")
    if rng.random() < 0.3:
        w.outputs.append(("S", w.compute, shape_of(rows)))
        w.lines.append(f"{spot('S', rows)} = {total}")


def chain(w: Writer) -> None:
    """A contraction of a contraction."""
    rng = w.rng
    i, j, k, l = INDICES[:4]
    a = w.load(w.input(sizes_of(s := shuffled(rng, (i, k)))), at(s))
    b = w.load(w.input(sizes_of(s := shuffled(rng, (j, k)))), at(s))
    c = w.load(w.input(sizes_of(s := shuffled(rng, (j, l)))), at(s))
    w.lines.append(f"h[i, j] = sum(k) {a} * {b}")
    middle = "h[i, j]"
    if rng.random() < 0.5:
        w.lines.append(f"g[i, j] = {w.use(['h[i, j]'], 1)}")
        middle = "g[i, j]"
    mine = shuffled(rng, (i, l))
    w.outputs.append(("Y", w.compute, shape_of(mine)))
    w.lines.append(f"{spot('Y', mine)} = sum(j) {middle} * {c}")


def window(w: Writer) -> None:
    """Windows that slide: convolutions, pools, strided halves."""
    rng = w.rng
    pick = rng.random()
    if pick < 0.4:
        stride, pad, batch = rng.randint(1, 3), rng.randint(0, 2), rng.random() < 0.5
        n, dim = ("n, ", "B, ") if batch else ("", "")
        w.inputs = [("I", w.element_type(), (*(("B",) if batch else ()), "C", "W")), ("F", w.element_type(), ("O", "C", "R"))]
        image, kernel = w.load("I", f"{n}c, {stride}*p + r - {pad} else 0"), w.load("F", "o, c, r")
        w.where = f"P = max(0, (W + {2 * pad} - R) / {stride} + 1)" if False else f"P = (W + {2 * pad} - R) / {stride} + 1"
        w.least = {"W": 6, "R": 1}
        w.outputs.append(("Y", w.compute, f"[{dim}O, P]"))
        w.lines.append(f"Y[{n}o, p] = sum(c, r) {image} * {kernel}")
    elif pick < 0.7:
        size, kind = rng.randint(2, 3), rng.choice(("max", "sum", "min"))
        w.input(("M", "N"))
        x = w.load("A", f"i, 2*p + r - {rng.randint(0, 1)} else {rng.randint(0, 1)}")
        w.where = "P = (N + 1) / 2"
        w.outputs.append(("Y", w.compute, "[M, P]"))
        w.lines.append(f"Y[i, p] = {kind}(r: {size}) {x}")
    else:
        w.input(("M", "N"))
        one, two = w.load("A", "i, 2*p"), w.load("A", "i, 2*p + 1")
        w.where = "P = N / 2"
        mine = shuffled(rng, ("i", "p"))
        w.outputs.append(("Y", w.result_type(), f"[{', '.join('M' if x == 'i' else 'P' for x in mine)}]"))
        w.lines.append(f"{spot('Y', mine)} = {w.use([one, two])}")


def siblings(w: Writer) -> None:
    """Reductions over one index with the same free ones, which meet in what is stored, perhaps one after another."""
    rng = w.rng
    i, j, k = INDICES[:3]
    free, count = shuffled(rng, (i, j) if rng.random() < 0.7 else (i,)), rng.choice((2, 2, 3))
    shared = w.load(w.input(sizes_of(a := shuffled(rng, (i, k)))), at(a))
    done: list[str] = []
    for n in range(count):
        own = w.load(w.input(sizes_of(a := shuffled(rng, (*(x for x in free if x != i), k)))), at(a))
        kind = rng.choice(("sum", "sum", "sum", "max", "min"))
        term = f"{shared} * {own}" if kind == "sum" else f"({w.use([shared, own], 1)})"
        if kind != "sum":
            w.nonempty |= set(sizes_of((k,)))
        w.lines.append(f"{spot(f's{n}', free)} = {kind}({k}) {term}")
        result = spot(f"s{n}", free)
        if rng.random() < 0.4:  # what reads the finished result of an earlier one
            w.lines.append(f"{spot(f'e{n}', free)} = {w.use([result, *done[-1:]], 1)}")
            result = spot(f"e{n}", free)
        done.append(result)
    if rng.random() < 0.2:  # at other elements, too
        done[0] = spot(done[0].partition("[")[0], (*free[:-1], f"{sizes_of(free)[-1]} - 1 - {free[-1]}"))
    _outputs(w, free, done)


def crossing(w: Writer) -> None:
    """Reductions of one tensor over different axes, all read by one statement; several outputs."""
    rng = w.rng
    if rng.random() < 0.5:
        siblings(w)
        return
    x = w.load(w.input(("M", "N")), "i, j")
    w.lines.append(f"rows[i] = {rng.choice(('sum', 'max'))}(j) {x}")
    w.lines.append(f"cols[j] = {rng.choice(('sum', 'min'))}(i) {x}")
    w.nonempty |= {"M", "N"}
    w.outputs.append(("Y", w.compute, "[M, N]"))
    w.lines.append(f"Y[i, j] = {w.use([x, 'rows[i]', 'cols[j]'], 1)}")
    if rng.random() < 0.5:
        w.outputs.append(("S", w.compute, "[N]"))
        w.lines.append("S[j] = cols[j] + 1")


def triangle(w: Writer) -> None:
    """Index terms in values."""
    rng = w.rng
    x = w.load(w.input(("M", "N")), "i, j")
    cond = rng.choice(("j <= i", "i + j < N", "(i + 2*j) % 3 == 1"))
    if rng.random() < 0.5:
        w.outputs.append(("Y", w.compute, "[N, M]"))
        w.lines.append(f"Y[j, i] = where({cond}, {x}, 0)")
    else:
        w.outputs.append(("Y", w.compute, "[M]"))
        w.lines.append(f"Y[i] = sum(j) where({cond}, {x}, 0)")


FAMILIES = [
    (pointwise, 3), (reduction, 4), (contraction, 5), (statistics, 3), (chain, 1), (window, 2), (crossing, 1), (triangle, 1),
]  # fmt: skip


def random_op(rng: Random, name: str = "random") -> RandomOp:
    """An op; equal states of the generator give equal ops."""
    family = rng.choices([f for f, _ in FAMILIES], [n for _, n in FAMILIES])[0]
    w = Writer(rng)
    family(w)
    return RandomOp(w.text(name), w.exact, frozenset(w.nonempty), w.least)
