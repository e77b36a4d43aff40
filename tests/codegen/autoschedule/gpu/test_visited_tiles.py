"""The tiles that a domain leaves, against a count of all elements."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.autoschedule.gpu.passes.one_pass_choice import rank_pass
from andiron.codegen.autoschedule.launches.launches_of_op import joined_intermediates, launches_of
from andiron.codegen.autoschedule.one_pass.visited_tiles import visited_tiles
from andiron.codegen.autoschedule.op_context import context_of
from andiron.dsl.index.expr import Var
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import specialise

I, J, Q, T, H = (Var(x) for x in "ijQTH")
DOMAINS = {
    "causal": (I + T - Q - J,),
    "a window": (I + T - Q - J, J + 9 - I - T + Q - 1),
    "a slope": (2 * I - 3 * J + 5,),
    "a part of the rows": (J - 70,),
    "of another index": (H - J,),
    "none": (),
}


def counted(domain, rows: int, keys: int, sizes: dict[str, int]) -> float:
    i, j = np.ogrid[: sizes["Q"], : sizes["T"]]
    inside = np.ones((sizes["Q"], sizes["T"]), bool)
    for c in domain:
        if H not in c.variables():
            inside &= np.broadcast_to(c.evaluate({"i": i, "j": j, **sizes}), inside.shape) >= 0
    found = []
    for b in range(0, sizes["Q"], rows):
        seen = np.flatnonzero(inside[b : b + rows].any(0))
        found.append(seen[-1] // keys - seen[0] // keys + 1 if len(seen) else 0)
    return float(np.mean(found)) if found else 0.0


@pytest.mark.parametrize("name", DOMAINS)
def test_counts(name: str) -> None:
    for rows, keys, q, t in (
        (16, 16, 64, 64),
        (32, 64, 100, 130),
        (64, 32, 33, 129),
        (16, 64, 1, 1),
        (16, 16, 40, 0),
        (16, 16, 0, 9),
    ):
        sizes = {"Q": q, "T": t}
        got = visited_tiles(DOMAINS[name], ("i", q), ("j", t), rows, keys, sizes)
        assert got == pytest.approx(counted(DOMAINS[name], rows, keys, sizes)), (rows, keys, q, t)


@pytest.mark.parametrize("sizes", [{"H": 16, "Q": 2048, "T": 2048, "D": 64}, {"Q": 512, "T": 512, "D": 64}])
def test_a_causal_pass_is_predicted_to_do_half_of_the_work(sizes: dict[str, int]) -> None:
    asked = {}
    for name in ("attention", "causal_attention_f16"):
        module = loads("import std.ops.attention")
        op, machine = specialise(module.ops[name], sizes), module.device("sm_80")
        ctx = context_of(op, machine)
        ranked, *_ = rank_pass(ctx, launches_of(op, machine, (), joined_intermediates(op, machine, ()))[-1][0])  # the deepest
        asked[name] = ranked.demand.issue
    rows, keys = ranked.tiles["bi"], ranked.tiles["bt"]
    whole = sizes["T"]
    share = (whole + rows + keys) / 2 / whole  # of the tiles above the diagonal, and what the edge adds
    assert (asked["causal_attention_f16"] <= asked["attention"] * np.minimum(1, share * 1.05)).all()
