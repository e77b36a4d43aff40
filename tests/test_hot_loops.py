"""Where all of the time goes, in the innermost loops of products, vectors stay in registers: whatever the sizes are.

Instructions are counted in the assembly that compilers make of the text. No clock is read: the machine that runs the tests need
not even have the instructions.
"""

from __future__ import annotations

from functools import cache

import pytest
from andiron.codegen.emit import emit
from andiron.codegen.pipeline import compile_program
from andiron.dsl.module import loads
from andiron.dsl.ops.bind_op import bind_params, specialise

from .cpp_build import COMPILERS
from .hot_loops import Loop, assembly, innermost_loops

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
    return loads("import std.ops.gemm\nimport std.ops.conv\n", "<test>")


def loops(op: str, device: str, compiler: str, **sizes: int) -> list[Loop]:
    m = module()
    program = compile_program(m, specialise(bind_params(m.ops[op], {}), sizes), None, m.device(f"cpu:{device}")).program
    return innermost_loops(assembly(emit(program), compiler, device))


def check(found: list[Loop], least: int) -> None:
    hot = [x for x in found if not x.edge and x.multiply_adds >= least]
    assert hot, [(x.edge, x.multiply_adds) for x in found]
    for x in hot:
        assert not x.stack, "\n".join(x.lines)
    for x in found:
        assert not (x.multiply_adds and x.calls), "\n".join(x.lines)


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("device", ["avx2", "avx512"])
@pytest.mark.parametrize("size", SIZES)
def test_products(size, device, compiler):
    if compiler == "zig" and size in ("small", "unpacked"):
        pytest.skip("clang spills there, whatever the sizes are")
    sizes = dict(zip("MNK", SIZES[size], strict=True)) if SIZES[size] else {}
    check(loops("gemm", device, compiler, **sizes), 10)


@pytest.mark.parametrize("device", ["avx2", "avx512"])
def test_even_sizes_have_no_edge(device):
    assert not any(x.edge for x in loops("gemm", device, "gcc", M=996, N=1008, K=1000))


@pytest.mark.parametrize("op", ["gemm_f64", "gemm_nt", "gemm_tn"])
def test_other_products(op):
    check(loops(op, "avx2", "gcc", M=997, N=999, K=1001), 10)
