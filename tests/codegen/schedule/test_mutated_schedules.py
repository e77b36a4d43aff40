"""Schedules with random mistakes in them: each compiles, or is refused with a `UserError` that points into its text.

Valid schedules are mutated line by line and word by word. The seeds are fixed.
`FUZZ=5000 pytest tests/codegen/schedule/test_mutated_schedules.py` looks further.
"""

from __future__ import annotations

import random
import re
from functools import lru_cache

import pytest
from andiron.codegen.pipeline import compile_program
from andiron.dsl.errors import UserError, UserErrors
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import bind_params
from andiron.dsl.source import Source
from andiron.dsl.syntax import ScheduleDecl
from andiron.dsl.text.parser import parse

from ...support.paths import DEVICES
from ...support.random.counts import case_count

CPU = """
schedule blis for gemm on cpu:avx2:
    tile n: 480
    tile k: 256
    move B -> l3 layout panels(n: 16)
    tile m: 72 -> core
    move A -> l2 layout panels(m: 6):
        tile m: 1
        tile k: 1 -> lane
        compute
    tile n: 16
    tile m: 6
    keep C in register
    tile k: 1 unroll 4
    compute with fma_f32x8
schedule params for gemm on cpu:avx2 where M <= 512, K >= 8:
    param BM in 8, 16
    param BK in 64, 128 = 128
    tile m: BM -> core order m
    tile k: BK
    move A -> l1 pad 4
    tile n: 32
    auto
schedule kept for softmax on cpu:avx2 where N <= 4096:
    tile i: 1 -> core
    keep top in register
    keep e in l1
    keep tot in register
    tile j: 8
    tile j: 1 -> lane
    compute
schedule igemm_cpu for conv2d on cpu:avx2:
    fuse n, p, q as m
    fuse c, r, s as k
    tile m: 8, o: 8 -> core
    tile k: 16
    move I -> l1
    keep Y in register
    tile o: 1 -> lane
    compute
"""


def _words(text: str) -> list[str]:
    return text.split()


COUNT = case_count(60)
WORDS = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|\d+")
POOL = _words("""
    m n k i j o p q A B C X Y e top tot I F grid block warp thread socket core lane global shared register dram l3 l2 l1 auto
    mma_m16n8k16_f16 fma_f32x8 ldmatrix cp_async u z workspace shuffle atomic BM BK
""")
NUMBERS = _words("0 1 2 3 5 7 24 33 64 100 255 4096 99999 3000000000 99999999999999999999")
MODIFIERS = [
    *(
        "unroll",
        "unroll 3",
        "vector 4",
        "vector 3",
        "pipeline 2",
        "order k, m",
        "order n",
        "raster 2",
        "arrange u: m = u",
        "pad 3",
    ),
    *("swizzle", "swizzle(9)", "layout (k, m)", "layout (m)", "layout panels(m: 5)", "peel", "by shuffle", "by workspace"),
    *("by atomic", "within l2", "within shared", "with ldmatrix", "with cp_async", "with fma", "every 3", "as (m, k)"),
]
LINES = [
    *("fuse m, n as mn", "fuse m, k as m", "inline e", "keep C in shared", "keep C in l2", "move A -> register"),
    *("tile m: 4 -> thread", "tile k: 4 -> warp", "tile n: 4 -> lane", "tile k: 3", "compute", "auto", "keep C in register"),
    *("move B -> l1", "tile j: 2 -> core", "apply nothing(A)", "param BZ in 1, 2", "keep top, tot in register"),
    "move X -> shared",
]


@lru_cache(maxsize=1)
def valid():
    """The module, and each schedule's text."""
    text = (DEVICES / "simt.sched").read_text() + (DEVICES / "simt_sketches.sched").read_text() + CPU
    module = loads(text)
    parts = re.split(r"^(?=schedule |op |device )", text, flags=re.MULTILINE)
    return module, [p for p in parts if p.startswith("schedule ")]


def mutated(rng: random.Random, text: str) -> str:
    head, *lines = [x for x in text.splitlines() if x.strip()]
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        at = rng.randrange(len(lines))
        match rng.randrange(9):
            case 0 if len(lines) > 1:
                del lines[at]
            case 1:
                lines.insert(at, lines[at])
            case 2:
                other = rng.randrange(len(lines))
                lines[at], lines[other] = lines[other], lines[at]
            case 3:
                lines[at] += " " + rng.choice(MODIFIERS)
            case 4:
                margin = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
                lines.insert(at, margin + rng.choice(LINES))
            case 5:
                lines[at] = re.sub(
                    r" (pipeline|unroll|vector|pad|swizzle|order|layout|with|raster|within|by)\b.*$", "", lines[at]
                )
            case _:
                words = list(WORDS.finditer(lines[at]))[1:]
                if words:
                    w = rng.choice(words)
                    new = rng.choice(NUMBERS if w[0].isdigit() else POOL)
                    lines[at] = lines[at][: w.start()] + new + lines[at][w.end() :]
    return "\n".join([head, *lines]) + "\n"


def attempt(text: str) -> str:
    """The outcome: `ok`, or the ids of the mistakes. Raises whatever is no `UserError`."""
    module, _ = valid()
    try:
        (decl,) = parse(Source("fuzz.sched", text)).declarations
        assert isinstance(decl, ScheduleDecl)
        op = bind_params(module.ops[decl.op], {})
        compile_program(module, op, decl, module.device(decl.device or "cpu:avx2"))
    except UserError as error:
        found = error.errors if isinstance(error, UserErrors) else (error,)
        for e in found:
            assert e.span is not None, f"no span: {e}"
            assert str(e)
        return " ".join(sorted({e.id for e in found}))
    return "ok"


def test_the_schedules_themselves_are_right():
    assert [attempt(text) for text in valid()[1]] == ["ok"] * len(valid()[1])


@pytest.mark.parametrize("seed", range(4))
def test_mutated(seed):
    rng = random.Random(seed)
    for _ in range(COUNT // 4):
        text = mutated(rng, rng.choice(valid()[1]))
        try:
            attempt(text)
        except Exception as fault:
            raise AssertionError(f"{type(fault).__name__}: {fault}\n{text}") from fault
