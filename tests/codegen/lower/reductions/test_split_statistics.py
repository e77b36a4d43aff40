"""Reductions that are split where what reads them stands in the same schedule, and where the schedule says little else."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.emit.printers import emit
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.pipeline import compile_program
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import specialise

from ....support.interpreted import GEMM, HIGHEST, ROWS, Formula, agrees, program_of
from ....support.rotation import LONG


def shifted(x: np.ndarray) -> np.ndarray:
    return x - x.max(1, keepdims=True, initial=-np.inf)


def spread(x: np.ndarray) -> np.ndarray:
    centred = x - x.sum(1, keepdims=True)
    return centred + (centred * centred).sum(1, keepdims=True)


# softmax and the normalisation of a layer, in integers: what is read where is the same
SOFTMAX = Formula(
    "op f[M, K](X: f32[M, K]) -> (Y: f32[M, K]):\n"
    "    top[m] = max(k) X[m, k]\n    e[m, k] = X[m, k] - top[m]\n"
    "    t[m] = sum(k) e[m, k]\n    Y[m, k] = 2 * e[m, k] + t[m]\n",
    lambda x: 2 * shifted(x) + shifted(x).sum(1, keepdims=True),
)
NORM = Formula(
    "op f[M, K](X: f32[M, K]) -> (Y: f32[M, K]):\n    mean[m] = sum(k) X[m, k]\n"
    "    v[m] = sum(k) (X[m, k] - mean[m]) * (X[m, k] - mean[m])\n    Y[m, k] = X[m, k] - mean[m] + v[m]\n",
    spread,
)
FORMULAS = {"softmax": SOFTMAX, "norm": NORM, "rows": ROWS, "highest": HIGHEST, "product": GEMM}
SIZES = ({"M": 3, "K": 37}, {"M": 2, "K": 16}, {"M": 1, "K": 1}, {"M": 0, "K": 3})

# (formulas, lines): on CPUs, on GPUs
CPU = [
    ("softmax norm", "tile k: 16 -> core by workspace"),
    ("softmax norm", "tile k: 16 -> core by atomic"),
    ("softmax norm", "tile k: 16 -> core"),
    ("softmax norm", "tile m: 1 -> core / tile k: 64 / tile k: 4 -> lane by workspace"),
    ("softmax norm", "tile k: 16 / tile k: 4 -> core by workspace"),
    ("softmax norm", "tile m: 4 / tile k: 4 / tile k: 3, m: 2 -> lane"),
    ("rows highest product", "tile m: 2 peel / tile k: 4 -> core by workspace"),
    ("rows highest product", "tile m: 2 peel / tile k: 4 -> core by atomic"),
    ("rows highest product", "tile k: 16 / tile k: 4 -> core by workspace"),
    ("product", "tile n: 2 peel / tile k: 4 -> core by workspace"),
]
GPU = [
    ("softmax norm", "tile k: 2 / tile k: 1 -> {warp} by shuffle"),
    ("softmax norm", "tile k: 32 / tile k: 1 -> {warp}"),
    ("softmax norm", "tile k: 64 / tile k: 1 -> thread"),
    ("softmax norm", "tile k: 16 -> block by workspace"),
    ("rows product", "tile k: 2 / tile k: 1 -> {warp} by shuffle"),
    ("rows product", "tile m: 2 peel / tile k: 4 -> block by workspace"),
    ("rows product", "tile m: 8 / tile m: 2 -> thread / tile m: 1 -> thread"),
]
DIALECTS = {"cpu": "cpp", "sm_": "cuda", "gfx": "hip"}


def of_devices(cases: list[tuple[str, str]], *devices: str) -> list[tuple[str, str, str]]:
    """Each formula's name with each line and device; `{warp}` is the level between a block and its threads."""
    return [
        (name, lines.replace("{warp}", "wave" if device.startswith("gfx") else "warp"), device)
        for names, lines in cases
        for name in names.split()
        for device in devices
    ]


# on one GPU each, in turn; with `FUZZ=N` on both
ON_GPUS = of_devices(GPU, "sm_80", "gfx90a")
CASES = [*of_devices(CPU, "cpu:generic"), *(ON_GPUS if LONG else [x for n, x in enumerate(ON_GPUS) if n % 3 == 0])]


@pytest.mark.parametrize(("name", "lines", "device"), CASES)
def test_right(name: str, lines: str, device: str) -> None:
    formula, more = FORMULAS[name], {"N": 5} if name == "product" else {}
    for sizes in ({}, SIZES[0]):
        fixed = {**more, **sizes} if sizes else {}
        program = program_of(formula, lines, device, fixed)
        emit(program, next(d for head, d in DIALECTS.items() if device.startswith(head)))
        for known in SIZES[: 1 if fixed else None]:
            agrees(formula, program, {**more, **known})


@pytest.mark.parametrize("lines", ["tile m: 5 -> block", "tile m: 5 every 10 -> block arrange u: m = u\ntile m: 16"])
def test_a_tensor_stored_beside_the_parts_of_a_reduction(lines: str) -> None:
    """The index that the one has is the reduced index of the other: each block stores its own elements."""
    lines = "\n".join(f"    {x}" for x in f"{lines}\nkeep B in register:\n    compute\nkeep a in auto\ncompute".split("\n"))
    module = loads(
        "op f[M](A: f32[M]) -> (B: f32[M], C: f32[M], D: bool[]):\n    a[m] = 2 * A[m]\n    B[m] = A[m] + a[m]\n"
        f"    C[m] = f32(3)\n    D = any(m) (a[m] > C[m])\n\nschedule s for f:\n{lines}\n"
    )
    op = specialise(module.ops["f"], {"M": 63})
    program = compile_program(module, op, module.schedules["s"], module.device("gfx90a")).program
    a = np.random.default_rng(0).integers(-9, 2, 63).astype("f4")
    got = interpret(program, {"A": a})
    np.testing.assert_array_equal(got["B"], 3 * a)
    np.testing.assert_array_equal(got["D"], np.any(2 * a > 3))


@pytest.mark.parametrize("how", ["atomic", "workspace"])
@pytest.mark.parametrize("m", [0, 1, 3, 8, 9, 21])
def test_each_part_reads_what_was_staged(how: str, m: int) -> None:
    """As many parts are made as a whole tile has, so all of it is filled: 0 times what was there may be NaN."""
    module = loads(
        "op dot[M](A: f32[M], B: f32[M]) -> (C: f32[]):\n    C = sum(c) A[c] * B[c]\n"
        f"schedule s for dot:\n    tile c: 8\n    move A -> l3\n    tile c: 3 -> core by {how}\n"
    )
    program = compile_program(module, module.ops["dot"], module.schedules["s"], module.device("cpu:avx512")).program
    a, b = np.random.default_rng(m).integers(-9, 9, (2, m)).astype("f4")
    np.testing.assert_array_equal(interpret(program, {"A": a, "B": b}, {"M": m}, {"core": 3})["C"], a @ b)
