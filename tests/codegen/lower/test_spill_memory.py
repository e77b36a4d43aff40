"""What registers do not hold lies on a thread's stack on CPUs: the device's text says how much of it there is."""

from __future__ import annotations

import andiron
import numpy as np
import pytest
from andiron.codegen.lower.capacity import spill_peaks
from andiron.codegen.pipeline import compile_program
from andiron.dsl.errors.schedule import CapacityExceeded
from andiron.dsl.module import loads

from ...support.paths import DEVICES

VECTOR = """op g[N](X: f32[N]) -> (Y: f32[N]):
    Y[i] = 2.0 * X[i]
schedule s for g where N <= 10000000:
"""
MATRIX = """op g[M, N](X: f32[M, N]) -> (Y: f32[M, N]):
    Y[i, j] = 2.0 * X[i, j]
schedule s for g where M <= 1000, N <= 4000:
"""
TILES = "tile i: 6 -> core", "tile j: 2048"
# the op, the lines, the line of the mistake, its message up to the device, its way out
REFUSED = {
    "a result": (VECTOR, ["keep Y in register"], 0, "Y need 38.15 MiB", "another memory"),
    "an input": (VECTOR, ["move X -> register"], 0, "X need 38.15 MiB", "another memory"),
    "below a tile": (VECTOR, ["tile i: 65536", "move X -> register"], 1, "X need 256 KiB", "`tile i: 16384`"),
    "together": (MATRIX, [*TILES, "keep Y in register", "move X -> register"], 2, "Y and X need 96 KiB", "`tile j: 1024`"),
    "of each lane": (MATRIX, ["tile i: 8 -> lane", "move X -> l3"], 1, "X need 7.812 MiB", "another memory"),
}  # fmt: skip


@pytest.mark.parametrize("device", ["cpu:avx2", "cpu:generic", "cpu:neon"])
@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused_at_its_line(name, device):
    """The kernel would die by SIGSEGV."""
    head, lines, at, message, way_out = REFUSED[name]
    module = loads(head + "".join(f"    {line}\n" for line in (*lines, "compute")))
    with pytest.raises(CapacityExceeded) as caught:
        compile_program(module, module.ops["g"], module.schedules["s"], module.device(device))
    error = caught.value
    assert f"the tiles of {message} of spill memory; a core of {device} has 64 KiB" in str(error)
    assert error.span is not None
    assert error.span.text == lines[at]
    assert way_out in (error.help or "")


def test_what_fits_is_right():
    text = VECTOR + "    tile i: 16384\n    keep Y in register\n    compute\n"
    x = np.arange(40000, dtype=np.float32)
    assert np.array_equal(andiron.compile(text, schedule="s", target="cpu:generic", threads=1)(x), 2 * x)


def test_registers_are_counted_in_registers_also_in_the_way_out():
    lines = "tile i: 128, j: 128 -> block", "tile i: 32, j: 32 -> thread", "keep Y in register", "compute"
    module = loads((DEVICES / "simt.sched").read_text(encoding="utf-8") + MATRIX + "".join(f"    {x}\n" for x in lines))
    with pytest.raises(CapacityExceeded) as caught:
        compile_program(module, module.ops["g"], module.schedules["s"], module.devices["simt"])
    assert "Y need 1024 registers; a thread of simt has 255" in str(caught.value)
    assert caught.value.help == "`tile i: 4` would need 128 registers"


OWN = "device mine extends cpu:generic:\n    memory register of lane: spill {}\n" + VECTOR
OWN += "    tile i: 32768\n    keep Y in register\n    compute\n"


def test_the_text_of_a_device_says_how_much():
    module = loads(OWN.format("128 KiB"))
    program = compile_program(module, module.ops["g"], module.schedules["s"], module.devices["mine"]).program
    assert spill_peaks(program)["register"].bytes == 128 << 10
    module = loads(OWN.format("127 KiB"))
    with pytest.raises(CapacityExceeded, match="a core of mine has 127 KiB"):
        compile_program(module, module.ops["g"], module.schedules["s"], module.devices["mine"])
