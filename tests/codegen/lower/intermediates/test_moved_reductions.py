"""`move T -> MEMORY` of a reduction: it is computed where it would be staged, and is zero past the edges, as copies are. So an
instruction reads it as an operand."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.pipeline import compile_program
from andiron.codegen.verify import check_once
from andiron.dsl.errors.schedule import CannotMeet
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import bind_params, specialise
from andiron.runtime.check_results import check
from andiron.runtime.compile import compile

from ....support.library.cases import poisoned

# what is computed of a zero is none: results past the edges must not be stored
WINDOW = """op f[H, W, C, O](I: f16[H, W, C], F: f16[3, 3, C], G: f16[C, O]) -> (Y: f16[P, Q, O]) where P = (H + 1) / 2, Q = W:
    D[p: P, q: Q, c] = f16(sigmoid(sum(r, s) f32(I[2*p + r - 1, q + s - 1, c else 0]) * f32(F[r, s, c])))
    Y[p, q, o] = f16(sum(c) f32(D[p, q, c]) * f32(G[c, o]))
schedule s for f on DEVICE:
    fuse p, q as m
    tile m: 64, o: 32 -> block
    keep Y in register
    tile c: 32
    move D -> shared swizzle{block}
    move G -> shared swizzle
    tile m: 32 -> GROUP
    tile c: 16
    compute with INSTR
"""
BLOCK = """:
        tile m: 1, c: 8 -> thread
        keep D in register
        tile r: 1, s: 1
        compute"""
LAYERS = """op f[H, W, C, O](X: f16[H, W], F: f16[W, C], G: f16[C, O]) -> (Y: f16[H, O]):
    D[h, c] = f16(sigmoid((sum(w) f32(X[h, w]) * f32(F[w, c])) + 1.0))
    Y[h, o] = f16(sum(c) f32(D[h, c]) * f32(G[c, o]))
schedule s for f on DEVICE where O <= 64:
    tile h: 64 -> block
    keep Y in register
    tile c: 32
    move D -> shared swizzle:
        keep D in register
        tile w: 32
        move X -> shared swizzle
        move F -> shared swizzle
        tile h: 32 -> GROUP
        tile w: 16
        compute with INSTR
    move G -> shared swizzle
    tile h: 32 -> GROUP
    tile c: 16
    compute with INSTR
"""
# What is kept ends at its edge, and is masked where registers load it.
KEPT = WINDOW.replace("move D -> shared swizzle{block}", f"keep D in shared swizzle{BLOCK}")
SCHEDULES = {
    "window": WINDOW.replace("{block}", BLOCK),
    "kept": KEPT,
    "no block": WINDOW.replace("{block}", ""),
    "product": LAYERS,
}
TARGETS = (("sm_80", "mma_m16n8k16_f16", "warp"), ("gfx942", "mfma_32x32x8_f16", "wave"))
SIZES = ((5, 7, 3, 2), (9, 11, 33, 50), (1, 1, 1, 1), (3, 4, 0, 5), (3, 4, 5, 0), (0, 3, 4, 5), (16, 16, 32, 32))


def text_of(name: str, target: tuple[str, str, str] = TARGETS[0]) -> str:
    text = SCHEDULES[name]
    for word, own in zip(("DEVICE", "INSTR", "GROUP"), target, strict=True):
        text = text.replace(word, own)
    return text


def arrays_of(op, sizes: dict[str, int]) -> list[np.ndarray]:
    rng, known = np.random.default_rng(sum(sizes.values())), op.all_sizes(sizes)
    return [rng.normal(size=tuple(e.evaluate(known) for e in t.shape)).astype(t.dtype.numpy) for t in op.inputs]


@pytest.mark.fewest
@pytest.mark.parametrize("target", TARGETS, ids=lambda x: x[0])
@pytest.mark.parametrize("name", SCHEDULES)
def test_right_at_any_size(name: str, target: tuple[str, str, str]) -> None:
    text = text_of(name, target)
    kernel = compile(text, "f", "s", target=f"emulate:{target[0]}")
    op = bind_params(loads(text).ops["f"])
    for extents in SIZES:
        sizes = dict(zip("HWCO", extents, strict=True))
        arrays, known = arrays_of(op, sizes), op.all_sizes(sizes)
        out = poisoned(tuple(e.evaluate(known) for e in op.outputs[0].shape), np.dtype(np.float16))
        kernel(*arrays, out=out)
        assert check(op, arrays, [out]).ok, sizes


@pytest.mark.parametrize("name", SCHEDULES)
def test_each_point_counts_once(name: str) -> None:
    text = text_of(name).replace(" where O <= 64", "")
    module, sizes = loads(text), {"H": 5, "W": 7, "C": 19, "O": 9}
    op = specialise(module.ops["f"], sizes)
    made = compile_program(module, op, module.schedules["s"], module.device("sm_80"))
    check_once(made.program, op, {})
    arrays = arrays_of(op, {})
    got = interpret(made.program, {t.name: x for t, x in zip(op.inputs, arrays, strict=True)})
    assert check(op, arrays, list(got.values())).ok
    again = loads(text[: text.index("schedule")] + made.schedule)
    second = compile_program(again, op, again.schedules["s"], again.device("sm_80"))
    assert second.program == made.program


STENCIL = """op f[M, N, K](A: f32[M, K], B: f32[K, N]) -> (Y: f32[M, N]):
    D[i, j] = sum(k) A[i, k] * B[k, j]
    Y[i, j] = D[i, j] + D[i, j - 1 else 0] + D[i, j + 1 else 0]
schedule s for f on sm_80:
    tile i: 16, j: 16 -> block
    LINE:
        tile i: 4, j: 4 -> thread
        keep D in register
        tile k: 4
        compute
    tile i: 1, j: 1 -> thread
    compute
"""


@pytest.mark.parametrize("line", ["move D -> shared", "keep D in shared"])
def test_what_is_read_beyond_a_tile_has_a_rim(line: str) -> None:
    """Whichever line holds it."""
    module, kernel = loads(STENCIL.replace("LINE", line)), compile(STENCIL.replace("LINE", line), "f", "s", "emulate:sm_80")
    rng = np.random.default_rng(6)
    for m, n, k in ((1, 1, 1), (17, 35, 9), (16, 32, 8), (5, 3, 0)):
        arrays = [rng.integers(-3, 4, shape).astype(np.float32) for shape in ((m, k), (k, n))]
        out = poisoned((m, n), np.dtype(np.float32))
        kernel(*arrays, out=out)
        assert check(bind_params(module.ops["f"]), arrays, [out]).ok, (m, n, k)


@pytest.mark.parametrize("line", ["move D -> shared", "keep D in shared"])
def test_what_others_read_too_has_no_rim(line: str) -> None:
    """Both lines are refused for the same reason, and no help names the other one."""
    text = STENCIL.replace("    Y[i, j] =", "    E[j] = sum(i) D[i, j]\n    Y[i, j] =").replace(
        " (Y: f32[M, N])", " (Y: f32[M, N], E: f32[N])"
    )
    module = loads(text.replace("LINE", line))
    with pytest.raises(CannotMeet, match="`Y` needs what every block makes of `D`") as refused:
        compile_program(module, bind_params(module.ops["f"]), module.schedules["s"], module.device("sm_80"))
    assert "do all of it in one block" in (refused.value.help or "")
