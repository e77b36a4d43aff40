"""Intermediates that are made for each tile of what reads them, with a rim: in one launch, right at odd sizes, 1 and 0.

Results are written into poisoned memory. Under the emulator reads of what nothing wrote are found as well.
"""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.ir.tile_ir import Alloc
from andiron.codegen.ir.tile_visitors import statements
from andiron.codegen.pipeline import compile_program
from andiron.dsl.errors import UserError
from andiron.dsl.errors.schedule import CannotMeet
from andiron.dsl.module import Module, loads
from andiron.dsl.ops.specialise import bind_params
from andiron.runtime.check_results import check
from andiron.runtime.compile import compile

from ....support.library.cases import poisoned

STENCIL = """op f[H, W](X: f32[H, W]) -> (Y: f32[H, W]):
    A[i: H, j: W] = X[i, j] + X[i - 1, j else 0] + X[i, j + 1 else 0]
    B[i: H, j: W] = A[i - 1, j else 0] * 2.0 + A[i, j + 2 else 1]
    Y[i, j] = B[i - 1, j else 0] + B[i + 1, j else 0] + B[i, j - 1 else 0] + B[i, j]
"""
CONVS = """op f[C, H, W, O, P](X: f32[C, H, W], F: f32[O, C, 3, 3], G: f32[P, O, 3, 3]) -> (Y: f32[P, H, W]):
    D[o, p: H, q: W] = relu(sum(c, r, s) X[c, p + r - 1, q + s - 1 else 0] * F[o, c, r, s])
    Y[o, p, q] = sum(c, r, s) D[c, p + r - 1, q + s - 1 else 0] * G[o, c, r, s]
"""
STRIDED = """op f[C, H, W, O, P](X: f32[C, H, W], F: f32[O, C, 3, 3], G: f32[P, O, 3, 3]) -> (Y: f32[P, H2, W2])
        where H2 = (H + 1) / 2, W2 = (W + 1) / 2:
    D[o, p: H + 2, q: W + 2] = sum(c, r, s) X[c, p + r - 2, q + s - 2 else 0] * F[o, c, r, s]
    Y[o, p, q] = sum(c, r, s) D[c, p*2 + r - 1, q*2 + s - 1 else 0] * G[o, c, r, s]
"""
PRODUCTS = """op f[C, H, W, O, P](X: f16[H, W, C], F: f16[O, 3, 3, C], G: f16[P, 3, 3, O]) -> (Y: f32[H, W, P]):
    D[p: H, q: W, o] = f16(relu(sum(r, s, c) f32(X[p + r - 1, q + s - 1, c else 0]) * f32(F[o, r, s, c])))
    Y[p, q, o] = sum(r, s, c) f32(D[p + r - 1, q + s - 1, c else 0]) * f32(G[o, r, s, c])
"""
VALID = """op f[N](X: f32[N], w: f32[3]) -> (Y: f32[P]) where P = N - 4:
    D[i: N - 2] = (sum(r) X[i + r] * w[r]) * f32(i)
    Y[i] = sum(r) D[i + r] * w[r]
"""
PLACES = """op f[H, W](X: f32[H, W]) -> (Y: f32[H, W]):
    A[i: H, j: W] = f32(i) * 3.0 + f32(j)
    Y[i, j] = A[i - 2, j else 1] * X[i, j] + A[i, j + 1 else 5]
"""
PIXELS = ((37, 65), (5, 7), (16, 32), (1, 1), (2, 1), (0, 5), (5, 0))
IMAGES = (
    (3, 5, 7, 4, 5),
    (17, 9, 6, 8, 3),
    (2, 20, 40, 3, 7),
    (1, 1, 1, 1, 1),
    (3, 0, 4, 2, 2),
    (0, 3, 4, 2, 2),
    (3, 3, 4, 0, 2),
)
# the op, where it runs, the lines of its schedule, the shapes of what is kept, sizes
CASES = {
    "two stencils": (STENCIL, "cpu", """    tile i: 8, j: 16 -> core
    move X -> l2
    keep A in l2:
        tile i: 1, j: 8
        compute
    keep B in l2:
        tile i: 1, j: 8 -> lane
        compute
    tile i: 1, j: 8
    compute
""", {"a": (11, 19), "b": (10, 17)}, PIXELS),
    "below several tiles": (STENCIL, "cpu", """    tile i: 8 -> core
    tile j: 32
    keep A in l2:
        compute
    tile j: 3
    keep B in l1:
        tile i: 3
        compute
    compute
""", {"a": (11, 36), "b": (10, 4)}, PIXELS),
    "shared by threads": (STENCIL, "emulate:sm_80", """    tile i: 8, j: 16 -> block
    keep A in shared:
        tile i: 1, j: 1 -> thread
        compute
    keep B in shared:
        tile i: 2, j: 1 -> thread
        compute
    tile i: 1, j: 1 -> thread
    compute
""", {"a": (11, 19), "b": (10, 17)}, PIXELS),
    "blocks of `auto`": (STENCIL, "cpu", """    tile i: 8, j: 16 -> core
    keep A in l2:
        auto
    keep B in l2:
        auto
    tile j: 1 -> lane
    compute
""", {"a": (11, 19), "b": (10, 17)}, PIXELS),
    "blocks of `auto` for threads": (STENCIL, "emulate:sm_80", """    tile i: 8, j: 16 -> block
    keep A in shared:
        auto
    keep B in shared:
        auto
    tile i: 1, j: 1 -> thread
    compute
""", {"a": (11, 19), "b": (10, 17)}, PIXELS),
    "`auto` for what reads nothing": (PLACES, "emulate:gfx942", """    tile i: 4, j: 8 -> block
    keep A in shared:
        auto
    tile i: 1, j: 1 -> thread
    compute
""", {"a": (6, 9)}, PIXELS),
    "`auto` for a sum": (CONVS, "emulate:gfx942", """    tile p: 4, q: 8 -> block
    keep D in shared:
        auto
    auto
""", {"d": (64, 6, 10)}, IMAGES),
    "two convolutions": (CONVS, "cpu", """    tile p: 4, q: 16 -> core
    keep D in l2:
        tile o: 3, q: 16
        keep D in register
        tile c: 1, r: 1, s: 1
        compute with fma
    tile o.2: 2, q: 16
    keep Y in register
    tile o: 1, r: 1, s: 1
    compute with fma
""", {"d": (64, 6, 18)}, IMAGES),
    "some channels at a time": (CONVS, "cpu", """    tile p: 4, q: 16 -> core
    keep Y in l2
    tile o: 4
    keep D in l2:
        tile q: 16
        keep D in register
        tile c: 1, r: 1, s: 1
        compute with fma
    tile o.2: 2, q: 16
    keep Y in register
    tile o: 1, r: 1, s: 1
    compute with fma
""", {"d": (4, 6, 18)}, IMAGES),
    "two convolutions on a GPU": (CONVS, "emulate:gfx942", """    tile p: 4, q: 8 -> block
    move X -> shared
    keep D in shared:
        tile o: 1, p: 1, q: 1 -> thread
        compute
    tile o.2: 1, p: 1, q: 1 -> thread
    compute
""", {"d": (64, 6, 10)}, IMAGES),
    "a stride": (STRIDED, "cpu", """    tile p.2: 3, q.2: 5 -> core
    keep D in l2:
        tile o: 3, q: 16
        keep D in register
        tile c: 1, r: 1, s: 1
        compute
    tile o.2: 2, q.2: 5
    keep Y in register
    tile o: 1, r: 1, s: 1
    compute
""", {"d": (64, 7, 11)}, IMAGES),
    "by an instruction of groups": (PRODUCTS, "emulate:sm_80", """    tile p: 16, q: 4 -> block
    move X -> shared
    move F -> shared
    keep D in shared:
        fuse p, q as m
        tile m: 32 -> warp
        keep D in register
        tile r: 1, s: 1, c: 16
        compute with mma_m16n8k16_f16
    move G -> shared
    tile q: 1 -> warp
    keep Y in register
    tile r: 1, s: 1, o: 16
    compute with mma_m16n8k16_f16
""", {"d": (18, 6, 32)}, ((32, 20, 37, 32, 32), (32, 5, 7, 32, 3), (32, 1, 1, 32, 1), (32, 0, 3, 32, 2))),
    "without padding": (VALID, "cpu", """    tile i.2: 16 -> core
    keep D in l1:
        tile i: 8
        compute
    tile i.2: 8
    compute
""", {"d": (18,)}, ((4,), (5,), (37,), (20,))),
}  # fmt: skip


def module_of(name: str) -> tuple[Module, str]:
    op, target, lines, _, _ = CASES[name]
    bounds = (
        " where C == 32, O == 32, P <= 32" if op is PRODUCTS else " where C <= 64, O <= 64, P <= 64" if "C, H" in op else ""
    )
    on = "cpu:avx2" if target == "cpu" else target.partition(":")[2]
    for_device = "" if target == "cpu" else f" on {on}"  # this machine's CPU may be another one
    return loads(f"{op}schedule s for f{for_device}{bounds}:\n{lines}"), on


@pytest.mark.parametrize("name", CASES)
def test_right(name: str) -> None:
    (module, _), target = module_of(name), CASES[name][1]
    op = bind_params(module.ops["f"])
    kernel = compile(module, "f", "s", target)
    for extents in CASES[name][4]:
        sizes = dict(zip([d.name for d in op.dims], extents, strict=True))
        rng, known = np.random.default_rng(5), op.all_sizes(sizes)
        arrays = [rng.normal(size=tuple(e.evaluate(known) for e in t.shape)).astype(t.dtype.numpy) for t in op.inputs]
        out = poisoned(tuple(e.evaluate(known) for e in op.outputs[0].shape), np.dtype(np.float32))
        kernel(*arrays, out=out)
        assert check(op, arrays, [out]).ok, sizes


@pytest.mark.parametrize("name", CASES)
def test_made_in_the_tile(name: str) -> None:
    """As much as readers read; nothing goes through memory that all units see."""
    module, on = module_of(name)
    program = compile_program(module, bind_params(module.ops["f"]), module.schedules["s"], module.device(on)).program
    assert len(program.launches) == 1
    assert not [b for b in program.buffers if b.kind == "workspace"]
    made = {s.buffer.name: s.buffer.shape for s in statements(program.launches[0].body) if isinstance(s, Alloc)}
    for buffer, shape in CASES[name][3].items():
        assert tuple(e.constant for e in made[buffer]) == shape


def lowered(text: str, device: str):
    module = loads(text)
    return compile_program(module, bind_params(module.ops["f"]), module.schedules["s"], module.device(device)).program


def test_an_output_has_no_rim() -> None:
    """Neighbours would store its elements as well."""
    text = STENCIL.replace("-> (Y: f32[H, W])", "-> (Y: f32[H, W], B: f32[H, W])")
    module = loads(f"{text}schedule s for f:\n{CASES['two stencils'][2]}")
    kernel = compile(module, "f", "s", "cpu", sizes={"H": 13, "W": 37})
    x = np.random.default_rng(1).normal(size=(13, 37)).astype(np.float32)
    out = [poisoned(x.shape, x.dtype) for _ in range(2)]
    kernel(x, out=tuple(out))
    assert check(bind_params(module.ops["f"]), [x], out).ok
    made = [s.buffer.shape for a in kernel.program.launches for s in statements(a.body) if isinstance(s, Alloc)]
    assert (10, 17) not in [tuple(e.constant for e in shape) for shape in made]


@pytest.mark.every_second
@pytest.mark.parametrize(("target", "unit", "memory"), [("cpu", "core", "l2"), ("emulate:sm_80", "block", "shared")])
@pytest.mark.parametrize("size", PIXELS)
def test_blocks_of_auto_by_the_formula(target: str, unit: str, memory: str, size: tuple[int, int]) -> None:
    """The schedule that is printed says the block that was chosen, and means the same."""
    lines = f"    tile i: 8, j: 16 -> {unit}\n    keep B in {memory}:\n        auto\n    auto\n"
    text = """op f[H, W](X: f32[H, W]) -> (Y: f32[H, W]):
    B[i: H, j: W] = X[i - 1, j else 0] + X[i, j]
    Y[i, j] = B[i - 1, j else 2] * B[i, j]
"""
    kernel = compile(loads(f"{text}schedule s for f:\n{lines}"), "f", "s", target)
    assert "auto" not in kernel.schedule.partition(":")[2]
    assert compile(loads(text + kernel.schedule), "f", "s", target).program == kernel.program
    x = np.random.default_rng(1).normal(size=size).astype(np.float32)
    out = poisoned(size, x.dtype)
    kernel(x, out=out)
    b = x + np.pad(x, ((1, 0), (0, 0)))[: size[0]]
    np.testing.assert_allclose(out, np.pad(b, ((1, 0), (0, 0)), constant_values=2)[: size[0]] * b, rtol=1e-5, atol=1e-5)


def test_without_a_block_blocks_cannot_meet() -> None:
    lines = "    tile i: 8, j: 16 -> block\n    keep B in shared\n    tile i: 1, j: 1 -> thread\n    compute\n"
    with pytest.raises(UserError) as caught:
        lowered(f"{STENCIL}schedule s for f:\n{lines}", "sm_80")
    assert caught.value.id == "schedule-cannot-meet"
    assert str(caught.value.help).startswith("give `keep B in shared` a block, which makes what each block reads")


def test_a_reader_that_nothing_makes_in_the_tile() -> None:
    """B is between A and the result, and has no rim of its own here."""
    lines = "    tile i: 8, j: 16 -> core\n    keep A in l2:\n        compute\n    tile i: 1\n    compute\n"
    module = loads(f"{STENCIL}schedule s for f:\n{lines}")
    kernel = compile(module, "f", "s", "cpu", sizes={"H": 13, "W": 37})
    x = np.random.default_rng(1).normal(size=(13, 37)).astype(np.float32)
    out = poisoned(x.shape, x.dtype)
    kernel(x, out=out)
    assert check(bind_params(module.ops["f"]), [x], [out]).ok


def test_reads_whose_distance_grows() -> None:
    """No tile and no bound helps; what the help says does."""
    made = "A[i: H, j: W] = X[i, j] * 2.0"
    op = f"op f[H, W](X: f32[H, W]) -> (Y: f32[H, W]):\n    {made}\n    Y[i, j] = A[i + 1, j else 1] + A[3*i, j else 7]\n"
    tile, rest = "    tile i: 4, j: 4 -> block\n", "    tile i: 1, j: 1 -> thread\n    compute\n"
    keep = "    keep A in shared:\n        tile i: 1, j: 1 -> thread\n        compute\n"
    for bounds in ("", " where H <= 64, W <= 64"):
        with pytest.raises(UserError) as caught:
            lowered(f"{op}schedule s for f on sm_80{bounds}:\n{tile}{keep}{rest}", "sm_80")
        assert "read at `i + 1` and at `3*i` along `i`, and their distance grows with `i`" in str(caught.value)
        assert caught.value.help == "give `A` a launch of its own: `keep A in global:` with `auto` below it"
    other = "    keep A in global:\n        auto\n"
    assert len(lowered(f"{op}schedule s for f on sm_80:\n{other}{tile}{rest}", "sm_80").launches) == 2


EARLIER = """op f[M, K, H, N](X: f32[M, K], W: f32[K, H], U: f32[H, N]) -> (Y: f32[M, N]):
    a[m, h] = sum(k) X[m, k] * W[k, h]
    b[m, n] = sum(h) a[m, h] * U[h, n]
    g[m] = sum(h) a[m, h] * a[m, h]
    Y[m, n] = b[m, n] + g[m + 1 else 0]
"""


@pytest.mark.parametrize("above", ["    tile k: 2\n", ""])
def test_a_rim_of_what_an_earlier_nest_stores(above: str) -> None:
    """Blocks do not wait for each other, whose tiles of `a` the rim of `g` needs; cores do."""
    bounds = "M <= 16, K <= 16, H <= 16, N <= 16"
    lines = above + "    tile m: 2 -> {}\n    keep g in {}:\n        tile m: 1 -> {}\n    keep a in register\n"
    text = f"{EARLIER}schedule s for f on sm_80 where {bounds}:\n{lines.format('block', 'shared', 'thread')}"
    with pytest.raises(CannotMeet, match="`g` needs what every block makes of `a`"):
        lowered(text, "sm_80")
    module = loads(f"{EARLIER}schedule s for f where {bounds}:\n{lines.format('core', 'l1', 'lane')}")
    op, kernel = bind_params(module.ops["f"]), compile(module, "f", "s", "cpu")
    rng = np.random.default_rng(2)
    for m, k, h, n in ((7, 5, 6, 4), (1, 1, 1, 1), (3, 0, 2, 5), (16, 16, 16, 16)):
        arrays = [rng.normal(size=s).astype(np.float32) for s in ((m, k), (k, h), (h, n))]
        out = poisoned((m, n), np.dtype(np.float32))
        kernel(*arrays, out=out)
        assert check(op, arrays, [out]).ok
