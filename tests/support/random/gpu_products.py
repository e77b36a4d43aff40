"""Random matrix products for GPUs: by instructions for matrices or by threads, with what may surround them."""

from __future__ import annotations

from .gpu_draft import PRODUCTS, Draft, Tensor, tensors


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


def pipelined(d: Draft) -> str:
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
    words = pipelined(d) if shared else ""
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
    words = pipelined(d)
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
