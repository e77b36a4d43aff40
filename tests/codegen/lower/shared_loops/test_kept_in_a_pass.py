"""What has no key and is kept below an online tile is computed in each tile, as the lines say."""

from __future__ import annotations

import pytest
from andiron.codegen.lower.schedule_trace import show_trace
from andiron.dsl.module import loads
from andiron.runtime.check_results import check
from andiron.runtime.compile import compile
from andiron.runtime.random_inputs import random_inputs

TEXT = """
op f[Q, T, D](q: f16[Q, D], k: f16[T, D], v: f16[T, D]) -> (o: f16[Q, D]):
    scaled[i, d] = f16(f32(q[i, d]) * 0.1)
    s[i, t] = sum(d) f32(scaled[i, d]) * f32(k[t, d])
    m[i] = max(t) s[i, t]
    p[i, t] = exp(s[i, t] - m[i])
    l[i] = sum(t) p[i, t]
    o[i, d] = (sum(t) f32(f16(p[i, t])) * f32(v[t, d])) / l[i]
schedule h for f:
    tile i: 16 -> block
PARTS    keep m, l, o in register
ABOVE    tile t: 32 online
BELOW    keep s in shared:
        tile i: 4, t: 4 -> thread
        compute
    tile i: 4, d: 4 -> thread
    compute
"""
KEPT = "    keep scaled in shared:\n        tile i: 4, d: 4 -> thread\n        compute\n"
PARTS = "    tile t: 64 -> block online by workspace\n"


@pytest.mark.fewest
@pytest.mark.parametrize("target", ["emulate:sm_80", "emulate:gfx942"])
@pytest.mark.parametrize("parts", ["", PARTS])
@pytest.mark.parametrize("where", ["ABOVE", "BELOW"])
def test_queries_that_are_scaled_in_the_pass(where: str, parts: str, target: str) -> None:
    text = TEXT.replace("PARTS", parts).replace(where, KEPT).replace("ABOVE", "").replace("BELOW", "")
    kernel = compile(loads(text), None, None, target, D=33)
    for q, t in ((1, 1), (5, 70), (17, 0), (33, 129)):
        arrays = random_inputs(kernel.op, {"Q": q, "T": t, "D": 33}, q)
        assert check(kernel.op, arrays, [kernel(*arrays)]).ok, (q, t)


VALUES = """
op f[Q, T, D](q: f32[Q, D], k: f16[T, D], v: f16[T, D]) -> (o: f32[Q, D]):
    keys[t, d] = f32(k[t, d])
    s[i, t] = sum(d) q[i, d] * keys[t, d]
    m[i] = max(t) s[i, t]
    p[i, t] = exp(s[i, t] - m[i])
    l[i] = sum(t) p[i, t]
    values[t, d] = f32(v[t, d])
    o[i, d] = (sum(t) p[i, t] * values[t, d]) / l[i]
schedule h for f:
    tile i: 16 -> UNITS
    keep m, l, o in register
    tile t: 32 online
    keep keys in MEMORY:
        EACH
        compute
    keep values in MEMORY:
        EACH
        compute
    keep s in MEMORY:
        ROWS
        compute
    ROWS
    compute
"""
CORE = {"UNITS": "core", "MEMORY": "l1", "EACH": "tile d: 8 -> lane", "ROWS": "tile i: 4"}
BLOCK = {"UNITS": "block", "MEMORY": "shared", "EACH": "tile t: 4, d: 4 -> thread", "ROWS": "tile i: 1 -> thread"}


@pytest.mark.fewest
@pytest.mark.parametrize(("target", "lines"), [("cpu", CORE), ("emulate:sm_80", BLOCK)])
def test_values_that_are_converted_in_the_pass(target: str, lines: dict[str, str]) -> None:
    """Values have no rows, and stand after the maximum, which has: each tile of rows converts them for itself."""
    text = VALUES
    for name, line in lines.items():
        text = text.replace(name, line)
    kernel = compile(loads(text), None, None, target, D=33)
    assert "l, o.sum1: times exp(m~ - m)" in show_trace(kernel.trace)
    assert not [b for b in kernel.program.buffers if b.kind == "workspace"]
    for q, t in ((1, 1), (5, 70), (17, 0), (33, 129), (0, 3)):
        arrays = random_inputs(kernel.op, {"Q": q, "T": t, "D": 33}, q)
        assert check(kernel.op, arrays, [kernel(*arrays)]).ok, (q, t)


@pytest.mark.fewest
@pytest.mark.parametrize("target", ["emulate:sm_80", "emulate:gfx942"])
def test_values_between_the_maximum_and_what_reads_it_for_fewer_rows_than_lanes(target: str) -> None:
    """Rows of four lanes: the others have running values, too, as each reads them in the nest after that of the values."""
    text = VALUES.replace("UNITS", "block")[: VALUES.index("    keep keys")]
    lines = ("keep s in register", "keep values in shared", "tile i: 4 -> thread", "keep keys in shared", "compute")
    kernel = compile(loads(text + "".join(f"    {line}\n" for line in lines)), None, None, target, D=4)
    for q, t in ((1, 1), (5, 70), (17, 0), (33, 129)):
        arrays = random_inputs(kernel.op, {"Q": q, "T": t, "D": 4}, q)
        assert check(kernel.op, arrays, [kernel(*arrays)]).ok, (q, t)
