"""Random cases for GPUs: an op and a schedule as people write them for blocks, warps and threads, most of them legal."""

from __future__ import annotations

import re
from random import Random

from .cases import Case, random_case
from .gpu_draft import PRODUCTS, Draft, gpu, tensors
from .gpu_products import pipelined, product
from .ops import RandomOp

DEVICES = ("sm_80", "sm_90a", "gfx90a", "gfx942", "gfx1100")
# In the words of a machine of cores and lanes -> in a GPU's
WORDS = {"core": "block", "lane": "thread", "l3": "shared", "l2": "shared", "l1": "shared"}


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
    exchanged = d.maybe(0.8)
    if d.maybe(0.5):
        d.line(f"keep Y in {d.pick('register', 'register', 'shared')}" + d.pick("", " by shuffle" if exchanged else ""))
    if d.maybe(0.3):
        d.line(f"tile j: {d.pick(32, 64)}" + pipelined(d))
        if d.maybe(0.6):
            d.line("move X -> shared" + d.pick("", " pad 1", " swizzle"))
    if d.maybe(0.3):
        d.line(f"tile j: {d.pick(16, 32)} -> {d.warp}")
    d.line(f"tile j: {d.pick(1, 2, 4)} -> thread" if exchanged else "tile i: 1 -> thread")
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
    d.line(f"tile {k}: {unit.k * d.pick(1, 2)}" + pipelined(d))
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
    lines = within_slices(rng, device, "".join(f"    {x}\n" for line in d.lines for x in line.split("\n")))
    fixed = tuple(n for n in d.sizes if rng.random() < 0.6) if rng.random() < 0.6 else ()
    fixed = tuple(n for n in d.sizes if n in fixed or n in d.whole)
    op = RandomOp(text, d.exact, frozenset(d.nonempty))
    return Case(seed, op, f"schedule s for op{seed}:\n{lines}", device, d.sizes, fixed, 1)


def within_slices(rng: Random, device: str, lines: str) -> str:
    """The first line onto blocks with the word for caches in slices, if the device has such; seldom a later one, too."""
    sliced = [m.name for m in gpu(device).memories if m.slices > 1]
    if not sliced or rng.random() < 0.4:
        return lines
    return re.sub(r"(?<=-> block)(?=[^\n:]*$)", f" within {sliced[0]}", lines, count=rng.choice((1, 1, 1, 1, 2)), flags=re.M)


def _translated(case: Case, rng: Random, device: str) -> Case:
    """A case for cores and lanes, in a GPU's words."""
    lines = re.sub(rf"\b({'|'.join(WORDS)})\b", lambda m: WORDS[m[1]], case.schedule)
    lines = re.sub(r"compute with \w+", "compute", lines)
    if "-> block" in lines and rng.random() < 0.5 and lines.count("-> thread") > 1:
        lines = lines.replace("-> thread", f"-> {gpu(device).levels[-2].name}", 1)
    return Case(case.seed, case.op, within_slices(rng, device, lines), device, case.sizes, case.fixed, 1)
