"""Emitted C++ beside the interpreter of tile programs."""

from dataclasses import replace

import numpy as np
from andiron.codegen.emit.printers import emit
from andiron.codegen.interpret.machine import interpret

from .build import run


def ints(*shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype)


def agrees(prog, inputs, dims, compiler, want=None, **more):
    """The emitted text gives what the interpreter gives, and what is expected; lanes in one vector, and in several."""
    meant = interpret(prog, inputs, dims, {"core": 1})
    for narrow in (False, True):
        made = on_narrow_vectors(prog) if narrow else prog
        out = run(made, inputs, dims, compiler, **more)
        for name, array in out.items():
            np.testing.assert_array_equal(array, meant[name], err_msg=f"{name}\n{emit(made)}")
            if want is not None:
                np.testing.assert_array_equal(array, want)


def on_narrow_vectors(prog):
    """The same on a device whose vectors hold 16 bytes."""
    *outer, innermost = prog.device.levels
    return replace(prog, device=replace(prog.device, levels=(*outer, replace(innermost, bytes=16))))
