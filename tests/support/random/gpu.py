"""Random cases for GPUs: an op and a schedule as people write them for blocks, warps and threads, most of them legal.

What each family is about is in its schedule's text and in its sizes, so `features` can tell what a case reaches.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from random import Random

from andiron.dsl.device import Device
from andiron.dsl.module import std_device

from .cases import Case, random_case
from .ops import RandomOp

DEVICES = ("sm_80", "sm_90a", "gfx90a", "gfx1100")
# In the words of a machine of cores and lanes -> in a GPU's
WORDS = {"core": "block", "lane": "thread", "l3": "shared", "l2": "shared", "l1": "shared"}
_TENSOR = re.compile(r"(?:mma|mfma|wmma)_m?(\d+)[nx](\d+)[kx](\d+)_(\w+)")
# element type -> how a product of two is written; what their sum has
PRODUCTS = {
    "f16": ("f32({}) * f32({})", "f32"),
    "bf16": ("f32({}) * f32({})", "f32"),
    "f8e4m3": ("f32({}) * f32({})", "f32"),
    "f8e5m2": ("f32({}) * f32({})", "f32"),
    "tf32": ("f32(tf32({})) * f32(tf32({}))", "f32"),
    "i8": ("i32({}) * i32({})", "i32"),
    "i32": ("{} * {}", "i32"),
    "f32": ("{} * {}", "f32"),
    "f64": ("{} * {}", "f64"),
}


@dataclass(frozen=True)
class Tensor:
    """An instruction of a tensor unit: `m`, `n`, `k` as its name says them."""

    name: str
    m: int
    n: int
    k: int
    dtype: str


@lru_cache(maxsize=8)
def tensors(device: str) -> tuple[Tensor, ...]:
    found = []
    for i in gpu(device).instrs:
        if (x := _TENSOR.fullmatch(i.name)) and x[4] in PRODUCTS:
            found.append(Tensor(i.name, int(x[1]), int(x[2]), int(x[3]), x[4]))
    return tuple(found)


def gpu(name: str) -> Device:
    device = std_device(name)
    assert device is not None
    return device


@dataclass
class Draft:
    """A case being written."""

    rng: Random
    device: str
    name: str
    head: str = ""
    body: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    exact: bool = True
    nonempty: set[str] = field(default_factory=set)
    sizes: dict[str, int] = field(default_factory=dict)
    whole: set[str] = field(default_factory=set)  # sizes that are compiled in, and multiples of their tiles

    @property
    def warp(self) -> str:
        return gpu(self.device).levels[-2].name

    @property
    def lanes(self) -> int:
        return gpu(self.device).levels[-1].width or 32

    @property
    def copies(self) -> bool:
        return self.device.startswith("sm")

    def maybe(self, chance: float) -> bool:
        return self.rng.random() < chance

    def pick(self, *of):
        return self.rng.choice(of)

    def line(self, text: str, block: list[str] | None = None) -> None:
        self.lines.append(text + (":" + "".join(f"\n    {x}" for x in block) if block else ""))

    def size(self, name: str, *near: int) -> None:
        """A size about one of these, seldom 1 or 0."""
        n = max(2, self.rng.choice(near) + self.rng.choice((-3, -1, 0, 0, 1, 3)))
        pick = self.rng.random()
        self.sizes[name] = 1 if pick < 0.06 else 0 if pick < 0.1 and name not in self.nonempty else n


# ---------------------------------------------------------------- products


def product(d: Draft) -> None:
    """A matrix product, on a tensor unit or not, with what may surround it."""
    unit = d.pick(*tensors(d.device)) if d.maybe(0.75) else None
    dtype = unit.dtype if unit else d.pick("f32", "f32", "f64", "i32", "f16", "i8")
    form, total = PRODUCTS[dtype]
    batch = "z, " if d.maybe(0.12) else ""
    a, b = d.pick("m, k", "m, k", "k, m"), d.pick("k, n", "n, k", "n, k")
    left, right = f"A[{batch}{a}]", f"B[{batch}{b}]"
    ins = [f"A: {_stored(dtype)}[{(batch + a).upper()}]", f"B: {_stored(dtype)}[{(batch + b).upper()}]"]
    if d.maybe(0.15):  # a prologue, in the operand's own type; what is no product of zeros has no partial tiles of k
        d.whole.add("K")
        left = f"{dtype}(max({_wide(dtype, left)}, 0))"
    out = d.pick(total, total, "f16" if total == "f32" else total)
    value = f"sum(k) {form.format(left, right)}"
    result = f"C[{batch}m, n]"
    if d.maybe(0.45):
        d.body.append(f"H[{batch}m, n] = {value}")
        value, more = f"H[{batch}m, n]", d.pick("bias", "relu", "scale", "residual")
        if more == "bias":
            ins.append(f"v: {total}[N]")
            value += " + v[n]"
        elif more == "residual":
            ins.append(f"R: {total}[{batch.upper()}M, N]")
            value = f"2 * {value} - R[{batch}m, n]"
        else:
            value = f"max({value}, 0)" if more == "relu" else f"{value} * 2"
    d.body.append(f"{result} = {value}")
    dims = ("Z, " if batch else "") + "M, N, K"
    d.head = f"op {d.name}[{dims}]({', '.join(ins)}) -> (C: {out}[{batch.upper()}M, N])"
    if d.maybe(0.1):
        d.lines.append("auto")
        _sized(d, batch, 24, 24, 24)
        return
    if unit is not None:
        _tensor(d, unit, batch, out)
    else:
        _scalar(d, batch, out)


def _stored(dtype: str) -> str:
    return "f32" if dtype == "tf32" else dtype


def _wide(dtype: str, text: str) -> str:
    return text if dtype in ("f32", "f64", "i32", "tf32") else f"{PRODUCTS[dtype][1]}({text})"


def _sized(d: Draft, batch: str, m: int, n: int, k: int) -> None:
    if batch:
        d.size("Z", 2)
    d.size("M", m, m + m // 2, 2 * m)
    d.size("N", n, n + n // 2, 2 * n)
    if d.whole:
        d.sizes["K"] = k * d.pick(1, 2, 3)
    else:
        d.size("K", k, 2 * k, 3 * k)


def _outer(d: Draft, batch: str, m: int, n: int) -> None:
    if batch:
        d.line("tile z: 1 -> block")
    d.line(f"tile m: {m}, n: {n} -> block" + d.pick("", "", f" raster {d.pick(2, 8)}", " order n, m"))


def _split(d: Draft, k: int) -> None:
    if d.maybe(0.2):
        d.line(f"tile k: {k * d.pick(1, 2)} -> block by {d.pick('atomic', 'workspace')}")


def _kept(d: Draft, out: str, m: int, n: int) -> None:
    """The accumulator, written back from registers, or by way of shared memory."""
    block = None
    if d.maybe(0.3):
        block = [f"move C -> shared{d.pick('', ' pad 1', ' pad 8', ' swizzle')}"]
        if d.maybe(0.6):
            wide = d.pick(1, 4, 8)
            block += [f"tile m: {max(1, m // 2)} -> {d.warp}", f"tile m: 1, n: {wide} -> thread"]
            block[-1] += f" vector {wide}" if wide > 1 and d.maybe(0.5) else ""
    d.line("keep C in register", block)


def _staged(d: Draft, name: str, rows: str, k: int, words: str) -> None:
    """An operand in shared memory."""
    how = d.pick("", "", " swizzle", " swizzle", f" pad {d.pick(1, 2, 4, 8)}")
    if d.copies and d.maybe(0.5):
        how += " with cp_async"
        words = words and d.pick(words, "")
        d.line(f"move {name} -> shared{how}{words}")
        return
    block = None
    if d.maybe(0.35):
        wide = d.pick(1, 2, 4)
        block = [f"tile {rows}: {d.pick(2, 4, 8)} -> {d.warp}"] if d.maybe(0.6) else []
        block.append(f"tile {rows}: 1, k: {wide} -> thread")
        if d.maybe(0.6):
            block.append(f"move {name} -> register" + (f" vector {wide}" if wide > 1 else ""))
    d.line(f"move {name} -> shared{how}{words}", block)


def _pipelined(d: Draft) -> str:
    return d.pick("", f" pipeline {d.pick(2, 2, 3, 4)}")


def _tensor(d: Draft, unit: Tensor, batch: str, out: str) -> None:
    wm, wn = unit.m * d.pick(1, 1, 2), unit.n * d.pick(1, 2)
    m, n, k = wm * d.pick(1, 2), wn * d.pick(1, 2), unit.k * d.pick(1, 2, 2)
    _sized(d, batch, m, n, k)
    _outer(d, batch, m, n)
    _split(d, k)
    if d.maybe(0.9):
        _kept(d, out, m, n)
    shared = d.maybe(0.85)
    on_moves = d.maybe(0.2)
    words = _pipelined(d) if shared else ""
    if k > 0 and d.maybe(0.95):
        d.line(f"tile k: {k}{'' if on_moves else words}")
    if shared:
        for name, rows in (("A", "m"), ("B", "n")):
            if d.maybe(0.93):
                _staged(d, name, rows, k, words if on_moves else "")
    d.line(f"tile m: {wm}, n: {wn} -> {d.warp}")
    inner = d.maybe(0.7)
    if inner:
        d.line(f"tile k: {unit.k}" + d.pick("", "", " unroll", " pipeline 2", " pipeline 2 through"))
    if d.maybe(0.5) and not d.whole:
        load = " with ldmatrix" if d.copies and d.maybe(0.7) and unit.dtype not in ("f64", "tf32") else ""
        for name in "AB":
            d.line(f"move {name} -> register{load}")
    d.line(f"compute with {d.pick(unit.name, unit.name, unit.name.partition('_')[0])}")


def _scalar(d: Draft, batch: str, out: str) -> None:
    tm, tn = d.pick(1, 2, 4), d.pick(1, 2, 4)
    m, n = tm * d.pick(4, 8), tn * d.pick(8, 16)
    k = d.pick(2, 4, 8)
    _sized(d, batch, m, n, k)
    _outer(d, batch, m, n)
    _split(d, k)
    if d.maybe(0.85):
        _kept(d, out, m, n)
    words = _pipelined(d)
    d.line(f"tile k: {k}{words}")
    for name, rows in (("A", "m"), ("B", "n")):
        if d.maybe(0.75):
            _staged(d, name, rows, k, "")
    if d.maybe(0.4):
        d.line(f"tile m: {max(1, m // 2)} -> {d.warp}")
    d.line(
        d.pick(f"tile m: {tm}, n: {tn} -> thread", f"tile m: {tm} every {2 * tm}, n: {tn} -> thread", f"tile n: {tn} -> thread")
    )
    if d.maybe(0.6):
        d.line("tile k: 1" + d.pick("", " unroll", " pipeline 2"))
    for name in "AB":
        if d.maybe(0.4):
            d.line(f"move {name} -> register")
    d.line("compute")


# ---------------------------------------------------------------- rows, sums, maps, windows


def rows(d: Draft) -> None:
    """Several statements over the same rows, in one kernel."""
    kind = d.pick("f32", "f32", "f64", "f16")
    x = "f32(X[i, j])" if kind == "f16" else "X[i, j]"
    top = d.pick("max", "min", "sum")
    e = d.pick(f"{x} - top[i]", f"exp(0.25 * ({x} - top[i]))", f"max({x} - top[i], 1)")
    d.exact = "exp" not in e
    d.nonempty |= {"N"}
    d.head = f"op {d.name}[M, N](X: {kind}[M, N]) -> (Y: {'f32' if kind == 'f16' else kind}[M, N])"
    d.body += [f"top[i] = {top}(j) {x}", f"e[i, j] = {e}", f"total[i] = {d.pick('sum', 'max')}(j) e[i, j]"]
    d.body.append(f"Y[i, j] = e[i, j] {d.pick('-', '+')} total[i]")
    d.size("M", 2, 5)
    d.size("N", 40, 150, 300)
    d.line(d.pick("tile i: 1 -> block", "tile i: 2 -> block", "tile i: 4 -> block", "tile i: 1 -> block"))
    if d.maybe(0.3):
        d.line(f"tile i: 1 -> {d.warp}")
    every = f" every {d.lanes * d.pick(1, 2, 4)}" if d.maybe(0.7) else ""
    if d.maybe(0.5):
        d.line(d.pick("move X -> register", "move X -> shared"))
    memory = ("register", "register", "shared")
    for name in ("top", "e", "total"):
        if d.maybe(0.7):
            by = " by shuffle" if name != "e" and d.maybe(0.5) else ""
            d.line(f"keep {name} in {'register' if by else d.pick(*memory)}{by}")
    wide = d.pick(1, 2, 4)
    step = every.replace("every ", "every ") if wide == 1 else f" every {wide * d.lanes * d.pick(1, 2)}"
    d.line(f"tile j: {wide}{step} -> thread" + (f" vector {wide}" if wide > 1 and d.maybe(0.5) else ""))
    if d.maybe(0.7):
        d.line("compute")


def sums(d: Draft) -> None:
    """One reduction, split over blocks, warps and lanes."""
    kind, reduce = d.pick("f32", "f32", "f64", "i32", "f16"), d.pick("sum", "sum", "max", "min")
    x = "X[i, j]" if kind != "f16" else "f32(X[i, j])"
    result = "f32" if kind == "f16" else kind
    turned = d.maybe(0.3)
    d.head = f"op {d.name}[M, N](X: {kind}[{'N, M' if turned else 'M, N'}]) -> (Y: {result}[M])"
    x = x.replace("i, j", "j, i") if turned else x
    more = d.pick("", "", " + 1")
    d.body.append(f"Y[i] = ({reduce}(j) {x}){more}" if more else f"Y[i] = {reduce}(j) {x}")
    d.size("M", 3, 17)
    d.size("N", 60, 200, 500)
    d.line(f"tile i: {d.pick(1, 2, 4)} -> block")
    if d.maybe(0.5):
        d.line(f"tile j: {d.pick(32, 64, 128)} -> block by {d.pick('atomic', 'workspace')}")
    if d.maybe(0.5):
        d.line(f"keep Y in {d.pick('register', 'register', 'shared')}" + d.pick("", " by shuffle"))
    if d.maybe(0.3):
        d.line(f"tile j: {d.pick(32, 64)}" + _pipelined(d))
        if d.maybe(0.6):
            d.line("move X -> shared" + d.pick("", " pad 1", " swizzle"))
    if d.maybe(0.3):
        d.line(f"tile j: {d.pick(16, 32)} -> {d.warp}")
    d.line(f"tile j: {d.pick(1, 2, 4)} -> thread" if d.maybe(0.8) else "tile i: 1 -> thread")
    if d.maybe(0.6):
        d.line("compute")


def maps(d: Draft) -> None:
    """Pointwise statements, transposed or not, by way of shared memory or not."""
    kind = d.pick("f32", "f16", "f64", "i8", "bf16")
    out = d.pick("Y[j, i]", "Y[i, j]")
    wide = {"f16": "f32", "bf16": "f32", "i8": "i32"}.get(kind, kind)
    second = d.maybe(0.4)
    d.head = (
        f"op {d.name}[M, N](X: {kind}[M, N]{f', v: {wide}[N]' if second else ''})"
        f" -> (Y: {d.pick(kind, wide)}[{'N, M' if out == 'Y[j, i]' else 'M, N'}])"
    )
    d.body.append(f"{out} = {wide}(X[i, j])" + (" * 2 + v[j]" if second else d.pick("", " * 3")))
    i, j = d.pick(8, 16, 32), d.pick(8, 16, 32)
    d.size("M", i, 2 * i + 1)
    d.size("N", j, 2 * j + 1)
    d.line(f"tile i: {i}, j: {j} -> block" + d.pick("", "", " raster 2"))
    if d.maybe(0.7):
        block = None
        if d.maybe(0.5):
            block = [f"tile i: {max(1, i // 4)} -> {d.warp}", "tile i: 1", f"tile j: {d.pick(1, 2)} -> thread"]
        how = d.pick("", " pad 1", " swizzle", " layout (j, i)")
        copy = " with cp_async" if d.copies and not block and d.maybe(0.4) else ""
        d.line(f"move X -> shared{how}{copy}", block)
    if d.maybe(0.6):
        d.line(f"tile j: {max(1, j // 4)} -> {d.warp}")
    d.line(f"tile {d.pick('j', 'i')}: {d.pick(1, 2, 4)} -> thread")
    if d.maybe(0.5):
        d.line("compute")


def windows(d: Draft) -> None:
    """A convolution as a matrix product over fused indices."""
    kinds = [u for u in tensors(d.device) if u.dtype in ("f16", "f32", "bf16", "i8")]
    unit = d.pick(*kinds)
    form, total = PRODUCTS[unit.dtype]
    pad = d.pick(0, 1)
    d.head = (
        f"op {d.name}[B, C, W, O, S](I: {unit.dtype}[B, W, C], F: {unit.dtype}[O, S, C]) -> (Y: {total}[B, P, O])"
        f" where P = W + {2 * pad} - S + 1"
    )
    d.body.append(f"Y[b, p, o] = sum(s, c) {form.format(f'I[b, p + s - {pad}, c else 0]', 'F[o, s, c]')}")
    for n, near in (("B", 2), ("C", unit.k), ("O", unit.n)):
        d.size(n, near)
    d.sizes |= {"W": d.rng.randint(4, 16), "S": d.rng.randint(1, 3)}
    m, o = unit.m * d.pick(1, 2), unit.n * d.pick(1, 2)
    d.line("fuse b, p as m")
    whole = d.maybe(0.5)
    d.line("fuse s, c as k" if whole else "tile s: 1")
    if not whole:
        d.lines.pop()
    d.line(f"tile m: {m}, o: {o} -> block")
    d.line("keep Y in register")
    if not whole:
        d.line("tile s: 1")
    k = "k" if whole else "c"
    d.line(f"tile {k}: {unit.k * d.pick(1, 2)}" + _pipelined(d))
    for name in "IF":
        how = d.pick("", " swizzle", " pad 8")
        d.line(f"move {name} -> shared{how}" + (" with cp_async" if d.copies and d.maybe(0.4) else ""))
    d.line(f"tile m: {unit.m}, o: {unit.n} -> {d.warp}")
    d.line(f"compute with {unit.name}")


FAMILIES = ((product, 10), (rows, 3), (sums, 3), (maps, 3), (windows, 2))


def gpu_case(seed: int) -> Case:
    """The case of a seed."""
    rng = Random(seed)
    device = DEVICES[seed % len(DEVICES)]
    if rng.random() < 0.35:
        return _translated(random_case(seed), rng, device)
    d = Draft(rng, device, f"op{seed}")
    (family,) = rng.choices([f for f, _ in FAMILIES], [n for _, n in FAMILIES])
    family(d)
    if rng.random() < 0.08:
        d.lines = [x for x in d.lines if rng.random() < 0.85] or ["auto"]
    text = f"{d.head}:\n" + "".join(f"    {x}\n" for x in d.body)
    lines = "".join(f"    {x}\n" for line in d.lines for x in line.split("\n"))
    fixed = tuple(n for n in d.sizes if rng.random() < 0.6) if rng.random() < 0.6 else ()
    fixed = tuple(n for n in d.sizes if n in fixed or n in d.whole)
    op = RandomOp(text, d.exact, frozenset(d.nonempty))
    return Case(seed, op, f"schedule s for op{seed}:\n{lines}", device, d.sizes, fixed, 1)


def _translated(case: Case, rng: Random, device: str) -> Case:
    """A case for cores and lanes, in a GPU's words."""
    lines = re.sub(rf"\b({'|'.join(WORDS)})\b", lambda m: WORDS[m[1]], case.schedule)
    lines = re.sub(r"compute with \w+", "compute", lines)
    if "-> block" in lines and rng.random() < 0.5 and lines.count("-> thread") > 1:
        lines = lines.replace("-> thread", f"-> {gpu(device).levels[-2].name}", 1)
    return Case(case.seed, case.op, lines, device, case.sizes, case.fixed, 1)


# ---------------------------------------------------------------- what a case reaches

_SAID = {
    "staging in shared memory": r"move \w+ -> shared",
    "staging in registers": r"move \w+ -> register",
    "pipeline": r" pipeline \d",
    "pipeline through": r" through",
    "split by atomic": r"by atomic",
    "split by workspace": r"by workspace",
    "split by shuffle": r"by shuffle",
    "raster": r" raster \d",
    "fuse": r"fuse ",
    "swizzle": r" swizzle",
    "pad": r" pad \d",
    "asynchronous copies": r"with cp_async",
    "ldmatrix": r"with ldmatrix",
    "mma": r"compute with mma",
    "mfma": r"compute with mfma",
    "wmma": r"compute with wmma",
    "vectors": r" vector \d",
    "strided tiles": r" every \d",
    "write-back through shared memory": r"move C -> shared",
    "the compiler's own": r"^    auto$",
}
_TYPES = ("f16", "bf16", "f8e4m3", "i8", "f64", "tf32")


def features(case: Case) -> set[str]:
    """What the case is about, in words."""
    found = {name for name, pattern in _SAID.items() if re.search(pattern, case.schedule, re.MULTILINE)}
    tensor = re.search(r"compute with (?:mma|mfma|wmma)", case.schedule)
    found |= {f"{t} on a tensor unit" for t in _TYPES if tensor and re.search(rf"\b{t}\b", case.op.text)}
    statements = [x for x in case.op.text.splitlines()[1:] if "=" in x]
    found |= {"several statements"} if len(statements) > 1 else set()
    found |= {"an epilogue"} if tensor and re.search(r"^    H\[", case.op.text, re.MULTILINE) else set()
    found |= {"a prologue"} if tensor and re.search(r"(f16|bf16|i8|f32|f64|tf32|f8\w+)\(max\(", case.op.text) else set()
    found |= {f"a size of {n}" for n in (0, 1) if n in case.sizes.values()}
    found |= {"sizes left open"} if set(case.sizes) - set(case.fixed) else {"sizes fixed"}
    return found | {case.device}


FEATURES = {
    *_SAID, *(f"{t} on a tensor unit" for t in _TYPES), "several statements", "an epilogue", "a prologue",
    "a size of 0", "a size of 1", "sizes left open", "sizes fixed", *DEVICES,
}  # fmt: skip
