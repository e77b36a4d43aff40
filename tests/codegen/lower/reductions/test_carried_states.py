"""`tile t: ... carry` where a factor that leaves the sum has a reduced index of its own: linear attention and its relatives.

On CPUs, under the emulator, in the interpreter, against loops over rows and terms.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import pytest
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.ir.printer import show
from andiron.codegen.pipeline import compile_program
from andiron.codegen.verify import check_once
from andiron.codegen.verify.field_elements import ValueBudgetExceeded
from andiron.dsl.errors import UserError
from andiron.dsl.module import loads
from andiron.dsl.semantics.reference import reference
from andiron.runtime.compile import compile

from ....support.cpp.build import skip_unless_run_here
from ....support.interpreted import WORK, written
from ....support.rotation import rotated

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Case:
    """The sum of O[t, e], of terms with s up to t + shift, and the factor of K[s, d] * V[s, e] in row t."""

    value: str
    factor: Callable[[Arrays, int, int], np.ndarray]
    shift: int = 0
    inputs: str = ""

    def text(self, lines: str = "", channels: int = 4) -> str:
        head = f"Q: f32[T, {channels}], K: f32[T, {channels}], V: f32[T, E]{self.inputs.replace('D', str(channels))}"
        body = f"op f[T, E]({head}) -> (O: f32[T, E]):\n    O[t, e] = {self.value}\n"
        return body + (f"schedule s for f:\n{written(lines)}" if lines else "")


def gates(v: Arrays, t: int, s: int) -> np.ndarray:
    return v["Q"][t] * np.exp(v["g"][t] - v["g"][s])


CASES = {
    "linear attention": Case("sum(s, d where s <= t) Q[t, d] * K[s, d] * V[s, e]", lambda v, t, s: v["Q"][t]),
    "without the own row": Case("sum(s, d where s < t) K[s, d] * V[s, e] * Q[t, d]", lambda v, t, s: v["Q"][t], -1),
    "ahead": Case("sum(d, s where s <= t + 2) Q[t, d] * K[s, d] * V[s, e]", lambda v, t, s: v["Q"][t], 2),
    "of some channels": Case(
        "sum(s, d where s <= t, d >= 1) Q[t, d] * K[s, d] * V[s, e]", lambda v, t, s: v["Q"][t] * (np.arange(4) >= 1)
    ),
    "retention": Case(
        "sum(s, d where s <= t) pow(c, t - s) * Q[t, d] * K[s, d] * V[s, e]",
        lambda v, t, s: v["Q"][t] * v["c"] ** (t - s),
        0,
        ", c: f32[]",
    ),
    "gates": Case(
        "sum(s, d where s <= t) exp(g[t] - g[s]) * (Q[t, d] * K[s, d]) * V[s, e]", gates, 0, ", g: f32[T]"
    ),
    "gates of channels": Case(
        "sum(s, d where s <= t) Q[t, d] * exp(g[t, d] - g[s, d]) * K[s, d] * V[s, e]", gates, 0, ", g: f32[T, D]"
    ),
    "gates and a factor of the row": Case(
        "sum(s, d where s <= t) a[t] * exp(g[t, d] - g[s, d]) * K[s, d] * V[s, e]",
        lambda v, t, s: v["a"][t] * np.exp(v["g"][t] - v["g"][s]),
        0,
        ", g: f32[T, D], a: f32[T]",
    ),
}  # fmt: skip
CPU = {
    "columns in lanes": "tile e: 8 -> core / tile t: 4 carry / tile e: 1 -> lane",
    "a row": "tile e: 8 -> core / tile t: 1 carry / tile e: 1 -> lane",
    "in order": "tile e: 4 / tile t: 5 carry peel / tile d: 2",
    "lanes have channels": "tile e: 4 / tile t: 4 carry / tile d: 1 -> lane",
    "lanes have terms": "tile e: 2 / tile t: 8 carry / tile s: 1 -> lane",
    "kept": "tile e: 8 -> core / tile t: 4 carry / keep O in register / tile d: 2 / tile s: 2 / tile e: 1 -> lane",
    "kept in a cache": "tile e: 8 -> core / tile t: 4 carry / keep O in l1 / tile s: 2 / tile e: 1 -> lane",
}
GPU = {
    "columns": "tile e: 32 -> block / tile t: 4 carry / tile e: 1 -> thread",
    "rows and columns": "tile e: 8 -> block / tile t: 4 carry / tile t: 1, e: 1 -> thread",
    "staged": "tile e: 32 -> block / tile t: 8 carry / move K -> shared / move Q -> shared / tile e: 1 -> thread",
    "copies run ahead": "tile e: 32 -> block / tile t: 8 carry / move K -> shared pipeline 2 / tile e: 1 -> thread",
    "threads have channels": "tile e: 4 -> block / tile t: 4 carry / tile d: 1 -> thread",
    "threads have both": "tile e: 4 -> block / tile t: 4 carry / tile e: 1, d: 1 -> thread",
}
SHAPES = ((0, 3), (1, 1), (3, 0), (11, 9), (21, 5))


def arrays_of(text: str, shape: tuple[int, int], seed: int = 0) -> Arrays:
    rng = np.random.default_rng(seed)
    op, out = loads(text).ops["f"], {}
    for t in op.inputs:
        at = tuple(e.evaluate(dict(zip("TE", shape, strict=True))) for e in t.shape)
        falling = -np.cumsum(rng.uniform(0, 0.4, at), axis=0) if at else np.array(0.9)
        out[t.name] = (falling if t.name in ("g", "c") else rng.standard_normal(at)).astype(np.float32)
    return out


def close(got: np.ndarray, case: Case, v: Arrays) -> None:
    wide = {n: a.astype(np.float64) for n, a in v.items()}
    want, size = np.zeros(v["V"].shape), np.zeros(v["V"].shape)
    rows = len(want)
    for t in range(rows):
        for s in range(min(t + case.shift + 1, rows)):
            terms = (case.factor(wide, t, s) * wide["K"][s])[:, None] * wide["V"][s]
            want[t] += terms.sum(0)
            size[t] += np.abs(terms).sum(0)
    assert got.shape == want.shape
    assert (np.abs(got - want) <= (10 * 4 * rows + 40) * 2.0**-24 * (size + 1e-30)).all()


@pytest.mark.parametrize(("lines", "name"), rotated([*CPU, *GPU], list(CASES)))
def test_right(lines: str, name: str) -> None:
    case, device = CASES[name], "cpu:avx2" if lines in CPU else "sm_80"
    text = case.text({**CPU, **GPU}[lines])
    module = loads(text)
    program = compile_program(module, module.ops["f"], module.schedules["s"], module.device(device)).program
    for shape in SHAPES:
        v, sizes = arrays_of(text, shape), dict(zip("TE", shape, strict=True))
        close(interpret(program, v, sizes, {"core": 2})["O"], case, v)
        with suppress(ValueBudgetExceeded):
            check_once(program, module.ops["f"], sizes, {"core": 2}, work=WORK)


@pytest.mark.parametrize(("name", "lines"), rotated(CASES, ["columns in lanes", "a row", "lanes have channels", "kept"]))
def test_on_cpus(name: str, lines: str) -> None:
    """With outputs that hold no number before."""
    target = "cpu:avx2"
    skip_unless_run_here(target)
    case = CASES[name]
    text = case.text(CPU[lines])
    kernel = compile(text, op="f", schedule="s", target=target)
    for shape in SHAPES:
        v, out = arrays_of(text, shape), np.full(shape, np.nan, np.float32)
        kernel(*v.values(), out=out)
        close(out, case, v)


@pytest.mark.parametrize(("lines", "name"), rotated(GPU, ["retention", "gates of channels", "linear attention"]))
def test_under_the_emulator(lines: str, name: str) -> None:
    case = CASES[name]
    text = case.text(GPU[lines])
    kernel = compile(text, op="f", schedule="s", target="emulate:sm_80")
    for shape in ((1, 1), (3, 0), (21, 35)):
        v = arrays_of(text, shape)
        close(kernel(*v.values()), case, v)


def test_integers_have_a_state() -> None:
    """Sums of products wrap, in any order."""
    skip_unless_run_here("cpu:generic")
    text = CASES["linear attention"].text(CPU["in order"]).replace("f32", "i32")
    kernel = compile(text, op="f", schedule="s", target="cpu:generic")
    rng = np.random.default_rng(0)
    q, k, v = (rng.integers(-(2**31), 2**31, (13, n)).astype(np.int32) for n in (4, 4, 5))
    want = np.zeros((13, 5), np.int64)
    with np.errstate(over="ignore"):
        for t in range(13):
            for s in range(t + 1):
                want[t] += ((q[t] * k[s])[:, None] * v[s]).sum(0)
    np.testing.assert_array_equal(kernel(q, k, v), want.astype(np.int32))


def test_the_work_is_linear() -> None:
    """No loop goes over all rows before a tile."""
    text = CASES["linear attention"].text(CPU["columns in lanes"])
    module = loads(text)
    program = compile_program(module, module.ops["f"], module.schedules["s"], module.device("cpu:avx2")).program
    assert "min(4, T - 4*t1)" in show(program)
    assert "0 .. T" not in show(program)


def test_a_state_kept_by_a_statement_of_its_own() -> None:
    """The state of each row is a statement, which the lines keep in the tile."""
    op = """op f[T, E](Q: f32[T, 4], K: f32[T, 4], V: f32[T, E], g: f32[T, 4]) -> (O: f32[T, E]):
    S[t, d, e] = sum(s where s <= t) exp(g[t, d] - g[s, d]) * K[s, d] * V[s, e]
    O[t, e] = sum(d) Q[t, d] * S[t, d, e]
"""
    for lines, device in (
        ("tile e: 8 -> core / tile t: 1 carry / keep S in l1 / tile e: 1 -> lane", "cpu:avx2"),
        ("tile e: 32 -> block / tile t: 2 carry / keep S in register / tile e: 1 -> thread", "sm_80"),
    ):
        text = f"{op}schedule s for f:\n{written(lines)}"
        module = loads(text)
        program = compile_program(module, module.ops["f"], module.schedules["s"], module.device(device)).program
        assert len(program.launches) == 1
        for shape in SHAPES:
            v = arrays_of(text, shape)
            close(interpret(program, v, dict(zip("TE", shape, strict=True)), {"core": 2})["O"], CASES["gates of channels"], v)


def test_a_state_that_registers_do_not_hold_is_refused() -> None:
    text = CASES["linear attention"].text("tile e: 32 -> block / tile t: 4 carry / tile t: 1 -> thread", 64)
    module = loads(text)
    with pytest.raises(UserError) as e:
        compile_program(module, module.ops["f"], module.schedules["s"], module.device("sm_80"))
    assert "totals of O" in str(e.value) or "a total of `O` for each of `e` and `d`" in str(e.value)
    assert "help:" in str(e.value)


def chunks(value: str = "A[t, s] * V[s, e]", scores: str = "sum(d) Q[t, d] * K[s, d]", bound: str = "s <= t") -> str:
    """The scores of rows are a statement, and the sum reads them."""
    head = "op f[T, E](Q: f32[T, 4], K: f32[T, 4], V: f32[T, E], g: f32[T]) -> (O: f32[T, E]):\n"
    body = f"    A[t, s] = {scores}\n    O[t, e] = sum(s where {bound}) {value}\n"
    return head + body


GATED = "exp(g[t] - g[s]) * A[t, s] * V[s, e]"
CHUNKS = {
    "scores in memory": "tile t: 8 carry / keep A in dram / tile e: 1 -> lane",
    "rows one by one": "tile t: 1 carry / keep A in register / tile e: 1 -> lane",
    "results kept": "tile t: 5 carry / keep A in dram / keep O in register / tile s: 2 / tile e: 1 -> lane",
    "columns on cores": "tile e: 4 -> core / tile t: 8 carry / keep A in l1 / tile e: 1 -> lane",
    "columns on cores that share a memory": "tile e: 2 -> core / tile t: 5 carry / keep A in dram / tile e: 1 -> lane",
    "columns in a loop": "tile e: 3 / tile t: 8 carry / keep A in dram / tile e: 1 -> lane",
    "columns in loops": "tile e: 4 -> core / tile e: 2 / tile t: 2 carry / keep A in register / tile t: 1, s: 1",
}
GPU_CHUNKS = {
    "a row a warp": "tile e: 32 -> block / tile t: 8 carry / keep A in shared / tile t: 1 -> warp / tile e: 1 -> thread",
    "rows and columns": "tile e: 4 -> block / tile t: 8 carry / keep A in shared / tile t: 1, e: 1 -> thread",
    "staged": "tile e: 16 -> block / tile t: 8 carry / move K -> shared / move Q -> shared / keep A in shared"
    " / tile t: 2, e: 1 -> thread",
    "columns in a loop": "tile e: 8 -> block / tile e: 4 / tile t: 8 carry / keep A in shared / tile t: 1, e: 1 -> thread",
}


@pytest.mark.every_second
@pytest.mark.parametrize(("bound", "shift"), [("s <= t", 0), ("s < t + 3", 2), ("s <= t - 3", -3)])
@pytest.mark.parametrize("name", [*CHUNKS, *GPU_CHUNKS])
def test_scores_are_made_for_each_tile(name: str, bound: str, shift: int) -> None:
    """What hand-written kernels do: the product of masked scores in a tile, and that with the state before it."""
    lines, device = (CHUNKS[name], "cpu:avx2") if name in CHUNKS else (GPU_CHUNKS[name], "sm_80")
    text = f"{chunks(GATED, bound=bound)}schedule s for f where E <= 8:\n{written(lines)}"
    module = loads(text)
    program = compile_program(module, module.ops["f"], module.schedules["s"], module.device(device)).program
    assert len(program.launches) == 1
    case = Case("", gates, shift)
    for shape in ((0, 3), (1, 1), (3, 0), (11, 8), (21, 5)):
        v, sizes = arrays_of(text, shape), dict(zip("TE", shape, strict=True))
        close(interpret(program, v, sizes, {"core": 2})["O"], case, v)


@pytest.mark.parametrize("name", GPU_CHUNKS)
def test_scores_under_the_emulator(name: str) -> None:
    text = f"{chunks(GATED)}schedule s for f:\n{written(GPU_CHUNKS[name])}"
    kernel = compile(text, op="f", schedule="s", target="emulate:sm_80")
    for shape in ((1, 1), (3, 0), (21, 35)):
        v = arrays_of(text, shape)
        close(kernel(*v.values()), Case("", gates), v)


def test_scores_on_cpus() -> None:
    skip_unless_run_here("cpu:generic")
    for lines in CHUNKS.values():
        text = f"{chunks(GATED)}schedule s for f where E <= 8:\n{written(lines)}"
        kernel = compile(text, op="f", schedule="s", target="cpu:generic")
        for shape in ((0, 3), (1, 1), (23, 7)):
            v, out = arrays_of(text, shape), np.full(shape, np.nan, np.float32)
            kernel(*v.values(), out=out)
            close(out, Case("", gates), v)


SCORES_REFUSED = {
    "a function": (chunks("exp(A[t, s]) * V[s, e] * g[s]"), "reads a value of the row at each `s`"),
    "twice": (chunks("A[t, s] * A[t, s] * V[s, e] * g[s]"), "reads a value of the row at each `s`"),
    "rounded": (
        chunks("f32(A[t, s]) * V[s, e] * g[s]", "f16(sum(d) Q[t, d] * K[s, d])"),
        "reads a value of the row at each `s`",
    ),
    "maxima": (chunks("A[t, s] * V[s, e] * g[s]", "max(d) Q[t, d] * K[s, d]"), "reads a value of the row at each `s`"),
    "an index of both": (
        chunks(GATED).replace("[t, e]", "[t, d]").replace("[s, e]", "[s, d]").replace("E]", "4]").replace("[T, 4](", "[T]("),
        "`A` is a sum over `d`, which `O` has as well",
    ),
}


@pytest.mark.parametrize("name", SCORES_REFUSED)
def test_scores_that_are_refused(name: str) -> None:
    text, why = SCORES_REFUSED[name]
    text = f"{text}schedule s for f:\n{written('tile t: 4 carry / keep A in register')}"
    module = loads(text)
    with pytest.raises(UserError) as e:
        compile_program(module, module.ops["f"], module.schedules["s"], module.device("cpu:avx2"))
    assert why in str(e.value)
    assert "help:" in str(e.value)


ON_AN_INSTRUCTION = """op f[T, E](Q: f16[T, 32], K: f16[T, 32], V: f16[T, E]) -> (O: f32[T, E]):
    A[t, s] = sum(d) f32(Q[t, d]) * f32(K[s, d])
    O[t, e] = sum(s where s <= t) A[t, s] * f32(V[s, e])
schedule s for f:
    tile e: 32 -> block
    tile t: 32 carry
    move K -> shared pad 8
    move Q -> shared pad 8
    keep A in shared pad 4:
        tile t: 16, s: 16 -> warp
        tile d: 16
        compute with mma_m16n8k16_f16
    move V -> shared
    tile t: 8 -> warp
    tile e: 1 -> thread
"""


def test_scores_of_a_chunk_on_an_instruction() -> None:
    """Its operands are those of the op. Of the other two products some are f32: scores, and the state."""
    op = loads(ON_AN_INSTRUCTION).ops["f"]
    kernel = compile(ON_AN_INSTRUCTION, op="f", schedule="s", target="emulate:sm_80")
    rng = np.random.default_rng(0)
    for t, e in ((0, 3), (1, 1), (37, 35), (64, 32)):
        arrays = [rng.integers(-2, 3, shape).astype(np.float16) for shape in ((t, 32), (t, 32), (t, e))]
        out = np.full((t, e), np.nan, np.float32)
        kernel(*arrays, out=out)
        np.testing.assert_array_equal(out, reference(op)(*arrays))
