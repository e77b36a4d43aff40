"""Every op of the library runs under the emulator, with nothing written in its schedule: right at odd sizes, with no report.

Attentions do in `tests/stdlib/test_attention_on_gpus.py`, at sizes of their own.
"""

from __future__ import annotations

import os

import pytest
from andiron.dsl.ops.specialise import bind_params
from andiron.runtime.compile import compile

from ...support.library.cases import check_right, into, library
from ...support.library.ops import ATTENTIONS, OPS
from ...support.rotation import rotated

pytestmark = pytest.mark.usefixtures("first_choices")

# Each op on one device, those of each kind of nest on all; ALL_OPS=1: all on all.
FEW = {"gemm_f16_f32", "softmax", "conv2d_i8", "transpose"}
DEVICES = ["sm_80", "gfx90a", "sm_90a", "gfx1100"]
EVERY = bool(os.environ.get("ALL_OPS"))
OTHERS = [n for n in OPS if n not in ATTENTIONS]
CASES = dict.fromkeys((*rotated(OTHERS, DEVICES, every=EVERY), *rotated((n for n in OPS if n in FEW), DEVICES, every=True)))


@pytest.mark.parametrize(("name", "device"), CASES)
def test_right(name: str, device: str) -> None:
    check_right(bind_params(OPS[name]), into(compile(library(), op=name, target=f"emulate:{device}"), threads=2))
