"""Some lines of a pass over the keys, and `auto` for the others: the pass is completed (`candidates`, WITH_LINES)."""

from __future__ import annotations

import itertools
from functools import cache

import andiron
import numpy as np
import pytest
from andiron.codegen.passes import CompiledProgram
from andiron.codegen.pipeline import compile_program
from andiron.runtime.compile import resolve_request

from ...support.rotation import LONG

OP = """op f[H, Q, T, D](q: {T}[H, Q, D], k: {T}[H, T, D], v: {T}[H, T, D]) -> (o: f32[H, Q, D]):
    s[h, i, t]{where} = (sum(d) f32(q[h, i, d]) * f32(k[h, t, d])) * rsqrt(D)
    m[h, i] = max(t) s[h, i, t]
    p[h, i, t] = exp(s[h, i, t] - m[h, i])
    l[h, i] = sum(t) p[h, i, t]
    o[h, i, d] = (sum(t) f32({T}(p[h, i, t])) * f32(v[h, t, d])) / l[h, i]
"""
FULL, CAUSAL = OP.replace("{where}", ""), OP.replace("{where}", " where t <= i")
F32 = FULL.replace("{T}", "f32").replace("f32(f32(p[h, i, t]))", "p[h, i, t]").replace("f32(q[h, i, d])", "q[h, i, d]")
F32 = F32.replace("f32(k[h, t, d])", "k[h, t, d]").replace("f32(v[h, t, d])", "v[h, t, d]")
CASES = {
    "fragments": (FULL.replace("{T}", "f16"), "emulate:sm_80", {"H": 2, "Q": 128, "T": 128, "D": 32}),
    "a domain": (CAUSAL.replace("{T}", "f16"), "emulate:gfx942", {"H": 1, "Q": 128, "T": 128, "D": 32}),
    "lanes": (F32, "emulate:sm_80", {"H": 2, "Q": 128, "T": 128, "D": 16}),
    "parts of the keys": (FULL.replace("{T}", "f16"), "emulate:sm_80", {"H": 2, "Q": 3, "T": 1100, "D": 32}),
    "a cpu": (F32, "cpu", {"H": 2, "Q": 256, "T": 300, "D": 16}),
}


@cache
def lines_of(case: str) -> tuple[str, ...]:
    """Those of the compiler's own schedule, each with its block."""
    op, target, sizes = CASES[case]
    lines = andiron.compile(op, target=target, sizes=sizes).schedule.rstrip().split("\n")[1:]
    tops = [n for n, x in enumerate(lines) if not x.startswith(" " * 8)] + [len(lines)]
    return tuple("\n".join(lines[a:b]) + "\n" for a, b in itertools.pairwise(tops))


def with_auto(case: str, lines: str) -> str:
    return f"{CASES[case][0]}schedule w for f:\n{lines}    auto\n"


def completed(case: str, lines: str) -> andiron.Kernel:
    _, target, sizes = CASES[case]
    return andiron.compile(with_auto(case, lines), schedule="w", target=target, sizes=sizes)


def program_of(case: str, lines: str) -> CompiledProgram:
    """Of the same kernel, without its text."""
    _, target, sizes = CASES[case]
    r = resolve_request(with_auto(case, lines), schedule="w", target=target, given=sizes)
    return compile_program(r.module, r.special, r.named, r.device)


def is_one_launch(made: andiron.Kernel | CompiledProgram) -> bool:
    """Or two, where the second combines parts of the first."""
    count = 2 if "online by workspace" in made.schedule else 1
    return len(made.program.launches) == count and "online" in made.schedule


def is_right(case: str, kernel: andiron.Kernel) -> None:
    op, _, sizes = CASES[case]
    rng = np.random.default_rng(0)
    dtype = np.float16 if "f16" in op else np.float32
    shapes = [(sizes["H"], sizes[x], sizes["D"]) for x in "QTT"]
    q, k, v = (rng.standard_normal(shape).astype(dtype) for shape in shapes)
    out = np.full(shapes[0], np.nan, np.float32)
    kernel(q, k, v, out=out)
    s = np.einsum("hid,htd->hit", *(x.astype("f8") for x in (q, k))) / np.sqrt(sizes["D"])
    if "where" in op:
        s = np.where(np.tri(sizes["Q"], sizes["T"], dtype=bool), s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    want = np.einsum("hit,htd->hid", p / p.sum(-1, keepdims=True), v.astype("f8"))
    np.testing.assert_allclose(out, want, rtol=2e-2 if "f16" in op else 1e-4, atol=2e-3 if "f16" in op else 1e-5)


def needs(case: str) -> None:
    if case == "a cpu" and "online" not in "".join(lines_of(case)):
        pytest.skip("this machine's vectors are too few for a pass")


@pytest.mark.parametrize("case", CASES)
def test_each_beginning_of_the_pass_is_completed(case: str) -> None:
    """Of every fifth length; with `FUZZ=N` of all."""
    needs(case)
    every = lines_of(case)
    first = next(n for n, x in enumerate(every) if "keep" in x) + 1  # with fewer lines they may be those of a launch apart
    for count in range(first, len(every), 1 if LONG else 5):
        made = program_of(case, "".join(every[:count]))
        assert is_one_launch(made), f"{count} lines of\n{''.join(every)}"
        assert made.schedule.partition("\n")[2].startswith("".join(every[:count]))


@pytest.mark.parametrize("case", CASES)
def test_results_are_right(case: str) -> None:
    needs(case)
    every = lines_of(case)
    for count in (2, len(every) - 3):
        is_right(case, completed(case, "".join(every[:count])))


@pytest.mark.parametrize(("case", "size"), [("fragments", 16), ("fragments", 32), ("lanes", 16), ("fragments", 48)])
def test_the_author_s_sizes_stay(case: str, size: int) -> None:
    """48 rows are in no candidate."""
    lines = f"    tile h: 1, i: {size} -> block\n    keep m, l, o in register\n"
    kernel = completed(case, lines)
    assert kernel.schedule.partition("\n")[2].startswith(lines)
    assert is_one_launch(kernel)
    is_right(case, kernel)


def test_lines_of_a_launch_apart_stay_there() -> None:
    """A maximum of its own is no part of a pass."""
    op, target, sizes = CASES["fragments"]
    lines = "    tile h: 1, i: 1 -> block\n    keep m in register\n    tile t: 32 -> warp\n    tile t: 1 -> thread\n"
    kernel = andiron.compile(f"{op}schedule w for f:\n{lines}    auto\n", schedule="w", target=target, sizes=sizes)
    assert not is_one_launch(kernel)
    is_right("fragments", kernel)
