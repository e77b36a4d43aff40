"""Where all of the time goes, in the innermost loops of products, vectors stay in registers: whatever the sizes are.

Instructions are counted in the assembly that compilers make of the text. No clock is read: the machine that runs the tests need
not even have the instructions.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import pytest
from andiron.codegen.emit.printers import emit
from andiron.codegen.pipeline import compile_program
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import bind_params, specialise

from ....support.cpp.assembly import Loop, assembly, innermost_loops
from ....support.cpp.build import COMPILERS
from ....support.rotation import LONG

pytestmark = pytest.mark.usefixtures("first_choices")

OPS = """
import std.ops.gemm
import std.ops.conv

op conv2d_nhwc_i8[N, C, H, W, O, R, S](I: i8[N, H, W, C], F: i8[O, R, S, C], stride: int = 1, pad: int = 0)
        -> (Y: i32[N, P, Q, O])
        where P = (H + 2*pad - R) / stride + 1, Q = (W + 2*pad - S) / stride + 1:
    Y[n, p, q, o] = sum(r, s, c) i32(I[n, p*stride + r - pad, q*stride + s - pad, c else 0]) * i32(F[o, r, s, c])
"""

# rows, columns, depth: an edge of each alone, of all, even sizes, and sizes that are open
SIZES = {
    "even": (996, 1008, 1000),
    "rows": (997, 1008, 1000),
    "columns": (996, 1001, 1000),
    "all": (997, 999, 1001),
    "small": (129, 65, 257),
    "unpacked": (31, 33, 129),
    "open": None,
}


@cache
def module():
    return loads(OPS, "<test>")


def loops(op: str, device: str, compiler: str, **sizes: int) -> list[Loop]:
    m = module()
    params = {k: v for k, v in sizes.items() if k in dict(m.ops[op].params)}
    bound = specialise(bind_params(m.ops[op], params), {k: v for k, v in sizes.items() if k not in params})
    program = compile_program(m, bound, None, m.device(f"cpu:{device}")).program
    return innermost_loops(assembly(emit(program), compiler, device))


def check(found: list[Loop], least: int, share: float = 0.0) -> None:
    """Of loops with so many multiply-adds. `share`: of vectors on the stack for each of these, where a compiler needs some."""
    hot = [x for x in found if not x.edge and x.multiply_adds >= least]
    assert hot, [(x.edge, x.multiply_adds) for x in found]
    for x in hot:
        assert len(x.stack) <= share * x.multiply_adds, "\n".join(x.lines)
    for x in found:
        assert not (x.multiply_adds and x.calls), "\n".join(x.lines)


def on_devices(sizes: Iterable[str]) -> list[tuple]:
    """Each size on each device by the first compiler, and on one, in turn, by the other; with `FUZZ=N` on both."""
    return [
        (s, d, c)
        for n, s in enumerate(sizes)
        for m, d in enumerate(("avx2", "avx512"))
        for c in (COMPILERS if LONG or n % 2 == m else COMPILERS[:1])
    ]


@pytest.mark.parametrize(("size", "device", "compiler"), on_devices(SIZES))
def test_products(size, device, compiler):
    if compiler == "zig" and size in ("small", "unpacked"):
        pytest.skip("clang spills there, whatever the sizes are")
    sizes = dict(zip("MNK", SIZES[size], strict=True)) if SIZES[size] else {}
    check(loops("gemm", device, compiler, **sizes), 10)


@pytest.mark.parametrize("device", ["avx2", "avx512"])
def test_even_sizes_have_no_edge(device):
    assert not any(x.edge for x in loops("gemm", device, "gcc", M=996, N=1008, K=1000))


@pytest.mark.parametrize(("size", "device", "compiler"), on_devices(["even", "all", "open"]))
def test_products_of_8_bits_are_added_in_pairs(size, device, compiler):
    sizes = dict(zip("MNK", SIZES[size], strict=True)) if SIZES[size] else {}
    found = loops("gemm_i8", device, compiler, **sizes)
    check(found, 10, 1.0 if compiler == "zig" else 0.0)  # clang has every load of the turns that it writes out under way
    assert not any("vpmulld" in line for x in found for line in x.lines)


IMAGES = {"even": dict(N=1, C=64, H=56, W=56, O=64, R=3, S=3), "odd": dict(N=1, C=63, H=57, W=57, O=65, R=3, S=3)}


@pytest.mark.every_second
@pytest.mark.parametrize("device", ["avx2", "avx512"])
@pytest.mark.parametrize("size", IMAGES)
@pytest.mark.parametrize("op", ["conv2d", "conv2d_i8", "conv2d_nhwc", "conv2d_nhwc_i8"])
def test_convolutions(op, size, device):
    found = loops(op, device, "gcc", **IMAGES[size], stride=1, pad=1)
    check(found, 8, 0.0 if "nhwc" in op else 0.25)  # of the others gcc writes out the filter's columns
    assert not any("gather" in line or "vpmulld" in line for x in found for line in x.lines)


@pytest.mark.parametrize("op", ["gemm_f64", "gemm_nt", "gemm_tn"])
def test_other_products(op):
    check(loops(op, "avx2", "gcc", M=997, N=999, K=1001), 10)
