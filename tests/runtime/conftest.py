"""Kernels written by hand against `codegen.abi`, so that the runtime is tested without the compiler in front of it."""

import pytest
from andiron.codegen.ir.program import Program
from andiron.codegen.ir.tile_ir import Buffer
from andiron.codegen.targets import target_of
from andiron.dsl.device import Device, Level, Memory
from andiron.dsl.index.expr import as_expr
from andiron.dsl.ops.resolve_op import resolve_op
from andiron.dsl.source import Source
from andiron.dsl.text.parser import parse
from andiron.runtime.kernel import Kernel
from andiron.runtime.variant import Variant

from ..support.c_kernels import AXPY, AXPY_BODY, GEMM, GEMM_BODY

DEVICE = Device("cpu:test", (Level("socket", "finite", "barrier", 1),), (Memory("dram", "socket"),), ())


def make_op(text):
    return resolve_op(parse(Source("<test>", text)).declarations[0])


def make_variant(op, body, conditions=(), buffers=None, target="cpu", name="k"):
    tensors = [op.tensor(n) for n in buffers] if buffers else [*op.inputs, *op.outputs]
    made = tuple(Buffer(t.name, t.dtype, t.role, "dram", "socket", t.shape, (), as_expr(1)) for t in tensors)
    program = Program(name, DEVICE, op.dims, op.derived, (), made, (), conditions=tuple(conditions))
    head = "#include <stdint.h>\n"
    signature = f'extern "C" int andiron_{name}(void* const* args, const int64_t* dims, int threads)'
    source = f"{head}{signature} {{\n{body}\nreturn 0;\n}}\n"
    return Variant(program, source, f"schedule {name}", target_of(target))


@pytest.fixture
def fakes():
    class Fakes:
        op = staticmethod(make_op)
        variant = staticmethod(make_variant)

        @staticmethod
        def kernel(text, body, sizes=None, threads=None, **more):
            op = make_op(text)
            return Kernel(op, [make_variant(op, body, **more)], sizes, threads)

    return Fakes


@pytest.fixture
def gemm(fakes):
    return fakes.kernel(GEMM, GEMM_BODY)


@pytest.fixture
def axpy(fakes):
    return fakes.kernel(AXPY, AXPY_BODY)
