"""Every op of the library runs under the emulator, with nothing written in its schedule: right at odd sizes, with no report."""

from __future__ import annotations

import os

import pytest
from andiron.dsl.ops.specialise import bind_params
from andiron.runtime.compile import compile

from ...support.library.cases import check_right, into, library
from ...support.library.ops import OPS

pytestmark = pytest.mark.usefixtures("first_choices")

# All ops on one device; on the others those of each kind of nest, and a slice, another one for each; ALL_OPS=1: all on all.
FEW = {"gemm", "gemm_f16_f32", "softmax", "layernorm", "conv2d", "conv2d_i8", "transpose", "row_argmax", "dot"}
OTHERS = ("gfx90a", "sm_90a", "gfx1100")
EVERY = 1 if os.environ.get("ALL_OPS") else 12
CASES = [("sm_80", n) for n in OPS] + [
    (d, n) for at, d in enumerate(OTHERS) for i, n in enumerate(OPS) if n in FEW or (i - at) % EVERY == 0
]


@pytest.mark.parametrize(("device", "name"), CASES)
def test_right(device: str, name: str) -> None:
    check_right(bind_params(OPS[name]), into(compile(library(), op=name, target=f"emulate:{device}"), threads=2))
