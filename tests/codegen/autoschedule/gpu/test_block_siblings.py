"""Siblings in one launch, as the compiler chooses it: right at odd sizes, 1 and 0, and beside the launches apart."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.analysis.static_traffic import static_traffic
from andiron.codegen.pipeline import compile_program
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import bind_params, specialise
from andiron.runtime.check_results import check
from andiron.runtime.compile import compile

from ....support.library.cases import poisoned

HALF = """op f[M, K, F](X: f16[M, K], Wg: f16[K, F], Wu: f16[K, F]) -> (H: f16[M, F]):
    g[m, h] = sum(k) f32(X[m, k]) * f32(Wg[k, h])
    u[m, h] = sum(k) f32(X[m, k]) * f32(Wu[k, h])
    H[m, h] = f16(g[m, h] * sigmoid(g[m, h]) * u[m, h])
"""
GATED = HALF.replace("f16(g[m, h] * sigmoid(g[m, h]) * u[m, h])", "g[m, h] * sigmoid(g[m, h]) * u[m, h]").replace("f16", "f32")
# the operands that differ have the rows; the second write-back reads what the first one makes, and the third both
THREE = """op f[M, K, F](A: f16[M, K], B: f16[M, K], C: f16[M, K], W: f16[F, K], bias: f32[F]) -> (Y: f32[M, F]):
    a[m, h] = sum(k) f32(A[m, k]) * f32(W[h, k])
    p[m, h] = tanh(a[m, h]) + bias[h]
    b[m, h] = sum(k) f32(B[m, k]) * f32(W[h, k])
    q[m, h] = p[m, h] * b[m, h]
    c[m, h] = sum(k) f32(C[m, k]) * f32(W[h, k])
    Y[m, h] = q[m, h] + c[m, h]
"""
OPS = {"half": HALF, "single": GATED, "three": THREE}
EXTENTS = ((70, 33, 67), (64, 40, 72), (1, 1, 1), (3, 0, 5), (0, 4, 3), (4, 3, 0), (130, 65, 17))
LARGE = {"M": 512, "K": 512, "F": 1408}
DEVICES = ("sm_80", "gfx942", "gfx1100")
BOTH = [(name, device) for name in OPS for device in DEVICES]


@pytest.mark.every_second
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", OPS)
def test_right(name: str, device: str) -> None:
    text = OPS[name]
    if text is THREE:  # also where launches apart are predicted to be faster
        keeps = "".join(f"    keep {x} in register\n" for x in "abc")
        text += f"schedule s for f:\n    tile m: 16, h: 32 -> block\n{keeps}    auto\n"
    op, kernel = loads(text).ops["f"], compile(text, "f", "s" if text is not OPS[name] else None, f"emulate:{device}")
    assert len(kernel.program.launches) == 1
    for extents in EXTENTS:
        sizes = dict(zip([d.name for d in op.dims], extents, strict=True))
        rng, known = np.random.default_rng(5), op.all_sizes(sizes)
        arrays = [rng.normal(size=tuple(e.evaluate(known) for e in t.shape)).astype(t.dtype.numpy) for t in op.inputs]
        out = poisoned(tuple(e.evaluate(known) for e in op.outputs[0].shape), op.outputs[0].dtype.numpy)
        kernel(*arrays, out=out)
        assert check(bind_params(op), arrays, [out]).ok, sizes


@pytest.mark.parametrize(("name", "device"), BOTH)
def test_one_launch_beside_several(name: str, device: str) -> None:
    """Results that meet are not in memory, and what is asked of it is what the model says."""
    module = loads(OPS[name])
    op = specialise(bind_params(module.ops["f"]), LARGE)
    found = compile_program(module, op, None, module.device(device))
    (report,) = found.report["alternatives"]
    one, several = report.candidates
    assert (one.nest, several.nest) == ("siblings: 1 launch", f"apart: {3 if name == 'three' else 2} launches")
    assert one.seconds < several.seconds
    assert len(found.program.launches) == 1
    assert not [b for b in found.program.buffers if b.kind == "workspace"]
    assert one.moved < several.moved
    traffic = static_traffic(found.program, LARGE)
    if traffic.exact:
        assert traffic.moved(found.program.device.memories[0].name) == pytest.approx(one.asked, rel=0.02)


def test_lines_that_keep_both_are_completed() -> None:
    """By the nest of siblings, with the author's sizes."""
    lines = "    tile m: 64, h: 64 -> block\n    keep g in register\n    keep u in register\n    auto\n"
    module = loads(f"{HALF}schedule s for f on sm_80:\n{lines}")
    found = compile_program(module, bind_params(module.ops["f"]), module.schedules["s"], module.device("sm_80"))
    assert found.report["choices"][0].candidates[0].nest.startswith("siblings: 2 x mma_m16n8k16_f16")
    assert len(found.program.launches) == 1


APART = {
    "read by another launch": HALF.replace("-> (H: f16[M, F])", "-> (H: f16[M, F], G: f32[F, M])") + "    G[h, m] = g[m, h]\n",
    "nothing in common": HALF.replace("Wu: f16[K, F]", "Wu: f16[K, F], Z: f16[M, K]").replace(
        "f32(X[m, k]) * f32(Wu", "f32(Z[m, k]) * f32(Wu"
    ),
    "at another element": HALF.replace("sigmoid(g[m, h])", "sigmoid(g[m, F - 1 - h])"),
}


@pytest.mark.parametrize("name", APART)
def test_no_siblings(name: str) -> None:
    module = loads(APART[name])
    found = compile_program(module, bind_params(module.ops["f"]), None, module.device("sm_80"))
    assert not found.report["alternatives"]
    assert len(found.program.launches) > 1
