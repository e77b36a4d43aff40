"""`tile i: ... carry`: prefix reductions go on from tile to tile. On CPUs, under the emulator, in the interpreter."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.interpret.machine import Fault, interpret
from andiron.codegen.ir.printer import show
from andiron.codegen.lower.reductions import carried_totals, lower_carry
from andiron.codegen.lower.tiling import prefixes
from andiron.codegen.pipeline import compile_program
from andiron.codegen.verify import check_once
from andiron.dsl.errors import UserError
from andiron.dsl.module import loads
from andiron.runtime.compile import compile

from ....support.cpp.build import skip_unless_run_here
from ....support.interpreted import Formula, agrees, program_of, written
from ....support.rotation import rotated

IDENTITY = {"sum": 0, "prod": 1, "max": -np.inf, "min": np.inf}


def prefix(x: np.ndarray, kind: str = "sum", shift: int = 0) -> np.ndarray:
    """Row by row from its definition, along the last axis: nothing goes on from one row to the next."""
    start = IDENTITY[kind] if x.dtype.kind == "f" else {"max": np.iinfo(x.dtype).min, "sum": 0, "prod": 1}[kind]
    ends = [max(0, min(i + shift + 1, x.shape[-1])) for i in range(x.shape[-1])]
    rows = [getattr(np, kind)(x[..., :end], axis=-1, initial=start) for end in ends]
    return np.stack(rows, axis=-1) if rows else x.copy()


def one(kind: str = "sum", shift: int = 0, dtype: str = "f32") -> Formula:
    bound = f"j <= i + {shift}" if shift >= 0 else f"j <= i - {-shift}"
    text = f"op f[N](X: {dtype}[N]) -> (P: {dtype}[N]):\n    P[i] = {kind}(j where {bound}) X[j]\n"
    return Formula(text, lambda x: prefix(x, kind, shift))


def several(kind: str = "sum", shift: int = 0) -> Formula:
    bound = f"j <= i + {shift}" if shift >= 0 else f"j <= i - {-shift}"
    text = f"op f[M, N](X: f32[M, N]) -> (P: f32[M, N]):\n    P[r, i] = {kind}(j where {bound}) X[r, j]\n"
    return Formula(text, lambda x: prefix(x, kind, shift))


CPU = {
    "a tile": "tile i: 8 carry",
    "elements": "tile i: 1 carry",
    "peeled": "tile i: 5 carry peel",
    "lanes": "tile i: 8 carry unroll 2 / tile i: 1 -> lane",
    "kept": "tile i: 16 carry / keep P in register / tile j: 4 / tile i: 1 -> lane",
    "parts": "tile i: 16 carry / tile j: 1 -> lane",
}
GPU = {
    "threads": "tile i: 64 carry / tile i: 1 -> thread",
    "warps": "tile i: 64 carry / tile i: 32 -> warp / tile i: 1 -> thread",
    "parts in warps": "tile i: 32 carry / tile i: 2 -> warp / tile j: 1 -> thread",
}
CPU_ROWS = {
    "rows in lanes": "tile r: 8 -> core / tile i: 1 carry / tile r: 1 -> lane",
    "lanes in a row": "tile r: 2 -> core / tile i: 8 carry / tile i: 1 -> lane",
    "one by one": "tile r: 4 / tile i: 8 carry / tile r: 1 / keep P in register / tile i: 1 -> lane",
    "staged": "tile r: 8 -> core / tile i: 8 carry / move X -> l1 / tile i: 1 / tile r: 1 -> lane",
    "in a cache": "tile r: 4 -> core / tile i: 16 carry / keep P in l1 / tile j: 4 / tile i: 1 -> lane",
}
GPU_ROWS = {
    "a row a thread": "tile r: 32 -> block / tile i: 4 carry / tile r: 1 -> thread",
    "rows and elements": "tile r: 2 -> block / tile i: 32 carry / tile r: 1, i: 1 -> thread",
    "a row a warp": "tile r: 4 -> block / tile i: 32 carry / move X -> shared / tile r: 1 -> warp / tile i: 1 -> thread",
    "threads have parts": "tile r: 1 -> block / tile i: 64 carry / tile j: 1 -> thread",
    "kept in shared": "tile r: 32 -> block / tile i: 8 carry / move X -> shared / keep P in shared / tile r: 1 -> thread",
    "blocks": "tile r: 2 / tile i: 16 carry / tile i: 4 -> block / tile i: 2 / tile i: 1 -> thread",
    "copies run ahead": "tile r: 32 -> block / tile i: 8 carry / move X -> shared pipeline 3 / tile r: 1 -> thread",
}
SHIFTS = (0, -1, -20, 1, 11)
SIZES = (0, 1, 7, 8, 16, 37, 70)


@pytest.mark.every_second
@pytest.mark.parametrize("shift", SHIFTS)
@pytest.mark.parametrize(("name", "kind"), rotated([*CPU, *GPU], ("sum", "max", "min", "sum")))
def test_right(name: str, kind: str, shift: int) -> None:
    lines, device = (CPU[name], "cpu:avx2") if name in CPU else (GPU[name], "sm_80")
    text = one(kind, shift)
    program = program_of(text, lines, device)
    for n in SIZES:
        agrees(text, program, {"N": n}, {"core": 2})


@pytest.mark.every_second
@pytest.mark.parametrize("shift", [0, -1, 3])
@pytest.mark.parametrize("name", [*CPU_ROWS, *GPU_ROWS])
def test_rows_are_right(name: str, shift: int) -> None:
    lines, device = (CPU_ROWS[name], "cpu:avx2") if name in CPU_ROWS else (GPU_ROWS[name], "sm_80")
    text = several(shift=shift)
    program = program_of(text, lines, device)
    for m, n in ((0, 3), (3, 0), (1, 1), (5, 37), (9, 66)):
        agrees(text, program, {"M": m, "N": n}, {"core": 2})


@pytest.mark.parametrize("n", [0, 1, 8, 19])
def test_sizes_that_are_fixed(n: int) -> None:
    text = one()
    agrees(text, program_of(text, CPU["lanes"], "cpu:avx2", {"N": n}), {"N": n}, {"core": 1})


def kernel_of(text: Formula, lines: str, target: str):
    return compile(f"{text.text}\nschedule s for f:\n{written(lines)}", op="f", schedule="s", target=target)


def same(got: np.ndarray, want: np.ndarray | tuple[np.ndarray, ...]) -> None:
    assert isinstance(want, np.ndarray)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(("name", "target"), rotated([*CPU, *CPU_ROWS], ("cpu:generic", "cpu:avx2", "cpu:avx512")))
def test_on_cpus(name: str, target: str) -> None:
    """With outputs that hold no number before."""
    skip_unless_run_here(target)
    rows = name in CPU_ROWS
    text = several("max", -1) if rows else one("sum", 2)
    kernel = kernel_of(text, (CPU_ROWS if rows else CPU)[name], target)
    rng = np.random.default_rng(0)
    for shape in ((0, 3), (3, 0), (1, 1), (5, 37), (17, 66)) if rows else ((0,), (1,), (9,), (16,), (67,)):
        x = rng.integers(-9, 10, shape).astype(np.float32)
        out = np.full(shape, np.nan, np.float32)
        kernel(x, out=out)
        same(out, text.result(x))


@pytest.mark.parametrize("dtype", ["f64", "i32", "f32"])
@pytest.mark.parametrize("kind", ["sum", "prod", "max"])
def test_types(dtype: str, kind: str) -> None:
    text = one(kind, dtype=dtype)
    kernel = kernel_of(text, CPU["a tile"], "cpu:generic")
    x = np.random.default_rng(1).choice([1, -1, 2], 29).astype({"f64": np.float64, "i32": np.int32, "f32": np.float32}[dtype])
    with np.errstate(over="ignore"):
        same(kernel(x), prefix(x, kind).astype(x.dtype))


@pytest.mark.parametrize("name", [*GPU, *GPU_ROWS])
def test_under_the_emulator(name: str) -> None:
    rows = name in GPU_ROWS
    text = several() if rows else one("max", 1)
    kernel = kernel_of(text, (GPU_ROWS if rows else GPU)[name], "emulate:sm_80")
    for shape in ((3, 0), (1, 1), (35, 41)) if rows else ((0,), (1,), (131,)):
        x = np.random.default_rng(2).integers(-9, 10, shape).astype(np.float32)
        same(kernel(x), text.result(x))


@pytest.mark.parametrize("kind", ["sum", "max"])
def test_what_is_no_number_goes_on(kind: str) -> None:
    """A row before it does not have it, all rows from there on do."""
    text = several(kind)
    kernel = kernel_of(text, CPU_ROWS["lanes in a row"], "cpu:generic")
    x = np.ones((4, 30), np.float32)
    x[0, 11], x[1, 3], x[2, 16], x[2, 25], x[3, 0] = np.nan, np.inf, np.inf, -np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        same(kernel(x), text.result(x))


def test_the_work_is_linear() -> None:
    """Twice the rows are twice the elements that are read, not four times as many."""
    text = f"{one().text}\nschedule s for f:\n{written(CPU['lanes'])}"
    module = loads(text)
    program = compile_program(module, module.ops["f"], module.schedules["s"], module.device("cpu:avx2")).program
    # per tile of 8: at most 8 terms for each row, and 8 for the total
    assert "min(8, N - 8*i1)" in show(program)
    assert "0 .. N" not in show(program)


def test_what_is_read_by_the_next_statement() -> None:
    """In the same loop, and with an epilogue that has the result twice."""
    text = Formula(
        "op f[N](X: f32[N]) -> (P: f32[N], Y: f32[N]):\n    P[i] = sum(j where j <= i) X[j]\n    Y[i] = P[i] * P[i] + X[i]\n",
        lambda x: (prefix(x), prefix(x) ** 2 + x),
    )
    for lines in (CPU["lanes"], "tile i: 8 carry / keep P in register / tile j: 4", CPU["elements"]):
        program = program_of(text, lines, "cpu:avx2")
        for n in (0, 1, 23):
            agrees(text, program, {"N": n}, {"core": 1})


def test_two_share_a_loop() -> None:
    text = Formula(
        "op f[M, N](X: f32[M, N], W: f32[N]) -> (Y: f32[M, N]):\n"
        "    P[r, i] = sum(j where j < i, j >= r) X[r, j] * W[j]\n"
        "    Y[r, i] = P[r, i] + (sum(j where j < i) X[r, j])\n",
        lambda x, w: (
            prefix(np.where(np.arange(x.shape[1]) >= np.arange(len(x))[:, None], x * w, 0), shift=-1) + prefix(x, shift=-1)
        ),
    )
    for lines in (
        "tile r: 4 -> core / tile i: 8 carry / keep P in register",
        "tile r: 4 -> core / tile i: 8 carry / keep P in l1 / tile j: 4",
        "tile r: 8 -> core / tile i: 4 carry / keep P in register / tile r: 1 -> lane",
    ):
        program = program_of(text, lines, "cpu:avx2")
        assert len(program.launches) == 1
        for m, n in ((1, 1), (5, 29), (3, 0)):
            agrees(text, program, {"M": m, "N": n}, {"core": 2})


def test_several_reduced_indices() -> None:
    text = Formula(
        "op f[N, K](X: f32[N, K]) -> (P: f32[N]):\n    P[i] = sum(j, k where j <= i) X[j, k]\n",
        lambda x: prefix(x.sum(1)),
    )
    program = program_of(text, "tile i: 8 carry / tile k: 4", "cpu:avx2")
    for n, k in ((0, 2), (9, 0), (1, 1), (19, 6)):
        agrees(text, program, {"N": n, "K": k}, {"core": 1})


def test_an_intermediate_that_is_made_in_the_tile() -> None:
    text = Formula(
        "op f[N](X: f32[N]) -> (P: f32[N]):\n    Z[j] = X[j] * X[j]\n    P[i] = sum(j where j <= i) Z[j]\n",
        lambda x: prefix(x * x),
    )
    program = program_of(text, "tile i: 8 carry / keep Z in register / tile j: 8", "cpu:avx2")
    for n in (0, 1, 21):
        agrees(text, program, {"N": n}, {"core": 1})


MADE = {
    "in lanes": "tile i: 8 carry / tile i: 2 -> lane / keep Z in register / keep P in register",
    "in lanes, after the result": "tile i: 8 carry / tile i: 2 -> lane / keep P in register / keep Z in register",
    "for two rows": "tile i: 8 carry / tile i: 2 / keep Z in register / keep P in register",
}


@pytest.mark.parametrize("name", MADE)
def test_what_is_made_in_the_tile_and_kept_before_the_result(name: str) -> None:
    """Rows and totals each make it for themselves: nobody reads it in memory."""
    text = Formula(
        "op f[N](X: f32[N]) -> (P: f32[N]):\n    Z[j] = X[j] * X[j]\n    P[i] = sum(j where j <= i) Z[j]\n",
        lambda x: prefix(x * x),
    )
    program = program_of(text, MADE[name], "cpu:avx2")
    assert not [b.name for b in program.buffers if b.kind == "workspace"]
    for n in (0, 1, 7, 21):
        agrees(text, program, {"N": n}, {"core": 1})


@pytest.mark.wrong_program
@pytest.mark.parametrize("broken", ["twice", "not at all", "too late"])
def test_a_total_that_is_wrong_is_found(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = prefixes.new_terms

    def other(rows, index, shift):
        r = whole(rows, index, shift)
        return {"twice": index, "not at all": whole(rows, index, shift - 1), "too late": r}[broken]

    if broken == "too late":
        monkeypatch.setattr(carried_totals, "combine_step", lambda kind, now, new, dtype: new)
    monkeypatch.setattr(lower_carry, "new_terms", other)
    module = loads(f"{one().text}\nschedule s for f:\n{written(CPU['lanes'])}")
    with pytest.raises((UserError, Fault)):
        compile_program(module, module.ops["f"], module.schedules["s"], module.device("cpu:avx2"))


OWN = "tile i: 8 carry"
REFUSED = {
    "no domain": ("sum(j) X[j]", OWN, "in this launch no reduction has more terms the larger `i` is"),
    "a window": ("sum(j where j <= i, j > i - 4) X[j]", OWN, "they are not those of the row before, and more"),
    "a suffix": ("sum(j where j >= i) X[j]", OWN, "they are not those of the row before, and more"),
    "every second": ("sum(j where 2*j <= i) X[j]", OWN, "only domains such as `j <= i + 1` are carried yet"),
    "reads the row": ("sum(j where j <= i) exp(X[j] * X[i])", OWN, "is not what row `i` adds, nor a multiple of it"),
    "kept above": ("sum(j where j <= i) X[j]", "keep P in dram / tile i: 8 carry", "all its rows are open around the loop"),
    "tiled above": ("sum(j where j <= i) X[j]", "tile i: 64 / tile i: 8 carry", "a line above tiles `i`"),
    "on units": ("sum(j where j <= i) X[j]", "tile i: 8 -> core carry", "`carry` is for loops"),
    "two indices": ("sum(j where j <= i) X[j]", "tile i: 8, j: 4 carry", "`carry` tiles of several indices"),
    "the other index": (
        "sum(j where j <= i) X[j]",
        "tile j: 8 carry",
        "has more terms the larger `i` is, and this line tiles `j`",
    ),
    "another loop": ("S[i] + (sum(j) X[j] * f32(i))", f"{OWN} / keep S in register", "goes over all of `j`"),
    "other terms": ("S[i] + (sum(j where j < i) X[j])", f"{OWN} / keep S in register", "have other terms of `j`"),
}


def test_a_write_back_with_lines_of_its_own_below_a_tile_that_does_not_carry() -> None:
    text = """op f[M, N](X: f32[M, N]) -> (Y: f32[M, N], total: f32[M], top: f32[M]):
    top[i] = max(j) X[i, j]
    total[i] = sum(j) exp(X[i, j] - top[i])
    Y[i, j] = exp(X[i, j] - top[i]) / total[i]
schedule s for f:
    tile i: 4 -> core
    keep top, total in register
    tile j: 8 carry
    tile j: 16 online
    keep top in l3:
        move top -> dram
    compute
"""
    module = loads(text)
    with pytest.raises(UserError, match="in this launch no reduction has more terms the larger `j` is") as raised:
        compile_program(module, module.ops["f"], module.schedules["s"], module.device("cpu:avx2"))
    assert (raised.value.help or "").endswith("`sum(t where t <= j)`")


def test_lines_that_are_for_another_launch() -> None:
    """The sum over earlier rows has a launch of its own, and nothing says that the lines are for it."""
    text = "op f[N, E](Q: f32[N, E], K: f32[N, E]) -> (o: f32[N]):\n    s[i, j] where j <= i = sum(e) Q[i, e] * K[j, e]\n"
    text += f"    o[i] = sum(j where j <= i) s[i, j]\nschedule s for f:\n{written(OWN)}"
    module = loads(text)
    with pytest.raises(UserError, match="these lines are for the launch that computes `s`: `o`, which has more") as raised:
        compile_program(module, module.ops["f"], module.schedules["s"], module.device("cpu:generic"))
    assert raised.value.help == "with `keep o in register` below, the lines are for `o`"


@pytest.mark.parametrize("name", REFUSED)
def test_refused_in_words(name: str) -> None:
    statement, lines, why = REFUSED[name]
    other = "    S[i] = sum(j where j <= i) X[j]\n" if "S[i]" in statement else ""
    text = f"op f[N](X: f32[N]) -> (P: f32[N]):\n{other}    P[i] = {statement}\n"
    text += f"schedule s for f where N <= 4096:\n{written(lines)}"
    module = loads(text)
    with pytest.raises(UserError) as e:
        compile_program(module, module.ops["f"], module.schedules["s"], module.device("cpu:avx2"))
    assert why in str(e.value)
    assert "help:" in str(e.value)


CHAIN = """op f[N](X: f32[N]) -> (P: f32[N], R: f32[N]):
    P[i] = sum(j where j <= i) X[j]
    R[i] = sum(j where j <= i) P[j]
schedule s for f:
    keep P in dram:
        tile i: 8 carry
"""


@pytest.mark.parametrize(
    ("lines", "why", "way"),
    [
        ("    tile i: 8 carry", "`R` has more terms the larger `i.2` is, and this line tiles `i`", "`tile i.2: 8 carry`"),
        ("    tile j: 4 carry", "no result of this launch has `j`", "write the line in the block"),
        ("    tile i.2: 8 carry", "", ""),
    ],
)
def test_rows_of_a_second_prefix_go_by_their_own_name(lines: str, why: str, way: str) -> None:
    """The terms of R are rows of P: these are `i`."""
    module = loads(CHAIN + lines + "\n")
    op, schedule, device = module.ops["f"], module.schedules["s"], module.device("cpu:avx2")
    if not why:
        program = compile_program(module, op, schedule, device).program
        for n in (0, 1, 21):
            agrees(Formula(CHAIN, lambda x: (prefix(x), prefix(prefix(x)))), program, {"N": n}, {"core": 1})
        return
    with pytest.raises(UserError) as e:
        compile_program(module, op, schedule, device)
    assert why in str(e.value)
    assert f"help: {way}" in str(e.value)


def test_a_line_that_is_for_no_result_of_its_launch() -> None:
    module = loads(CHAIN.partition("schedule")[0] + "schedule s for f:\n    tile i.2: 8 carry\n")
    with pytest.raises(UserError, match="no result of this launch has") as e:
        compile_program(module, module.ops["f"], module.schedules["s"], module.device("cpu:avx2"))
    assert "help: write the line in the block of a line `keep NAME in dram:`, where NAME is the tensor that it is for" in str(
        e.value
    )


def test_what_is_too_large_goes_by_the_names_of_tensors() -> None:
    """Also where no line names the tensor."""
    with pytest.raises(UserError, match="the tiles of P and totals of P need 257 registers"):
        program_of(several(), "tile r: 128 -> block / tile i: 16 carry / tile i: 1 -> thread", "sm_80")


def test_one_tile_is_a_tile_like_others() -> None:
    """Nothing goes on from it."""
    program = program_of(one(), "tile i: 64 carry", "cpu:avx2", {"N": 40})
    assert "carried" not in show(program)
    x = np.arange(40, dtype=np.float32)
    same(interpret(program, {"X": x})["P"], np.cumsum(x, dtype=np.float32))
    check_once(program, loads(one().text).ops["f"], {"N": 40})
