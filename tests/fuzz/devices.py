"""Random devices: odd widths, one lane, more or fewer levels and memories than machines have, instructions of odd shapes."""

from __future__ import annotations

from random import Random

WIDTHS = (1, 2, 3, 4, 5, 7, 8, 16, 24, 32, 33, 64)


def random_device(rng: Random, how: str, name: str = "odd") -> str:
    """The text of device `name`: one like a GPU, whose blocks are as many as there are tiles, or like a CPU. What has no blocks
    is no target of the emulator, so cases that are run by it have the former."""
    gpu = rng.random() < 0.55
    return _gpu(rng, name) if gpu or how == "emulate" else _cpu(rng, name)


def _cpu(rng: Random, name: str) -> str:
    width = rng.choice((4, 8, 16, 16, 32, 64, 12, 24))
    lines = [
        "level socket: open, siblings nothing",
        f"level core: finite {rng.choice((1, 2, 3, 4, 8))}, siblings {rng.choice(('barrier', 'barrier', 'nothing'))}",
    ]
    strands = rng.choice((2, 3, 4)) if rng.random() < 0.15 else 1
    if strands > 1:
        lines.append(f"level strand: shaped, siblings barrier, at most {strands} units")
    lanes = rng.choice((1, 2, 3, 8, 64))
    lines.append(f"level lane: shaped, siblings lockstep, at most {lanes} units, {width} bytes")
    cached = rng.random() < 0.6
    lines.append("memory dram of socket: 20 GB/s")
    for memory, level, size in (("l3", "socket", "1 MiB"), ("l2", "core", "64 KiB"), ("l1", "core", "4 KiB")):
        if rng.random() < 0.7:
            lines.append(f"memory {memory} of {level}: {size}" + (", in dram" if cached else ""))
    lines.append(f"memory register of lane: {rng.choice((8, 16, 32, 64))} x {rng.choice((4, 4, 8))} B")
    if rng.random() < 0.5 and width % 4 == 0:
        instr = _row_instr(rng, "core", "lane", width // 4)
        n, take = width // 4, min(width // 4, lanes)
        whole = take & (take - 1) == 0 and n % take == 0 and n // take <= strands
        lines += instr if whole else []  # others no device has: lanes come in powers of two
    return _text(name, lines)


def _gpu(rng: Random, name: str) -> str:
    width = rng.choice(WIDTHS)
    lines = ["level grid: finite 1, siblings nothing", "level block: open, siblings nothing, at most 1024 threads"]
    warps = rng.random() < 0.85
    if warps:
        lines.append(f"level warp: shaped, siblings barrier, at most {rng.choice((1, 2, 3, 8, 32))} units")
    siblings = "lockstep" if warps or rng.random() < 0.7 else "barrier"
    most = width if warps else rng.choice((width, 3 * width, 256))
    lines.append(
        f"level thread: shaped, siblings {siblings}, at most {most} units"
        + (f", width {width}" if siblings == "lockstep" else "")
    )
    lines.append(f"memory global of grid: 900 GB/s, transaction {rng.choice((4, 16, 32, 64))} B")
    if rng.random() < 0.3:
        lines.append("memory l2 of grid: 4 MiB, in global" + (f", slices {width % 5}" if width % 5 else ""))
    if rng.random() < 0.85:
        lines.append(f"memory shared of block: {rng.choice((2, 16, 48))} KiB, banks {rng.choice((16, 32, 24))} x 4 B")
    if warps and rng.random() < 0.2:
        lines.append("memory pad of warp: 4 KiB, banks 32 x 4 B")
    lines.append(f"memory register of thread: {rng.choice((32, 64, 255))} x 4 B")
    lines.append("units 8, clock 1 GHz, f32 64 GFLOP/s per unit")
    if warps and rng.random() < 0.5:
        lines += _square_instr(rng, width)
    return _text(name, lines)


def _text(name: str, lines: list[str]) -> str:
    return f"device {name}:\n" + "".join(f"    {x}\n" for x in lines)


def _row_instr(rng: Random, level: str, unit: str, width: int) -> list[str]:
    """`C[n] += A * B[n]` over a vector, of a type that fills it."""
    dtype = rng.choice(("f32", "i32"))
    return [
        f"instr fma_{dtype}x{width} on {level} in fma:",
        f"    op (A: {dtype}[], B: {dtype}[{width}], C: {dtype}[{width}]):",
        "        C[n] += A[] * B[n]",
        "    A in register at ()",
        f"    B in register at ({unit}): n = {unit}",
        f"    C in register at ({unit}): n = {unit}",
        "    cost 1 cycles, latency 4",
    ]


def _square_instr(rng: Random, width: int) -> list[str]:
    """A product of small tiles whose columns are dealt to the lanes, its rows and its depth to registers."""
    rows, deep = rng.choice((1, 2, 3, 5, 8)), rng.choice((1, 2, 3, 4))
    dtype = rng.choice(("f32", "f32", "i32"))
    name = f"odd_m{rows}n{width}k{deep}_{dtype}"
    return [
        f"instr {name} on warp in odd:",
        f"    op (A: {dtype}[{rows}, {deep}], B: {dtype}[{deep}, {width}], C: {dtype}[{rows}, {width}]):",
        "        C[m, n] += sum(k) A[m, k] * B[k, n]",
        f"    A in register at (lane, r): m = r / {deep}, k = r % {deep}",
        "    B in register at (lane, r): k = r, n = lane",
        "    C in register at (lane, r): m = r, n = lane",
        "    cost 4 cycles, latency 16",
    ]
