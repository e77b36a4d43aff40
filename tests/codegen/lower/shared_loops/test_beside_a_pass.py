"""Reductions that read no result of a pass, in its loop: where it is split, also those whose write-back reads results."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.pipeline import compile_program
from andiron.codegen.verify import check_once
from andiron.dsl.errors.schedule import NotYet
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import specialise
from andiron.runtime.compile import compile

from ....support.programs.attention_rows import within_bounds

STATEMENTS = {
    "hit": "hit[i] = sum(j) where(j == T[i], X[i, j], 0)",
    "top": "top[i] = max(j) X[i, j]",
    "total": "total[i] = sum(j) exp(X[i, j] - top[i])",
    "low": "low[i] = min(j) X[i, j]",
}
ORDERS = ("hit top total", "top hit total", "top total hit", "low top total hit", "top low hit total")
CPU = """    tile i: 2 -> core
    tile j: 24 -> core online by workspace
    keep {} in register
    tile j: 8 online
    tile j: 1 -> lane
"""
GPU = """    tile i: 1 -> block
    tile j: 64 -> block online by workspace
    keep {} in register
    tile j: 32 online
    move X -> register
    tile j: 1 -> thread
"""
WHOLE = """    tile i: 2 -> core
    keep {} in register
    tile j: 8 online
    tile j: 1 -> lane
"""


def text_of(order: str, lines: str) -> str:
    names = order.split()
    body = [STATEMENTS[x] for x in names]
    low = " + low[i]" if "low" in names else ""
    body.append(f"Y[i] = top[i] + log(total[i]) - hit[i]{low}")
    return (
        "op f[M, N](X: f32[M, N], T: i32[M]) -> (Y: f32[M]):\n"
        + "".join(f"    {x}\n" for x in body)
        + "schedule s for f:\n"
        + lines.format(", ".join(names))
    )


def arrays(m: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n)
    x = rng.standard_normal((m, n)).astype(np.float32)
    if n > 2 and m > 2:
        x[1, : n // 2], x[2, -1] = -np.inf, np.nan
    return x, rng.integers(0, max(1, n), m).astype(np.int32)


@pytest.mark.fewest
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("lines", "device", "launches"), [(CPU, "cpu:avx2", 2), (GPU, "sm_80", 2), (WHOLE, "cpu:avx2", 1)])
def test_each_element_once(order: str, lines: str, device: str, launches: int) -> None:
    module = loads(text_of(order, lines))
    for m, n in ((3, 131), (1, 8), (2, 1), (0, 4), (2, 0)):
        op = specialise(module.ops["f"], {"M": m, "N": n})
        program = compile_program(module, op, module.schedules["s"], module.device(device)).program
        assert len(program.launches) == (launches if m else 1)
        x, t = arrays(m, n)
        got = interpret(program, {"X": x, "T": t}, finite={level: 3 for level, _ in program.finite})
        within_bounds(op, got.values(), (x, t))
        check_once(program, op, {})


@pytest.mark.parametrize(("lines", "target"), [(CPU, "cpu"), (GPU, "emulate:sm_80"), (GPU, "emulate:gfx942")])
def test_by_the_text(lines: str, target: str) -> None:
    for order in ORDERS[::2]:
        text = text_of(order, lines)
        kernel = compile(text, schedule="s", target=target)
        for m, n in ((5, 300), (1, 1), (3, 65)):
            x, t = arrays(m, n)
            out = np.full(m, 7, np.float32)
            kernel(x, t, out=out)
            within_bounds(specialise(loads(text).ops["f"], {"M": m, "N": n}), [out], (x, t))


def test_the_row_is_read_in_one_loop() -> None:
    kernel = compile(text_of("top total hit", GPU), schedule="s", target="emulate:sm_80", M=2, N=640)
    kernel.counting = True
    kernel(*arrays(2, 640))
    counts = kernel.report.counts
    assert counts is not None
    of_x_and_t = 2 * 4 * 2 * 640  # T for each element
    assert of_x_and_t <= counts.moved["global"]["read"] < 1.1 * of_x_and_t


def test_terms_that_read_results_have_another_launch() -> None:
    text = text_of("top total hit", GPU).replace("X[i, j], 0)", "X[i, j] - top[i], 0) * total[i]")
    module = loads(text)
    with pytest.raises(NotYet, match="in the same pass"):
        compile_program(module, module.ops["f"], module.schedules["s"], module.device("sm_80"))
