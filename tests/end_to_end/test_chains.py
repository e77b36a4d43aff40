"""Attention between other statements: its chain is one pass by default, and the rest has launches of its own."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.autoschedule.one_pass.chains import chains_of
from andiron.codegen.pipeline import compile_program
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import specialise
from andiron.runtime.check_results import check
from andiron.runtime.compile import compile

CHAIN = """
    s{n}[h, i, t] = (sum(d) f32({q}[h, i, d]) * f32(k[h, t, d])) * rsqrt(D)
    m{n}[h, i] = max(t) s{n}[h, i, t]
    p{n}[h, i, t] = exp(s{n}[h, i, t] - m{n}[h, i])
    l{n}[h, i] = sum(t) p{n}[h, i, t]
    {o}[h, i, d] = f16((sum(t) f32(f16(p{n}[h, i, t])) * f32(v[h, t, d])) / l{n}[h, i])"""


def chain(q: str, o: str, n: str = "") -> str:
    return CHAIN.format(q=q, o=o, n=n)


BEFORE, TWO = chain("q", "o"), chain("q", "a") + chain("a", "o", "2")
FIRST = "(sum(t) f32(f16(p[h, i, t])) * f32(v[h, t, d])) / l[h, i]"
SECOND = FIRST.replace("p[", "p2[").replace("v[", "v2[").replace("l[", "l2[")
BOTH = """
    s[h, i, t] = sum(d) f32(q[h, i, d]) * f32(k[h, t, d])
    m[h, i] = max(t) s[h, i, t]
    p[h, i, t] = exp(s[h, i, t] - m[h, i])
    l[h, i] = sum(t) p[h, i, t]
    s2[h, i, t] = sum(d) f32(q[h, i, d]) * f32(k2[h, t, d])
    m2[h, i] = max(t) s2[h, i, t]
    p2[h, i, t] = exp(s2[h, i, t] - m2[h, i])
    l2[h, i] = sum(t) p2[h, i, t]"""
OPS = f"""
op normalised[H, Q, T, D](q: f16[H, Q, D], k: f16[H, T, D], v: f16[H, T, D], g: f32[D]) -> (o: f16[H, Q, D]):
    r[h, i] = rsqrt((sum(d) f32(q[h, i, d]) * f32(q[h, i, d])) / D + 1e-6)
    n[h, i, d] = f16(f32(q[h, i, d]) * r[h, i] * g[d]){chain("n", "o")}
op projected[H, Q, T, D, E](X: f16[Q, E], W: f16[E, H, D], k: f16[H, T, D], v: f16[H, T, D]) -> (o: f16[H, Q, D]):
    q[h, i, d] = f16(sum(e) f32(X[i, e]) * f32(W[e, h, d])){chain("q", "o")}
op combined[H, Q, T, D, E](q: f16[H, Q, D], k: f16[H, T, D], v: f16[H, T, D], W: f16[H, D, E]) -> (Y: f16[Q, E]):{BEFORE}
    Y[i, e] = sum(h, d) f32(o[h, i, d]) * f32(W[h, d, e])
op twice[H, Q, T, D](q: f16[H, Q, D], k: f16[H, T, D], v: f16[H, T, D]) -> (o: f16[H, Q, D]):{TWO}
op beside[H, Q, T, D](q: f16[H, Q, D], k: f16[H, T, D], v: f16[H, T, D]) -> (o: f16[H, Q, D], s2: f32[T]):{chain("q", "o")}
    s2[t] = sum(h, d) f32(k[h, t, d]) * f32(v[h, t, d])
op added[H, Q, T, S, D](q: f16[H, Q, D], k: f16[H, T, D], v: f16[H, T, D], k2: f16[H, S, D], v2: f16[H, S, D])
        -> (o: f32[H, Q, D], l: f32[H, Q]):{BOTH}
    o[h, i, d] = {FIRST} + {SECOND}
op named[H, Q, T, S, D](q: f16[H, Q, D], k: f16[H, T, D], v: f16[H, T, D], k2: f16[H, S, D], v2: f16[H, S, D])
        -> (o: f32[H, Q, D]):{BOTH}
    a[h, i, d] = {FIRST}
    b[h, i, d] = {SECOND}
    o[h, i, d] = a[h, i, d] - 0.5 * b[h, i, d]
op read_elsewhere[H, Q, T, D](q: f16[H, Q, D], k: f16[H, T, D], v: f16[H, T, D]) -> (o: f16[H, Q, D], c: f32[H, T]):{BEFORE}
    c[h, t] = sum(i) p[h, i, t]
"""
LAUNCHES = {"normalised": 3, "projected": 2, "combined": 2, "twice": 2, "beside": 2, "added": 2, "named": 3}
LARGE = {"H": 16, "Q": 2048, "T": 2048, "D": 64, "E": 1024, "S": 2048}


@pytest.mark.fewest
@pytest.mark.parametrize("device", ["sm_80", "gfx1100"])
@pytest.mark.parametrize("name", LAUNCHES)
def test_the_chain_is_one_pass(name: str, device: str) -> None:
    """Without scores in memory; what is before and after has a launch for each product."""
    module = loads(OPS)
    op = specialise(module.ops[name], {v.name: LARGE[v.name] for v in module.ops[name].dims})
    made = compile_program(module, op, None, module.device(device))
    assert len(made.program.launches) == LAUNCHES[name]
    assert made.schedule.count("online") == (2 if name in ("twice", "added", "named") else 1)
    assert not any({"s.sum1", "p"} & {b.name} for b in made.program.buffers)
    compared = [x.launch for x in made.report["alternatives"] if any("one pass" in c.nest for c in x.candidates)]
    assert compared == {"twice": ["a", "o"], "added": ["o.sum1", "o.sum2"], "named": ["a", "b"]}.get(
        name, ["o"]
    )  # by their results, as launches


def test_chains() -> None:
    """Their inputs are what others compute. What others read of a chain is stored, so its scores are not kept."""
    ops = loads(OPS).ops
    found = {
        name: [[s.target for s in x.statements if "." not in s.target] for x in chains_of(op)][1:] for name, op in ops.items()
    }
    assert found["projected"] == found["combined"] == [["s", "m", "p", "l", "o"]]
    assert found["twice"] == [["s", "m", "p", "l", "a"], ["s2", "m2", "p2", "l2", "o"]]
    (part,) = list(chains_of(ops["read_elsewhere"]))[1:]
    assert {t.name for t in part.outputs} == {"o", "p"}
    assert {t.name for t in list(chains_of(ops["normalised"]))[1].inputs} == {"n", "k", "v"}


@pytest.mark.fewest
@pytest.mark.parametrize("device", ["sm_80", "cpu:avx2"])
@pytest.mark.parametrize("name", LAUNCHES)
def test_completed_lines_mean_the_same(name: str, device: str) -> None:
    module = loads(OPS)
    op = specialise(module.ops[name], {v.name: LARGE[v.name] // 8 for v in module.ops[name].dims})
    made = compile_program(module, op, None, module.device(device))
    again = loads(OPS + made.schedule)
    (printed,) = {*again.schedules} - {*module.schedules}
    fed = compile_program(again, op, again.schedules[printed], again.device(device))
    assert fed.program.launches == made.program.launches


ODD = {"H": 2, "Q": 19, "T": 70, "D": 24, "E": 40, "S": 33}
SIZES = (ODD, dict.fromkeys(ODD, 1), {"H": 1, "Q": 3, "T": 0, "D": 8, "E": 5, "S": 4})


@pytest.mark.fewest
@pytest.mark.parametrize("device", ["emulate:sm_80", "emulate:gfx1100", "cpu:avx2"])
@pytest.mark.parametrize("name", [*LAUNCHES, "read_elsewhere"])
def test_results(name: str, device: str) -> None:
    op, kernel, rng = loads(OPS).ops[name], compile(OPS, op=name, target=device), np.random.default_rng(0)
    for given in SIZES:
        sizes = {v.name: given[v.name] for v in op.dims}
        arrays = [rng.normal(size=[e.evaluate(sizes) for e in t.shape]).astype(t.dtype.numpy) for t in op.inputs]
        out = kernel(*arrays)
        verdict = check(op, arrays, list(out) if isinstance(out, tuple) else [out])
        assert verdict.ok, (sizes, verdict)
