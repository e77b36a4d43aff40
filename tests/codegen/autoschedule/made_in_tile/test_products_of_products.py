"""Products whose results default schedules make in the tile of the product that reads them: right at any size, the same when
fed back, and chosen where the models predict that it takes less time."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.analysis.static_traffic import static_traffic
from andiron.codegen.autoschedule.launches.launches_of_op import launches_of
from andiron.codegen.autoschedule.made_in_tile import choose
from andiron.codegen.autoschedule.one_pass.find_pass import product_of_product
from andiron.codegen.autoschedule.op_context import context_of
from andiron.codegen.autoschedule.rank import lines_of, rank_candidates
from andiron.dsl import syntax
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import specialise
from andiron.dsl.text.format import format_node

from ....support.programs.made_in_tile import check_fed_back, checked, compiled
from ....support.random.counts import case_count, first_seed
from ....support.random.product_pairs import product_pair, sizes_of_products
from ....support.rotation import rotated

SEEDS = range(first_seed(), first_seed() + case_count(6))
# with instructions whose results are operands as they lie, or in another order; and some without
DEVICES = ("sm_80", "gfx942", "sm_90a", "sm_75", "gfx1100", "gfx90a")
MLP = """op f[M, K, F, N](X: f16[M, K], W1: f16[K, F], W2: f16[F, N]) -> (Y: f16[M, N]):
    H[m, f] = f16(max((sum(k) f32(X[m, k]) * f32(W1[k, f])) + 1.0, 0.0))
    Y[m, n] = f16(sum(f) f32(H[m, f]) * f32(W2[f, n]))
"""
NARROW = {"M": 65536, "K": 128, "F": 512, "N": 128}


@pytest.mark.parametrize(("seed", "device"), rotated(SEEDS, DEVICES))
def test_it_is_right_wherever_it_is_made(seed: int, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "CLEARLY", 1e9)  # also where it is predicted to be slower
    text = product_pair(seed)
    names = {d.name for d in loads(text).ops["f"].dims}
    for n, every in enumerate(sizes_of_products(seed)):
        sizes = {name: x for name, x in every.items() if name in names}
        fixed = {name: x for name, x in sizes.items() if n or name != "M"}
        launches = len(checked(text, None, f"emulate:{device}", sizes, fixed).program.launches)
        limited = "where k" in text  # its own terms may be those of no instruction
        assert launches == 1 or limited or device in ("gfx1100", "sm_75") or 0 in sizes.values()


@pytest.mark.parametrize(("seed", "device"), rotated(SEEDS, DEVICES[:3]))
def test_other_sizes_of_its_tiles_are_right(seed: int, device: str) -> None:
    """Not only those that the model likes best."""
    text, sizes = product_pair(seed), next(sizes_of_products(seed))
    module = loads(text)
    sizes = {d.name: sizes[d.name] for d in module.ops["f"].dims}
    op, machine = specialise(module.ops["f"], sizes), module.device(device)
    factor = next(t for w in launches_of(op, machine, ())[0][0] for t in w.targets)
    ((launch, _),) = launches_of(op, machine, (), frozenset({factor}))
    found, rng = rank_candidates(context_of(op, machine), launch), np.random.default_rng(seed)
    if not found:
        assert "where k" in text
        return
    ranked = found[int(rng.integers(len(found)))]
    lines = lines_of(ranked, int(rng.choice(np.flatnonzero(np.isfinite(ranked.seconds[-1])))))
    text += format_node(syntax.ScheduleDecl("s", "f", None, (), None, (), lines)) if factor == "H" else ""
    assert (
        len(checked(text, "s" if factor == "H" else None, f"emulate:{device}", sizes, sizes).program.launches) == 1
        or factor != "H"
    )


@pytest.mark.parametrize("device", ["sm_80", "sm_90a", "gfx942"])
def test_it_is_made_where_memory_is_the_bound(device: str) -> None:
    """One launch, and fewer bytes than those of two."""
    chosen, apart = (
        compiled(MLP, device, NARROW),
        compiled(f"{MLP}schedule s for f:\n    keep H in global:\n        auto\n", device, NARROW),
    )
    one, two = (static_traffic(x.program, {}) for x in (chosen, apart))
    assert (one.launches, two.launches) == (1, 2)
    assert one.moved("global") < 0.75 * two.moved("global")
    (report,) = chosen.report["alternatives"]
    made, other = report.candidates
    assert (made.nest, other.nest) == ("H made in each tile: 1 launch", "apart: 2 launches")
    assert made.seconds < choose.CLEARLY * other.seconds


@pytest.mark.parametrize(("device", "dtype"), [("sm_80", "f16"), ("gfx90a", "f16"), ("sm_80", "f32"), ("gfx1100", "f32")])
def test_scores_of_a_domain_are_not_in_memory(device: str, dtype: str) -> None:
    """Linear attention by scores: loops end with the domain, so one launch does half of the work, and stores no scores. It does
    so by instructions, or by lanes where no instruction has the types."""
    text = """op f[N, D](Q: f16[N, D], K: f16[N, D], V: f16[N, D]) -> (Y: f16[N, D]):
    s[i, t] where t <= i = sum(d) f32(Q[i, d]) * f32(K[t, d])
    Y[i, e] = sum(t) f32(f16(s[i, t])) * f32(V[t, e])
""".replace("f16", dtype)
    found = check_fed_back(text, device, {"N": 8192, "D": 64})
    assert len(found.program.launches) == 1
    assert not [b for b in found.program.buffers if b.kind == "workspace"]
    widths = (16, 1, 3) if dtype == "f16" else (16, 4, 8)  # rows with a pad are copied by vectors
    for n, d in zip((83, 1, 0), widths, strict=True):
        checked(text + found.schedule, "f_auto", f"emulate:{device}", sizes := {"N": n, "D": d}, sizes)


def test_it_is_apart_where_the_results_are_wide() -> None:
    """A band of rows has weights to itself: where operands are reused a lot, tiles of both products reuse them more. Both ways
    are shown."""
    found = compiled(MLP, "sm_80", {"M": 4096, "K": 256, "F": 1024, "N": 256})
    assert len(found.program.launches) == 2
    (report,) = found.report["alternatives"]
    assert [x.nest for x in report.candidates] == ["apart: 2 launches", "H made in each tile: 1 launch"]
    wide = compiled(MLP, "sm_80", {"M": 4096, "K": 1024, "F": 4096, "N": 1024})  # accumulators have no room
    assert len(wide.program.launches) == 2
    assert not wide.report["alternatives"]


@pytest.mark.parametrize("device", DEVICES)
def test_fed_back_it_is_the_same(device: str) -> None:
    check_fed_back(MLP, device, NARROW)


def test_each_product_of_a_chain_is_in_one_pair() -> None:
    text = """op f[M, K](X: f16[M, K], A: f16[K, K], B: f16[K, K], C: f16[K, K], D: f16[K, K]) -> (Y: f32[M, K]):
    P[m, a] = f16(sum(k) f32(X[m, k]) * f32(A[k, a]))
    Q[m, b] = f16(sum(a) f32(P[m, a]) * f32(B[a, b]))
    R[m, c] = f16(sum(b) f32(Q[m, b]) * f32(C[b, c]))
    Y[m, d] = sum(c) f32(R[m, c]) * f32(D[c, d])
"""
    assert len(compiled(text, "sm_80", {"M": 65536, "K": 64}).program.launches) in (2, 3)
    assert len(checked(text, None, "emulate:sm_80", {"M": 37, "K": 33}, {"K": 33}).program.launches) < 4


@pytest.mark.parametrize(
    "statements",
    [
        "H[m, f] = sum(k) X[m, k] * W[k, f]\n    Y[m, n] = sum(f) H[m, f] * H[n, f]",  # at other rows, too
        "H[m, f] = sum(k) X[m, k] * W[k, f]\n    Y[m, n] = (sum(f) H[m, f] * W[n, f]) + H[m, n]",  # in an epilogue, too
        "H[m, f] = max(k) X[m, k] * W[k, f]\n    Y[m, n] = sum(f) H[m, f] * W[f, n]",
        "H[m, f] = sum(k where k <= f) X[m, k] * W[k, f]\n    Y[m, n] = sum(f) H[m, f] * W[f, n]",
        "H[m, f] = sum(k) X[m, k] * W[k, f]\n    Y[m] = sum(f) H[m, f] * W[f, f]",  # no second product
    ],
)
def test_what_is_no_product_of_a_product(statements: str) -> None:
    out = "M" if "Y[m] " in statements else "M, M"
    text = f"op f[M](X: f32[M, M], W: f32[M, M]) -> (Y: f32[{out}]):\n    {statements}\n"
    launches = launches_of(loads(text).ops["f"], loads(text).device("sm_80"), (), frozenset({"H"}))
    assert all(product_of_product(g) is None for g, _ in launches)
