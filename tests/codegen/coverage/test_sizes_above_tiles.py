"""Faults in later tiles only, of programs that are too large to count where all sizes are above their tiles."""

from __future__ import annotations

from dataclasses import replace

import pytest
from andiron.codegen.analysis.instances import few_instances, instances_size_by_size
from andiron.codegen.coverage import check_contributions as module
from andiron.codegen.coverage.check_contributions import check_contributions
from andiron.codegen.ir.program import Program
from andiron.codegen.ir.tile_ir import Alloc, For, If, Stmt
from andiron.codegen.pipeline import compile_program
from andiron.dsl.errors.verify import PointNotOnce
from andiron.dsl.index.expr import Expr, as_expr
from andiron.dsl.module import loads
from andiron.dsl.op import Op

from ...support.programs.online_rows import text_of

pytestmark = pytest.mark.wrong_program

ATTENTION = """
op f[H, Q, T, D](q: f32[H, Q, D], k: f32[H, T, D], v: f32[H, T, D]) -> (o: f32[H, Q, D]):
    s[h, i, t] = (sum(d) q[h, i, d] * k[h, t, d]) * rsqrt(D)
    m[h, i] = max(t) s[h, i, t]
    p[h, i, t] = exp(s[h, i, t] - m[h, i])
    l[h, i] = sum(t) p[h, i, t]
    o[h, i, d] = (sum(t) p[h, i, t] * v[h, t, d]) / l[h, i]
schedule s for f where D <= 8:
    tile h: 1, i: 4 -> core
    keep m, l in register
    keep o in l1
    tile t: 16 online
    keep s in l1
    keep p in l1
    tile i: 1
"""
ROWS = text_of("tile i: 4 -> core / keep m, l in register / keep o in l1 / tile t: 8 online / keep p in l1 / tile i: 1")
THREADS = text_of(
    "tile i: 32 -> block / tile i: 1 -> thread / keep m, l, o in register / tile t: 16 online / keep p in register"
)
FOUND = r"not what its statement says|never contributes|contributes 2 times"
PROGRAMS = {"attention": (ATTENTION, "cpu:avx2", "T"), "rows": (ROWS, "cpu:avx2", "N"), "threads": (THREADS, "sm_80", "N")}


def lowered(name: str) -> tuple[Op, Program]:
    text, device, _ = PROGRAMS[name]
    read, seen = loads(text), []
    compile_program(
        read,
        read.ops["f"],
        read.schedules["s"],
        read.device(device),
        observer=lambda x, c, seconds: seen.append((c.op, c.program)) if x.name == "check_contributions" else None,
    )
    return seen[-1]


def in_later_tiles(program: Program, size: str, role: str, result: str, times: int) -> Program:
    """With the first step of this role executed so many times in all tiles of the size but the first."""
    left = [True]

    def body(statements: tuple[Stmt, ...], tile: Expr | None) -> tuple[Stmt, ...]:
        out: list[Stmt] = []
        for s in statements:
            found = getattr(s, "contribution", None)
            if left[0] and tile is not None and found is not None and (found.role, found.result) == (role, result):
                left[0] = False
                out += [If((-tile,), (s,)), If((tile - 1,), (s,) * times)] if times else [If((-tile,), (s,))]
            elif isinstance(s, For):
                cut = tile is None and size in {v.name for v in s.stop.variables()}
                out.append(replace(s, body=body(s.body, as_expr(s.var) if cut else tile)))
            elif isinstance(s, Alloc):
                out.append(replace(s, body=body(s.body, tile)))
            elif isinstance(s, If):
                out.append(replace(s, body=body(s.body, tile), orelse=body(s.orelse, tile)))
            else:
                out.append(s)
        return tuple(out)

    new = replace(program, launches=tuple(replace(x, body=body(x.body, None)) for x in program.launches))
    assert not left[0]
    return new


@pytest.mark.every_second
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize(("role", "times"), [("add", 2), ("add", 0), ("scale", 2), ("scale", 0)])
def test_a_fault_in_later_tiles_of_what_is_reduced(name: str, role: str, times: int) -> None:
    """A part is added twice, or never; a correction is applied twice, or never."""
    op, program = lowered(name)
    with pytest.raises(PointNotOnce, match=FOUND):
        check_contributions(in_later_tiles(program, PROGRAMS[name][2], role, "l", times), op, None)


@pytest.mark.parametrize(("name", "size"), [("attention", "Q"), ("rows", "M")])
@pytest.mark.parametrize(("role", "times"), [("add", 2), ("add", 0)])
def test_a_fault_in_later_tiles_of_what_is_not(name: str, size: str, role: str, times: int) -> None:
    op, program = lowered(name)
    with pytest.raises(PointNotOnce, match=FOUND):
        check_contributions(in_later_tiles(program, size, role, "l", times), op, None)


def test_attention_in_one_pass_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    op, program = lowered("attention")
    said = check_contributions(program, op, None)
    assert "counted at H=3, Q=5, T=7, D=2" in said
    assert "and at H=1, Q=1, T=17, D=1" in said
    assert "and at H=1, Q=5, T=1, D=1" in said
    monkeypatch.setattr(module, "VALUES", 1 << 16)
    assert "counted at H=1, Q=1, T=1, D=1" in check_contributions(program, op, None)
    monkeypatch.setattr(module, "VALUES_SIZE_BY_SIZE", 1 << 10)
    said = check_contributions(program, op, None)
    assert "not decided: there is no proof, and there are too many points to count at H=3, Q=5, T=7, D=2" in said


def test_what_is_reduced_comes_first_and_the_smallest_tiles() -> None:
    """No size is small by another one's tile: others are as small as the op takes."""
    text = text_of("tile i: 4 -> core / keep m, l, o in register / tile t: 48 online / tile t: 16 / keep p in register")
    read = loads(text)
    found = compile_program(read, read.ops["f"], read.schedules["s"], read.device("cpu:avx2"))
    sizes = [tuple(x.sizes.values()) for x in instances_size_by_size(found.program, read.ops["f"])]
    assert sizes == [(1, 1, 1), (1, 17, 1), (5, 1, 1), (1, 49, 1)]
    text = "op causal[Q, T](X: f32[Q, T]) -> (Y: f32[Q]) where Q <= T:\n    Y[i] = sum(t where t <= i) X[i, t]\n"
    text += "schedule s for causal:\n    tile i: 4 -> core\n    tile t: 2\n"
    read = loads(text)
    found = compile_program(read, read.ops["causal"], read.schedules["s"], read.device("cpu:avx2"))
    assert all(x.sizes["Q"] <= x.sizes["T"] for x in instances_size_by_size(found.program, read.ops["causal"]))
    assert next(few_instances(found.program, read.ops["causal"]))
