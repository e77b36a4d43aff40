"""Right programs as texts, and ways of breaking them, each with the faults that the interpreter and the count of points report.

What lowering makes of a schedule may change, and the checkers know nothing of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from andiron.codegen.ir.parser import parse
from andiron.codegen.ir.program import Program
from andiron.dsl.module import loads, std_device
from andiron.dsl.op import Op

OPS = loads(
    """\
op total[M, N](X: f32[M, N]) -> (Y: f32[M]):
    Y[m] = sum(n) X[m, n]

op gemm[M, N, K](A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]):
    C[m, n] = sum(k) A[m, k] * B[k, n]

op scaled[M, N](X: f32[M, N]) -> (Y: f32[M, N]):
    s[m] = sum(n) X[m, n]
    Y[m, n] = X[m, n] / s[m]

op masked[M, N](X: f32[M, N]) -> (Y: f32[M]):
    x[m, n] = where(n >= 3*m, X[m, n], -inf)
    a[m] = max(n) x[m, n]
    Y[m] = sum(n) exp(x[m, n] - a[m])
"""
).ops

CPU_SPLIT = """\
program total(M, N) on cpu:avx2
finite core: cores
input X: f32[M, N] in dram of socket strides (N, 1) size M*N
output Y: f32[M] in dram of socket strides (1) size M
workspace parts: f32[max(1, (N + 3)/4), M] in dram of socket strides (M, 1) size M*max(1, (N + 3)/4)

launch split over core core < cores:
    for tile in core .. max(1, (N + 3)/4) step cores:
        for m in 0 .. M:
            alloc y: f32[] in register of lane size 1:
                y[] = 0.0
                for n in 0 .. min(4, N - 4*tile):
                    y[] = y[] + X[m, n + 4*tile]
                parts[tile, m] = y[]

launch combined over core core < cores, lane lane < 8:
    for tile in core .. (M + 7)/8 step cores:
        alloc z: f32[] in register of lane size 1:
            z[] = 0.0
            for part in 0 .. max(1, (N + 3)/4):
                z[] = z[] + (parts[part, lane + 8*tile] if lane + 8*tile < M else 0.0)
            if lane + 8*tile < M:
                Y[lane + 8*tile] = z[]
"""
CPU_ATOMIC = """\
program total(M, N) on cpu:avx2
finite core: cores
input X: f32[M, N] in dram of socket strides (N, 1) size M*N
output Y: f32[M] in dram of socket strides (1) size M

launch first over core core < cores:
    for m in core .. M step cores:
        Y[m] = 0.0

launch split over core core < cores:
    for tile in core .. max(1, (N + 3)/4) step cores:
        for m in 0 .. M:
            alloc y: f32[] in register of lane size 1:
                y[] = 0.0
                for n in 0 .. min(4, N - 4*tile):
                    y[] = y[] + X[m, n + 4*tile]
                Y[m] atomic sum= y[]
"""
CPU_STAGED = """\
program gemm(M, N, K) on cpu:avx2
finite core: cores
input A: f32[M, K] in dram of socket strides (K, 1) size K*M
input B: f32[K, N] in dram of socket strides (N, 1) size K*N
output C: f32[M, N] in dram of socket strides (N, 1) size M*N

launch gemm_C over core core < cores, lane lane < 8:
    for n in 0 .. (N + 7)/8:
        for k in 0 .. max(1, (K + 3)/4):
            alloc b_l3: f32[4, 8] in l3 of socket strides (8, 1) size 32:
                barrier socket  # before b_l3 is written anew
                for row in core .. min(4, K - 4*k) step cores:
                    b_l3[row, lane] = (B[4*k + row, lane + 8*n] if lane + 8*n < N else 0.0)
                barrier socket  # after b_l3 is written
                for m in core .. M step cores:
                    alloc c: f32[] in register of lane size 1:
                        if k == 0:
                            c[] = 0.0
                        else:
                            c[] = (C[m, lane + 8*n] if lane + 8*n < N else 0.0)
                        for k3 in 0 .. min(4, K - 4*k):
                            c[] = fma(A[m, 4*k + k3], b_l3[k3, lane], c[])
                        if lane + 8*n < N:
                            C[m, lane + 8*n] = c[]
"""
GPU_ATOMIC = """\
program total(M, N) on gfx90a
finite grid: grids
input X: f32[M, N] in global of grid strides (N, 1) size M*N
output Y: f32[M] in global of grid strides (1) size M

launch first over block block < (M + 63)/64, wave wave < 1, thread thread < 64:
    if 64*block + thread < M:
        Y[64*block + thread] = 0.0

launch split over block block < max(1, (N + 63)/64), wave wave < 1, thread thread < 64:
    for m in 0 .. M:
        alloc y: f32[] in register of thread size 1:
            y[] = 0.0
            y[] = y[] + (X[m, 64*block + thread] if 64*block + thread < N else 0.0)
            allreduce sum y[] over thread / 1 % 64
            if thread == 0:
                Y[m] atomic sum= y[]
"""
GPU_STAGED = """\
program gemm(M, N, K) on sm_80
finite grid: grids
input A: f32[M, K] in global of grid strides (K, 1) size K*M
input B: f32[K, N] in global of grid strides (N, 1) size K*N
output C: f32[M, N] in global of grid strides (N, 1) size M*N

launch gemm_C over block block < ((M + 7)/8)*((N + 7)/8), warp warp < 2, thread thread < 32:
    let m1 < (M + 7)/8 = block/((N + 7)/8)
    let n1 < (N + 7)/8 = block % ((N + 7)/8)
    alloc c: f32[] in register of thread size 1:
        let m: 0.. < 8 = 4*warp + thread/8
        let n < 8 = thread % 8
        c[] = 0.0
        for k1 in 0 .. (K + 3)/4:
            alloc a_shared: f32[8, 4] in shared of block strides (4, 1) size 32:
                alloc b_shared: f32[4, 8] in shared of block strides (8, 1) size 32:
                    barrier block  # before the next tiles
                    if thread + 32*warp <= 31:
                        let e < 32 = thread + 32*warp
                        a_shared[e/4, e % 4] = (A[8*m1 + e/4, 4*k1 + e % 4] if 8*m1 + e/4 < M and 4*k1 + e % 4 < K else 0.0)
                        b_shared[e/8, e % 8] = (B[4*k1 + e/8, 8*n1 + e % 8] if 4*k1 + e/8 < K and 8*n1 + e % 8 < N else 0.0)
                    barrier block  # after the tiles are written
                    for k in 0 .. 4 unroll:
                        c[] = fma(a_shared[m, k], b_shared[k, n], c[])
        if 8*m1 + m < M and 8*n1 + n < N:
            C[8*m1 + m, 8*n1 + n] = c[]
"""
GPU_SCALED = """\
program scaled(M, N) on sm_80
finite grid: grids
input X: f32[M, N] in global of grid strides (N, 1) size M*N
output Y: f32[M, N] in global of grid strides (N, 1) size M*N

launch scaled_Y over block block < M, warp warp < 2, thread thread < 32:
    let n < 64 = thread + 32*warp
    alloc s: f32[] in register of thread size 1:
        s[] = 0.0
        for n1 in 0 .. (N + 63)/64:
            s[] = s[] + (X[block, 64*n1 + n] if 64*n1 + n < N else 0.0)
        allreduce sum s[] over thread / 1 % 32
        alloc parts: f32[2] in shared of block strides (1) size 2:
            if thread == 0:
                parts[warp] = s[]
            barrier block  # after the parts are written
            s[] = 0.0
            for part in 0 .. 2:
                s[] = s[] + parts[part]
        for n2 in 0 .. (N + 63)/64:
            if 64*n2 + n < N:
                Y[block, 64*n2 + n] = X[block, 64*n2 + n] / s[]
"""
CPU_SCALED = """\
program scaled(M, N) on cpu:avx2
finite core: cores
input X: f32[M, N] in dram of socket strides (N, 1) size M*N
output Y: f32[M, N] in dram of socket strides (N, 1) size M*N
workspace s: f32[M] in dram of socket strides (1) size M

launch scaled_Y over core core < cores:
    for m in core .. M step cores:
        alloc t: f32[] in register of lane size 1:
            t[] = 0.0
            for n in 0 .. N:
                t[] = t[] + X[m, n]
            s[m] = t[]
    barrier socket  # after s is written
    for n in core .. N step cores:
        for m in 0 .. M:
            Y[m, n] = X[m, n] / s[m]
"""
# In parts, with running values (`online`). No element of some rows counts: they are no numbers.
CPU_MASKED = """\
program masked(M, N) on cpu:avx2
finite core: cores
input X: f32[M, N] in dram of socket strides (N, 1) size M*N
output Y: f32[M] in dram of socket strides (1) size M
workspace a_parts: f32[max(1, (N + 3)/4), M] in dram of socket strides (M, 1) size M*max(1, (N + 3)/4)
workspace b_parts: f32[max(1, (N + 3)/4), M] in dram of socket strides (M, 1) size M*max(1, (N + 3)/4)

launch split over core core < cores:
    for tile in core .. max(1, (N + 3)/4) step cores:
        for m in 0 .. M:
            alloc a: f32[] in register of lane size 1:
                alloc b: f32[] in register of lane size 1:
                    alloc x: f32[] in register of lane size 1:
                        alloc before: f32[] in register of lane size 1:
                            alloc now: f32[] in register of lane size 1:
                                a[] = -inf
                                b[] = 0.0
                                for n in 0 .. min(4, N - 4*tile):
                                    x[] = where(i64<4*tile + n> >= i64<3*m>, X[m, 4*tile + n], -inf)
                                    before[] = a[]
                                    a[] = max(a[], x[])
                                    now[] = where(a[] == -inf, 0.0, a[])
                                    b[] = b[] * exp(before[] - now[])
                                    b[] = b[] + exp(x[] - now[])
                                a_parts[tile, m] = a[]
                                b_parts[tile, m] = b[]

launch combined over core core < cores:
    for m in core .. M step cores:
        alloc a: f32[] in register of lane size 1:
            alloc b: f32[] in register of lane size 1:
                a[] = -inf
                for part in 0 .. max(1, (N + 3)/4):
                    a[] = max(a[], a_parts[part, m])
                b[] = 0.0
                for part in 0 .. max(1, (N + 3)/4):
                    b[] = fma(b_parts[part, m], exp(a_parts[part, m] - where(a[] == -inf, 0.0, a[])), b[])
                Y[m] = (where(a[] == -inf, nan, b[]) if N >= 1 else b[])
"""
PROGRAMS = {
    "cpu split": CPU_SPLIT, "cpu atomic": CPU_ATOMIC, "cpu staged": CPU_STAGED, "cpu scaled": CPU_SCALED,
    "gpu atomic": GPU_ATOMIC, "gpu staged": GPU_STAGED, "gpu scaled": GPU_SCALED,
    "cpu masked": CPU_MASKED,
}  # fmt: skip
SIZES = {
    "cpu": {
        "total": {"M": 9, "N": 14},
        "gemm": {"M": 4, "N": 9, "K": 6},
        "scaled": {"M": 4, "N": 5},
        "masked": {"M": 4, "N": 9},
    },
    "gpu": {"total": {"M": 3, "N": 75}, "gemm": {"M": 9, "N": 11, "K": 6}, "scaled": {"M": 2, "N": 75}},
}


def read(text: str) -> tuple[Op, Program]:
    program = parse(text, lambda name: std_device(name))  # type: ignore[arg-type,return-value]
    return OPS[program.name], program


def replaced(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1, f"{text.count(old)} times: {old}"
    return text.replace(old, new)


def line_of(text: str, start: str) -> str:
    (line,) = [x for x in text.splitlines(keepends=True) if x.strip().startswith(start)]
    return line


def without(text: str, start: str) -> str:
    """Without the line that begins so."""
    return text.replace(line_of(text, start), "")


def twice(text: str, start: str) -> str:
    return text.replace(line_of(text, start), 2 * line_of(text, start))


def before(text: str, start: str, other: str) -> str:
    """The line that begins so in front of another, at its depth."""
    there = line_of(text, other)
    depth = " " * (len(there) - len(there.lstrip()))
    return without(text, start).replace(there, f"{depth}{line_of(text, start).lstrip()}{there}")


def launches_turned(text: str) -> str:
    head, first, second = re.split(r"^(?=launch )", text, flags=re.MULTILINE)
    return f"{head}{second.rstrip()}\n\n{first.rstrip()}\n"


def readers_first(text: str) -> str:
    """Of a launch of two loops, the second one first; the barrier stays between them."""
    head, first, barrier, second = re.split(r"^(?=    (?:for|barrier))", text, flags=re.MULTILINE)
    return head + second + barrier + first


ONCE = {"not-once"}
EARLY = {"uninitialised", "not-once"}
NEVER = {"never-written", "not-once"}
PARTS_OF_B = "b[] = 0.0\n                for part in 0 .. max(1, (N + 3)/4)"
Mutation = tuple[str, Callable[[str], str], set[str]]
MUTATIONS: dict[str, list[Mutation]] = {
    "a lost barrier": [
        ("cpu staged", lambda t: without(t, "barrier socket  # after"), {"race"}),
        ("cpu staged", lambda t: without(t, "barrier socket  # before"), {"race"}),
        ("cpu scaled", lambda t: without(t, "barrier socket"), {"race"}),
        ("gpu staged", lambda t: without(t, "barrier block  # after"), {"race"}),
        ("gpu staged", lambda t: without(t, "barrier block  # before"), {"race"}),
        ("gpu scaled", lambda t: without(t, "barrier block"), {"race"}),
    ],
    "a barrier of too few": [
        ("cpu scaled", lambda t: replaced(t, "barrier socket", "barrier core"), {"race"}),
        ("gpu scaled", lambda t: replaced(t, "barrier block", "barrier warp"), {"race"}),
    ],
    "a barrier of those that cannot meet": [
        ("gpu scaled", lambda t: replaced(t, "barrier block", "barrier grid"), {"malformed"}),
    ],
    "a lost atomic": [
        ("cpu atomic", lambda t: replaced(t, "atomic sum= y[]", "= Y[m] + y[]"), {"race"} | ONCE),
        ("gpu atomic", lambda t: replaced(t, "atomic sum= y[]", "= Y[m] + y[]"), {"race"} | ONCE),
    ],
    "a doubled atomic": [
        ("cpu atomic", lambda t: twice(t, "Y[m] atomic"), ONCE),
        ("gpu atomic", lambda t: twice(t, "Y[m] atomic"), ONCE),
    ],
    "an atomic by two units": [
        ("gpu atomic", lambda t: replaced(t, "thread == 0", "thread <= 1"), ONCE),
    ],
    "a copy that lacks an element": [
        ("cpu staged", lambda t: replaced(t, "min(4, K - 4*k) step", "min(3, K - 4*k) step"), EARLY),
        ("cpu staged", lambda t: replaced(t, "row, lane + 8*n] if lane +", "row, lane + 8*n] if 1 + lane +"), ONCE),
        ("gpu staged", lambda t: replaced(t, "<= 31", "<= 30"), EARLY),
        ("gpu staged", lambda t: replaced(t, "4*k1 + e % 4 < K", "4*k1 + e % 4 + 1 < K"), ONCE),
    ],
    "a combination before all parts": [
        ("cpu split", launches_turned, EARLY),
        ("cpu split", lambda t: replaced(t, "for part in 0 .. max(1, (N + 3)/4)", "for part in 0 .. max(1, N/4)"), ONCE),
        ("gpu scaled", lambda t: before(t, "allreduce", "for n1"), ONCE),
        ("gpu scaled", lambda t: replaced(t, "for part in 0 .. 2", "for part in 0 .. 1"), ONCE),
    ],
    "a combination that counts twice": [
        ("cpu split", lambda t: twice(t, "z[] = z[] +"), ONCE),
        ("gpu scaled", lambda t: twice(t, "allreduce"), ONCE),
        ("gpu scaled", lambda t: replaced(t, "  s[] = 0.0\n            for part", "  for part"), ONCE),
        ("gpu atomic", lambda t: twice(t, "allreduce"), ONCE),
    ],
    "a reader before the combination": [
        ("cpu scaled", readers_first, EARLY),
        ("gpu scaled", lambda t: without(t, "allreduce"), ONCE),
        ("gpu scaled", lambda t: before(t, "allreduce", "for n2"), ONCE),
    ],
    "a guard off by one": [
        ("cpu split", lambda t: replaced(t, "  if lane + 8*tile < M", "  if lane + 8*tile + 1 < M"), NEVER),
        ("cpu split", lambda t: replaced(t, "  if lane + 8*tile < M", "  if lane + 8*tile <= M"), {"out-of-bounds"}),
        ("cpu split", lambda t: replaced(t, "min(4, N - 4*tile)", "min(4, N - 4*tile + 1)"), {"out-of-bounds"}),
        ("cpu staged", lambda t: replaced(t, "if k == 0", "if k <= 1"), ONCE),
        ("gpu staged", lambda t: replaced(t, "if 8*m1 + m < M and", "if 8*m1 + m <= M and"), {"out-of-bounds"}),
        ("gpu staged", lambda t: replaced(t, "if 8*m1 + m < M and", "if 8*m1 + m + 1 < M and"), NEVER),
        ("gpu atomic", lambda t: replaced(t, "if 64*block + thread < N", "if 64*block + thread + 1 < N"), ONCE),
    ],
    "a unit that computes another's point": [
        ("cpu split", lambda t: replaced(t, "X[m, n + 4*tile]", "X[m, n + 4*core]"), ONCE),
        ("cpu atomic", lambda t: replaced(t, "core .. max(1, (N + 3)/4) step cores", "0 .. (N + 3)/4"), ONCE),
        ("cpu scaled", lambda t: replaced(t, "for n in core .. N step cores", "for n in 0 .. N"), {"race"}),
        ("gpu scaled", lambda t: replaced(t, "(X[block, 64*n1 + n]", "(X[block, 64*n1 + n / 2]"), ONCE),
        ("gpu staged", lambda t: replaced(t, "n1 + n] = c[]", "n1 + (n + 1) % 8] = c[]"), {"never-written", "out-of-bounds"}),
    ],
    "a lost initialisation": [
        ("cpu split", lambda t: without(t, "y[] = 0.0"), EARLY),
        ("cpu split", lambda t: without(t, "z[] = 0.0"), EARLY),
        ("cpu atomic", lambda t: replaced(t, "Y[m] = 0.0", "Y[m] = 1.0"), ONCE),
        ("cpu atomic", lambda t: replaced(t, "core .. M step", "core .. M - 1 step"), {"never-written", *EARLY}),
        ("gpu staged", lambda t: without(t, "c[] = 0.0"), EARLY),
        ("gpu atomic", lambda t: replaced(t, "thread < M", "thread + 1 < M"), {"never-written", *EARLY}),
    ],
    "a lost correction": [
        ("cpu masked", lambda t: without(t, "b[] = b[] *"), ONCE),
        ("cpu masked", lambda t: replaced(t, "exp(before[] - now[])", "exp(now[] - before[])"), ONCE),
        ("cpu masked", lambda t: replaced(t, "exp(a_parts[part, m] - where(a[] == -inf, 0.0, a[]))", "1.0"), ONCE),
    ],
    "a lost part of a pass": [
        ("cpu masked", lambda t: replaced(t, PARTS_OF_B, PARTS_OF_B.replace("0 ..", "1 ..")), ONCE),
        ("cpu masked", lambda t: replaced(t, PARTS_OF_B, PARTS_OF_B.replace("N + 3", "N")), ONCE),
        ("cpu masked", lambda t: replaced(t, "X[m, 4*tile + n], -inf)", "-inf, -inf)"), ONCE),
    ],
    "a part of a pass that counts twice": [
        ("cpu masked", lambda t: twice(t, "b[] = fma("), ONCE),
        ("cpu masked", lambda t: twice(t, "a[] = max(a[], a_parts"), ONCE),
        ("cpu masked", lambda t: twice(t, "b[] = b[] + exp"), ONCE),
    ],
    "a row in which nothing counts, that gets a number": [
        ("cpu masked", lambda t: replaced(t, "(where(a[] == -inf, nan, b[]) if N >= 1 else b[])", "b[]"), ONCE),
    ],
}  # fmt: skip
CASES = [(name, *m) for name, all_of in MUTATIONS.items() for m in all_of]
