"""The library's ops on its devices, compiled with no schedule."""

from __future__ import annotations

from functools import lru_cache

import andiron
from andiron.codegen.autoschedule.launches.launches_of_op import launches_of
from andiron.codegen.autoschedule.op_context import context_of
from andiron.codegen.autoschedule.rank import RankedCandidates, best_candidates, rank_candidates
from andiron.codegen.pipeline import CompiledProgram, compile_program
from andiron.dsl.module import Module, loads
from andiron.dsl.op import Op
from andiron.dsl.ops.specialise import bind_params, specialise

MODULES = ("attention", "conv", "elementwise", "gemm", "norm", "pool", "recurrent", "reduce", "stencil", "tensor")
IMPORTS = "".join(f"import std.ops.{m}\n" for m in MODULES)
NVIDIA = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a")
AMD = ("gfx908", "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201")
GPUS = (*NVIDIA, *AMD)


@lru_cache(maxsize=1)
def library() -> Module:
    return andiron.loads(IMPORTS)


def op_of(name: str, sizes: dict[str, int] | None = None) -> Op:
    """With numbers for its parameters and sizes."""
    op, given = library().ops[name], sizes or {}
    params = {k: n for k, n in given.items() if k in dict(op.params)}
    bound, fixed = bind_params(op, params), {k: n for k, n in given.items() if k not in params}
    return specialise(bound, fixed) if fixed else bound


def compiled(name: str, device: str, sizes: dict[str, int] | None = None) -> CompiledProgram:
    return compile_program(library(), op_of(name, sizes), None, library().device(device))


def scheduled(name: str, device: str, lines: str) -> CompiledProgram:
    """With the lines of a schedule, or a whole one."""
    text = (
        lines
        if lines.startswith("schedule")
        else f"schedule s for {name}:\n" + "".join(f"    {x}\n" for x in lines.split("\n"))
    )
    module = loads(IMPORTS + text)
    (schedule,) = module.schedules.values()
    return compile_program(module, bind_params(module.ops[name]), schedule, module.device(device))


def chosen(name: str, device: str, sizes: dict[str, int]) -> tuple[RankedCandidates, int]:
    """The best candidate for the op's first launch: those of its nest, and its number."""
    d = library().device(device)
    op = op_of(name, sizes)
    works = launches_of(op, d, ())[0][0]
    r, i, _ = best_candidates(rank_candidates(context_of(op, d), works))[0]
    return r, i
