"""The schedules of `devices/pipelines.sched`: compiled, with inputs, and the faults that the interpreter reports."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.ir.program import Program
from andiron.codegen.ir.tile_ir import Barrier, For, Stmt
from andiron.codegen.ir.tile_visitors import statements
from andiron.codegen.pipeline import compile_program
from andiron.dsl.module import Module, loads
from andiron.dsl.ops.specialise import bind_params
from andiron.dsl.semantics.reference import reference

from .paths import DEVICES

# schedule -> how much of the reduction is a turn, and how many buffers it has at most
PIPELINES = {
    "sync2": (4, 2), "sync3": (4, 3), "async2": (4, 2), "async3": (4, 3), "async4": (4, 4), "mixed": (4, 3), "mixed2": (4, 4),
    "one": (4, 3), "none": (4, 1), "nested": (4, 2), "nested_async": (4, 3), "regs": (4, 2), "through": (4, 2),
    "through_async": (4, 3), "through4": (4, 4), "through_single": (4, 2), "through_awaited": (4, 2), "through_odd": (3, 2),
    "only_regs": (1, 3), "reg_and_shared": (4, 2), "peel": (4, 2), "peel_async": (4, 3), "split": (4, 3), "split_warp": (4, 2),
    "lift": (4, 2),
    "first_last": (4, 2), "first_last2": (4, 2), "prologue": (4, 2), "hop": (8, 2), "idle": (4, 2), "strip": (32, 2),
    "mma": (32, 4),
}  # fmt: skip
OPS = (DEVICES / "pipelines.sched").read_text(encoding="utf-8").partition("schedule ")[0]


@lru_cache(maxsize=2)
def module(device: str = "simt") -> Module:
    text = (DEVICES / "pipelines.sched").read_text(encoding="utf-8")
    if device == "simt":
        return loads((DEVICES / "simt.sched").read_text(encoding="utf-8") + text)
    vendor, level = ("nvidia", "warp") if device.startswith("sm") else ("amd", "wave")
    return loads(f"import std.devices.{vendor}\n" + text.replace("on simt", f"on {device}").replace("-> warp", f"-> {level}"))


@lru_cache(maxsize=50)
def compiled(name: str, device: str = "simt"):
    mod = module(device)
    op = bind_params(mod.ops[mod.schedules[name].op], {})
    return op, compile_program(mod, op, mod.schedules[name], mod.device(device))


def sizes_of(op, k: int, m: int = 19) -> dict[str, int]:
    return {"M": 3, "N": k} if op.name == "rowsum" else {"M": m, "N": m + 1, "K": k}


def inputs(op, sizes: dict[str, int]) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    shapes = {t.name: [e.evaluate(sizes) for e in t.shape] for t in op.inputs}
    return {t.name: rng.integers(-3, 4, shapes[t.name]).astype(t.dtype.numpy) for t in op.inputs}


def faults(program: Program, op, sizes: dict[str, int]) -> set[str]:
    """What the interpreter finds, and whether the result is wrong."""
    found: list = []
    arrays = inputs(op, sizes)
    (out,) = interpret(program, arrays, sizes=sizes, on_fault=found).values()
    right = np.array_equal(out.astype("f8"), np.asarray(reference(op)(*arrays.values()), "f8"))
    return {f.kind for f in found} | (set() if right else {"wrong"})


def main_loops(p: Program) -> list[For]:
    """Loops with barriers in them."""
    return [s for s in all_statements(p) if isinstance(s, For) and any(map(is_block_barrier, statements(s.body)))]


def is_block_barrier(s: Stmt) -> bool:
    """Is it a barrier of the block? (Those of lockstep units mean nothing to the interpreter.)"""
    return isinstance(s, Barrier) and s.level == "block"


def all_statements(p: Program) -> list[Stmt]:
    return [s for x in p.launches for s in statements(x.body)]
