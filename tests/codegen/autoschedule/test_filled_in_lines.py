"""What the compiler fills in is never what is refused: it takes what fits, or the error is about the author's own lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.pipeline import compile_program
from andiron.codegen.schedule.synthetic_spans import concerns_filled_in
from andiron.dsl import syntax
from andiron.dsl.errors import UserError
from andiron.dsl.module import loads
from andiron.dsl.op import Op
from andiron.dsl.ops.specialise import bind_params, specialise
from andiron.dsl.text.format import format_node
from andiron.runtime.check_results import check
from andiron.runtime.random_inputs import random_inputs

from ...support.rotation import LONG

ATTENTION = "import std.ops.attention\n"
PASSES = [  # device, op, sizes (H, Q, T, D), lines
    ("sm_80", "attention", (1, 33, 70, 16), "tile i: 128 -> block / keep m, l, o in register / tile t: 40 online"
     " / move v -> shared swizzle / tile i: 16 -> warp / keep s in register"),
    ("sm_120a", "attention_f8", (1, 33, 70, 16), "tile i: 128 -> block / keep m, l, o in register / tile t: 40 online"
     " / move v -> shared swizzle / tile i: 16 -> warp / keep s in register"),
    ("gfx90a", "attention_f32", (1, 40, 133, 72), "tile i: 32 -> block / keep m, l, o in register"
     " / tile t: 96 online pipeline 2"),
    ("gfx942", "attention_f32", (1, 1, 37, 64), "tile i: 17 -> block / keep m, l, o in register / tile t: 40 online pipeline 2"
     " / tile i: 16 -> wave / keep s in register / keep p in register"),
    ("gfx942", "attention_f32", (1, 1, 37, 64), "tile i: 16 -> block / keep m, l, o in register / tile t: 32 online"
     " / tile i: 16 -> wave / keep s in register / keep p in register"),
    ("sm_100a", "attention_f32", (1, 20, 50, 128), "tile i: 64 -> block / keep m, l, o in register / move q -> shared"
     " / tile t: 48 online / move k -> shared / move v -> shared / tile i: 32 -> warp / keep s in register"),
]  # fmt: skip


@pytest.fixture(autouse=True)
def no_other_candidate() -> None:
    """Not in all tests of this file."""


@pytest.mark.usefixtures("first_choices")
@pytest.mark.parametrize(("device", "name", "sizes", "lines"), PASSES)
def test_what_is_left_of_a_pass(device, name, sizes, lines):
    """With the sizes that are given, and with an open number of rows, where the lines of a pass are right for any."""
    given = dict(zip("HQTD", sizes, strict=True))
    lines = "".join(f"    {x.strip()}\n" for x in [*lines.replace("tile i", "tile h: 1, i", 1).split("/"), "auto"])
    module = loads(f"{ATTENTION}schedule s for {name}:\n{lines}")
    op = specialise(module.ops[name], given)
    program = compile_program(module, op, module.schedules["s"], module.device(device)).program
    arrays = random_inputs(op, given, 1)
    found = interpret(program, dict(zip([t.name for t in op.inputs], arrays, strict=True)), {})
    assert check(op, arrays, [found["o"]]).ok
    opened = specialise(module.ops[name], {"H": 1, "T": given["T"], "D": given["D"]})
    assert compile_program(module, opened, module.schedules["s"], module.device(device)).program.launches


LANES = [  # lines, after which lanes get rows
    "tile h: 1, i: 64 -> block / tile i: 32 -> UNIT / keep m, l, o in register / tile t: 32 online / keep s: / auto",
    "tile h: 1, i: 64 -> block / tile i: 32 -> UNIT / keep m, l, o in register / tile t: 32 online / auto",
    "tile h: 1, i: 64 -> block / tile i: 32 -> UNIT / auto",
]


@pytest.mark.fewest
@pytest.mark.parametrize(("device", "unit"), [("sm_80", "warp"), ("gfx942", "wave"), ("gfx1100", "wave")])
@pytest.mark.parametrize("lines", LANES)
def test_lanes_get_rows_where_no_nest_has_the_lines(lines: str, device: str, unit: str) -> None:
    """One lane would hold 32 x 64 results of `o` otherwise."""
    own = lines.replace("UNIT", unit).replace(" / ", "\n    ").replace(":\n", ":\n        auto\n")
    module = loads(f"{ATTENTION}schedule s for attention:\n    {own}\n")
    op = specialise(module.ops["attention"], {"D": 64})
    compiled = compile_program(module, op, module.schedules["s"], module.device(device))
    assert "    tile i: 1 -> thread\n" in str(compiled.schedule)
    sizes = {"H": 1, "Q": 35, "T": 41, "D": 64}
    inputs = random_inputs(op, sizes, 3)
    got = interpret(compiled.program, dict(zip((t.name for t in op.inputs), inputs, strict=True)), sizes)
    assert check(op, inputs, list(got.values())).ok


RIM = """op g[H, W, C, O](X: f16[H, W, C], F: f16[C, O]) -> (Y: f32[H, W, O]):
    A[p: H, q: W, c] = f16(relu(f32(X[p, q, c]) * 2.0))
    Y[p, q, o] = sum(s: 3, c) f32(A[p, q + s - 1, c else 0]) * f32(F[c, o])
schedule s for g on DEVICE where C <= 64:
    tile p: 8, q: 16, o: 64 -> block
    keep A in shared:
        auto
    auto
"""


@pytest.mark.parametrize("device", ["sm_80", "gfx942"])
def test_a_reader_of_a_rim_is_dealt_out(device: str) -> None:
    """No nest is for it. One lane would compute the tile otherwise, and copy the rim alone."""
    module = loads(RIM.replace("DEVICE", device))
    op = bind_params(module.ops["g"])
    compiled = compile_program(module, op, module.schedules["s"], module.device(device))
    assert "    tile p: 8, q: 4, o: 1 -> thread\n" in str(compiled.schedule)
    for h, w, c, o in ((9, 17, 5, 7), (1, 1, 1, 1), (3, 2, 0, 2), (0, 3, 2, 2)):
        sizes = {"H": h, "W": w, "C": c, "O": o}
        inputs = random_inputs(op, sizes, 3)
        got = interpret(compiled.program, dict(zip((t.name for t in op.inputs), inputs, strict=True)), sizes)
        assert check(op, inputs, list(got.values())).ok, sizes


# ---------------------------------------------------------------- random beginnings

GEMM = "op g[M, N, K](A: {t}[M, K], B: {t}[K, N]) -> (Y: f32[M, N]):\n    Y[m, n] = sum(k) f32(A[m, k]) * f32(B[k, n])\n"
CONVOLUTION = """op g[N, C, H, W, O, R, S](I: {t}[N, C, H, W], F: {t}[O, C, R, S]) -> (Y: f32[N, O, H, W]):
    Y[n, o, p, q] = sum(c, r, s) f32(I[n, c, p + r - 1, q + s - 1 else {e}]) * f32(F[o, c, r, s])
"""
OPS = ("attention", "attention_f32", "attention_bf16", "attention_f8", "causal_attention_f16", "causal_attention")
SIZES = (1, 2, 4, 8, 16, 17, 24, 32, 40, 48, 64, 96, 128, 256)
CPUS = ("cpu:generic", "cpu:avx2", "cpu:avx512", "cpu:neon")
GPUS = ("sm_75", "sm_80", "sm_90a", "sm_100a", "sm_120a", "gfx908", "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201", "amd")


def drawn(rng: Random) -> tuple[str, str, dict[str, int], str]:
    """A text, the name of one of its ops, sizes of it that are known, and a device."""
    device = rng.choice(GPUS) if rng.random() < 0.8 else rng.choice(CPUS)
    kind, t = rng.random(), rng.choice(("f16", "f32", "bf16"))
    if kind < 0.6 and device in GPUS:
        q, past = rng.choice((1, 17, 33, 100)), rng.choice((0, 5, 37, 100))
        sizes = {"H": 1, "Q": q, "T": q + past, "D": rng.choice((16, 40, 64, 72, 128))}
        known = {n: e for n, e in sizes.items() if n == "D" or rng.random() < 0.7}
        return ATTENTION, rng.choice(OPS), known, device
    sizes = {"M": rng.choice((1, 33, 513)), "N": rng.choice((7, 200)), "K": rng.choice((5, 300))}
    text = GEMM.format(t=t)
    if kind > 0.8:
        sizes = dict(N=2, C=rng.choice((3, 16)), H=14, W=15, O=rng.choice((5, 16)), R=3, S=3)
        text = CONVOLUTION.format(t=t, e=rng.choice(("0.0", f"{t}(p)")))
    return text, "g", sizes if rng.random() < 0.6 else {}, device


def beginning(rng: Random, lines: Sequence[syntax.Line]) -> tuple[syntax.Line, ...]:
    """Some of the first lines, with other sizes, without some blocks and modifiers; then `auto`, or nothing."""
    out = [changed(rng, x) for x in lines[: rng.randint(1, len(lines))] if rng.random() > 0.1]
    ends = not out or isinstance(out[-1], syntax.Compute) or rng.random() < 0.4
    return tuple(out) if ends else (*out, syntax.AutoLine())


def changed(rng: Random, line: syntax.Line) -> syntax.Line:
    if isinstance(line, syntax.Tile):
        free = [a for a in line.axes if a.every is None and a.size != syntax.Num(1) and rng.random() < 0.35]
        axes = (replace(a, size=syntax.Num(rng.choice(SIZES))) if a in free else a for a in line.axes)
        kept = tuple(m for m in line.modifiers if m.name != "pipeline" or rng.random() < 0.8)
        return replace(line, axes=tuple(axes), modifiers=kept)
    if isinstance(line, syntax.Move | syntax.Keep):
        plain = rng.random() < 0.3
        return replace(line, block=None if rng.random() < 0.5 else line.block, modifiers=() if plain else line.modifiers)
    return line


@pytest.mark.parametrize("batch", range(8 if LONG else 3))
def test_no_error_is_about_a_line_that_was_filled_in(batch):
    for seed in range(6 * batch, 6 * batch + 6):
        rng = Random(seed)
        text, name, sizes, device = drawn(rng)
        module = loads(text)
        op = specialise(module.ops[name], sizes)
        whole = compile_program(module, op, None, module.device(device)).schedule
        decl = next(x for x in loads(f"{text}\n{whole}").schedules.values() if x.op == name)
        some = beginning(rng, decl.lines)
        if not some:
            continue
        written = f"{text}\n{format_node(replace(decl, name='s', device=None, where=(), lines=some))}"
        refused = refusal(written, op, device)
        assert refused is None or not concerns_filled_in(refused), f"seed {seed}, {device}, {sizes}\n{written}\n{refused}"


def refusal(text: str, op: Op, device: str) -> UserError | None:
    try:
        module = loads(text)
        compile_program(module, op, module.schedules["s"], module.device(device))
    except UserError as error:
        return error
    return None
