"""Windows, as of depthwise convolutions, whose results default schedules make where the product that reads them stages its
operands: right at any size, the same when fed back, and chosen where the models predict that it takes less time."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.analysis.static_traffic import static_traffic
from andiron.codegen.autoschedule.gpu.computed_operands import is_window_factor, operand_computations
from andiron.codegen.autoschedule.launches.launches_of_op import launches_of
from andiron.codegen.autoschedule.made_in_tile import choose
from andiron.codegen.autoschedule.op_context import context_of
from andiron.codegen.autoschedule.rank import lines_of, rank_candidates
from andiron.codegen.ir.tile_ir import Call
from andiron.codegen.ir.tile_visitors import statements
from andiron.dsl import syntax
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import specialise
from andiron.dsl.text.format import format_node
from andiron.runtime.compile import compile

from ....support.programs.made_in_tile import check_counted_once, check_fed_back, checked, compiled
from ....support.random.counts import case_count, first_seed
from ....support.random.window_products import sizes_of_windows, window_product
from ....support.rotation import rotated

SEEDS = range(first_seed(), first_seed() + case_count(10))
DEVICES = ("sm_80", "gfx942", "gfx1100", "sm_90a", "sm_75")
SEPARABLE = """op f[N, H, W, C, O](I: f16[N, H, W, C], F: f16[3, 3, C], G: f16[C, O]) -> (Y: f16[N, H, W, O]):
    D[n, p: H, q: W, c] = f16(relu(sum(r, s) f32(I[n, p + r - 1, q + s - 1, c else 0]) * f32(F[r, s, c])))
    Y[n, p, q, o] = f16(sum(c) f32(D[n, p, q, c]) * f32(G[c, o]))
"""
LAYER = {"N": 32, "H": 56, "W": 56, "C": 128, "O": 128}
SMALL = {"N": 1, "H": 3, "W": 7, "C": 19, "O": 9}


@pytest.mark.parametrize(("seed", "device"), rotated(SEEDS, DEVICES))
def test_it_is_right_wherever_it_is_made(seed: int, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With open sizes of images, and with all of them fixed."""
    monkeypatch.setattr(choose, "CLEARLY", 1e9)  # also where it is predicted to be slower
    text = window_product(seed)
    for n, sizes in enumerate(sizes_of_windows(seed)):
        fixed = {name: x for name, x in sizes.items() if n == 1 or name in "CO"}
        kernel = checked(text, None, f"emulate:{device}", sizes, fixed)
        assert len(kernel.program.launches) == 1 or 0 in (sizes["C"], sizes["O"])


def test_all_sizes_may_be_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "CLEARLY", 1e9)
    kernel = checked(SEPARABLE, None, "emulate:sm_80", SMALL, {})
    assert len(kernel.program.launches) == 1


@pytest.mark.parametrize(("seed", "device"), rotated(SEEDS, DEVICES[:3]))
def test_other_sizes_of_its_tiles_are_right(seed: int, device: str) -> None:
    """Not only those that the model likes best."""
    text, sizes = window_product(seed), next(sizes_of_windows(seed))
    module = loads(text)
    op, machine = specialise(module.ops["f"], sizes), module.device(device)
    factor = next(t for w in launches_of(op, machine, ())[0][0] for t in w.targets)
    if factor != "D":
        return  # it has a name that only completion gives
    ((launch, _),) = launches_of(op, machine, (), frozenset({factor}))
    ranked = np.random.default_rng(seed).permutation(np.array(rank_candidates(context_of(op, machine), launch), object))[0]
    lines = lines_of(ranked, int(np.random.default_rng(seed).choice(np.flatnonzero(np.isfinite(ranked.seconds[-1])))))
    text += format_node(syntax.ScheduleDecl("s", "f", None, (), None, (), lines))
    assert len(checked(text, "s", f"emulate:{device}", sizes, sizes).program.launches) == 1


@pytest.mark.parametrize("device", ["sm_80", "sm_90a", "gfx942"])
def test_it_is_made_where_memory_is_the_bound(device: str) -> None:
    """One launch, half of the bytes, and the product still by an instruction for matrices."""
    chosen, apart = (
        compiled(SEPARABLE, device, LAYER),
        compiled(f"{SEPARABLE}schedule s for f:\n    keep D in global:\n        auto\n", device, LAYER),
    )
    one, two = (static_traffic(x.program, {}) for x in (chosen, apart))
    assert (one.launches, two.launches) == (1, 2)
    calls = [s.instr for s in statements(chosen.program.launches[0].body) if isinstance(s, Call)]
    assert any("mma" in x or "mfma" in x for x in calls)
    (report,) = chosen.report["alternatives"]
    made, other = report.candidates
    assert (made.nest, other.nest) == ("D made in each tile: 1 launch", "apart: 2 launches")
    assert made.seconds < choose.CLEARLY * other.seconds
    assert made.moved < 0.6 * other.moved


def test_it_is_apart_where_each_block_would_make_it_again() -> None:
    wide = compiled(SEPARABLE, "sm_80", {"N": 32, "H": 7, "W": 7, "C": 1024, "O": 4096})
    assert len(wide.program.launches) == 2
    (report,) = wide.report["alternatives"]
    assert [x.nest for x in report.candidates] == ["apart: 2 launches", "D made in each tile: 1 launch"]


@pytest.mark.parametrize("device", DEVICES)
def test_fed_back_it_is_the_same(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "CLEARLY", 1e9)
    check_fed_back(SEPARABLE, device, LAYER)


def test_each_point_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "CLEARLY", 1e9)
    check_counted_once(SEPARABLE, SMALL)


def test_what_windows_read_for_an_element() -> None:
    """Of three neighbours in a row the next element has two, of a filter it has all."""
    op, device = specialise(loads(SEPARABLE).ops["f"], LAYER), loads(SEPARABLE).device("sm_80")
    ((launch, _),) = launches_of(op, device, (), frozenset({"D"}))
    assert is_window_factor(launch)
    ((tensor, cost),) = operand_computations(launch, device.computes)
    assert (tensor, cost.reduced, cost.in_vectors) == ("D", ("r", "s"), True)
    assert cost.read == 9 * (2 + 2)
    assert cost.own == 3 * 2


@pytest.mark.parametrize(
    "reader",
    [
        "Y[n, p, q, o] = sum(c) D[n, p, q, c] * G[c, o] * D[n, q, p, c]",  # at other places, too
        "Y[n, p, q, o] = (sum(c) D[n, p, q, c] * G[c, o]) + D[n, p, q, o]",  # in an epilogue, too
        "Y[n, p, q, o] = max(c) D[n, p, q, c] * G[c, o]",
    ],
)
def test_what_is_no_factor_of_a_product(reader: str) -> None:
    text = (
        "op f[N, W, C](I: f32[N, W, W, C], G: f32[C, C]) -> (Y: f32[N, W, W, C]):\n"
        "    D[n, p: W, q: W, c] = sum(r: 3, s: 3) I[n, p + r - 1, q + s - 1, c else 0]\n"
        f"    {reader}\n"
    )
    launches = launches_of(loads(text).ops["f"], loads(text).device("sm_80"), (), frozenset({"D"}))
    assert not any(is_window_factor(g) for g, _ in launches)


@pytest.mark.parametrize("device", ["sm_80", "gfx1100"])
def test_one_number_for_all_is_no_operand(device: str) -> None:
    """The result of a short reduction without an index, that a sum reads."""
    text = (
        "op f[N](A: f32[4], B: f32[N, 4]) -> (t: f32[N]):\n"
        "    least = min(m) A[m]\n"
        "    total = sum(m) exp(least - A[m])\n"
        "    t[n] = sum(m) B[n, m] * total\n"
    )
    kernel = compile(text, target=f"emulate:{device}")
    rng = np.random.default_rng(0)
    for n in (0, 1, 37):
        a, b = rng.standard_normal(4).astype(np.float32), rng.standard_normal((n, 4)).astype(np.float32)
        want = (b.astype(float) * np.exp(a.min() - a.astype(float)).sum()).sum(axis=1)
        np.testing.assert_allclose(kernel(a, b), want, rtol=1e-5, atol=1e-5)
