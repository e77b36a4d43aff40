"""What a printer made is freed with it: it is most of what a compilation makes last."""

from __future__ import annotations

import gc
import weakref

from andiron.codegen.emit.gpu.cuda import Printer
from andiron.codegen.pipeline import compile_program
from andiron.dsl.module import load, loads

from ....support.paths import STDLIB

OP = """
op scaled_sum[M, N](X: f32[M, N], a: f32[M]) -> (y: f32[M]):
    y[i] = sum(j) X[i, j] * a[i]
"""


def test_a_printer_is_freed_without_the_collector():
    module, nvidia = loads(OP), load(STDLIB / "devices" / "nvidia.sched")
    printing = Printer(compile_program(module, module.ops["scaled_sum"], None, nvidia.devices["sm_80"]).program)
    gc.collect()
    gc.disable()
    try:
        assert "scaled_sum" in printing.render()
        gone = weakref.ref(printing)
        del printing
        assert gone() is None
    finally:
        gc.enable()
