"""Random programs: whatever they access, with the barriers placed no race is left."""

import random

import numpy as np
import pytest
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.ir.printer import show
from andiron.codegen.ir.program import Program
from andiron.codegen.ir.tile_ir import Alloc, If, Stmt
from andiron.codegen.transforms.barriers.place_barriers import place_barriers
from andiron.dsl.index.expr import Expr, Index, Var, as_expr, xor

from ....support.tile_programs import ZERO, N, T, W, add, at, barriers, buffer, gpu, let, loop, put, when

WARPS = 3
UNITS = 32 * WARPS
X = buffer("X", "input", "global", "grid", UNITS)
Y = buffer("Y", "output", "global", "grid", UNITS)
R = buffer("R", "local", "register", "thread", 1)
STAGES = 3
BUFFERS = [buffer(name, "local", "shared", "block", STAGES, UNITS) for name in ("S", "Z")]
U = 32 * W(WARPS) + T


class Writer:
    """Statements at random. What one statement writes is injective in the unit: no barrier could help otherwise."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.names = 0
        self.loops: list[Var] = []

    def fresh(self, lo: int, hi: int | None) -> Var:
        self.names += 1
        return Var(f"i{self.names}", lo, hi)

    def stage(self) -> Expr:
        base: Index = self.random.choice(self.loops) if self.loops and self.random.random() < 0.7 else 0
        return (as_expr(base) + self.random.randrange(STAGES)) % STAGES

    def element(self, write: bool) -> Expr:
        shift = self.random.choice([0, 0, 1, 32, 40])
        ways = [as_expr(U), (U + shift) % UNITS, UNITS - 1 - U, xor(T, self.random.choice([1, 16])) + 32 * W(WARPS)]
        if not write:
            ways += [as_expr(T), W(WARPS) * 32, U // 2, as_expr(self.random.randrange(UNITS))]
        return self.random.choice(ways)

    def leaf(self) -> Stmt:
        b = self.random.choice(BUFFERS)
        if self.random.random() < 0.5:
            return put(R, 0, value=add(at(R, 0), at(b, self.stage(), self.element(False))))
        return put(b, self.stage(), self.element(True), value=at(R, 0))

    def statement(self, depth: int) -> tuple[Stmt, ...]:
        kind = self.random.choice(["leaf", "leaf", "leaf", "loop", "if", "part", "let"]) if depth else "leaf"
        if kind == "loop":
            step = self.random.choice([1, 1, 2])
            var = self.fresh(0, None)
            stop: Index = self.random.choice([N, as_expr(self.random.randrange(1, 4) * step)])
            self.loops.append(var)
            body = self.body(depth - 1)
            self.loops.pop()
            return (loop(var, 0, stop, *body, step=step),)
        if kind == "if":
            return (If((N - self.random.randrange(1, 3),), self.body(depth - 1), self.body(depth - 1)),)
        if kind == "part":
            bound = self.random.choice([as_expr(W(WARPS)) - 1, 15 - as_expr(T), 50 - U])
            return (when((bound,), self.leaf()),)
        if kind == "let":
            var = self.fresh(0, UNITS - 1)
            b = self.random.choice(BUFFERS)
            return let(var, UNITS - 1 - U), put(b, self.stage(), var, value=at(R, 0))
        return (self.leaf(),)

    def body(self, depth: int) -> tuple[Stmt, ...]:
        return tuple(s for _ in range(self.random.randrange(2, 6)) for s in self.statement(depth))


def program(seed: int) -> Program:
    stage = Var("stage", 0, STAGES - 1)
    fill = loop(stage, 0, STAGES, *(put(b, stage, U, value=at(X, U)) for b in BUFFERS))
    body: tuple[Stmt, ...] = (put(R, 0, value=ZERO), fill, *Writer(seed).body(3), put(Y, U, value=at(R, 0)))
    for b in (*BUFFERS, R):
        body = (Alloc(b, body),)
    return gpu("fuzz", (N,), (X, Y), [(Var("b", 0, 0), 1)], WARPS, *body)


@pytest.mark.parametrize("seed", range(20))
def test_no_race_is_left(seed):
    placed = place_barriers(program(seed))
    assert place_barriers(placed) == placed
    arrays = {"X": np.arange(UNITS, dtype=np.float32)}
    for n in (0, 1, 3):
        found = []
        interpret(placed, arrays, {"N": n}, on_fault=found)
        assert not found, f"{found[0]}\n{show(placed)}"


def test_the_programs_need_barriers():
    assert sum(barriers(place_barriers(program(seed))) > 1 for seed in range(5)) >= 3
