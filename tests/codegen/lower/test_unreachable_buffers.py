"""What a line holds where those that read it cannot find it: refused at the line, with a way out that is right."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.pipeline import compile_program
from andiron.dsl.errors.schedule import InstrMismatch, MoveDistributed, SplitReduction
from andiron.dsl.module import loads

PRODUCT = """op f[K, N, M](A: f32[K, N], B: f32[K, M]) -> (Y: f32[M, N]):
    Y[c, b] = sum(a) A[a, b] * B[a, c]
"""
EPILOGUE = """op f[M](A: f32[M, 2, 2], E: f32[2, 2]) -> (Y: f32[2, 2]):
    Y[l, n] = (sum(m) A[m, l, n]) + E[n, l]
"""
HALO = """op f(A: f32[4, 4]) -> (Y: f32[4, 3]):
    t[n, i] = A[n, i] + A[n, i]
    Y[n, i] = t[n, i] + t[n, i + 1]
"""
COPY = """op f[N, M](A: i32[N], D: f32[3 * N, M]) -> (Y: f32[N, M]):
    t[n] = A[n]
    Y[n, m] = (sum(r: 3) D[n, m]) - t[n]
"""


def lowered(op: str, lines: str, device: str = "cpu:avx2"):
    mod = loads("import std.devices.cpu\n" + op + "schedule s for f:\n" + "".join(f"    {x}\n" for x in lines.split("\n")))
    return compile_program(mod, mod.ops["f"], mod.schedules["s"], mod.devices[device]).program


def result(op: str, lines: str, **arrays: np.ndarray) -> np.ndarray:
    return interpret(lowered(op, lines), arrays, finite={"cores": 2})["Y"]


def test_results_counted_with_parts_above() -> None:
    """The results would be visited one after another by every unit that the line above tells apart: added several times."""
    with pytest.raises(SplitReduction, match="together with those of the line above") as e:
        lowered(PRODUCT, "fuse b, c as f\ntile a: 1 -> core by atomic\ntile f: 1, a: 1 -> core")
    assert e.value.span is not None
    assert e.value.span.source.line(e.value.span.line).strip() == "tile f: 1, a: 1 -> core"
    a, b = np.arange(6, dtype="f4").reshape(3, 2), np.ones((3, 2), "f4")
    np.testing.assert_array_equal(
        result(PRODUCT, "fuse b, c as f\ntile f: 1 -> core\ntile a: 1 -> core by atomic", A=a, B=b), b.T @ a
    )


@pytest.mark.parametrize(
    ("op", "lines"),
    [
        (EPILOGUE, "tile n: 2 -> lane\nkeep Y in l3:\n    tile n: 1\ntile l: 1 -> lane"),
        (HALO, "tile n: 4 -> lane\nkeep t in l3\ntile i: 1 -> lane"),
    ],
)
def test_lanes_with_buffers_of_their_own(op: str, lines: str) -> None:
    """Each lane would fill its own elements of its own buffer, and read those of others there."""
    with pytest.raises(MoveDistributed, match="each lane has its own"):
        lowered(op, lines)


def test_lanes_that_share_a_buffer() -> None:
    a, e = np.arange(12, dtype="f4").reshape(3, 2, 2), np.arange(4, dtype="f4").reshape(2, 2)
    y = result(EPILOGUE, "keep Y in l3:\n    tile n: 1\ntile n: 2 -> lane\ntile l: 1 -> lane", A=a, E=e)
    np.testing.assert_array_equal(y, a.sum(0) + e.T)


def test_streaming_store_to_registers() -> None:
    lines = "tile n: 1\ntile m: 1\nkeep Y\nmove A -> register with stream"
    with pytest.raises(InstrMismatch, match="`stream` writes to `dram`, and this line moves `A` to registers") as e:
        lowered(COPY, lines)
    assert e.value.span is not None
    assert e.value.span.source.line(e.value.span.line).strip() == "move A -> register with stream"
    with pytest.raises(InstrMismatch, match="`stream` cannot copy `A`"):  # an open memory is one that `stream` writes to
        lowered(COPY, lines.replace(" -> register", ""))
    x, d = np.arange(4, dtype="i4"), np.ones((12, 2), "f4")
    np.testing.assert_array_equal(
        result(COPY, lines.removesuffix(" with stream"), A=x, D=d), 3 - x[:, None] * np.ones((1, 2), "f4")
    )
