"""The compiler's own schedules for attention on CPUs: one launch, right, and only where it pays."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.autoschedule.default_schedules import default_schedules
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.ir.tile_ir import For
from andiron.codegen.ir.tile_visitors import statements
from andiron.codegen.pipeline import CompiledProgram, compile_program
from andiron.codegen.schedule.size_bounds import without_decided_bounds
from andiron.codegen.verify.verify_program import verify
from andiron.dsl.module import loads
from andiron.dsl.op import Op
from andiron.dsl.ops.specialise import bind_params, specialise
from andiron.dsl.semantics.reference import reference
from andiron.dsl.syntax import Name

from ....support.rotation import rotated

OPS = """import std.ops.attention
op with_lse[M, N, D, E](q: f32[M, D], k: f32[N, D], v: f32[N, E], bias: f32[M, N]) -> (o: f32[M, E], y: f32[M]):
    s[i, t] = (sum(d) q[i, d] * k[t, d]) * 0.25 + bias[i, t]
    m[i] = max(t) s[i, t]
    p[i, t] = exp(s[i, t] - m[i])
    l[i] = sum(t) p[i, t]
    o[i, e] = (sum(t) p[i, t] * v[t, e]) / l[i]
    y[i] = m[i] + log(l[i])
op window[M, N, D](q: f32[M, D], k: f32[N, D], v: f32[N, D], W: int = 20) -> (o: f32[M, D]):
    s[i, t] where t <= i - 4, t > i - 4 - W = sum(d) q[i, d] * k[t, d]
    m[i] = max(t) s[i, t]
    p[i, t] = exp(s[i, t] - m[i])
    l[i] = sum(t) p[i, t]
    o[i, d] = (sum(t) p[i, t] * v[t, d]) / where(l[i] == 0.0, 1.0, l[i])
op cross_entropy[M, N, K](A: f32[M, K], W: f32[N, K], c: i32[M]) -> (y: f32[M]):
    z[i, t] = sum(k) A[i, k] * W[t, k]
    m[i] = max(t) z[i, t]
    l[i] = sum(t) exp(z[i, t] - m[i])
    g[i] = sum(t) where(c[i] == t, z[i, t], 0.0)
    y[i] = m[i] + log(l[i]) - g[i]
op log_sum[M, N, K](A: f32[M, K], W: f32[N, K]) -> (y: f32[M]):
    z[i, t] = sum(k) A[i, k] * W[t, k]
    m[i] = max(t) z[i, t]
    l[i] = sum(t) exp(z[i, t] - m[i])
    y[i] = m[i] + log(l[i])
op least[M, N, K](A: f64[M, K], W: f64[N, K]) -> (y: f64[M]):
    z[i, t] = sum(k) A[i, k] * W[t, k]
    m[i] = min(t) z[i, t]
    l[i] = sum(t) exp(m[i] - z[i, t])
    y[i] = m[i] - log(l[i])
op squares[M, N, K](A: f32[M, K], W: f32[N, K]) -> (y: f32[M]):
    z[i, t] = sum(k) A[i, k] * W[t, k]
    m[i] = max(t) z[i, t]
    l[i] = sum(t) (z[i, t] - m[i]) * (z[i, t] - m[i])
    y[i] = m[i] + l[i]
"""
HEADS = {"H": 2, "Q": 133, "T": 70, "D": 8}  # four tiles of two vectors of 16, and some rows more
ROWS = {"M": 131, "N": 67, "K": 5}
CASES = {
    "attention": (HEADS,),
    "attention_f32": (HEADS, {**HEADS, "Q": 16, "T": 64, "D": 8}, {"H": 1, "Q": 129, "T": 33, "D": 1}),
    "causal_attention": ({**HEADS, "T": 140}, {**HEADS, "Q": 136, "T": 136, "D": 5}),
    "grouped_attention": ({**HEADS, "H": 1, "G": 2},),
    "with_lse": ({"M": 131, "N": 67, "D": 5, "E": 8},),
    "window": ({"M": 150, "N": 230, "D": 5},),  # the first rows see no key
    "log_sum": (ROWS,),
    "least": (ROWS,),
}


def compiled(name: str, device: str, sizes: dict[str, int], schedule: str = "") -> CompiledProgram:
    module = loads(OPS + (f"schedule s for {name}:\n    {schedule}\n" if schedule else ""))
    chosen = module.schedules["s"] if schedule else None
    return compile_program(module, specialise(bind_params(module.ops[name]), sizes), chosen, module.device(device))


@pytest.mark.parametrize(("name", "device"), rotated(CASES, ("cpu:avx2", "cpu:avx512", "cpu:generic")))
def test_right_in_one_launch(name: str, device: str) -> None:
    op = loads(OPS).ops[name]
    for sizes in CASES[name]:
        made = compiled(name, device, sizes)
        # operands of f16 are converted before, where the products read them many times
        assert len(made.program.launches) == 1 + made.schedule.count("_f32 in dram:")
        assert " online" in made.schedule
        check_right(op, made, sizes)


@pytest.mark.parametrize("sizes", [ROWS, {"M": 1, "N": 1, "K": 1}, {"M": 3, "N": 0, "K": 4}, {"M": 0, "N": 5, "K": 4}])
def test_rows_of_a_product(sizes: dict[str, int]) -> None:
    """A sum that follows nothing would have a loop of its own, and compute the scores again: the product is a launch, and so
    is all that is made of its rows."""
    made = compiled("cross_entropy", "cpu:avx2", sizes)
    assert " online" not in made.schedule
    assert len(made.program.launches) <= 2
    check_right(loads(OPS).ops["cross_entropy"], made, sizes)


def check_right(op: Op, made: CompiledProgram, sizes: dict[str, int]) -> None:
    rng = np.random.default_rng(sum(sizes.values()))
    shapes = {t: [e.evaluate(sizes) for e in t.shape] for t in op.inputs}
    arrays = [
        rng.integers(0, max(1, sizes.get("N", 1)), s) if t.dtype.kind == "int" else rng.standard_normal(s)
        for t, s in shapes.items()
    ]
    arrays = [a.astype(t.dtype.numpy) for a, t in zip(arrays, op.inputs, strict=True)]
    results = interpret(made.program, {t.name: a for t, a in zip(op.inputs, arrays, strict=True)}, finite={"core": 3})
    exact = reference(op, exact=True)(*arrays)
    for got, (value, bound) in zip(results.values(), exact if len(op.outputs) > 1 else (exact,), strict=True):
        with np.errstate(invalid="ignore"):
            assert ((got == value) | (np.abs(got.astype(float) - value) <= bound)).all()  # of no element it is infinite


def test_each_point_counts_once() -> None:
    made = compiled("with_lse", "cpu:avx2", {"M": 17, "N": 40, "D": 3, "E": 5})
    verify(made.program, specialise(loads(OPS).ops["with_lse"], {"M": 17, "N": 40, "D": 3, "E": 5}))


def test_causal_attention_skips_the_future() -> None:
    """The loop over tiles of keys ends with the rows of a tile; what a row does not see may be no number."""
    made = compiled("causal_attention", "cpu:avx2", {"H": 1, "Q": 96, "T": 96, "D": 8})
    bounds = {(str(s.start), str(s.stop)) for s in statements(made.program.launches[0].body) if isinstance(s, For)}
    assert ("0", "(8*tile + 7)/33 + 1") in bounds, sorted(bounds)  # 66 keys a tile, 16 rows
    q, k, v = np.random.default_rng(0).standard_normal((3, 1, 96, 8)).astype(np.float32)
    k[:, 70], v[:, 70], q[:, 40] = np.inf, np.nan, np.nan
    (got,) = interpret(made.program, {"q": q, "k": k, "v": v}, finite={"core": 2}).values()
    value, bound = reference(loads(OPS).ops["causal_attention"], exact=True)(q, k, v)
    right = ~np.isnan(value)
    np.testing.assert_array_equal(np.isnan(got), ~right)
    assert right[0, :70].all(axis=1).sum() == 69  # all but the row that is no number itself
    assert not right[0, 70:].any()
    assert (np.abs(got - value)[right] <= bound[right]).all()


@pytest.mark.parametrize(
    ("device", "rows", "keys", "high", "cache"),
    [("cpu:avx512", 32, 64, 8, "l2"), ("cpu:avx2", 16, 66, 6, "l1"), ("cpu:generic", 8, 66, 6, "l1")],
)
def test_lines_of_attention(device: str, rows: int, keys: int, high: int, cache: str) -> None:
    """Two vectors of `high` accumulators, of operands and one that is broadcast fill the registers."""
    lines = compiled("attention_f32", device, {"H": 8, "Q": 512, "T": 512, "D": 64}).schedule.splitlines()
    assert [x for x in lines[1:] if not x.startswith("        ")] == [
        f"    tile h: 1, i: {rows} -> core",
        f"    move q -> {cache} layout (h, d, i):",
        "    keep m in register",
        "    keep l in register",
        f"    keep o in {cache} layout (h, d, i)",
        f"    tile t: {keys} online",
        f"    keep s in {cache} layout (h, t, i):",
        f"    keep p in {cache} layout (h, t, i)",
        f"    tile d: {high}",
        "    keep o in register",
        "    tile t: 1",
        "    tile i: 1 -> lane",
        "    compute",
    ]
    assert f"        tile t: {high}" in lines


@pytest.mark.parametrize(
    ("name", "sizes", "schedule"),
    [
        ("attention_f32", {}, ""),  # buffers hold a tile of all features
        ("attention_f32", {"H": 8, "Q": 7, "T": 4096, "D": 64}, ""),  # lanes would idle
        ("attention_f32", {"H": 8, "Q": 256, "T": 256, "D": 64}, ""),  # few keys for so many features
        ("attention_f32", {"H": 8, "Q": 64, "T": 65536, "D": 4096}, ""),  # no cache of a core has room
        ("attention_f32", HEADS, "tile i: 8 -> core\n    auto"),  # the author has begun
        ("squares", ROWS, ""),  # no correction makes it follow
    ],
)
def test_where_it_does_not_pay(name: str, sizes: dict[str, int], schedule: str) -> None:
    assert " online" not in compiled(name, "cpu:avx2", sizes, schedule).schedule


@pytest.mark.parametrize(
    ("keys", "features", "one_pass"), [(512, 64, True), (511, 64, False), (24800, 3000, True), (24800, 3100, False)]
)
def test_limits(keys: int, features: int, one_pass: bool) -> None:
    made = compiled("attention_f32", "cpu:avx512", {"H": 2, "Q": 64, "T": keys, "D": features})
    assert (" online" in made.schedule) == one_pass


@pytest.mark.parametrize(
    ("rows", "one_pass"), [(64, True), (33, False), (31, False), (16, True), (15, False), (128, True), (131, True)]
)
def test_numbers_of_rows(rows: int, one_pass: bool) -> None:
    """A tile has 32 rows. Where there are few tiles, none may have a part of its rows."""
    made = compiled("attention_f32", "cpu:avx512", {"H": 2, "Q": rows, "T": 512, "D": 64})
    assert (" online" in made.schedule) == one_pass


def test_a_beginning_below_the_conversions_is_completed() -> None:
    """Blocks for other launches stand above the lines of the pass."""
    head, *lines = compiled("attention", "cpu:avx2", HEADS).schedule.splitlines()
    tops = [n for n, x in enumerate(lines) if not x.startswith("     ")]
    outer = next(n for n in tops if lines[n].endswith("-> core"))
    for n in [x for x in tops if x > outer][:-1]:
        begun = loads(OPS + "\n".join([head, *lines[:n], "    auto"]) + "\n")
        op = specialise(begun.ops["attention"], HEADS)
        made = compile_program(begun, op, begun.schedules["attention_auto"], begun.device("cpu:avx2"))
        assert made.schedule.splitlines() == [head, *lines], n


def chosen_for(name: str, sizes: dict[str, int]) -> CompiledProgram:
    """By the first of the schedules for open sizes whose conditions hold for these."""
    module = loads(OPS)
    op, device = bind_params(module.ops[name]), module.device("cpu:avx2")
    found = (x for x in default_schedules(op, device) if x is None or without_decided_bounds(x, sizes) is not None)
    return compile_program(module, op, next(found), device)


@pytest.mark.parametrize(
    ("name", "sizes", "suffix", "launches"),
    [
        ("attention_f32", {"H": 3, "Q": 64, "T": 512, "D": 64}, "_auto", 1),
        ("attention_f32", {"H": 0, "Q": 64, "T": 512, "D": 0}, "_auto", 1),
        ("grouped_attention", {"H": 1, "G": 2, "Q": 65, "T": 1025, "D": 66}, "_auto_128", 1),
        ("attention", {"H": 1, "Q": 67, "T": 600, "D": 33}, "_auto", 4),  # its operands are converted before
        ("attention_f32", {"H": 2, "Q": 1, "T": 70, "D": 9}, "_auto_one", 4),
        ("attention_f32", {"H": 2, "Q": 1, "T": 70, "D": 65}, "_auto_one_128", 4),
        ("attention_f32", {"H": 2, "Q": 1, "T": 70, "D": 129}, "_auto_one_any", 4),
        ("attention_f32", {"H": 2, "Q": 63, "T": 512, "D": 5}, "_auto", 5),
        ("attention_f32", {"H": 1, "Q": 64, "T": 511, "D": 5}, "_auto", 5),
    ],
)
def test_open_sizes(name: str, sizes: dict[str, int], suffix: str, launches: int) -> None:
    made = chosen_for(name, sizes)
    assert made.schedule.split()[1] == name + suffix
    assert len(made.program.launches) == launches


def test_sizes_that_are_known_decide() -> None:
    """What given sizes exclude is left out, and what they decide is no condition."""
    module = loads(OPS)
    op, device = bind_params(module.ops["attention_f32"]), module.device("cpu:avx2")
    found = [*default_schedules(op, device, {"D": 100, "Q": 256})]
    assert [x and x.name for x in found] == ["attention_f32_auto_128", None]
    known = specialise(op, {"D": 64, "H": 8})
    assert [w.op for x in default_schedules(known, device) if x is not None for w in x.where] == [">=", ">=", "=="]


def test_conditions_on_features_stand_in_the_order_of_their_names() -> None:
    """In that of a set, the text of one op would be another one in each process."""
    module = loads("import std.ops.attention\n")
    first = next(default_schedules(bind_params(module.ops["latent_attention"]), module.device("cpu:avx2")))
    assert first is not None
    assert [w.left.id for w in first.where if isinstance(w.left, Name)][:3] == ["D", "E", "R"]
