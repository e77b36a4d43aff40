"""What a launch makes and others read: units, nests and launches that read it see it, at the elements that they ask for.

Each schedule is interpreted with all checks at several sizes, 0 and 1 among them, and compared with a NumPy formula; inputs are
small integers, so every sum is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.pipeline import compile_program
from andiron.codegen.verify import check_once
from andiron.dsl.errors import UserError
from andiron.dsl.module import loads

from ....support.interpreted import written
from ....support.rotation import LONG


@dataclass(frozen=True)
class Op:
    """An op `f`, what it computes of its inputs, and the bounds under which schedules take it."""

    text: str
    formula: Callable[..., tuple[np.ndarray, ...]]
    where: str = ""


def op(lines: str, formula: Callable[..., tuple[np.ndarray, ...]], where: str = "") -> Op:
    head, *body = lines.split(" / ")
    return Op(f"op f{head}:\n" + "".join(f"    {x}\n" for x in body), formula, where)


SCALED = op(
    "[M, K](A: f32[K], C: f32[M, M]) -> (t1: f32[M, M]) / t0 = sum(k) A[k] / t1[i, j] = C[i, j] + t0",
    lambda a, c: (c + a.sum(),),
)
TOTAL = op(
    "[M](A: f32[M]) -> (t2: f32[], t3: f32[M, M]) / t0 = sum(m) A[m] / t2 = sum(m) (t0 + A[m]) / t3[m2, m] = t0",
    lambda a: (np.sum(a.sum() + a), np.full((len(a), len(a)), a.sum())),
    "M <= 64",
)
COLUMNS = op(
    "[M](A: f32[M], C: f32[M, M]) -> (t1: f32[M]) / t0[m] = A[m] / t1[m2] = (sum(m) C[m, m2]) * t0[m2]",
    lambda a, c: (c.sum(0) * a,),
    "M <= 64",
)
TWO_SUMS = op(
    "[M](B: f32[M, M]) -> (t1: f32[M]) / t1[m] = (sum(m2) B[m, m2]) - (sum(m2) B[m2, m])",
    lambda b: (b.sum(1) - b.sum(0),),
    "M <= 64",
)
SHIFTED = op(
    "[N](A: f32[], B: f32[N]) -> (t1: f32[]) / t0 = A / t1 = t0 - (sum(n) B[n])",
    lambda a, b: (a - b.sum(),),
)
RAISED = op(
    "[M, K](A: f32[M], B: f32[M, K]) -> (t1: f32[M]) / t0[m] = A[m] * 2 / t1[m] = (sum(k) B[m, k]) + t0[m]",
    lambda a, b: (b.sum(1) + 2 * a,),
)
WHOLE_LESS = op(
    "[M, N](A: f32[M], B: f32[N]) -> (t1: f32[]) / t0 = sum(m) A[m] / t1 = t0 * t0 - (sum(n) B[n])",
    lambda a, b: (a.sum() * a.sum() - b.sum(),),
)
READ_TWICE = op(
    "[M](A: f32[M]) -> (t1: f32[M, M], t2: f32[]) / t0[m] = A[m] + 1 / t1[m2, m] = t0[m2] / t2 = sum(h) t0[h]",
    lambda a: (np.repeat(a[:, None] + 1, len(a), 1), (a + 1).sum()),
    "M <= 16",
)
DIAGONAL = op(
    "[N, L](A: f32[N], B: f32[L, L]) -> (t1: f32[]) / t0[l, l2, n] = B[l, l2] - A[n] / t1 = sum(l, n) t0[l, l, n]",
    lambda a, b: ((np.diagonal(b)[:, None] - a).sum(),),
    "N <= 33, L <= 16",
)
ELSE = op(
    "[M, N](B: f32[N, N, M]) -> (t8: f32[M]) / t1[n2, n, m] = B[n, n2, m] / t8[m] = t1[m, m, m else 0]",
    lambda b: (np.array([b[m, m, m] if m < b.shape[0] else 0 for m in range(b.shape[2])], np.float32),),
    "M <= 16, N <= 16",
)
NEIGHBOUR = op(
    "[M](A: f32[M]) -> (t1: f32[M]) / t0[m] = A[m] * 2 / t1[m] = t0[m + 1 else 5] - t0[m - 1 else 7]",
    lambda a: (np.append(2 * a, 5)[1:] - np.append(7, 2 * a)[:-1] if len(a) else a,),
    "M <= 64",
)
SCALES = op(
    "[M, N, K](A: f32[M, N], B: f32[N, K]) -> (t1: f32[M, N]) / t0[n] = sum(k) B[n, k] / t1[m, n] = A[m, n] * t0[n]",
    lambda a, b: (a * b.sum(1),),
)
FOLDED = op(
    "[N, M](A: f32[N, M]) -> (t2: f32[M], t3: f32[N]) / t0[g, a] = A[a, g] / t2[m] = sum(n) A[n, m] / t3[n] = sum(m) t0[m, n]",
    lambda a: (a.sum(0), a.sum(1)),
)
LATE = op(
    "[M](A: f32[M, M]) -> (t0: f32[M, M], t1: f32[M]) / t0[i, j] = A[i, j] * 2 / t1[i] = sum(j) t0[i, j]",
    lambda a: (2 * a, 2 * a.sum(1)),
    "M <= 64",
)
BESIDES = op(
    "[K, M](A: f32[K], B: f32[M, M]) -> (u: f32[], t: f32[M, M]) / s = sum(k) A[k] / u = s * 2 / t[m, n] = s + B[m, n]",
    lambda a, b: (2 * a.sum(), a.sum() + b),
    "M <= 40",
)
SUMS_LATER = op(
    "[M, N](A: f32[M, N], B: f32[N]) -> (t0: f32[N], t1: f32[M, N])"
    " / t0[n] = (sum(h) (A[h, n] + B[n])) + 1 / t1[m, n] = t0[n] + B[n]",
    lambda a, b: (a.sum(0) + len(a) * b + 1, np.repeat([a.sum(0) + len(a) * b + 1 + b], len(a), 0)),
    "M <= 40, N <= 40",
)
TWICE = op(
    "[N](B: f32[N]) -> (t1: f32[N, N]) / t0 = sum(k) B[k] / t1[n, n2] = t0 * 2",
    lambda b: (np.full((len(b), len(b)), 2 * b.sum()),),
    "N <= 40",
)
ROW_SUMS = op(
    "[M, N](A: f32[M, N], C: f32[M]) -> (t1: f32[N]) / t0[m] = sum(k) A[m, k] * C[m] / t1[n] = sum(h) t0[h]",
    lambda a, c: (np.full(a.shape[1], (a * c[:, None]).sum()),),
    "M <= 40, N <= 16",
)
SHARING = op(
    "[M, N](A: f32[M, N], B: f32[N], S: f32[]) -> (t2: f32[N]) / t0[m] = (sum(k) A[m, k]) * 2 / t1[m] = t0[m] + S"
    " / t2[n] = sum(h) (t1[h] + B[n])",
    lambda a, b, s: ((2 * a.sum(1) + s).sum() + b * a.shape[0],),
    "M <= 16, N <= 16",
)
MAXIMA = op(
    "[M, K](A: f32[K], B: f32[M, K]) -> (t1: f32[M]) / t0[n] = A[n] * 2 / t1[m] = max(k) (B[m, k] + t0[k - 1 else 0])",
    lambda a, b: ((b + np.append(0, 2 * a)[:-1]).max(1, initial=-np.inf),),
    "K <= 64",
)
CHAIN = op(
    "[M, N](A: f32[M, N], C: f32[M]) -> (t1: f32[M], t3: f32[N]) / t0[n] = sum(h) (C[h] - A[h, n])"
    " / t1[m] = (sum(k) (t0[k] - A[m, k])) + 1 / t2[m] = sum(k) (t0[k] * t1[m]) / t3[n] = (sum(h) (t2[h] - t0[n])) + 1",
    lambda a, c: chained(a, c),
    "M <= 16, N <= 16",
)
MIRRORED = op(
    "[M](A: f32[M]) -> (t2: f32[M]) / t0[m] = A[m] * 2 / t1[m] = t0[m] + t0[M - 1 - m] / t2[m] = t1[m] + t0[M - 1 - m]",
    lambda a: (2 * a + 4 * a[::-1],),
    "M <= 64",
)


def chained(a: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    t0 = c.sum() - a.sum(0)
    t1 = (t0 - a).sum(1) + 1
    t2 = t0.sum() * t1
    return t1, t2.sum() - len(c) * t0 + 1


CPUS, GPUS = ("cpu:generic", "cpu:avx2", "cpu:avx512"), ("sm_80", "sm_90a", "gfx90a", "gfx1100")
RIGHT: dict[str, tuple[Op, str, tuple[str, ...]]] = {
    # each block makes what its lines keep; nothing passes from block to block
    "made by each block": (SCALED, "tile j: 1 -> block / keep t0", GPUS),
    "made by each block, in two lines": (SCALED, "tile i: 2, j: 2 -> block / keep t0 in shared / tile j: 1 -> thread", GPUS),
    "made once for all cores": (SCALED, "tile j: 1 -> core / keep t0", CPUS),
    # parts of one reduction are no tiles of what is not split
    "one is split, the other not": (TOTAL, "tile m: 2 / keep t0 / tile m: 1 -> warp by workspace", ("sm_80", "sm_90a")),
    "one is split, the other not, waves": (
        TOTAL,
        "tile m: 2 / keep t0 / tile m: 1 -> wave by workspace",
        ("gfx90a", "gfx1100"),
    ),
    # a write-back reads what is kept at or above the line of its accumulator
    "two kept by one line": (COLUMNS, "keep t1.sum1, t0", (*CPUS, *GPUS)),
    "kept by the next line": (COLUMNS, "keep t1.sum1 / keep t0", (*CPUS, *GPUS)),
    "kept below its loop": (COLUMNS, "tile m.2: 4 / keep t0", (*CPUS, "sm_80")),
    "a result and one of its sums": (TWO_SUMS, "keep t1, t1.sum1", (*CPUS, *GPUS)),
    # the launch that combines parts reads what the launch of the parts keeps
    "read by the launch after": (SHIFTED, "keep t0 / tile n: 4 -> block", GPUS),
    "read by the launch after, made by blocks with other parts": (
        RAISED,
        "tile k: 2, m: 4 -> block by atomic / keep t0 in shared",
        GPUS,
    ),
    "a sum, read by the launch after": (WHOLE_LESS, "keep t0 / tile n: 4 -> block", GPUS),
    "a sum, read by the launch after, cores": (WHOLE_LESS, "keep t0 / tile n: 4 -> core by workspace", CPUS),
    # nests one after another make it each for itself
    "moved, read by two nests": (READ_TWICE, "tile m.2: 1 -> block / move t0 -> shared", GPUS),
    "kept, read by two nests": (READ_TWICE, "tile m.2: 1 -> block / keep t0", GPUS),
    "moved, read by two nests, cores": (READ_TWICE, "tile m.2: 1 -> core / move t0 -> l2", CPUS),
    # readers say which elements they read, and what is there instead
    "on the diagonal": (DIAGONAL, "tile n: 5 / move t0 -> l3 / tile l2: 2 -> lane / compute", CPUS),
    "on the diagonal, kept": (DIAGONAL, "tile n: 5 / keep t0 in l3 / tile l2: 2 -> lane", CPUS),
    "outside, in a block": (ELSE, "keep t1 in l3: / > compute", CPUS),
    "outside": (ELSE, "keep t1 in l3", CPUS),
    "outside, moved": (ELSE, "tile m: 4 / move t1 -> l3", CPUS),
    "neighbours": (NEIGHBOUR, "move t0 -> l3 / tile m: 4 / tile m: 1 -> lane", CPUS),
    "neighbours, kept": (NEIGHBOUR, "keep t0 in l3 / tile m: 4 / tile m: 1 -> lane", CPUS),
    # a line that deals out an index that is not there, then one for an index that is
    "onto cores twice": (SCALES, "tile m: 1 -> core / tile n: 1 -> core / keep t0", CPUS),
    "onto cores twice, of two launches": (FOLDED, "tile a: 1 / keep t3 / tile m: 1 -> core / tile g: 1 -> core", CPUS),
    "onto cores, of which one lacks an index": (ROW_SUMS, "keep t0 / tile n: 1, k: 4 -> core / tile m: 4", CPUS),
    # idle units make in registers what all make: they read it later
    "idle in one nest, not in the next": (
        TWICE,
        "tile n2: 8 -> block / keep t0 / tile n2: 1 -> warp / tile k: 2, n: 2 -> thread",
        ("sm_80", "sm_90a"),
    ),
    "idle in one nest, which stores to memory too": (BESIDES, "keep s / tile m: 1, n: 1 -> thread", GPUS),
    "threads get tiles of another launch": (SUMS_LATER, "keep t0.sum1 / tile m: 4 -> thread / tile h: 2, n: 1", GPUS),
    "more units in the next nest": (ROW_SUMS, "keep t0 / tile n: 1, k: 3 -> warp / tile n: 1", ("sm_80", "sm_90a")),
    "more units in the next nest, waves": (ROW_SUMS, "keep t0 / tile n: 1, k: 3 -> wave / tile n: 1", ("gfx90a", "gfx1100")),
    # a result is read when its accumulator is closed; what is made again reads what was stored for it
    "read by what is made again": (
        SHARING,
        "tile n: 4, m: 1 / keep t0.sum1 in l3: / > compute / keep t0 / tile n: 1, k: 1",
        CPUS,
    ),
    "kept, and read by the next": (CHAIN, "keep t1.sum1 / keep t0 in l3 / keep t3.sum1 in register", CPUS),
    # kept twice, with a loop over the sum between: each memory that has the result has an accumulator that goes on
    "kept twice, an accumulator for all cores": (
        ROW_SUMS,
        "keep t0 / tile m: 1 / tile k: 2 / keep t0 in l3 / tile n: 2 -> core",
        CPUS,
    ),
    "kept twice, units have parts": (
        SCALES,
        "tile n: 4 -> block / keep t0 in shared / tile k: 8 / keep t0 in register / tile n: 1, k: 2 -> thread",
        GPUS,
    ),
    "kept twice, a tile of a tile": (
        SCALED,
        "tile j: 4 -> block / keep t0 in shared / tile k: 8 / keep t0 in register",
        GPUS,
    ),
    "kept in a block, a tile of a tile": (
        SCALES,
        "tile n: 4, m: 4 -> block / keep t0 in shared: / > tile k: 8 / > keep t0 in register / tile m: 1 -> thread",
        GPUS,
    ),
    # each is kept in a nest of its own, where the line of the other one has nothing to do
    "kept, in nests one after another": (MIRRORED, "tile m: 4 / keep t0 in register / keep t1 in register", CPUS),
    # what is kept is an output too
    "an output, kept": (LATE, "tile i: 1 -> core / keep t0 in l1 / tile j: 8", CPUS),
    "an output, kept, blocks": (LATE, "tile i: 1 -> block / keep t0 in shared / tile j: 8 -> thread", GPUS),
    "an output of fused indices": (LATE, "fuse i, j as e / tile e: 4 -> lane", CPUS),
}


def program_of(f: Op, lines: str, device: str):
    module = loads(f"{f.text}\nschedule s for f{f.where and ' where ' + f.where}:\n{written(lines)}")
    return module.ops["f"], compile_program(module, module.ops["f"], module.schedules["s"], module.device(device)).program


def inputs_of(f, sizes: dict[str, int]) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    return {t.name: rng.integers(-4, 5, [e.evaluate(sizes) for e in t.shape]).astype(np.float32) for t in f.inputs}


# each on one of its devices, in turn; with `FUZZ=N` on all
ON_DEVICES = [(n, d) for at, (n, (*_, all_)) in enumerate(RIGHT.items()) for d in (all_ if LONG else [all_[at % len(all_)]])]


@pytest.mark.parametrize(("name", "device"), ON_DEVICES)
def test_right(name: str, device: str) -> None:
    f, lines, _ = RIGHT[name]
    found, program = program_of(f, lines, device)
    for n in (0, 1, 3, 13):
        sizes = {v.name: n + at for at, v in enumerate(program.dims)}
        arrays, units = inputs_of(found, sizes), {level: 3 for level, _ in program.finite}
        got = interpret(program, arrays, sizes, units)
        want = f.formula(*arrays.values())
        assert len(want) == len(got)
        for t, y in zip(got, want, strict=True):
            np.testing.assert_array_equal(got[t], y, err_msg=f"{t}, {sizes}")
        check_once(program, found, sizes, units)


REFUSED = {
    "registers hold a unit's own": (ELSE, "keep t1 in register", "cpu:avx2", "schedule-register-owner"),
    "registers hold no neighbours": (NEIGHBOUR, "keep t0 / tile m: 4 -> core", "cpu:avx2", "schedule-register-owner"),
    "moved before it is made": (
        READ_TWICE,
        "tile m: 1 -> core / keep t0 in l1 / move t0 -> l2",
        "cpu:avx2",
        "schedule-held-twice",
    ),
    "kept below what reads it at its end": (
        COLUMNS,
        "keep t1.sum1 / tile m: 2 / keep t0",
        "cpu:avx2",
        "schedule-not-computed",
    ),
    "held where its parts are made": (
        SHIFTED,
        "move t0 -> shared / tile n: 4 -> block",
        "sm_80",
        "schedule-move-distributed",
    ),
    "rounded where an instruction leaves more": (
        op("[M](C: f32[M, M]) -> (Y: i8[M, M]) / Y[i, j] = i32(C[i, j])", lambda c: (c.astype(np.int8),), "M <= 1"),
        "keep Y / compute with ldmatrix",
        "sm_90a",
        "schedule-instruction-mismatch",
    ),
    "made by one block, read by all at a leaf": (
        MAXIMA,
        "tile k: 5 -> block / tile k: 6 -> warp / move t0 -> shared",
        "sm_80",
        "schedule-cannot-meet",
    ),
    "made by one block, in a loop": (SCALED, "tile j: 1 -> block / tile i: 2 / keep t0", "sm_80", "schedule-cannot-meet"),
    "kept twice, and one block goes on": (
        SCALED,
        "keep t0 in register / tile j: 1 -> block / tile k: 1 / keep t0 in shared",
        "sm_80",
        "schedule-cannot-meet",
    ),
    "kept twice, and one core goes on": (
        SCALES,
        "tile n: 4 / keep t0 in register / tile m: 1 -> core / tile k: 1 / keep t0 in l1",
        "cpu:avx2",
        "schedule-cannot-meet",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    f, lines, device, id = REFUSED[name]
    with pytest.raises(UserError) as caught:
        program_of(f, lines, device)
    assert caught.value.id == id, str(caught.value)
    assert caught.value.span is not None


ALONE = """
device alone:
    level socket: open, siblings nothing
    level core: finite 3, siblings nothing
    level lane: shaped, siblings lockstep, at most 2 units, 16 bytes
    memory l3 of socket: 1 MiB
    memory register of lane: 32 x 8 B
"""


def test_cores_that_cannot_wait_share_no_copy() -> None:
    text = (
        "op f[M](A: f32[M]) -> (Y: f32[M]):\n    Y[m] = A[m]\nschedule s for f where M <= 8:\n    move A -> l3:\n        {}\n"
    )
    module = loads(text.format("tile m: 1 -> core") + ALONE)
    with pytest.raises(UserError) as caught:
        compile_program(module, module.ops["f"], module.schedules["s"], module.device("alone"))
    assert caught.value.id == "schedule-cannot-meet"
    module = loads(text.format("compute") + ALONE)  # one core does all
    program = compile_program(module, module.ops["f"], module.schedules["s"], module.device("alone")).program
    a = np.arange(5, dtype=np.float32)
    np.testing.assert_array_equal(interpret(program, {"A": a}, {"M": 5}, {"core": 3})["Y"], a)
