"""Proofs for all sizes: elements that a writer reaches, and some that it does not."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from andiron.codegen.coverage.accesses import accesses
from andiron.codegen.coverage.element_coverage import Coverage
from andiron.codegen.coverage.prove_coverage import Prover, Remaining, any_element, is_covered
from andiron.codegen.coverage.scopes import Scope
from andiron.codegen.coverage.symbolic_domain import DigitTable, LaunchDomains
from andiron.codegen.ir.parser import parse
from andiron.codegen.ir.program import Program
from andiron.dsl.index.expr import Expr, Var, as_expr, minimum
from andiron.dsl.module import std_device

HEAD = """\
program p(M, N) on {device}
finite {level}: {level}s
input X: f32[M, N] in {memory} of {outer} strides (N, 1) size M*N
output Y: f32[M, N] in {memory} of {outer} strides (N, 1) size M*N

launch p_Y over {units}:
"""
CPU = {"device": "cpu:avx2", "level": "core", "memory": "dram", "outer": "socket"}
GPU = {"device": "sm_80", "level": "grid", "memory": "global", "outer": "grid"}


def program(device: dict[str, str], units: str, *lines: str) -> Program:
    text = HEAD.format(**device, units=units) + "".join(f"    {x}\n" for x in lines)
    return parse(text, lambda name: std_device(name))  # type: ignore[arg-type,return-value]


PROVEN = {
    "tiles": (CPU, "core core < cores", [
        "for m in core .. M step cores:", "    for n in 0 .. (N + 7)/8:", "        for n1 in 0 .. min(8, N - 8*n):",
        "            Y[m, n1 + 8*n] = X[m, n1 + 8*n]",
    ]),
    "tiles that are dealt out": (CPU, "core core < cores, lane lane < 8", [
        "for tile in core .. ((M + 3)/4)*((N + 7)/8) step cores:", "    let m < (M + 3)/4 = tile/((N + 7)/8)",
        "    let n < (N + 7)/8 = tile % ((N + 7)/8)", "    for m1 in 0 .. min(4, M - 4*m):", "        if lane + 8*n < N:",
        "            Y[m1 + 4*m, lane + 8*n] = X[m1 + 4*m, lane + 8*n]",
    ]),
    "two conditions, one of which holds": (CPU, "lane lane < 8", [
        "for m in 0 .. M:", "    for n in 0 .. (N + 7)/8:", "        if 8*n + 8 <= N:",
        "            Y[m, lane + 8*n] = X[m, lane + 8*n]", "        else:", "            if lane + 8*n < N:",
        "                Y[m, lane + 8*n] = X[m, lane + 8*n]",
    ]),
    "a loop that is cut in two": (CPU, "core core < cores", [
        "for m in core .. M step cores:", "    for n in 0 .. N/2:", "        Y[m, n] = X[m, n]", "    for n1 in N/2 .. N:",
        "        Y[m, n1] = X[m, n1]",
    ]),
    "digits of threads": (GPU, "block block < M*((N + 127)/128), warp warp < 4, thread thread < 32", [
        "let m < M = block/((N + 127)/128)", "let n < (N + 127)/128 = block % ((N + 127)/128)",
        "if 128*n + 32*warp + 8*(thread % 4) + thread/4 < N:",
        "    Y[m, 128*n + 32*warp + 8*(thread % 4) + thread/4] = X[m, 128*n + 32*warp + 8*(thread % 4) + thread/4]",
    ]),
    "a fused index": (CPU, "lane lane < 8", [
        "for mn in 0 .. (M*N + 7)/8:", "    if lane + 8*mn < M*N:",
        "        Y[(lane + 8*mn)/N, (lane + 8*mn) % N] = X[(lane + 8*mn)/N, (lane + 8*mn) % N]",
    ]),
}  # fmt: skip


@pytest.mark.parametrize("name", PROVEN)
def test_stored_for_all_sizes(name: str) -> None:
    device, units, lines = PROVEN[name]
    assert Coverage(program(device, units, *lines)).proven == {"Y"}


CHANGES = [
    ("tiles", "min(8, N - 8*n)", "min(7, N - 8*n)"),
    ("tiles", "(N + 7)/8", "N/8"),
    ("tiles", "core .. M", "core .. M - 1"),
    ("tiles that are dealt out", "((M + 3)/4)*((N + 7)/8) step", "(M/4)*((N + 7)/8) step"),
    ("tiles that are dealt out", "if lane + 8*n < N", "if lane + 8*n + 1 < N"),
    ("two conditions, one of which holds", "if lane + 8*n < N", "if lane + 8*n + 2 < N"),
    ("a loop that is cut in two", "N/2 .. N", "N/2 + 1 .. N"),
    ("digits of threads", "if 128*n + 32*warp", "if 128*n + 33*warp"),
    ("digits of threads", "thread/4] =", "thread/8] ="),
    ("digits of threads", "thread thread < 32", "thread thread < 16"),
    ("a fused index", "if lane + 8*mn < M*N", "if lane + 8*mn + 1 < M*N"),
    ("a fused index", "(M*N + 7)/8", "(M*N)/8"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "old", "new"), CHANGES)
def test_not_stored_for_all_sizes(name: str, old: str, new: str) -> None:
    device, units, lines = PROVEN[name]
    text = "\n".join([units, *lines])
    assert old in text
    units, *lines = text.replace(old, new).split("\n")
    assert Coverage(program(device, units, *lines)).proven == set()


def test_two_blocks_store_one_element() -> None:
    lines = "let m < M = block % M", "for n in 0 .. N:", "    Y[m, n] = X[m, n]"
    assert Coverage(program(GPU, "block block < M", *lines)).proven == {"Y"}
    assert Coverage(program(GPU, "block block < 2*M", *lines)).proven == set()


def test_conditions_of_which_one_holds() -> None:
    m = Var("m")
    first = Remaining(frozenset({as_expr(m) - 4}))
    assert first.complements(Remaining(frozenset({3 - m})))
    assert not first.complements(Remaining(frozenset({2 - m})))
    both = frozenset({as_expr(m) - 4, as_expr(m) + 1})
    assert Remaining(both).complements(Remaining(both, False))
    assert not Remaining(both).complements(first)


def covered(shape: Sequence[Expr], p: Program) -> bool:
    (launch,) = p.launches
    (of,) = [x for x in accesses(p, launch) if x.writes]
    units = Scope(frozenset(), frozenset(u.var.name for u in launch.units), frozenset(), 0)
    element, facts = any_element(shape)
    return is_covered(element, facts, [LaunchDomains(launch).begin(w, units).domain() for w in of.writes], Prover())


def test_only_the_elements_that_are_asked_for() -> None:
    """Less than half of the rows are stored."""
    m, n = Var("M"), Var("N")
    p = program(
        CPU, "core core < cores", "for m in core .. min(M, 3) step cores:", "    for n in 0 .. N:", "        Y[m, n] = X[m, n]"
    )
    assert covered([minimum(m, as_expr(3)), as_expr(n)], p)
    assert not covered([as_expr(m), as_expr(n)], p)


def test_bands_of_tiles() -> None:
    """The last band may have fewer rows (RASTER)."""
    rows, columns = Var("R", 1), Var("C", 1)
    x = Var("x")
    table = DigitTable({x: rows * columns})
    band, place = x // (16 * columns), x % (16 * columns)
    high = minimum(as_expr(16), rows - 16 * band)
    found = table.raster(16 * band + place % high, place // high)
    assert found is not None
    assert [table.known_extent(v) for v in found] == [as_expr(rows), as_expr(columns)]
    assert DigitTable({x: rows * columns + 1}).raster(16 * band + place % high, place // high) is None
    assert table.raster(8 * band + place % high, place // high) is None
