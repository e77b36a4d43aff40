"""On a GPU: every op of the library and the sketches of schedules, right at odd sizes, at 1 and at 0; bits as emulated."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.dsl.ops.specialise import bind_params
from andiron.dsl.semantics.reference import reference
from andiron.runtime.compile import compile
from andiron.runtime.gpu.arch import code_format

from ....support.gpu.sketches import CONV, GEMM, USES
from ....support.gpu.sketches import module as sketches
from ....support.library.cases import Case, cases, check_right, library, poisoned
from ....support.library.ops import OPS


@pytest.mark.usefixtures("first_choices")
@pytest.mark.parametrize("name", OPS)
def test_library(gpu, name: str) -> None:
    kernel = compile(library(), op=name, target=gpu.family)

    def call(case: Case) -> tuple:
        results = kernel(*kernel.place(case.arrays))
        return tuple(kernel.fetch(results if isinstance(results, tuple) else (results,)))

    check_right(bind_params(OPS[name]), call)


@pytest.mark.parametrize("name", USES)
def test_sketch(gpu, name: str) -> None:
    """Code for an older device runs on its successors: a GPU takes the sketches for all that it follows."""
    module = sketches()
    schedule = module.schedules[name]
    device = schedule.device or ""
    if code_format(device, gpu.arch) is None:
        pytest.skip(f"for {device}, and this GPU is {gpu.arch}")
    kernel = compile(module, schedule.op, name, f"{gpu.family}:{device}")
    for sizes in CONV if "conv" in name else GEMM:
        rng = np.random.default_rng(1)
        op = kernel.op
        arrays = [rng.integers(-4, 5, [e.evaluate(sizes) for e in t.shape]).astype(t.dtype.numpy) for t in op.inputs]
        (out,) = kernel.fetch([kernel(*kernel.place(arrays))])
        np.testing.assert_array_equal(out.astype("f8"), np.asarray(reference(op)(*arrays), "f8"))


@pytest.mark.parametrize("name", ["transpose", "row_max", "relu_map", "row_argmax", "add_saturated_i8", "max_pool2d"])
def test_the_same_bits_as_emulated(gpu, name: str) -> None:
    """Ops without a sum or a product of floats give the same bits however they are run."""
    kernel = compile(library(), op=name, target=gpu.family)
    device = kernel.program.device.name
    emulated = compile(library(), op=name, target=f"emulate:{device}")
    (case,) = cases(bind_params(OPS[name]), ["odd"])
    (mine,) = kernel.fetch([kernel(*kernel.place(case.arrays))])
    np.testing.assert_array_equal(mine, emulated(*case.arrays))


def test_memory_that_was_used_before(gpu) -> None:
    """Results do not depend on what was in the memory of outputs and workspaces."""
    kernel = compile(library(), op="softmax", target=gpu.family)
    x = np.random.default_rng(1).standard_normal((37, 1030)).astype("f4")
    (placed,) = kernel.place([x])
    first = kernel.fetch([kernel(placed)])[0]
    (junk,) = kernel.place([poisoned(x.shape, x.dtype)])
    again = kernel.fetch([kernel(placed, out=junk)])[0]
    np.testing.assert_array_equal(first, again)
