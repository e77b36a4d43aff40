"""Inputs of an attention with a mask, and what is asked of results: within the reference's bounds, each point once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import numpy as np
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.ir.program import Program
from andiron.codegen.passes import CompiledProgram
from andiron.codegen.pipeline import compile_program
from andiron.codegen.verify import check_once
from andiron.dsl.module import loads
from andiron.dsl.op import Op
from andiron.dsl.ops.specialise import specialise
from andiron.dsl.semantics.reference import reference


def attention_rows(n: int, t: int, d: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """q, k, v, and which keys a row sees: some rows none, some none of the first tile, one a value that is no number."""
    rng = np.random.default_rng(t)
    q, k, v = (rng.standard_normal(s).astype(np.float32) for s in [(n, d), (t, d), (t, d)])
    seen = rng.random((n, t)) < 0.7
    seen[1::5], seen[2::5, :32] = False, False
    if t > 3 and n > 3:
        v[3, 0], q[3] = np.nan, -8
    return q, k, v, seen


def within_bounds(op: Op, got: Iterable[np.ndarray], inputs: Iterable[np.ndarray]) -> float:
    """Numbers are where the reference has some, as near as it says; gives how many of larger results are, added up."""
    want = reference(op, exact=True)(*inputs)
    seen = 0.0
    for result, (value, bound) in zip(got, want if len(op.outputs) > 1 else (want,), strict=True):
        np.testing.assert_array_equal(np.isnan(result), np.isnan(value))
        some = np.isfinite(value)
        assert (np.abs(np.asarray(result, float)[some] - value[some]) <= bound[some]).all()
        seen += some.mean() if some.size > 1 else 0
    return seen


def right_in_two_tiles(text: str, name: str, device: str, made: CompiledProgram, sizes: Mapping[str, int]) -> None:
    """The lines that cores have for these sizes, interpreted for two tiles of rows and of keys, the second a part of one."""
    rows, keys = (int(re.findall(x, made.schedule)[-1]) for x in (r"i: (\d+) -> core", r"t: (\d+) online"))
    assert rows + 3 < sizes["Q"]
    assert keys + 3 < sizes["T"]
    right_at(text, name, device, made, {**sizes, "Q": rows + 3, "T": keys + 3})


def right_in_three_parts(text: str, name: str, device: str, made: CompiledProgram, sizes: Mapping[str, int]) -> None:
    """The lines that parts of the keys on blocks have for these sizes, interpreted for three parts, the last not whole."""
    (part,) = map(int, re.findall(r"t: (\d+) -> block online by workspace", made.schedule))
    assert 2 * part + 5 < sizes["T"]
    right_at(text, name, device, made, {**sizes, "T": 2 * part + 5})


def right_at(text: str, name: str, device: str, made: CompiledProgram, sizes: Mapping[str, int]) -> None:
    """Lines that were chosen for larger sizes, at these."""
    lines = made.schedule.partition("\n")[2]
    module = loads(f"{text}schedule s for {name}:\n{lines}")
    op = specialise(module.ops[name], {v.name: sizes[v.name] for v in module.ops[name].dims})
    right_and_once(compile_program(module, op, module.schedules["s"], module.device(device)).program, op)


def right_and_once(program: Program, op: Op) -> None:
    """`op`: its sizes are numbers."""
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal([e.constant or 0 for e in t.shape]).astype(t.dtype.numpy) for t in op.inputs]
    got = interpret(program, {t.name: x for t, x in zip(op.inputs, arrays, strict=True)})
    within_bounds(op, got.values(), arrays)
    check_once(program, op, {})
