"""The spec in focus is shown after each line, once, with the line's effect."""

from andiron.codegen.ir.schedule_tree import Tile
from andiron.codegen.lower.schedule_trace import show_trace
from andiron.codegen.pipeline import compile_program
from andiron.dsl.module import loads

GEMM = """
op gemm[M, N, K](A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]):
    C[m, n] = sum(k) A[m, k] * B[k, n]
op im2col[N, C, W, O](I: f32[N, C, W], F: f32[O, C, 3]) -> (Y: f32[N, O, W]):
    Y[n, o, w] = sum(c, s) I[n, c, w + s - 1 else 0] * F[o, c, s]
op linear[M, N, K](X: f32[M, K], W: f32[N, K], b: f32[N]) -> (Y: f32[M, N]):
    H[m, n] = sum(k) X[m, k] * W[n, k]
    Y[m, n] = relu(H[m, n] + b[n])
schedule blis for gemm on cpu:avx2:
    tile n: 4080
    tile k: 256
    move B -> l3 layout panels(n: 16)
    tile m: 72 -> core
    move A -> l2 layout panels(m: 6):
        tile m: 1
        compute
    tile n: 16
    tile m: 6
    keep C in register
    tile k: 1 unroll 4
    compute with fma_f32x8
schedule igemm for im2col on cpu:avx2:
    fuse n, w as m
    fuse c, s as k
    tile m: 8, o: 8 -> core
    tile k: 16
    move I -> l1
    compute
"""


def trace(name: str | None, op: str = "gemm"):
    module = loads(GEMM)
    schedule = module.schedules[name] if name else None
    return compile_program(module, module.ops[op], schedule, module.device("cpu:avx2")).trace


def test_a_spec_after_each_line():
    specs = {t.line: t.specs for t in trace("blis") if t.depth == 1}
    assert specs["tile k: 256"] == ("C[M, 4080] += A[M, 256] * B[256, 4080]  @socket  A: dram  B: dram  C: dram",)
    assert specs["keep C in register"] == ("C[6, 16] += A[6, 256] * B[256, 16]  @core  A: l2  B: l3  C: register",)
    assert specs["compute with fma_f32x8"] == ()


def test_nested_blocks_written_and_completed():
    shown = show_trace(trace("blis"))
    assert shown.count("tile m: 1 ") == 1
    assert shown.count("tile n: 16 -> core") == 1
    assert "# A~[256, 1] = A[1, 256]  @core  A: dram  A~: l2" in shown
    assert "tile n: 16 -> core             # 255 tiles over the cores" in shown
    assert "move A -> l2 layout panels(m: 6)   # 72 KiB in l2 (72 KiB of 512 KiB)" in shown


def test_a_fused_index_shows_a_view():
    specs = {t.line: t.specs for t in trace("igemm", "im2col")}
    assert specs["tile k: 16"][0].startswith("Y[8, 8] += I[8, 16] * F[8, 16]  @core")
    assert "I: l1" in specs["move I -> l1"][0]


def test_the_compilers_own_schedule_has_specs():
    found = trace(None, "linear")
    assert found[0].specs[0].startswith("H[M, N] += X[M, K] * W[N, K], Y[M, N] = relu(H[M, N] + b[N])  @socket")
    assert all(t.specs or t.line.startswith("compute") for t in found)


def test_tiles_over_units():
    """As many tiles as there are units, or how many each gets."""
    text = """import std.ops.gemm
schedule s for gemm on sm_80:
    tile m: 64, n: 32 -> block
    tile m: 32 -> warp
    tile m: 1, n: 4 -> thread
schedule t for gemm on cpu:avx2:
    tile m: 64 -> core
    tile n: 16
    tile n: 1 -> lane
"""
    module = loads(text)
    said = {}
    for name, device in (("s", "sm_80"), ("t", "cpu:avx2")):
        found = compile_program(module, module.ops["gemm"], module.schedules[name], module.device(device)).trace
        said |= {t.line: t.effect for t in found}
    assert said["tile m: 32 -> warp"] == "2 tiles, one per warp"
    assert said["tile m: 1, n: 4 -> thread"] == "32 x 8 tiles over 32 threads: 8 each"
    assert said["tile m: 64, n: 32 -> block"].endswith(" tiles, one per block")
    assert said["tile m: 64 -> core"].endswith(" tiles over the cores")


def test_tiles_are_counted_in_the_order_of_visiting():
    """Figures are those of the tree's node, whose axes are in that order, and not of the text of the line."""
    text = "import std.ops.gemm\nschedule s for gemm on sm_80:\n"
    text += "    tile m: 64, n: 32 -> block\n    tile m: 1, n: 4 -> thread order n, m\n"
    module = loads(text)
    found = compile_program(module, module.ops["gemm"], module.schedules["s"], module.device("sm_80")).trace
    (line,) = [t for t in found if "thread" in t.line]
    assert isinstance(line.node, Tile)
    assert [a.index for a in line.node.axes] == ["n", "m"]
    assert line.effect.startswith("8 x 64 tiles")
    assert [t.targets for t in found if t.depth == 0] == [("C",)]
