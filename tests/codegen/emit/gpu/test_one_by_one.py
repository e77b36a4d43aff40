"""Operands of instructions whose address is not aligned are loaded element by element, by a function of the text."""

import andiron
import numpy as np
import pytest
from andiron.dsl.module import loads

from ....support.gpu.compilers import hip

SIZES = {"M": 64, "N": 32, "K": 64}
OP = """\
op product[M, N, K](A: {0}[M, K], B: {0}[K, N]) -> (C: {1}[M, N]):
    C[m, n] = sum(k) {2}(A[m, k]) * B[k, n]

schedule tiles for product:
    tile m: 64, n: 32 -> block
    keep C in register
    tile k: 32 pipeline 2
    move A -> shared with cp_async:
        fuse m, k as mk
        tile mk: {3} -> thread
        compute with {4}
    move B -> shared with cp_async:
        fuse k, n as kn
        tile kn: {3} -> thread
        compute with {4}
    tile m: 32 -> warp
    tile m: 8, n: 4 -> thread
    tile k: 1
    compute
"""


def from_the_second_on(values: np.ndarray) -> np.ndarray:
    """The values, contiguous, where no vector of them is aligned."""
    longer = np.empty(values.size + 1, values.dtype)
    longer[1:] = values.ravel()
    return longer[1:].reshape(values.shape)


@pytest.mark.parametrize(
    ("element", "types", "dtype"),
    [
        ("u16", ("f16", "f32", "f32", 8, "cp_async_f16x8"), np.float16),
        ("i8", ("i8", "i32", "i32", 16, "cp_async_i8x16"), np.int8),
    ],
)
def test_what_is_not_aligned_is_loaded_one_by_one(element, types, dtype):
    kernel = andiron.compile(loads(OP.format(*types)), target="emulate:sm_80", schedule="tiles", sizes=SIZES, tune=0)
    aligned, unaligned = kernel.source.split("_any__THREADS", 1)
    called = f"            m_load_each_{element}("
    assert called in unaligned
    assert called not in aligned
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-9, 9, (SIZES[x], SIZES[y])).astype(dtype) for x, y in ("MK", "KN"))
    for given in ((a, b), (from_the_second_on(a), from_the_second_on(b)), (a, from_the_second_on(b))):
        np.testing.assert_array_equal(kernel(*given), a.astype(np.int32) @ b.astype(np.int32))


ROWS = """\
import std.ops.gemm
import std.devices.amd
schedule rows for gemm_f16_nt on gfx942:
    tile m: 128, n: 128 -> block
    keep C in register
    tile k: 16 pipeline 2
    move A -> shared pad 4:
        fuse m, k as mk
        tile mk: 8 -> thread
        compute
    move B -> shared pad 4
    tile m: 64, n: 64 -> wave
    compute with mfma_32x32x8_f16
"""


def test_compilers_take_it_for_an_array_of_rows(tmp_path):
    text = andiron.compile(loads(ROWS), schedule="rows", target="hip:gfx942", sizes=dict.fromkeys("MNK", 4096), tune=0).source
    assert "m_load_each_u16(A3 + 16 * k1 + 16, (uint32_t (&)[4])a_shared_ahead[0][0]);" in text
    hip(text, tmp_path, "gfx942")
