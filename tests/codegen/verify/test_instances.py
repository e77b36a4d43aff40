"""Each point exactly once, by instances: programs of the library pass, and programs that were broken are refused.

Whether a broken program means something else is told by numbers: the interpreter's results beside the reference's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random

import numpy as np
import pytest
from andiron.codegen.abi import chosen
from andiron.codegen.interpret.machine import Fault, interpret
from andiron.codegen.ir.program import Program
from andiron.codegen.ir.tile_ir import Alloc, AllReduce, Barrier, Call, For, If, Let, Stmt, Store
from andiron.codegen.ir.tile_visitors import map_bodies, statements
from andiron.codegen.pipeline import compile_program
from andiron.codegen.verify import check_once
from andiron.dsl.index.expr import Var
from andiron.dsl.module import loads
from andiron.dsl.op import Op
from andiron.dsl.ops.specialise import bind_params
from andiron.dsl.semantics.reference import reference
from andiron.dsl.values import Masked, transform

from ...support.edit_programs import edited
from ...support.gemm_file import GEMM_OP as GEMM
from ...support.library.cases import cases, library
from ...support.library.ops import OPS
from ...support.rotation import LONG, rotated

# ---------------------------------------------------------------- programs that are right


# Every fourth op; test_library.py takes all, on other devices.
@pytest.mark.parametrize(("name", "device"), rotated(OPS, ["cpu:avx2", "sm_80", "gfx90a"])[:: 1 if LONG else 7])
def test_the_library(name: str, device: str) -> None:
    module = library()
    op = bind_params(OPS[name], {n: 1 for n, default in OPS[name].params if default is None})
    program = compile_program(module, op, None, module.device(device)).program
    for case in cases(op):
        check_once(program, op, case.sizes)


# ---------------------------------------------------------------- programs that are broken


@dataclass(frozen=True)
class Broken:
    op: str
    schedule: str
    device: str
    sizes: dict[str, int]


SUM = "op total[M, N](X: f32[M, N]) -> (Y: f32[M]):\n    Y[m] = sum(n) X[m, n]\n"
BIGGEST = "op biggest[M, N](X: f32[M, N]) -> (Y: f32[M]):\n    Y[m] = max(n) X[m, n]\n"
PLACE = "op place[M, N](X: f32[M, N]) -> (Y: i64[M]):\n    Y[m] = argmax(n) X[m, n]\n"
SOFT = """op soft[M, N](X: f32[M, N]) -> (Y: f32[M, N]):
    top[m] = max(n) X[m, n]
    e[m, n] = exp(X[m, n] - top[m])
    s[m] = sum(n) e[m, n]
    Y[m, n] = e[m, n] / s[m]
"""
BLUR = "op blur[N](X: f32[N]) -> (Y: f32[N]):\n    Y[i] = X[i - 1 else 0] + 2 * X[i] + X[i + 1 else 0]\n"
CASES = {
    "lanes": Broken(
        SUM, "tile m: 1 -> core\n    keep Y in register\n    tile n: 16\n    tile n: 2 -> lane", "cpu:avx2", {"M": 3, "N": 21}
    ),
    "cores": Broken(SUM, "tile n: 4 -> core by workspace", "cpu:avx2", {"M": 2, "N": 13}),
    "atomic": Broken(SUM, "tile n: 4 -> core by atomic", "cpu:avx2", {"M": 2, "N": 13}),
    "thread": Broken(
        SUM, "tile m: 1 -> block\n    keep Y in register\n    tile n: 32\n    tile n: 1 -> thread", "sm_80", {"M": 2, "N": 75}
    ),
    "biggest": Broken(
        BIGGEST,
        "tile m: 1 -> core\n    keep Y in register\n    tile n: 16\n    tile n: 2 -> lane",
        "cpu:avx2",
        {"M": 3, "N": 21},
    ),
    "place": Broken(
        PLACE, "tile m: 1 -> core\n    keep Y in register\n    tile n: 16\n    tile n: 2 -> lane", "cpu:avx2", {"M": 3, "N": 21}
    ),
    "staged": Broken(
        GEMM,
        "tile m: 8, n: 8 -> block\n    keep C in register\n    tile k: 4\n    move A -> shared\n    move B -> shared\n"
        "    tile m: 4, n: 4 -> warp\n    tile m: 1, n: 1 -> thread",
        "sm_80",
        {"M": 9, "N": 11, "K": 10},
    ),
    "ahead": Broken(
        GEMM,
        "tile m: 8, n: 8 -> block\n    keep C in register\n    tile k: 4 pipeline 2\n    move A -> shared\n"
        "    move B -> shared\n    tile m: 1, n: 1 -> thread",
        "gfx90a",
        {"M": 9, "N": 11, "K": 10},
    ),
    "soft": Broken(SOFT, "auto", "cpu:avx2", {"M": 3, "N": 19}),
    "soft on a GPU": Broken(SOFT, "auto", "sm_80", {"M": 2, "N": 40}),
    "blur": Broken(BLUR, "tile i: 8 -> core\n    move X -> l1", "cpu:avx2", {"N": 21}),
}


def compiled_case(name: str) -> tuple[Op, Program, dict[str, int]]:
    case = CASES[name]
    title = case.op.split()[1].partition("[")[0]
    module = loads(f"{case.op}\nschedule s for {title}:\n    {case.schedule}\n")
    op = bind_params(module.ops[title], {})
    program = compile_program(module, op, module.schedules["s"], module.device(case.device)).program
    return op, replace(chosen(program, case.sizes, {}), needs=None, instead=None), case.sizes


def breaks(p: Program) -> Iterator[tuple[str, Program]]:
    """Programs with one statement dropped, doubled, moved, without its condition, or over other iterations."""
    count = sum(len(statements(x.body)) for x in p.launches)
    for n in range(count):
        for name, edit in EDITS.items():
            seen = iter(range(count))

            def one(s: Stmt, edit=edit, seen=seen, n=n) -> list[Stmt]:
                return edit(s) if next(seen) == n else [s]

            other = edited(p, one)
            if other != p:
                yield name, other


def _later(s: Stmt) -> list[Stmt]:
    return [replace(s, start=s.start + s.step)] if isinstance(s, For) else [s]


def _shorter(s: Stmt) -> list[Stmt]:
    return [replace(s, stop=s.stop - 1)] if isinstance(s, For) else [s]


def _longer(s: Stmt) -> list[Stmt]:
    return [replace(s, stop=s.stop + 1, var=Var(s.var.name, None, None))] if isinstance(s, For) else [s]


def _dropped(s: Stmt) -> list[Stmt]:
    return [] if isinstance(s, Store | Call | AllReduce | Barrier | If | For) else [s]


def _doubled(s: Stmt) -> list[Stmt]:
    return [s, s] if isinstance(s, Store | Call | AllReduce | For) else [s]


def _unguarded(s: Stmt) -> list[Stmt]:
    if isinstance(s, If):
        return [*s.body]
    if isinstance(s, Store):
        return [replace(s, value=transform(s.value, lambda v: v.value if isinstance(v, Masked) else None))]
    return [s]


def _otherwise(s: Stmt) -> list[Stmt]:
    return [replace(s, conds=tuple(c - 1 for c in s.conds))] if isinstance(s, If) else [s]


def _plain(s: Stmt) -> list[Stmt]:
    return [replace(s, atomic=None)] if isinstance(s, Store) and s.atomic else [s]


def _elsewhere(s: Stmt) -> list[Stmt]:
    return [replace(s, coords=(*s.coords[:-1], s.coords[-1] + 1))] if isinstance(s, Store) and s.coords else [s]


def _into_the_loop(s: Stmt) -> list[Stmt]:
    """What stands behind a loop moves into it: combined in each iteration."""
    if not isinstance(s, For | Alloc | If):
        return [s]

    def moved(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        for n, (one, after) in enumerate(pairwise(body)):
            if isinstance(one, For) and not isinstance(after, Let):
                return (*body[:n], replace(one, body=(*one.body, after)), *body[n + 2 :])
        return body

    return [map_bodies(s, moved)]


EDITS = {
    "dropped": _dropped, "doubled": _doubled, "unguarded": _unguarded, "other bound": _otherwise, "later": _later,
    "shorter": _shorter, "longer": _longer, "plain": _plain, "elsewhere": _elsewhere, "into the loop": _into_the_loop,
}  # fmt: skip


def right(op: Op, p: Program, sizes: dict[str, int], seed: int) -> bool:
    """By numbers: no fault, and the results of the reference. Inputs are no whole numbers: nothing is right by chance."""
    rng = np.random.default_rng(seed)
    arrays = {t.name: rng.standard_normal([e.evaluate(sizes) for e in t.shape]).astype(t.dtype.numpy) for t in op.inputs}
    try:
        (got,) = interpret(p, arrays, sizes).values()
    except Fault:
        return False
    return np.allclose(got, reference(op)(*arrays.values()), rtol=1e-4, atol=1e-5)


def fault_of(op: Op, p: Program, sizes: dict[str, int]) -> Fault | None:
    try:
        check_once(p, op, sizes)
    except Fault as fault:
        return fault
    return None


def verified(op: Op, p: Program, sizes: dict[str, int]) -> str:
    """The kind of fault, "" where it is said to be right."""
    fault = fault_of(op, p, sizes)
    return "" if fault is None else fault.kind


@pytest.mark.parametrize("name", CASES)
def test_what_is_broken_is_refused(name: str) -> None:
    op, program, sizes = compiled_case(name)
    assert verified(op, program, sizes) == ""
    assert right(op, program, sizes, 0)
    every = list(breaks(program))
    found, hidden = Counter(), 0
    for how, other in Random(name).sample(every, min(len(every), 60 if LONG else 25)):
        kind, fine = verified(op, other, sizes), all(right(op, other, sizes, n) for n in range(2))
        assert kind or fine, f"{how} is not seen\n{other}"
        found[kind] += not fine
        hidden += bool(kind) and fine
    assert found.total() >= 10
    assert not hidden or name in ("biggest", "soft", "soft on a GPU"), "refused, and right for what is no maximum"


def test_a_point_that_counts_twice_is_named() -> None:
    op, program, sizes = compiled_case("lanes")
    doubled = edited(program, lambda s: [s, s] if isinstance(s, AllReduce) else [s])
    with pytest.raises(Fault, match=r"Y\[0\]: every point of statement Y contributes 8 times") as raised:
        check_once(doubled, op, sizes)
    assert "3 of 3 elements of Y are wrong" in str(raised.value)
    assert "stored once, by core 0" in str(raised.value)
    assert "keep Y in register" in str(raised.value) or "Y[m] = sum(n) X[m, n]" in str(raised.value)


def test_a_point_that_is_left_out_is_named() -> None:
    op, program, sizes = compiled_case("cores")
    shorter = (other for how, other in breaks(program) if how in ("shorter", "later"))
    found = [str(fault) for p in shorter if (fault := fault_of(op, p, sizes)) is not None and fault.kind == "not-once"]
    assert any("of statement Y never contributes" in text for text in found), found


def test_a_maximum_counts_too() -> None:
    """Numbers cannot show that a maximum has a part twice; law 8 asks for once."""
    op, program, sizes = compiled_case("biggest")
    doubled = edited(program, lambda s: [s, s] if isinstance(s, AllReduce) else [s])
    assert right(op, doubled, sizes, 0)
    assert verified(op, doubled, sizes) == "not-once"
