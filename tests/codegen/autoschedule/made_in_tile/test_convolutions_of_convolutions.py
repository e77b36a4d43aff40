"""Convolutions whose results default schedules make in the tile of the convolution that reads them: right at any size, the same
when fed back, and chosen where the models predict that it takes less time."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.analysis.static_traffic import static_traffic
from andiron.codegen.autoschedule.launches.launches_of_op import launches_of
from andiron.codegen.autoschedule.made_in_tile import block_products, choose
from andiron.codegen.autoschedule.made_in_tile.block_products import ProductsTemplate
from andiron.codegen.autoschedule.made_in_tile.find_products import product_pair_of
from andiron.codegen.autoschedule.op_context import context_of
from andiron.codegen.autoschedule.rank import RankedCandidates, lines_of, rank_candidates
from andiron.codegen.ir.tile_ir import Call
from andiron.codegen.ir.tile_visitors import statements
from andiron.dsl import syntax
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import specialise
from andiron.dsl.text.format import format_node

from ....support.programs.made_in_tile import check_counted_once, check_fed_back, checked, compiled
from ....support.random.convolution_pairs import convolution_pair, sizes_of_convolutions
from ....support.random.counts import case_count, first_seed
from ....support.rotation import rotated

SEEDS = range(first_seed(), first_seed() + case_count(8))
DEVICES = ("sm_80", "gfx942", "gfx1100", "sm_90a", "sm_75")
TWICE = """op f[N, H, W, C, K, O](I: f16[N, H, W, C], F: f16[3, 3, C, K], G: f16[3, 3, K, O]) -> (Y: f16[N, H, W, O]):
    D[n, p: H, q: W, k] = f16(relu(sum(r, s, c) f32(I[n, p + r - 1, q + s - 1, c else 0]) * f32(F[r, s, c, k])))
    Y[n, p, q, o] = f16(sum(u, v, k) f32(D[n, p + u - 1, q + v - 1, k else 0]) * f32(G[u, v, k, o]))
"""
THEN_POINTS = """op f[N, H, W, C, K, O](I: f16[N, H, W, C], F: f16[3, 3, C, K], G: f16[K, O]) -> (Y: f16[N, H, W, O]):
    D[n, p: H, q: W, k] = f16(relu(sum(r, s, c) f32(I[n, p + r - 1, q + s - 1, c else 0]) * f32(F[r, s, c, k])))
    Y[n, p, q, o] = f16(sum(k) f32(D[n, p, q, k]) * f32(G[k, o]))
"""
LAYER = {"N": 32, "H": 112, "W": 112, "C": 16, "K": 16, "O": 16}
SMALL = {"N": 1, "H": 9, "W": 17, "C": 16, "K": 19, "O": 9}


def ranked(text: str, device: str, sizes: dict[str, int]) -> list[RankedCandidates]:
    """Those of one launch, by the nests of products alone."""
    op, machine = specialise(loads(text).ops["f"], sizes), loads(text).device(device)
    ((launch, _),) = launches_of(op, machine, (), frozenset({"D"}))
    return [r for r in rank_candidates(context_of(op, machine), launch) if isinstance(r.nest, ProductsTemplate)]


@pytest.mark.parametrize(("seed", "device"), rotated(SEEDS, DEVICES))
def test_it_is_right_wherever_it_is_made(seed: int, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With open sizes of images, and with all of them fixed."""
    monkeypatch.setattr(choose, "CLEARLY", 1e9)  # also where it is predicted to be slower
    text = convolution_pair(seed)
    for n, sizes in enumerate(sizes_of_convolutions(seed)):
        checked(text, None, f"emulate:{device}", sizes, {x: size for x, size in sizes.items() if n == 1 or x in "CKO"})


@pytest.mark.parametrize(("text", "device"), rotated((TWICE, THEN_POINTS), ("sm_80", "gfx942", "gfx1100")))
def test_one_launch_is_made_where_it_may_be(text: str, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "CLEARLY", 1e9)
    assert len(checked(text, None, f"emulate:{device}", SMALL, SMALL).program.launches) == 1
    assert len(checked(text, None, f"emulate:{device}", SMALL, {x: SMALL[x] for x in "CKO"}).program.launches) == 1


@pytest.mark.parametrize(("text", "seed"), rotated((TWICE, THEN_POINTS), SEEDS[:4]))
def test_other_sizes_of_its_tiles_are_right(text: str, seed: int) -> None:
    """Not only those that the model likes best."""
    rng = np.random.default_rng(seed)
    found = ranked(text, "sm_80", SMALL)
    r = found[int(rng.integers(len(found)))]
    lines = lines_of(r, int(rng.choice(np.flatnonzero(np.isfinite(r.seconds[-1])))))
    text += format_node(syntax.ScheduleDecl("s", "f", None, (), None, (), lines))
    assert len(checked(text, "s", "emulate:sm_80", SMALL, SMALL).program.launches) == 1


@pytest.mark.parametrize("text", [TWICE, THEN_POINTS])
def test_it_is_made_where_channels_are_few(text: str) -> None:
    """One launch, fewer bytes, and both products still by an instruction for matrices."""
    chosen, apart = (
        compiled(text, "sm_80", LAYER),
        compiled(f"{text}schedule s for f:\n    keep D in global:\n        auto\n", "sm_80", LAYER),
    )
    one, two = (static_traffic(x.program, {}) for x in (chosen, apart))
    assert (one.launches, two.launches) == (1, 2)
    assert one.moved("global") < 0.75 * two.moved("global")
    calls = [s.instr for s in statements(chosen.program.launches[0].body) if isinstance(s, Call) and "mma" in s.instr]
    assert len(calls) == 2
    (report,) = chosen.report["alternatives"]
    assert [x.nest for x in report.candidates] == ["D made in each tile: 1 launch", "apart: 2 launches"]


def test_it_is_apart_where_arithmetic_is_the_bound() -> None:
    """Rims cost as much more arithmetic as bytes are saved. Both ways are shown."""
    found = compiled(TWICE, "sm_80", {"N": 32, "H": 56, "W": 56, "C": 64, "K": 64, "O": 64})
    assert len(found.program.launches) == 2
    (report,) = found.report["alternatives"]
    assert [x.nest for x in report.candidates] == ["apart: 2 launches", "D made in each tile: 1 launch"]


@pytest.mark.parametrize("text", [TWICE, THEN_POINTS])
@pytest.mark.parametrize("device", ["sm_80", "gfx942"])
def test_fed_back_it_is_the_same(text: str, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "CLEARLY", 1e9)
    assert len(check_fed_back(text, device, LAYER).program.launches) == 1


def test_each_point_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Elements of a rim are computed by several blocks, and each reads its own."""
    monkeypatch.setattr(choose, "CLEARLY", 1e9)
    check_counted_once(TWICE, SMALL)


def test_sizes_of_products_tried() -> None:
    """Boxes with as many groups in both phases, of which none is without work."""
    (r, *_) = ranked(TWICE, "sm_80", LAYER)
    t = r.tiles
    assert {(b, c) for b, c in zip(t["b0"].tolist(), t["b1"].tolist(), strict=True)} <= {*block_products.BOXES}
    assert (t["gm1"] * t["gn1"] == t["gm2"] * t["gn2"]).all()
    assert (t["made"] == (t["b0"] + 2) * (t["b1"] + 2)).all()
    assert (t["wm1"] * t["gm1"] >= t["made"]).all()
    assert {x.nest.boxed for x in ranked(THEN_POINTS, "sm_80", LAYER) if isinstance(x.nest, ProductsTemplate)} == {True, False}


def test_addresses_of_rows_take_registers() -> None:
    """Many fragments of rows of a box have no room for their addresses: what is chosen spills nothing by the count."""
    (r, *_) = ranked(TWICE, "sm_80", LAYER)
    fit = np.isfinite(r.seconds[-1])
    large = (r.tiles["wm1"] == 176) & (r.tiles["wn1"] == 16)  # 188 bytes a thread are spilled
    assert large.any()
    assert not (large & fit).any()


@pytest.mark.parametrize(
    "statements",
    [
        "Y[p, q, o] = sum(u: 3, k) D[p + u, q, k else 0] * D[p, q, k else 0] * G[k, o]",  # read twice
        "Y[p, q, o] = sum(u: 3, k) D[q + u, p + u, k else 0] * G[k, o]",  # rows of the result are others
        "Y[p, q, o] = sum(u: 3, k) D[2*p + u, q, k else 0] * G[k, o]",  # at a distance
        "Y[p, q, o] = (sum(u: 3, k) D[p + u, q, k else 0] * G[k, o]) + D[p, q, o else 0]",  # in an epilogue, too
        "Y[p, q, o] = max(u: 3, k) D[p + u, q, k else 0] * G[k, o]",
    ],
)
def test_what_is_no_product_of_a_product(statements: str) -> None:
    text = (
        "op f(I: f32[8, 8, 4], F: f32[4, 4], G: f32[4, 4]) -> (Y: f32[8, 8, 4]):\n"
        "    D[p: 8, q: 8, k] = sum(r: 3, c) I[p + r - 1, q, c else 0] * F[c, k]\n"
        f"    {statements}\n"
    )
    launches = launches_of(loads(text).ops["f"], loads(text).device("sm_80"), (), frozenset({"D"}))
    assert all(product_pair_of(g) is None for g, _ in launches)
