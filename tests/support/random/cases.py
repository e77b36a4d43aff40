"""One random case: an op, a schedule, sizes and inputs from a seed; and how it is checked."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import numpy as np
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.pipeline import CompiledProgram, compile_program
from andiron.dsl.errors import UserError, UserErrors
from andiron.dsl.errors.op import BadSize, ConditionFailed
from andiron.dsl.module import loads, std_device
from andiron.dsl.op import Op
from andiron.dsl.ops.specialise import specialise
from andiron.dsl.semantics.reference import reference

from .ops import RandomOp, random_op
from .schedules import random_schedule

DEVICES = ("cpu:generic", "cpu:avx2", "cpu:avx512", "pads")
# A machine of cores and lanes whose memories are no caches: copies to them run ahead.
PADS = """
device pads:
    level socket: open, siblings nothing
    level core: finite 4, siblings barrier
    level lane: shaped, siblings lockstep, at most 64 units, 16 bytes
    memory dram of socket: 20 GB/s
    memory l3 of socket: 1 MiB
    memory l2 of core: 256 KiB
    memory l1 of core: 32 KiB
    memory register of lane: 64 x 16 B
"""
ITERATIONS = 1500  # of an op's whole index space, about


@dataclass(frozen=True)
class Case:
    seed: int
    op: RandomOp
    schedule: str
    device: str
    sizes: dict[str, int]
    fixed: tuple[str, ...]
    cores: int

    @property
    def text(self) -> str:
        return f"{self.op.text}\n{self.schedule}" + (PADS if self.device == "pads" else "")

    def __str__(self) -> str:
        return f"seed {self.seed} on {self.device}, cores {self.cores}, sizes {self.sizes}, fixed {self.fixed}\n{self.text}"


def random_case(seed: int, rng: Random | None = None) -> Case:
    """The case of a seed; with `rng`, one drawn from there (the seed then only names it and fills its inputs)."""
    rng = rng or Random(seed)
    written = random_op(rng, f"op{seed}")
    op = loads(written.text).ops[f"op{seed}"]
    device = rng.choice(DEVICES)
    schedule = random_schedule(rng, op, loads(PADS).device("pads") if device == "pads" else std_device(device))
    sizes = _sizes(rng, op, written)
    fixed = tuple(n for n in sizes if rng.random() < 0.4) if rng.random() < 0.6 else ()
    return Case(seed, written, schedule, device, sizes, fixed, rng.randint(1, 3))


def _sizes(rng: Random, op: Op, written: RandomOp) -> dict[str, int]:
    names = [v.name for v in op.dims]
    most = {1: 70, 2: 21, 3: 11}.get(len(names), 6)
    sizes = {n: rng.randint(max(2, most // 3), most) for n in names}
    if rng.random() < 0.15:
        sizes[rng.choice(names)] = 1
    if rng.random() < 0.1 and not written.least:
        name = rng.choice(names)
        sizes[name] = 1 if name in written.nonempty else 0
    return {n: max(x, written.least.get(n, 0)) if n not in ("R",) else min(x, 3) for n, x in sizes.items()}


def inputs_of(case: Case, op: Op) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(case.seed)
    out = {}
    env = op.all_sizes(case.sizes)
    for t in op.inputs:
        shape = tuple(e.evaluate(env) for e in t.shape)
        out[t.name] = rng.integers(-3, 4, shape).astype(t.dtype.numpy)
    return out


def compiled(case: Case) -> tuple[Op, CompiledProgram]:
    """Raises the UserError of a schedule that is refused."""
    module = loads(case.text)
    op = module.ops[f"op{case.seed}"]
    special = specialise(op, {n: case.sizes[n] for n in case.fixed})
    return op, compile_program(module, special, module.schedules["s"], module.device(case.device))


def run(case: Case, program, op: Op) -> dict[str, np.ndarray]:
    sizes = {v.name: case.sizes[v.name] for v in program.dims}
    return interpret(program, inputs_of(case, op), sizes, {"core": case.cores})


def check(case: Case) -> str | None:
    """None when the schedule keeps law 1, the identifier of the error when it is refused with one; raises otherwise."""
    try:
        op, result = compiled(case)
    except UserError as error:
        refused = error.errors if isinstance(error, UserErrors) else (error,)
        for e in refused:
            assert e.span is not None, f"an error without a place: {e}\n{case}"
        return refused[0].id
    agree(case, op, run(case, result.program, op))
    return None


def agree(case: Case, op: Op, got: dict[str, np.ndarray]) -> None:
    """Bit-equal to the reference where results are exact, within the bound otherwise."""
    arrays = [inputs_of(case, op)[t.name] for t in op.inputs]
    if case.op.exact:
        want = reference(op)(*arrays)
        for t, w in zip(op.outputs, want if isinstance(want, tuple) else (want,), strict=True):
            np.testing.assert_array_equal(got[t.name], w, err_msg=f"{t.name}\n{case}")
        return
    pairs = reference(op, exact=True)(*arrays)
    several = isinstance(pairs[0], tuple)
    for t, (value, bound) in zip(op.outputs, pairs if several else (pairs,), strict=True):
        mine = np.asarray(got[t.name], dtype=np.float64)
        with np.errstate(all="ignore"):
            near = (np.abs(mine - value) <= bound) | (mine == value) | (np.isnan(mine) & np.isnan(value)) | ~np.isfinite(bound)
        assert near.all(), f"{t.name}: {mine[~near][:5]} for {value[~near][:5]} within {bound[~near][:5]}\n{case}"


__all__ = ["BadSize", "Case", "ConditionFailed", "agree", "check", "compiled", "inputs_of", "random_case", "run"]
