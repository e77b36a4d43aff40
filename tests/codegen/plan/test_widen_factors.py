"""Factors in a type that a device multiplies: the types, and products that are right."""

from __future__ import annotations

import pickle

import andiron
import numpy as np
import pytest
from andiron.codegen.autoschedule.one_pass.converted_operands import widen_operands
from andiron.codegen.pipeline import compile_program
from andiron.codegen.plan.name_factors import converted_factors
from andiron.codegen.plan.widen_factors import widen_factors
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import specialise
from andiron.dsl.types import TYPES, has_subnormals_of, holds_all
from andiron.runtime.check_results import check

from ...support.programs.attention_of_types import attention
from ...support.rotation import rotated


def product(left: str, right: str, of: str = "f32") -> str:
    return f"""op f[M, N, K](A: {left}[M, K], B: {right}[N, K]) -> (C: {of}[M, N]):
    C[m, n] = sum(k) {of}(A[m, k]) * {of}(B[n, k])
"""


def every_value(name: str) -> np.ndarray:
    """Of a type of at most 16 bits, without what is no number."""
    dtype = TYPES[name]
    if dtype.kind != "float":
        low = -(1 << dtype.bits - 1) if dtype.kind == "int" else 0
        return np.arange(low, low + (1 << dtype.bits)).astype(np.float64)
    x = np.arange(1 << dtype.bits).astype(f"u{dtype.bytes}").view(dtype.numpy)
    with np.errstate(invalid="ignore"):
        return x[np.isfinite(x)].astype(np.float64)


@pytest.mark.parametrize("wide", ["f32", "bf16", "f16", "f8e4m3", "f8e5m2"])
@pytest.mark.parametrize("narrow", ["bf16", "f16", "f8e4m3", "f8e5m2", "i16", "i8", "u8", "i4"])
def test_types_that_hold_each_value(wide: str, narrow: str) -> None:
    x = every_value(narrow)
    with np.errstate(over="ignore"):
        same = np.array_equal(x.astype(TYPES[wide].numpy).astype(np.float64), x)
    assert holds_all(TYPES[wide], TYPES[narrow]) == same


@pytest.mark.parametrize("wide", ["f32", "bf16", "f16", "f8e5m2"])
@pytest.mark.parametrize("narrow", ["bf16", "f16", "f8e4m3", "f8e5m2"])
def test_types_in_which_a_value_is_subnormal(wide: str, narrow: str) -> None:
    x = every_value(narrow)
    tiny = {"f32": 2.0**-126, "bf16": 2.0**-126, "f16": 2.0**-14, "f8e5m2": 2.0**-14}[wide]
    assert has_subnormals_of(TYPES[wide], TYPES[narrow]) == bool(((x != 0) & (np.abs(x) < tiny)).any())


@pytest.mark.parametrize("narrow", ["f16", "bf16", "f8e4m3", "i8", "i16", "f32"])
def test_what_tf32_holds(narrow: str) -> None:
    """Its values have the last 13 bits of an f32 clear."""
    x = every_value(narrow) if narrow != "f32" else np.array([1 + 2**-20])
    clear = not (x.astype(np.float32).view(np.uint32) & 0x1FFF).any()
    assert holds_all(TYPES["tf32"], TYPES[narrow]) == clear


@pytest.mark.parametrize(
    ("left", "right", "device", "types"),
    [
        ("f8e4m3", "f8e4m3", "sm_80", "f16 f16"),
        ("f8e4m3", "f8e4m3", "sm_89", "f8e4m3 f8e4m3"),
        ("f8e5m2", "f8e4m3", "gfx90a", "bf16 bf16"),  # 2^-16 is subnormal in f16, which this device takes for 0
        ("f8e5m2", "f16", "sm_80", "f16 f16"),
        ("f8e5m2", "f8e5m2", "sm_75", "f16 f16"),
        ("f16", "i8", "sm_80", "f16 f16"),
        ("i4", "bf16", "sm_80", "bf16 bf16"),
        ("bf16", "bf16", "sm_75", "bf16 bf16"),  # f16 has not their range
        ("bf16", "f16", "sm_80", "tf32 tf32"),
        ("i16", "f16", "sm_80", "i16 f16"),  # no narrow float has 16 digits
        ("f8e4m3", "f8e4m3", "cpu:avx512", "f8e4m3 f8e4m3"),
    ],
)
def test_types_of_factors(left: str, right: str, device: str, types: str) -> None:
    module = loads(product(left, right))
    (s,) = widen_factors(module.ops["f"], module.device(device)).statements
    found = converted_factors(s)
    assert " ".join(str(x.arg.dtype) for x in found if x is not None) == types


def test_what_is_not_widened() -> None:
    for text in (product("i8", "i8", "i32"), product("f32", "f32"), product("f8e4m3", "f8e4m3", "f64")):
        module = loads(text)
        op = module.ops["f"]
        assert widen_factors(op, module.device("sm_80")) is op


@pytest.mark.parametrize(("sizes", "same"), [({"M": 7}, True), ({"N": 7}, True), ({"M": 8, "N": 8}, False), ({"K": 1}, False)])
def test_few_uses(sizes: dict[str, int], same: bool) -> None:
    """Factors that meet fewer than 8 elements of the other one are read as they are: one row, or one column."""
    module = loads(product("f8e4m3", "f8e4m3"))
    op = specialise(module.ops["f"], sizes)
    assert (widen_factors(op, module.device("sm_80")) is op) == same


CONV = """op f[N, C, H, W, O](I: f8e4m3[N, C, H, W], F: f8e4m3[O, C, 3, 3]) -> (Y: f32[N, O, H, W]):
    Y[n, o, p, q] = sum(c, r, s) f32(I[n, c, p + r - 1, q + s - 1 else 0]) * f32(F[o, c, r, s])
"""
GRAM = """op f[M, K](A: f8e4m3[M, K]) -> (C: f32[M, M]):
    C[m, n] = sum(k) f32(A[m, k]) * f32(A[n, k])
"""
CAUSAL = """op f[M, K](A: f16[M, K], B: f8e5m2[M, K]) -> (C: f32[M, M]):
    C[m, n] = sum(k where k <= n) f32(A[m, k]) * f32(B[n, k])
"""
PRODUCTS = {
    "f8": product("f8e4m3", "f8e4m3"),
    "f16 and i8": product("f16", "i8"),
    "bf16 and f16": product("bf16", "f16"),
    "a convolution": CONV,
    "a square": GRAM,
    "a domain": CAUSAL,
}
SIZES = {"M": 33, "N": 21, "K": 70, "C": 5, "H": 7, "W": 9, "O": 18}


def random_values(shape: tuple[int, ...], dtype: np.dtype, seed: int) -> np.ndarray:
    """Infinities and what is no number among them, where the type has these."""
    rng = np.random.default_rng(seed)
    if dtype.kind == "i":
        return rng.integers(-128, 128, shape).astype(dtype)
    x = rng.standard_normal(shape, dtype=np.float32)
    if x.size > 40:
        x.flat[[3, 38]] = np.nan, np.inf
    return x.astype(dtype)


@pytest.mark.every_second
@pytest.mark.parametrize(("name", "device"), rotated(PRODUCTS, ("sm_75", "sm_80", "gfx90a", "gfx942", "gfx1100", "gfx1201")))
@pytest.mark.parametrize("sizes", [SIZES, dict.fromkeys(SIZES, 1), SIZES | {"K": 0, "C": 0}, SIZES | {"M": 0, "W": 0}])
def test_products_are_right(name: str, device: str, sizes: dict[str, int]) -> None:
    kernel = andiron.compile(PRODUCTS[name], target=f"emulate:{device}")
    shapes = [[sizes[str(e)] if e.constant is None else e.constant for e in t.shape] for t in kernel.op.inputs]
    arrays = [random_values(tuple(x), t.dtype.numpy, n) for n, (x, t) in enumerate(zip(shapes, kernel.op.inputs, strict=True))]
    (out,) = kernel.op.outputs
    y = np.full([sizes[str(e)] for e in out.shape], 7, np.float32)
    kernel(*arrays, out=y)
    assert check(kernel.op, arrays, (y,)).ok


@pytest.mark.parametrize("name", ["f8", "f16 and i8", "a convolution", "a square"])
@pytest.mark.parametrize("device", ["sm_80", "gfx90a", "gfx1100"])
def test_instructions_of_groups_compute_them(name: str, device: str) -> None:
    module = loads(PRODUCTS[name])
    sizes = {v.name: 64 if v.name == "C" else 1024 for v in module.ops["f"].dims}
    made = compile_program(module, specialise(module.ops["f"], sizes), None, module.device(device))
    leaf = made.schedule.splitlines()[-1].split()
    instr = next(x for x in module.device(device).instrs if x.name == leaf[-1])
    assert instr.level != module.device(device).levels[-1].name
    again = loads(PRODUCTS[name] + made.schedule)
    (chosen,) = again.schedules.values()
    same = compile_program(again, specialise(again.ops["f"], sizes), chosen, again.device(device))
    assert same.program == made.program


def test_an_author_names_the_instruction() -> None:
    lines = """schedule s for f:
    tile m: 64, n: 64 -> block
    keep C in register
    tile k: 32
    move A -> shared
    move C.right -> shared
    tile m: 32, n: 32 -> warp
    tile k: 16
    compute with mma
"""
    kernel = andiron.compile(PRODUCTS["f8"] + lines, schedule="s", target="emulate:sm_80")
    assert "mma_m16n8k16_f16" in kernel.source
    a, b = (random_values((n, 50), TYPES["f8e4m3"].numpy, n) for n in (70, 41))
    assert check(kernel.op, [a, b], (kernel(a, b),)).ok


@pytest.mark.parametrize(("device", "rows", "launches"), [
    ("sm_80", 256, 1), ("sm_80", 1024, 4), ("gfx90a", 2048, 4), ("gfx942", 2048, 1), ("gfx1100", 2048, 1),
])  # fmt: skip
def test_operands_of_a_pass_are_converted_before(device: str, rows: int, launches: int) -> None:
    """In launches of their own where many blocks of rows read each key, else by the pass, where it stages them. Both products
    are computed by instructions of groups."""
    module = loads("import std.ops.attention\n")
    op = specialise(module.ops["attention_f8"], {"H": 32, "Q": rows, "T": rows, "D": 64})
    made = compile_program(module, op, None, module.device(device))
    assert len(made.program.launches) == launches
    instrs = [x for x in made.schedule.splitlines() if "compute with" in x and "cp_async" not in x]
    assert len(instrs) == 2
    assert "move s.right1 ->" in made.schedule
    assert ("keep s.right1 in global" in made.schedule) == (launches > 1)


@pytest.mark.parametrize(("rows", "where"), [(1, ""), (16, "by the pass"), (64, "by the pass"), (4096, "before")])
@pytest.mark.parametrize("keys", ["f8e4m3", "i8"])
def test_keys_of_few_rows_are_read_as_they_are(keys: str, rows: int, where: str) -> None:
    """As where a model decodes with keys of 8 bits: they are read once, and nothing as wide as f16 is written."""
    module = loads(attention("f16", keys, keys))
    op = specialise(module.ops["f"], {"H": 32, "Q": rows, "T": 8192, "D": 128})
    made = compile_program(module, op, None, module.device("sm_80"))
    assert ("move s.right1 ->" in made.schedule) == bool(where)
    assert ("keep s.right1 in global" in made.schedule) == (where == "before")
    assert any(x.dtype is TYPES["f16"] for x in made.program.buffers if x.kind == "workspace") == (where == "before")


def test_keys_of_few_features_are_converted() -> None:
    """How many features a row has does not matter: probabilities meet as many, but are computed."""
    op = specialise(loads(attention("f8e4m3", "f8e4m3", "f8e4m3")).ops["f"], {"H": 4, "Q": 512, "T": 512, "D": 16})
    assert widen_operands(op, loads("").device("sm_80"))[1] == {"s.left1", "s.right1", "o.left1", "o.right1"}


def test_what_is_known_of_an_op_stays_in_its_process() -> None:
    op = loads(attention("f8e4m3", "f8e4m3", "f8e4m3")).ops["f"]
    widen_operands(op, loads("").device("sm_80"))
    assert op.memos
    again = pickle.loads(pickle.dumps(op))
    assert again == op
    assert not again.memos


def test_operands_of_each_product() -> None:
    """sm_89 multiplies f8: of keys of f8 nothing is converted, and values are for the f16 of the probabilities."""
    module, device = loads(attention("f8e4m3", "f8e4m3", "f8e4m3")), loads("").device("sm_89")
    assert widen_operands(module.ops["f"], device)[1] == {"o.left1", "o.right1"}
    module = loads(attention("f16", "f16", "f8e4m3"))
    assert widen_operands(module.ops["f"], device)[1] == {"o.left1", "o.right1"}
    module = loads(attention("f8e4m3", "f8e4m3", "f16"))
    assert widen_operands(module.ops["f"], device) == (module.ops["f"], frozenset())


@pytest.mark.parametrize(
    ("types", "rows"), rotated((("f16", "i8", "i8"), ("bf16", "f8e5m2", "f8e5m2"), ("f16", "f16", "i8")), (1, 70))
)
def test_attention_of_narrow_keys_is_right(types: tuple[str, str, str], rows: int) -> None:
    kernel = andiron.compile(attention(*types), target="emulate:sm_80", D=16)
    for heads, keys in ((2, 67), (1, 1), (1, 0)):
        shapes = ((heads, rows, 16), (heads, keys, 16), (heads, keys, 16))
        arrays = [
            np.random.default_rng(n).integers(-2, 3, x).astype(TYPES[t].numpy)
            for n, (x, t) in enumerate(zip(shapes, types, strict=True))
        ]
        out = np.full((heads, rows, 16), 7, np.float16)
        kernel(*arrays, out=out)
        assert check(kernel.op, arrays, (out,)).ok
