"""Random siblings under random schedules: each result is right, and each term counts once."""

from __future__ import annotations

from random import Random

import pytest
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.pipeline import compile_program
from andiron.codegen.verify import check_once
from andiron.dsl.errors import UserError
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import bind_params

from ....support.random.cases import Case, agree, inputs_of
from ....support.random.ops import RandomOp, Writer, siblings
from ....support.rotation import LONG

MEMORIES = {"cpu:avx2": ("l2", "l1", "register"), "sm_80": ("shared", "register"), "gfx942": ("shared", "register")}
UNITS = {"cpu:avx2": ("core", "lane"), "sm_80": ("block", "thread"), "gfx942": ("block", "thread")}
BATCH = 4  # ops: of a test


def written(rng: Random) -> RandomOp:
    w = Writer(rng)
    siblings(w)
    return RandomOp(w.text("op0"), w.exact, frozenset(w.nonempty), w.least)


def schedule(rng: Random, text: str, device: str) -> str:
    """Lines that keep all results around a loop over k, or in its iterations, some with a block, perhaps all in a loop."""
    op = loads(text).ops["op0"]
    inner = [t.name for t in op.tensors if t.role == "intermediate"]
    sums = [s for s in op.statements if s.reduction is not None]
    free = sums[0].indices
    outer, lanes = UNITS[device]
    lines = [f"tile {', '.join(f'{i}: {rng.choice((2, 4, 8))}' for i in free)} -> {outer}"]
    rng.shuffle(inner)
    memory = rng.choice(MEMORIES[device])
    keeps = [_keep(rng, x, free, memory, MEMORIES[device][0]) for x in inner]
    loop = [f"tile k: {rng.choice((2, 3, 8))}"]
    if rng.random() < 0.5:
        loop.append(f"move {rng.choice([t.name for t in op.inputs])} -> {MEMORIES[device][0]}")
    many = [[*keeps, *loop], [*keeps, *loop], [*loop, *keeps], [*keeps[:1], *loop, *keeps[1:]]]
    lines += rng.choice(many)
    if rng.random() < 0.5:
        lines.append(f"tile k: {rng.choice((1, 2))}")
    if device != "cpu:avx2" or rng.random() < 0.3:
        lines.append(f"tile {', '.join(f'{i}: 1' for i in free)} -> {lanes}")
    if rng.random() < 0.3:
        lines.insert(0, f"tile k: {rng.choice((4, 8))}")
    return "schedule s for op0:\n" + "".join(f"    {x}\n" for x in (*lines, "compute"))


def _keep(rng: Random, tensor: str, free: tuple[str, ...], memory: str, shared: str) -> str:
    """A line, or one with a block of some lines."""
    kind = rng.random()
    if kind < 0.7:
        return f"keep {tensor} in {memory if kind < 0.5 else 'register'}"
    block = [f"tile {rng.choice(free)}: 1", f"keep {tensor} in register", f"tile k: {rng.choice((1, 2))}"]
    block = [x for x in block if rng.random() < 0.6]
    return f"keep {tensor} in {shared}:" + "".join(f"\n        {x}" for x in ([*block, "compute"] if block else ["auto"]))


@pytest.mark.every_second
@pytest.mark.parametrize("device", UNITS)
@pytest.mark.parametrize("batch", range(12 if LONG else 3))
def test_right(device: str, batch: int) -> None:
    accepted = 0
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        rng = Random(f"{device} {seed}")
        op = written(rng)
        lines = schedule(rng, op.text, device)
        module = loads(f"{op.text}\n{lines}")
        found = bind_params(module.ops["op0"])
        try:
            program = compile_program(module, found, module.schedules["s"], module.device(device)).program
        except UserError:
            continue
        accepted += 1
        for n in (0, 1, rng.choice((5, 9, 13))):
            sizes = {v.name: n + at for at, v in enumerate(program.dims)}
            sizes = {x: max(1, size) if x in op.nonempty else size for x, size in sizes.items()}
            case, units = Case(0, op, lines, device, sizes, (), 2), {level: 2 for level, _ in program.finite}
            agree(case, found, interpret(program, inputs_of(case, found), sizes, units))
            check_once(program, found, sizes, units)
    assert accepted >= BATCH // 3
