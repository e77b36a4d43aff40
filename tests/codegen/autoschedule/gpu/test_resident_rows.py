"""Rows that several computations read stay in registers where they have a length and fit: one pass over memory."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.analysis.static_traffic import static_traffic
from andiron.codegen.autoschedule.gpu.resident_rows import GROUPS, MOST_REGISTERS
from andiron.codegen.autoschedule.gpu.row_reductions import RowTemplate
from andiron.codegen.autoschedule.launches.launches_of_op import launches_of
from andiron.codegen.autoschedule.op_context import context_of
from andiron.codegen.autoschedule.rank import applicable_nests, sample_sizes
from andiron.dsl.module import loads
from andiron.runtime.check_results import check
from andiron.runtime.compile import compile
from andiron.runtime.random_inputs import random_inputs

from ....support.library.unscheduled import compiled, library, op_of

NORMS = ("softmax", "softmax_f16", "log_softmax", "layernorm", "layernorm_f16", "rmsnorm")
LONGEST = MOST_REGISTERS * 32 * GROUPS[-1]


@pytest.mark.every_second
@pytest.mark.parametrize("device", ["sm_80", "gfx942", "gfx1100"])
@pytest.mark.parametrize("name", [x for x in NORMS if x != "layernorm_f16"])  # its rows may fit the cache
def test_rows_are_read_once(name: str, device: str) -> None:
    sizes = dict(M=4096, N=4096)
    made = compiled(name, device, sizes)
    assert "move X -> register" in made.schedule
    x = 4096 * 4096 * (2 if name.endswith("f16") else 4)
    gains = 2 * 4096 * 4096 * 4  # that each row reads, from a cache
    assert static_traffic(made.program, sizes).moved("global") <= 2 * x + (gains if "norm" in name else 0) + 4096 * 4096


def test_exponentials_are_computed_once() -> None:
    assert "keep e in register" in compiled("softmax", "sm_80", dict(M=4096, N=4096)).schedule


@pytest.mark.parametrize("sizes", [{}, dict(M=4096, N=LONGEST + 1)])
def test_rows_without_a_length_or_too_long_are_read_again(sizes: dict[str, int]) -> None:
    schedule = compiled("softmax", "sm_80", sizes).schedule
    assert "move X" not in schedule
    assert "keep e" not in schedule


MARGINS = """op f[N, D](X: f32[N, D]) -> (Y: f32[N, D], a: f32[N, D], b: f32[N, D]):
    m[i] = max(j) X[i, j]
    l[i] = sum(j) exp(X[i, j] - m[i])
    Y[i, j] = exp(X[i, j] - m[i]) / l[i]
    q[i] = max(j) Y[i, j]
    r[i] = sum(j) Y[i, j] * Y[i, j]
    a[i, j] = q[i] - Y[i, j]
    b[i, j] = r[i] - Y[i, j]
"""


@pytest.mark.parametrize("device", ["sm_80", "gfx90a"])
def test_statistics_of_a_row_that_is_stored_are_in_its_launch(device: str) -> None:
    """Where it stays in registers; else what reads it in memory, with the statistics, has launches of its own."""
    for sizes in ({"N": 5, "D": 37}, {"N": 1, "D": 1}, {"N": 3, "D": 0}, {"N": 1, "D": 2 * LONGEST + 1}):
        kernel = compile(MARGINS, target=f"emulate:{device}", sizes=sizes)
        assert len(kernel.variants[0].program.launches) == (3 if sizes["D"] > LONGEST else 1)
        arrays = random_inputs(kernel.op, sizes)
        assert check(kernel.op, arrays, kernel(*arrays)).ok


def test_columns_are_no_rows() -> None:
    """A launch for sums of columns and what reads them had a unit for each column."""
    text = """op f[N, D](A: f32[N, D], X: f32[N, D]) -> (Z: f32[N, D]):
    g[j] = sum(i) A[i, j]
    Z[i, j] = A[i, j] - X[i, j] * g[j]
"""
    kernel = compile(text, target="cuda:sm_80", sizes={"N": 4096, "D": 1024})
    assert len(kernel.variants[0].program.launches) == 3
    assert "tile i: 8 -> warp" in kernel.schedule
    assert "tile j: 4 -> thread" in kernel.schedule
    for sizes in ({"N": 37, "D": 5}, {"N": 0, "D": 3}, {"N": 1, "D": 1}):
        kernel = compile(text, target="emulate:sm_80", sizes=sizes)
        arrays = random_inputs(kernel.op, sizes)
        assert check(kernel.op, arrays, [kernel(*arrays)]).ok


BOUNDED = """
schedule bounded for softmax where N <= 128:
    auto
"""


@pytest.mark.parametrize("n", [0, 1, 33, 127, 128])
def test_rows_with_a_bound(n: int) -> None:
    """Any length up to it; exponentials of places that shorter rows lack would be computed in vain."""
    kernel = compile(loads("import std.ops.norm\n" + BOUNDED), "softmax", "bounded", "emulate:sm_80")
    assert "move X -> register" in kernel.schedule
    assert "keep e" not in kernel.schedule
    op, x = op_of("softmax"), np.random.default_rng(0).standard_normal((5, n)).astype("f4")
    out = kernel(x, out=np.full((5, n), np.nan, "f4"))
    assert check(op, [x], (out,)).ok


SIZES = [(1, 1), (3, 0), (0, 5), (5, 33), (2, 129), (3, 2047), (1, LONGEST)]


@pytest.mark.every_second
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize(
    ("name", "device"), [*zip(NORMS, ("sm_80", "gfx942", "sm_90a", "sm_80", "gfx1100", "gfx942"), strict=True)]
)
def test_right(name: str, device: str, sizes: tuple[int, int]) -> None:
    m, n = sizes
    kernel, op = compile(library(), name, None, f"emulate:{device}", None, M=m, N=n), op_of(name)
    arrays = random_inputs(op, dict(M=m, N=n))
    out = kernel(*arrays, out=np.full((m, n), np.nan, op.outputs[0].dtype.numpy))
    assert check(op, arrays, (out,)).ok


ALONE = """
op f[M, N](X: f32[M, N], R: f32[M, N]) -> (Y: f32[M, N]):
    e[i, j] = exp(X[i, j] + R[i, j])
    total[i] = sum(j) e[i, j]
    Y[i, j] = e[i, j] / total[i]
"""


def test_a_value_alone_stays_in_registers() -> None:
    """Inputs that are read once are not moved."""
    kernel = compile(loads(ALONE), "f", None, "emulate:sm_80", None, M=7, N=300)
    assert "keep e in register" in kernel.schedule
    assert "move" not in kernel.schedule
    x, r = np.random.default_rng(0).standard_normal((2, 7, 300)).astype("f4")
    e = np.exp((x + r).astype("f8"))
    out = kernel(x, r, out=np.full((7, 300), np.nan, "f4"))
    np.testing.assert_allclose(out, e / e.sum(1, keepdims=True), rtol=1e-5)


def test_reading_again_is_free_where_resident_rows_fit_the_cache() -> None:
    """Of rows of 16 KiB, with 16 KiB of results each, the 2,160 of 20 blocks a unit exceed the 40 MiB of the cache, the 540 of
    five do not."""
    device, op = library().device("sm_80"), op_of("rmsnorm", dict(M=4096, N=4096))
    ctx, works = context_of(op, device), launches_of(op, device, ())[0][0]
    ((env, sizes),) = sample_sizes(ctx, works)
    nest = next(x for x in applicable_nests(ctx, works) if isinstance(x, RowTemplate) and not x.one_pass)
    t = {"v": [4, 4], "gr": [1, 8], "rows": [1, 1], "turns": [2, 2], "part": [0, 0]}
    asked = nest.demand({x: np.array(n, float) for x, n in t.items()}, sizes | nest.problem.sizes(env))
    once = 2 * 4096 * 4096 * 4
    many, few = asked.dram_bytes
    assert few == pytest.approx(once, rel=1e-3)
    assert many == pytest.approx(1.5 * once, rel=1e-3)


def test_partial_sums_of_warps_are_two_instructions_each() -> None:
    """Each lane loads and adds the sum of each warp, for both reductions. The memory bounds four and eight warps alike, so that
    this decides."""
    device, op = library().device("sm_80"), op_of("layernorm", dict(M=4096, N=4096))
    ctx, works = context_of(op, device), launches_of(op, device, ())[0][0]
    ((env, sizes),) = sample_sizes(ctx, works)
    nest = next(x for x in applicable_nests(ctx, works) if isinstance(x, RowTemplate) and x.one_pass)
    t = {"v": [4, 4, 4], "gr": [2, 4, 8], "rows": [1, 1, 1], "turns": [1, 1, 1], "part": [0, 0, 0]}
    asked = nest.demand({x: np.array(n, float) for x, n in t.items()}, sizes | nest.problem.sizes(env))
    two, four, eight = asked.issue - 2 * 2 * np.array(t["gr"])
    assert two - four == 2 * (four - eight)  # what is left is as much as the elements of a lane
    assert "tile j: 4 every 512 -> thread" in compiled("layernorm", "sm_80", dict(M=4096, N=4096)).schedule
