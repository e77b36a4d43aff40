"""Few long rows on GPUs: blocks have parts of a row by default, in one pass where one statistic follows another."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.autoschedule.machine_model import block_machine
from andiron.codegen.autoschedule.row_parts import choice
from andiron.codegen.autoschedule.row_parts.row_pass import PARTS, RowPass
from andiron.codegen.pipeline import compile_program
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import specialise
from andiron.runtime.check_results import check
from andiron.runtime.compile import compile

from ....support.count_calls import calls
from ....support.programs.attention_rows import within_bounds
from ....support.programs.long_rows import (
    APART,
    OPS,
    check_each_element_once,
    check_softmax_of_any_size,
    compiled,
    row_inputs,
    sizes_of,
)
from ....support.rotation import rotated

# launches on sm_80 of a row of a million elements
LAUNCHES = {
    "softmax": 3,
    "softmax_f16": 3,
    "log_softmax": 3,
    "row_logsumexp": 2,
    "vector_softmax": 3,
    "vector_logsumexp": 2,
    "softmin": 3,
    "layernorm": 5,
    "rmsnorm": 3,
    "row_moments": 4,
    "cross_entropy": 2,
}


@pytest.mark.parametrize(("name", "device"), rotated(LAUNCHES, ("sm_80", "sm_90a", "gfx942", "gfx1100")))
def test_a_long_row_is_split(name: str, device: str) -> None:
    made = compiled(name, device, sizes_of(name, 1, 1_000_000))
    assert len(made.program.launches) == LAUNCHES[name]
    assert "by workspace" in made.schedule
    (together,) = made.report["alternatives"]
    assert together.candidates[0].nest.endswith(f": {LAUNCHES[name]} launches")
    again = compiled(name, device, sizes_of(name, 1, 1_000_000), made.schedule)
    assert again.schedule == made.schedule


def test_alike_rows_have_one_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several are predicted to take 0.99 times as long."""
    made = compiled("rmsnorm", "sm_80", {"M": 4, "N": 32768})
    first, second = made.report["alternatives"][0].candidates
    assert (len(made.program.launches), first.nest) == (1, "together: 1 launch")
    assert choice.CLEARLY < second.seconds / first.seconds < 1
    monkeypatch.setattr(choice, "CLEARLY", 1.0)
    assert len(compiled("rmsnorm", "sm_80", {"M": 4, "N": 32768}).program.launches) > 1


@pytest.mark.parametrize(
    "sizes", [{"M": 4096, "N": 4096}, {"M": 16, "N": 8192}, {"M": 256, "N": 131072}, {"N": 131072}, {"M": 1}]
)
def test_others_are_not_looked_at(sizes: dict[str, int]) -> None:
    """Many rows, short ones, open ones."""
    made = compiled("softmax", "sm_80", sizes)
    assert len(made.program.launches) == 1
    assert made.report["alternatives"] == ()


def test_what_is_looked_at_first_is_little() -> None:
    module = loads(OPS)
    device = module.device("sm_80")
    op = specialise(module.ops["layernorm"], {"M": 4096, "N": 4096})
    compile_program(module, op, None, device)
    machine = block_machine(device)
    assert machine is not None
    assert calls(lambda: choice._may_be_few_and_long(op, machine)) < 100


def test_sizes_tried() -> None:
    """Whole iterations of the loop, and two parts at least."""
    made = compiled("row_logsumexp", "sm_80", {"M": 2, "N": 40_000})
    launch = made.report["choices"][0]
    found = [x for x in launch.candidates if x.nest.startswith(RowPass.name)]
    assert found
    assert all(x.tile["part"] in PARTS and x.tile["part"] % x.tile["span"] == 0 for x in found)
    assert all(2 * x.tile["part"] <= 40_000 for x in found)


@pytest.mark.parametrize(("name", "target"), rotated(LAUNCHES, ("emulate:sm_80", "emulate:gfx942")))
def test_it_is_right(name: str, target: str) -> None:
    """By the text itself, with results that are poisoned before."""
    m, n = (1, 500_001) if name in APART else (6, 150_001)
    kernel = compile(OPS, op=name, target=target, sizes=sizes_of(name, m, n))
    assert "by workspace" in kernel.schedule
    op = specialise(loads(OPS).ops[name], sizes_of(name, m, n))
    arrays = row_inputs(name, m, n)
    out = [np.full([e.constant or 0 for e in t.shape], 7, t.dtype.numpy) for t in op.outputs]
    kernel(*arrays, out=out[0] if len(out) == 1 else tuple(out))
    within_bounds(op, out, arrays)


def small(name: str) -> str:
    """The lines that are chosen on sm_80, with small parts."""
    text = compiled(name, "sm_80", sizes_of(name, 1, 1_000_000)).schedule
    for large, few in {"8192": "64", "4096": "32", "4 every 1024": "1 every 16", "1024": "64", "512": "32", "256": "8"}.items():
        text = text.replace(large, few)
    return text.replace("tile j: 128 -> warp", "tile j: 8 -> warp").replace("tile j: 4 -> thread", "tile j: 1 -> thread")


@pytest.mark.parametrize("name", LAUNCHES)
def test_each_element_once(name: str) -> None:
    lines = small(name)
    check_each_element_once(name, "sm_80", lines, {})


@pytest.mark.parametrize("n", [0, 1, 7, 64, 129])
def test_the_lines_take_any_size(n: int) -> None:
    check_softmax_of_any_size(small("softmax"), "emulate:sm_80", n)


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "row_logsumexp", "cross_entropy", "vector_softmax"])
def test_a_beginning_is_completed(name: str) -> None:
    """Each beginning of the lines for the statistics, and `auto`, has the same lines again."""
    sizes = sizes_of(name, 1, 1_000_000)
    head, *lines = compiled(name, "sm_80", sizes).schedule.splitlines()
    end = next(n for n, x in enumerate(lines) if x.split()[0] == "compute")
    for n in range(1, end):
        deep = len(lines[n]) - len(lines[n].lstrip())
        beginning = [head, *lines[: n + 1], *(" " * x + "auto" for x in range(deep, 0, -4))]
        assert compiled(name, "sm_80", sizes, "\n".join(beginning)).schedule.splitlines() == [head, *lines], n


@pytest.mark.parametrize(("part", "span"), [(3000, "auto"), (2500, 1000), ("auto", 600), (1000, 4096)])
def test_an_author_has_other_sizes(part: int | str, span: int | str) -> None:
    lines = f"""schedule w for softmax:
    keep top, total in global:
        tile i: 1 -> block
        tile j: {part} -> block online by workspace
        keep top, total in register
        tile j: {span} online
        auto
    auto
"""
    kernels = [compile(OPS + lines, op="softmax", schedule="w", target="emulate:sm_80", M=6, N=20_001)]
    if part != "auto":  # for open sizes only a part that is written
        kernels.append(compile(OPS + lines, op="softmax", schedule="w", target="emulate:sm_80"))
    for kernel in kernels:
        assert " every " in kernel.schedule
        x = row_inputs("softmax", 6, 20_001)
        out = np.full((6, 20_001), 7, np.float32)
        kernel(*x, out=out)
        within_bounds(kernels[0].op, [out], x)


def test_powers_of_two_are_exact() -> None:
    """Whatever the parts are: sums of small powers of 2 are exact."""
    text = """op f[M, N](X: f32[M, N]) -> (Y: f32[M], Z: f32[M, N]):
    top[i] = max(j) X[i, j]
    Y[i] = sum(j) exp2(X[i, j] - top[i])
    Z[i, j] = exp2(X[i, j] - top[i]) * Y[i]
"""
    x = np.random.default_rng(0).integers(-3, 4, (3, 100_000)).astype(np.float32)
    kernel = compile(text, target="emulate:sm_80", M=3, N=100_000)
    assert "keep top, Y in global:" in kernel.schedule
    assert "online by workspace" in kernel.schedule
    e = np.exp2(x - x.max(1, keepdims=True))
    y, z = kernel(x)
    np.testing.assert_array_equal(y, e.sum(1))
    np.testing.assert_array_equal(z, e * e.sum(1, keepdims=True))


def test_bytes() -> None:
    """What is read once is asked for once: by the emulator's count."""
    sizes = {"M": 2, "N": 40_000}
    kernel = compile(OPS, op="row_logsumexp", target="emulate:sm_80", sizes=sizes)
    assert "online by workspace" in kernel.schedule
    kernel.counting = True
    kernel(np.zeros((2, 40_000), np.float32))
    counts = kernel.report.counts
    assert counts is not None
    assert 4 * 80_000 <= counts.moved["global"]["read"] < 1.05 * 4 * 80_000


INDEPENDENT = {
    "to_unit": """op to_unit[N](X: f32[N]) -> (Y: f32[N]):
    low = min(j) X[j]
    high = max(j) X[j]
    Y[j] = (X[j] - low) / (high - low)
""",
    "cosine": """op cosine[M, N](X: f32[M, N], Z: f32[M, N]) -> (Y: f32[M]):
    Y[i] = (sum(j) X[i, j] * Z[i, j]) / sqrt((sum(j) X[i, j] * X[i, j]) * (sum(j) Z[i, j] * Z[i, j]))
""",
    "moments": """op moments[M, N](X: f32[M, N]) -> (Y: f32[M, N]):
    a[i] = (sum(j) X[i, j]) / N
    b[i] = (sum(j) X[i, j] * X[i, j]) / N
    Y[i, j] = (X[i, j] - a[i]) * rsqrt(b[i] - a[i] * a[i] + 0.001)
""",
    "smoothed": """op smoothed[M, N](X: f32[M, N]) -> (Y: f32[M]):
    top[i] = max(j) X[i, j]
    total[i] = sum(j) exp(X[i, j] - top[i])
    sums[i] = sum(j) X[i, j]
    squares[i] = sum(j) X[i, j] * X[i, j]
    Y[i] = top[i] + log(total[i]) - sums[i] / N - squares[i] / N
""",
    "divergence": """op divergence[M, N](X: f32[M, N], Z: f32[M, N]) -> (Y: f32[M]):
    m[i] = max(j) X[i, j]
    s[i] = sum(j) exp(X[i, j] - m[i])
    n[i] = max(j) Z[i, j]
    t[i] = sum(j) exp(Z[i, j] - n[i])
    Y[i] = (sum(j) exp(X[i, j] - m[i]) * (X[i, j] - Z[i, j])) / s[i] - log(s[i]) + log(t[i]) - m[i] + n[i]
""",
}


@pytest.mark.parametrize("name", INDEPENDENT)
def test_statistics_that_read_none_of_each_other(name: str) -> None:
    """They share no launch in the outermost memory: then there is no way with one pass for all."""
    for device in ("sm_80", "gfx942", "cpu:avx2"):
        module = loads(INDEPENDENT[name])
        op = specialise(module.ops[name], {v.name: {"M": 2, "N": 300_000}[v.name] for v in module.ops[name].dims})
        assert compile_program(module, op, None, module.device(device)).program.launches
    sizes = {v.name: {"M": 2, "N": 150_000}[v.name] for v in loads(INDEPENDENT[name]).ops[name].dims}
    kernel = compile(INDEPENDENT[name], op=name, target="cpu", threads=4, sizes=sizes)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((2, 150_000) if len(t.shape) > 1 else 150_000, dtype=np.float32) for t in kernel.op.inputs]
    out = kernel(*arrays)
    assert check(kernel.op, arrays, (out,)).ok
