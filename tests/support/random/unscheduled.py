"""Random cases for what the compiler writes by itself: an op, a device, and sizes of which some are fixed.

The ops are those of `ops`, and products, images, gathers and chains of every element type, as people write them. The
inputs are small integers, so that results are exact unless an op says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from andiron.dsl.errors import UserError
from andiron.dsl.module import Module, loads
from andiron.dsl.op import Op
from andiron.dsl.ops.specialise import specialise

from .cases import Case
from .ops import RandomOp, random_op

NVIDIA = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a")
AMD = ("gfx908", "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201")
CPUS = ("cpu:generic", "cpu:avx2", "cpu:avx512", "cpu:neon")
DEVICES = (*NVIDIA, *AMD, *CPUS)
SMALL = (1, 1, 2, 3, 5, 7, 8, 13, 16, 17, 31, 32, 33, 35, 63, 64, 65, 127, 130, 257)
LONG = (1, 1, 2, 35, 63, 1000, 4096, 100_003, 500_000)
WINDOWS = ("R", "S")
# element type -> how a value of it is read where it is computed with
READ = {"f32": "{}", "f64": "{}", "i32": "{}", "tf32": "f32(tf32({}))"}
TYPES = ("f32", "f32", "f16", "f16", "bf16", "i8", "i8", "u8", "i4", "f64", "f8e4m3", "f8e5m2", "tf32", "i32")


@dataclass
class Text:
    """An op being written. `dims`: its sizes in the order they were met."""

    rng: Random
    dtype: str
    name: str
    ins: list[str] = field(default_factory=list)
    outs: list[str] = field(default_factory=list)
    body: list[str] = field(default_factory=list)
    dims: list[str] = field(default_factory=list)
    where: str = ""
    exact: bool = True
    nonempty: set[str] = field(default_factory=set)
    derived: tuple[str, ...] = ()

    def maybe(self, chance: float) -> bool:
        return self.rng.random() < chance

    def pick(self, *of):
        return self.rng.choice(of)

    @property
    def total(self) -> str:
        """The type that values of this one are computed in."""
        return "f64" if self.dtype == "f64" else "i32" if self.dtype in ("i8", "u8", "i4", "i32") else "f32"

    def tensor(self, name: str, at: str, dtype: str | None = None, shape: str | None = None) -> str:
        """An input with these plain indices; the load, in the type that is computed in."""
        dtype = dtype or self.dtype
        shape = at.upper() if shape is None else shape
        self.ins.append(f"{name}: {'f32' if dtype == 'tf32' else dtype}[{shape}]")
        self.dims += [d for d in shape.replace(" ", "").split(",") if d and d not in (*self.dims, *self.derived)]
        return self.read(f"{name}[{at}]" if at else name, dtype)

    def read(self, text: str, dtype: str | None = None) -> str:
        return READ.get(dtype or self.dtype, self.total + "({})").format(text)

    def out(self, name: str, at: str, value: str, dtype: str | None = None) -> None:
        shape = f"[{at.upper()}]"
        self.outs.append(f"{name}: {dtype or self.total}{shape}")
        self.body.append(f"{name}[{at}] = {value}" if at else f"{name} = {value}")

    def other(self) -> str:
        """The type of another factor: perhaps not that of the first."""
        narrow = {"f32": ("f16", "bf16", "i8", "i4", "f8e4m3", "f8e5m2"), "i32": ("i8", "u8", "i4")}.get(self.total, ())
        return self.pick(*narrow) if self.dtype in narrow and self.maybe(0.3) else self.dtype

    def narrow(self) -> str:
        narrow = {"f32": self.pick("f16", "bf16"), "i32": self.pick("i8", "i16")}
        return self.pick(self.total, self.total, narrow.get(self.total, "f32"))

    @property
    def text(self) -> str:
        where = f" where {self.where}" if self.where else ""
        head = f"op {self.name}[{', '.join(self.dims)}]({', '.join(self.ins)}) -> ({', '.join(self.outs)}){where}:"
        return "\n".join([head, *("    " + x for x in self.body)]) + "\n"


def _mixed(t: Text, *indices: str) -> str:
    indices = tuple(x for x in indices if x)
    return ", ".join(t.rng.sample(indices, len(indices)))


def products(t: Text) -> None:
    """Products of matrices, batched or with one operand for all of the batch, transposed, with what surrounds them."""
    batch = t.pick("", "", "", "z", "z", "z, w")
    rest = [x for x in batch.split(", ") if x]
    own = rest if t.maybe(0.7) else rest[:-1]  # the other operand serves all of the last one
    free = ["m", "n"] if t.maybe(0.85) else t.pick(["m"], ["n"], ["m", "o", "n"])
    k = ["k"] if t.maybe(0.85) else ["k", "l"]
    left = t.tensor("A", _mixed(t, *(rest if t.maybe(0.8) else own), *(x for x in free if x != "n"), *k))
    right = t.tensor("B", _mixed(t, *own, *(x for x in free if x == "n"), *k), t.other())
    pro = t.rng.random()
    if pro < 0.1:
        right = f"{t.total}({t.dtype}(max({right}, 0)))"
    elif pro < 0.2:
        scale = t.tensor("scale", k[0] if t.maybe(0.5) or "n" not in free else "n", t.total)
        right = f"({right} * {scale})" if t.maybe(0.5) else f"(({right} - 1) * {scale})"
    used = [x for x in rest if any(x in i.lower().partition("[")[2] for i in t.ins)]
    result = [*used, *free]
    at = ", ".join(result) if t.maybe(0.75) else _mixed(t, *result)
    value = f"sum({', '.join(k)}) {left} * {right}"
    after(t, at, result, value)


def after(t: Text, at: str, result: Sequence[str], value: str) -> None:
    """An output, an epilogue, or a statement that reduces what came out."""
    pick = t.rng.random()
    if pick < 0.3 or not result:
        t.out("Y", at, value, t.narrow() if t.maybe(0.3) else None)
        return
    t.body.append(f"acc[{at}] = {value}")
    h = f"acc[{at}]"
    if pick < 0.75:
        for word in t.rng.sample(("bias", "relu", "residual", "scale", "where"), t.rng.randint(1, 2)):
            if word == "bias":
                h = f"{h} + {t.tensor('bias', result[-1], t.total)}"
            elif word == "residual":
                h = f"{h} - {t.tensor('rest', at, t.total)}"
            elif word == "where":
                h = f"where({result[0]} < {result[-1]}, {h}, {t.pick('0', '1')})"
            else:
                h = f"max({h}, 0)" if word == "relu" else f"2 * ({h})"
        if t.maybe(0.1) and t.total != "i32":
            t.exact, h = False, f"{t.pick('gelu', 'silu', 'tanh')}(0.125 * ({h}))"
        t.out("Y", at, h, t.narrow())
    elif pick < 0.9:
        t.nonempty |= {result[-1].upper()}
        rows = ", ".join(x for x in result if x != result[-1])
        row = f"[{rows}]" if rows else ""
        t.body.append(f"top{row} = {t.pick('max', 'min')}({result[-1]}) {h}")
        t.out("Y", at, f"{h} - top{row}")
    else:
        t.out("Y", at, h)
        rows = ", ".join(x for x in result if x != result[-1])
        t.out("T", rows, f"{t.pick('sum', 'max')}({result[-1]}) {h}")
        t.nonempty |= {result[-1].upper()}


def images(t: Text) -> None:
    """Convolutions and pools: strides, dilation, padding, groups, channels first or last."""
    flat = t.maybe(0.4)
    stride, dilation, pad = t.pick(1, 1, 2, 3), t.pick(1, 1, 2), t.pick(0, 1, 1, 2)
    last = t.maybe(0.5)
    kind = t.pick("conv", "conv", "conv", "depthwise", "groups", "pool")
    spots = [("p", "r", "H", "R")] if flat else [("p", "r", "H", "R"), ("q", "s", "W", "S")]
    places = ", ".join(
        f"{stride}*{p} + {dilation}*{r} - {pad} else 0"
        if n == len(spots) - 1 and not last
        else f"{stride}*{p} + {dilation}*{r} - {pad}"
        for n, (p, r, _, _) in enumerate(spots)
    )
    sizes = ", ".join(x for _, _, x, _ in spots)
    window, outs = ", ".join(r for _, r, _, _ in spots), ", ".join(p for p, _, _, _ in spots)
    groups = "g, " if kind == "groups" else ""
    at = f"n, {places}, {groups}c else 0" if last else f"n, {groups}c, {places}"
    shape = f"N, {sizes}, {groups.upper()}C" if last else f"N, {groups.upper()}C, {sizes}"
    t.derived = ("P", "Q")
    span = [f"{x} + {2 * pad} - {dilation}*({r.upper()} - 1) - 1" for _, r, x, _ in spots]
    t.where = ", ".join(f"{p.upper()} = ({n}) / {stride} + 1" for (p, _, _, _), n in zip(spots, span, strict=True))
    image = t.tensor("I", at, shape=shape)
    if kind == "pool":
        t.where = ", ".join(f"{p.upper()} = ({x} + {2 * pad} - {dilation} - 1) / {stride} + 1" for p, _, x, _ in spots)
        ranges = ", ".join(f"{r}: 2" for _, r, _, _ in spots)
        here = f"n, {outs}, c" if last else f"n, c, {outs}"
        t.out("Y", here, f"{t.pick('max', 'sum', 'min')}({ranges}) {image}")
        return
    if kind == "depthwise":
        filters = t.tensor("F", f"{window}, c" if t.maybe(0.5) else f"c, {window}")
        here = ["n", *outs.split(", "), "c"] if last else ["n", "c", *outs.split(", ")]
        reduced = window
    else:
        filters = t.tensor(
            "F", t.pick(f"{groups}o, {window}, c", f"{groups}o, c, {window}", f"{window}, {groups}c, o"), t.other()
        )
        there = [*(["g"] if groups else []), "o"]
        here = ["n", *outs.split(", "), *there] if last else ["n", *there, *outs.split(", ")]
        reduced = t.pick(f"c, {window}", f"{window}, c")
    after(t, ", ".join(here), here, f"sum({reduced}) {image} * {filters}")


def gathers(t: Text) -> None:
    """Pointwise work and reductions that read in steps, backwards, in quotients and remainders."""
    places = {
        "m": ("m", "M - 1 - m", "m / 2", "2*m + 1", "m - 1", "m % 3", "3*m - 2"),
        "n": ("n", "N - 1 - n", "n / 3", "2*n", "n + 2", "n % 4", "m + n", "n - m"),
    }
    plain = t.tensor("A", "m, n")
    there = f"X[{t.pick(*places['m'])}, {t.pick(*places['n'])} else {t.pick('0', '1')}]"
    t.ins.append(f"X: {'f32' if t.dtype == 'tf32' else t.dtype}[M, N]")
    value = t.pick("{} + {}", "{} * {}", "max({}, {})").format(plain, t.read(there))
    pick = t.rng.random()
    if pick < 0.4:
        t.out("Y", t.pick("m, n", "n, m"), value, t.narrow())
        return
    t.nonempty |= {"M", "N"}
    if pick < 0.8:
        index = t.pick("m", "n")
        t.out("Y", "n" if index == "m" else "m", f"{t.pick('sum', 'max', 'min')}({index}) ({value})")
    else:
        t.body += [f"e[m, n] = {value}", "top[m] = max(n) e[m, n]"]
        t.out("Y", "m, n", "e[m, n] - top[m]")


def chains(t: Text) -> None:
    """Several reductions one after another, of which some are products."""
    a, b = t.tensor("A", t.pick("z, i, k", "i, k")), t.tensor("B", t.pick("j, k", "k, j"))
    rows = "z, i" if "Z" in t.dims else "i"
    t.nonempty |= {"J"}
    scale = t.pick("", " * 2", f" - {t.total}(K)")
    score = f"sum(k) {a} * {b}"
    for n in range(t.pick(0, 0, 0, 1, 1, 2)):
        score = beside(t, rows, score, n)
    t.body.append(f"s[{rows}, j] = ({score}){scale}")
    t.body.append(f"top[{rows}] = max(j) s[{rows}, j]")
    p = f"(s[{rows}, j] - top[{rows}])"
    if t.maybe(0.4) and t.total != "i32":
        t.exact, p = False, f"exp(0.25 * {p})"
    t.body.append(f"p[{rows}, j] = {p}")
    t.body.append(f"all_[{rows}] = sum(j) p[{rows}, j]")
    c = t.tensor("C", t.pick("j, l", "l, j"))
    read = f"p[{rows}, j]" if t.dtype in ("f32", "f64", "i32") or t.maybe(0.5) else f"{t.total}({t.dtype}(p[{rows}, j]))"
    more = t.pick("", f" + all_[{rows}]", f" - top[{rows}]")
    t.out("Y", f"{rows}, l", f"(sum(j) {read} * {c}){more}")


def beside(t: Text, rows: str, score: str, n: int) -> str:
    """Scores, and another product over features of its own, perhaps one that has a name, or that all `z` share."""
    left = t.tensor(f"F{n}", t.pick(f"{rows}, r{n}", f"{rows}, r{n}", f"i, r{n}"))
    right = t.tensor(f"G{n}", t.pick(f"j, r{n}", f"r{n}, j"))
    product, at = f"sum(r{n}) {left} * {right}", rows if "z" in left else "i"
    if t.maybe(0.5):
        t.body.append(f"f{n}[{at}, j] = {product}")
        product = f"f{n}[{at}, j]"
    if t.maybe(0.2):
        t.body.append(f"h{n}[{rows}, j] = {score}")
        score = f"h{n}[{rows}, j]"
    return t.pick("{} + {}", "{} - {}", "max({}, {})").format(score, product)


def row_statistics(t: Text) -> None:
    """Statistics of rows, or of a vector, that follow each other, and what is computed of them for each row, or element."""
    rows = t.pick("", "i", "i", "z, i")
    here = f"{rows}, j" if rows else "j"
    x, at = t.tensor("X", here), f"[{rows}]" if rows else ""
    t.nonempty |= {"J"}
    kind = t.pick("max", "max", "min")
    t.body.append(f"top{at} = {kind}(j) {x}")
    p = f"({x} - top{at})" if kind == "max" else f"(top{at} - {x})"
    if t.total != "i32":
        t.exact, p = False, f"exp(0.25 * {p})"
    t.body.append(f"all_{at} = sum(j) {p}")
    more = ""
    if t.maybe(0.3):
        t.body.insert(t.rng.randint(0, 2), f"hit{at} = sum(j) where(j == 3, {x}, 0)")
        more = f" - hit{at}"
    of_elements = t.maybe(0.6)
    if of_elements:
        t.out("Y", here, f"{p} + all_{at}{more}" if t.total == "i32" else f"{p} / all_{at}{more}")
    if not of_elements or t.maybe(0.3):
        t.out("S", rows, f"top{at} + all_{at}{more}")


FAMILIES = ((products, 6), (images, 4), (gathers, 2), (chains, 1), (row_statistics, 2))


def auto_op(rng: Random, name: str) -> RandomOp:
    if rng.random() < 0.35:
        return random_op(rng, name)
    t = Text(rng, rng.choice(TYPES), name)
    rng.choices([f for f, _ in FAMILIES], [n for _, n in FAMILIES])[0](t)
    return RandomOp(t.text, t.exact, frozenset(t.nonempty))


def auto_case(seed: int, devices: Sequence[str] = DEVICES, long: bool = False, points: int = 20_000) -> Case | None:
    """The case of a seed; None where its sizes do not suit the op. `long`: some sizes are large, too large to be run, and all
    fixed; else the op has some `points` at most."""
    rng = Random(seed)
    name = f"op{seed}"
    written = auto_op(rng, name)
    op = loads(written.text).ops[name]
    device = devices[seed % len(devices)]
    names = [v.name for v in op.dims]
    for _ in range(20):
        sizes = {n: rng.choice((1, 2, 3, 3)) if n in WINDOWS else rng.choice(LONG if long else SMALL) for n in names}
        if rng.random() < 0.1:
            sizes = dict.fromkeys(names, 1)
        if rng.random() < 0.07:
            zero = rng.choice(names)
            sizes[zero] = 0 if zero not in written.nonempty and zero not in WINDOWS else 1
        sizes = {n: max(x, written.least.get(n, 0)) for n, x in sizes.items()}
        how = 1.0 if long else rng.choice((0.0, 0.5, 1.0, 1.0))
        fixed = tuple(n for n in names if rng.random() < how)
        if (long or _points(op, sizes) <= points) and suits(op, sizes):
            return Case(seed, written, "", device, sizes, fixed, rng.randint(1, 3))
    return None


def suits(op: Op, sizes: Mapping[str, int]) -> bool:
    try:
        specialise(op, dict(sizes))
    except UserError:
        return False
    return all(c.evaluate(op.all_sizes(sizes)) >= 0 for c, _ in op.conditions)


def _points(op: Op, sizes: Mapping[str, int]) -> int:
    """Of all statements' index spaces."""
    env, total = op.all_sizes(sizes), 0
    for s in op.statements:
        n = 1
        for _, e in s.ranges:
            n *= max(0, int(e.evaluate(env)))
        total += n
    return total


def special(case: Case) -> tuple[Module, Op]:
    module = loads(case.op.text)
    return module, specialise(module.ops[f"op{case.seed}"], {n: case.sizes[n] for n in case.fixed})
