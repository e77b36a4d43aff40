"""Ops of two statements of which one launch may compute both: compiled, run and checked, and fed back."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from andiron import Kernel
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.passes import CompiledProgram
from andiron.codegen.pipeline import compile_program
from andiron.codegen.verify import check_once
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import bind_params, specialise
from andiron.runtime.check_results import check
from andiron.runtime.compile import compile

from ..library.cases import poisoned


def compiled(text: str, device: str, sizes: Mapping[str, int]) -> CompiledProgram:
    """The only op of a text, by its first schedule, if there is one."""
    module = loads(text)
    (op,) = module.ops.values()
    schedule = next(iter(module.schedules.values()), None)
    return compile_program(module, specialise(op, sizes), schedule, module.device(device))


def checked(text: str, schedule: str | None, target: str, sizes: Mapping[str, int], fixed: Mapping[str, int]) -> Kernel:
    """The kernel of `f`, whose results at these sizes are within the reference's bounds."""
    kernel = compile(text, "f", schedule, target=target, sizes=fixed)
    op = bind_params(loads(text).ops["f"])
    rng, known = np.random.default_rng(len(text)), op.all_sizes(sizes)
    every = [(t, tuple(e.evaluate(known) for e in t.shape)) for t in (*op.inputs, *op.outputs)]
    arrays = [rng.normal(size=shape).astype(t.dtype.numpy) for t, shape in every[:-1]]
    out = poisoned(every[-1][1], op.outputs[0].dtype.numpy)
    kernel(*arrays, out=out)
    assert check(op, arrays, [out]).ok, (text, sizes, kernel.schedule)
    return kernel


def check_fed_back(text: str, device: str, sizes: Mapping[str, int]) -> CompiledProgram:
    """What is printed gives the same program, and prints the same again."""
    first = compiled(text, device, sizes)
    again = compiled(text + first.schedule, device, sizes)
    assert again.schedule == first.schedule
    assert again.program == first.program
    return first


def check_counted_once(text: str, sizes: Mapping[str, int]) -> None:
    """One launch of sm_80, in which each point counts once; interpreted it is right."""
    made, op = compiled(text, "sm_80", sizes), specialise(loads(text).ops["f"], sizes)
    assert len(made.program.launches) == 1
    check_once(made.program, op, {})
    rng = np.random.default_rng(1)
    arrays = [rng.normal(size=[e.constant or 0 for e in t.shape]).astype(t.dtype.numpy) for t in op.inputs]
    got = interpret(made.program, {t.name: x for t, x in zip(op.inputs, arrays, strict=True)})
    assert check(op, arrays, list(got.values())).ok
