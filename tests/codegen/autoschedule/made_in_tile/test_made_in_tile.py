"""Producers that default schedules make in the tiles of their only reader: right at any size, the same when fed back, and
chosen where the models predict that it takes less time."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.analysis.static_traffic import static_traffic
from andiron.codegen.autoschedule.launches.launches_of_op import launches_of
from andiron.codegen.autoschedule.made_in_tile import choose
from andiron.codegen.autoschedule.made_in_tile.find_pairs import RimAxis, pair_of
from andiron.codegen.autoschedule.op_context import context_of
from andiron.codegen.autoschedule.rank import lines_of, rank_candidates
from andiron.codegen.pipeline import compile_program
from andiron.dsl import syntax
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import specialise
from andiron.dsl.text.format import format_node
from andiron.runtime.compile import compile

from ....support.library.cases import poisoned
from ....support.random.counts import case_count, first_seed
from ....support.random.pairs import pair_case, sizes_of

SEEDS = range(first_seed(), first_seed() + case_count(6))
SMOOTH = """op f[H, W](X: f32[H, W]) -> (Y: f32[H, W]):
    B[i: H, j: W] = (X[i - 1, j else 0] + X[i + 1, j else 0] + X[i, j - 1 else 0] + X[i, j + 1 else 0]) * 0.25
    Y[i, j] = (B[i - 1, j else 0] + B[i + 1, j else 0] + B[i, j - 1 else 0] + B[i, j + 1 else 0]) * 0.25
"""
CHAIN = """op f[H, W](X: f32[H, W]) -> (Y: f32[H, W]):
    A[i: H, j: W] = X[i - 1, j else 0] + X[i, j + 1 else 0]
    B[i: H, j: W] = A[i - 1, j else 0] + A[i, j + 1 else 0]
    C[i: H, j: W] = B[i - 1, j else 0] + B[i, j + 1 else 0]
    Y[i, j] = C[i - 1, j else 0] + C[i, j + 1 else 0]
"""


def compiled(text: str, device: str, sizes: dict[str, int] | None = None):
    module = loads(text)
    (op,) = module.ops.values()
    schedules = [*module.schedules.values()]
    op = specialise(op, sizes) if sizes else op
    return compile_program(module, op, schedules[0] if schedules else None, module.device(device))


@pytest.mark.every_second
@pytest.mark.parametrize("target", ["emulate:sm_80", "emulate:gfx942", "cpu"])
@pytest.mark.parametrize("seed", SEEDS)
def test_it_is_right_wherever_it_is_made(seed: int, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "CLEARLY", 1e9)  # also where it is predicted to be slower
    case = pair_case(seed)
    kernel = compile(case.op, "f", target=target)
    assert len(kernel.program.launches) == 1 or target == "cpu", case.op
    for c, h, w in sizes_of(seed):
        rng = np.random.default_rng(seed)
        x, f, g = (rng.normal(size=shape).astype(np.float32) for shape in ((c, h, w), (4, 4), (4, 4)))
        want = case.computed(x, f, g)
        out = poisoned(want.shape, np.dtype(np.float32))
        kernel(x, f, g, out=out)
        np.testing.assert_allclose(out, want, rtol=1e-4, atol=1e-3, err_msg=f"{case.op}{(c, h, w)}\n{kernel.schedule}")


@pytest.mark.every_second
@pytest.mark.parametrize("device", ["sm_80", "gfx942", "cpu:avx2"])
@pytest.mark.parametrize("seed", SEEDS)
def test_fed_back_it_is_the_same(seed: int, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "CLEARLY", 1e9)
    text = pair_case(seed).op
    first = compiled(text, device)
    again = compiled(text + first.schedule, device)
    assert again.schedule == first.schedule
    assert again.program == first.program


def pair_launch(text: str, device: str, tensor: str, sizes: dict[str, int] | None = None):
    module = loads(text)
    (op,) = module.ops.values()
    op = specialise(op, sizes) if sizes else op
    machine = module.device(device)
    launches = (g for g, _ in launches_of(op, machine, (), frozenset({tensor})))
    return context_of(op, machine), next(g for g in launches if len(g) == 2)


@pytest.mark.parametrize("device", ["sm_80", "sm_90a", "gfx942"])
def test_it_is_made_where_memory_is_the_bound(device: str) -> None:
    """One launch, and fewer bytes than those of two."""
    large = {"H": 4096, "W": 4096}
    chosen, apart = (
        compiled(SMOOTH, device),
        compiled(f"{SMOOTH}schedule s for f:\n    keep B in global:\n        auto\n", device),
    )
    one, two = (static_traffic(x.program, large) for x in (chosen, apart))
    assert (one.launches, two.launches) == (1, 2)
    assert one.moved("global") < 0.75 * two.moved("global")
    (report,) = chosen.report["alternatives"]
    made, other = report.candidates
    assert (made.nest, other.nest) == ("B made in each tile: 1 launch", "apart: 2 launches")
    assert made.seconds < choose.CLEARLY * other.seconds
    assert made.moved < 0.6 * other.moved


def test_it_is_apart_where_arithmetic_is_the_bound() -> None:
    """Elements at the rim take hundreds of operations, and results hardly any memory."""
    value = "X[i, j]"
    for _ in range(24):
        value = f"tanh({value})"
    reader = "Y[i, j] = B[i - 40, j else 0] + B[i, j + 40 else 0]"
    text = f"op f[H, W](X: f32[H, W]) -> (Y: f32[H, W]):\n    B[i: H, j: W] = {value}\n    {reader}\n"
    assert len(compiled(text, "sm_80", {"H": 4096, "W": 4096}).program.launches) == 2


def test_each_computation_of_a_chain_is_in_one_pair() -> None:
    chosen = compiled(CHAIN, "sm_80")
    assert len(chosen.program.launches) == 2
    assert len(chosen.report["alternatives"]) == 2


@pytest.mark.parametrize(
    "statements",
    [
        "B[i: H, j: W] = X[i, j] + 1.0\n    Y[i, j] = B[i, j] * 2.0",  # at its own elements
        "B[i: H, j: W] = X[i, j] + 1.0\n    Y[i, j] = B[2*i, j else 0] + B[i, j else 0]",  # at a distance that grows
        "B[i: H, j: W] = X[i, j] + 1.0\n    Y[i, j] = sum(k: W) B[i, k else 0]",  # a whole row
        "B[i: H, j: W] = X[i, j] + 1.0\n    Y[i, j] = B[i / 2, j else 0]",
    ],
)
def test_what_is_no_pair(statements: str) -> None:
    text = f"op f[H, W](X: f32[H, W]) -> (Y: f32[H, W]):\n    {statements}\n"
    launches = launches_of(loads(text).ops["f"], loads(text).device("sm_80"), (), frozenset({"B"}))
    assert all(pair_of(g) is None for g, _ in launches)


def test_how_far_a_tile_reads() -> None:
    text = """op f[H, W](X: f32[H, W]) -> (Y: f32[P, W]) where P = (H + 1) / 2:
    B[i: H, j: W] = X[i, j] + 1.0
    Y[p, j] = sum(r: 3) B[2*p + r - 1, j else 0] * B[2*p + r, j + 4 else 0]
"""
    pair = pair_of(pair_launch(text, "sm_80", "B")[1])
    assert pair is not None
    assert pair.axes == (RimAxis("i", {"p": 2}, 3), RimAxis("j", {"j": 1}, 4))
    assert pair.made({"p": 8, "j": 32}) == {"i": 18, "j": 36}


def test_larger_tiles_make_less_of_a_rim() -> None:
    ctx, launch = pair_launch(SMOOTH, "sm_80", "B", {"H": 4096, "W": 4096})
    (ranked,) = rank_candidates(ctx, launch)
    area = ranked.tiles["bf"] * ranked.tiles["bs"]
    near = np.broadcast_to(ranked.demand.l2_bytes, (1, *area.shape))[0]
    assert near[area.argmax()] < near[area.argmin()]


@pytest.mark.parametrize("seed", SEEDS)
def test_other_sizes_of_its_tiles_are_right(seed: int) -> None:
    """Not only those that the model likes best."""
    case = pair_case(seed)
    ctx, launch = pair_launch(case.op, "sm_80", "B")
    ranked = next(r for r in rank_candidates(ctx, launch) if r.nest.name == "pair")
    lines = lines_of(ranked, int(np.random.default_rng(seed).choice(np.flatnonzero(np.isfinite(ranked.seconds[-1])))))
    text = case.op + format_node(syntax.ScheduleDecl("s", "f", None, (), None, (), lines))
    kernel = compile(text, "f", "s", target="emulate:sm_80")
    c, h, w = sizes_of(seed)[0]
    rng = np.random.default_rng(seed)
    x, f, g = (rng.normal(size=shape).astype(np.float32) for shape in ((c, h, w), (4, 4), (4, 4)))
    want = case.computed(x, f, g)
    out = poisoned(want.shape, np.dtype(np.float32))
    kernel(x, f, g, out=out)
    np.testing.assert_allclose(out, want, rtol=1e-4, atol=1e-3, err_msg=text)


def test_what_would_be_inlined(monkeypatch: pytest.MonkeyPatch) -> None:
    """A producer that is read inside of its ranges alone: with the ways to compute it, each is right."""
    text = """op f[H, W](X: f32[H, W]) -> (Y: f32[P, Q]) where P = H - 4, Q = W - 4:
    B[i: H - 2, j: W - 2] = X[i, j] * X[i + 1, j + 2] - X[i + 2, j]
    Y[i, j] = B[i, j] + 2.0 * B[i + 1, j + 2] - B[i + 2, j + 1]
"""
    x = np.random.default_rng(3).normal(size=(37, 70)).astype(np.float32)
    b = x[:-2, :-2] * x[1:-1, 2:] - x[2:, :-2]
    want = b[:-2, :-2] + 2 * b[1:-1, 2:] - b[2:, 1:-1]
    for clearly, made in ((1e9, True), (0.0, False)):
        monkeypatch.setattr(choose, "CLEARLY", clearly)
        kernel = compile(text, "f", target="emulate:sm_80")
        assert ("keep B in shared" in kernel.schedule) == made
        out = poisoned(want.shape, np.dtype(np.float32))
        kernel(x, out=out)
        np.testing.assert_allclose(out, want, rtol=1e-5, atol=1e-5)


def test_long_chains_are_planned_in_time() -> None:
    """Beyond a number of intermediates none is tried."""
    body = "".join(f"    a{n}[i: H] = a{n - 1}[i - 1 else 0] + a{n - 1}[i + 1 else 0]\n" for n in range(1, choose.MOST + 2))
    last = f"a{choose.MOST + 1}"
    text = f"op f[H](a0: f32[H]) -> (Y: f32[H]):\n{body}    Y[i] = {last}[i - 1 else 0] + {last}[i + 1 else 0]\n"
    assert len(compiled(text, "sm_80").program.launches) == choose.MOST + 2
