"""Attention whose scores are of several products (multi-head latent attention): one launch by default, as with one."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.autoschedule.gpu.cost import cost
from andiron.codegen.autoschedule.gpu.passes.lane_pass import LanePass
from andiron.codegen.autoschedule.gpu.passes.one_pass import FragmentPass
from andiron.codegen.autoschedule.gpu.passes.one_pass_choice import pass_nests
from andiron.codegen.autoschedule.launches.launches_of_op import joined_intermediates, launches_of
from andiron.codegen.autoschedule.one_pass.chains import pass_in_one_launch
from andiron.codegen.autoschedule.op_context import context_of
from andiron.codegen.lower.capacity import memory_peaks
from andiron.codegen.passes import CompiledProgram
from andiron.codegen.pipeline import compile_program
from andiron.dsl.module import loads
from andiron.dsl.op import Op
from andiron.dsl.ops.specialise import specialise
from andiron.dsl.text.format import format_node
from andiron.runtime.compile import compile

from ....support.programs.attention_rows import right_and_once, right_in_two_tiles, within_bounds
from ....support.rotation import rotated

F16 = """
op {name}[H, Q, T, D, R](q: f16[H, Q, D], k: f16[H, T, D], a: f16[H, Q, R], b: f16[T, R], v: f16[H, T, D]{more})
        -> (o: f16[H, Q, D]{result}){where}:
{scores}
    m[h, i] = max(t) s[h, i, t]
    p[h, i, t] = exp(s[h, i, t] - m[h, i])
    l[h, i] = sum(t) p[h, i, t]
    o[h, i, d] = (sum(t) f32(f16(p[h, i, t])) * f32(v[h, t, d])) / l[h, i]
{end}"""
FIRST, SECOND = "sum(d) f32(q[h, i, d]) * f32(k[h, t, d])", "sum(r) f32(a[h, i, r]) * f32(b[t, r])"
SUM = f"({FIRST} + {SECOND}) * rsqrt(D + R)"
SCORES = {
    "one": f"    s[h, i, t] = {SUM}",
    "named": f"    x[h, i, t] = {FIRST}\n    y[h, i, t] = {SECOND}\n    s[h, i, t] = (x[h, i, t] + y[h, i, t]) * rsqrt(D + R)",
    "scaled_later": f"    y[h, i, t] = {SECOND}\n    x[h, i, t] = {FIRST}\n    z[h, i, t] = x[h, i, t] * 0.5\n"
    "    s[h, i, t] = z[h, i, t] + y[h, i, t]",
    "causal": f"    s[h, i, t] where t <= i + T - Q = {SUM}",
    "masked": f"    s[h, i, t] = where(seen[i, t], {SUM}, -inf)",
    "three": f"    s[h, i, t] = tanh({FIRST}) - ({SECOND}) * (sum(d) f32(q[h, i, d]) * f32(w[t, d]))",
    "lse": f"    s[h, i, t] = {SUM}",
    "read_twice": f"    z[h, i, t] = {SUM}\n    s[h, i, t] = tanh(z[h, i, t]) + 0.01 * z[h, i, t]",
}
MORE = {"masked": ", seen: bool[Q, T]", "three": ", w: f16[T, D]"}
OPS = "".join(
    F16.format(
        name=name,
        scores=scores,
        more=MORE.get(name, ""),
        where=" where Q <= T" if name == "causal" else "",
        result=", y: f32[H, Q]" if name == "lse" else "",
        end="    y[h, i] = m[h, i] + log(l[h, i])\n" if name == "lse" else "",
    )
    for name, scores in SCORES.items()
)
OPS += """
op of_keys[H, Q, T, D, R](q: f16[H, Q, D], k: f16[T, D], a: f16[H, Q, R], b: f16[T, R]) -> (o: f16[H, Q, D]):
    s[h, i, t] = (sum(d) f32(q[h, i, d]) * f32(k[t, d]) + sum(r) f32(a[h, i, r]) * f32(b[t, r])) * 0.25
    m[h, i] = max(t) s[h, i, t]
    p[h, i, t] = exp(s[h, i, t] - m[h, i])
    l[h, i] = sum(t) p[h, i, t]
    o[h, i, d] = (sum(t) f32(f16(p[h, i, t])) * f32(k[t, d])) / l[h, i]
op of_f32[H, Q, T, D, R](q: f32[H, Q, D], k: f32[H, T, D], a: f32[H, Q, R], b: f32[T, R], v: f32[H, T, D]) -> (o: f32[H, Q, D]):
    s[h, i, t] = (sum(d) q[h, i, d] * k[h, t, d] + sum(r) a[h, i, r] * b[t, r]) * rsqrt(D + R)
    m[h, i] = max(t) s[h, i, t]
    p[h, i, t] = exp(s[h, i, t] - m[h, i])
    l[h, i] = sum(t) p[h, i, t]
    o[h, i, d] = (sum(t) p[h, i, t] * v[h, t, d]) / l[h, i]
"""
NAMES = (*SCORES, "of_keys", "of_f32")
SMALL = {"H": 2, "Q": 19, "T": 37, "D": 9, "R": 5}
LARGE = {"H": 16, "Q": 2048, "T": 2048, "D": 128, "R": 64}
CORES = {"H": 1, "Q": 133, "T": 140, "D": 8, "R": 5}  # from which on rows of scores are a pass


def op_of(name: str, sizes: dict[str, int]) -> Op:
    return specialise(loads(OPS).ops[name], sizes)


def compiled(name: str, device: str, sizes: dict[str, int], schedule: str = "") -> CompiledProgram:
    module = loads(OPS + schedule)
    return compile_program(module, op_of(name, sizes), module.schedules["s"] if schedule else None, module.device(device))


@pytest.mark.parametrize(("name", "device"), rotated(NAMES, ("sm_80", "gfx942", "gfx1100", "sm_75")))
def test_one_launch_on_gpus(name: str, device: str) -> None:
    made = compiled(name, device, SMALL)
    assert len(made.program.launches) == 1
    assert not any(b.kind == "workspace" for b in made.program.buffers)
    right_and_once(made.program, op_of(name, SMALL))


@pytest.mark.parametrize(("name", "device"), rotated(NAMES, ("cpu:avx512", "cpu:avx2", "cpu:generic")))
def test_one_pass_on_cores(name: str, device: str) -> None:
    """Operands of f16 may be converted by launches before it: no scores are in memory."""
    made = compiled(name, device, CORES)
    assert made.schedule.count(" online") == 1
    assert not {"s", "s.sum1", "s.sum2", "x", "y", "z"} & {b.name for b in made.program.buffers if b.kind == "workspace"}
    right_in_two_tiles(OPS, name, device, made, CORES)


@pytest.mark.parametrize("name", [x for x in NAMES if x != "of_f32"])
def test_all_products_are_on_matrix_instructions(name: str) -> None:
    made = compiled(name, "sm_80", LARGE)
    assert len(made.program.launches) == 1
    products = 4 if name == "three" else 3
    assert made.schedule.count("compute with mma_m16n8k16_f16") == products


def nest(name: str, device: str, sizes: dict[str, int]) -> FragmentPass | LanePass:
    op, machine = op_of(name, sizes), loads(OPS).device(device)
    joined = joined_intermediates(op, machine, ())
    found = pass_nests(context_of(op, machine), launches_of(op, machine, (), joined)[-1][0])[0]
    assert isinstance(found, FragmentPass | LanePass)
    return found


def test_lines() -> None:
    made = nest("one", "sm_80", LARGE).lines({"bi": 128, "wi": 32, "bt": 64, "stages": 2}, LARGE)
    lines = [format_node(x).rstrip() for x in made["pass"]]
    assert "\n".join(lines) == (
        "tile h: 1, i: 128 -> block\nkeep m, l, o in register\nmove q -> shared swizzle with cp_async\n"
        "move a -> shared swizzle with cp_async\ntile t: 64 online pipeline 2\nmove k -> shared swizzle with cp_async\n"
        "move b -> shared swizzle with cp_async\nmove v -> shared swizzle with cp_async\ntile i: 32 -> warp\n"
        "keep s.sum1 in register:\n    tile d: 16 unroll\n    move q -> register with ldmatrix\n"
        "    move k -> register with ldmatrix\n    compute with mma_m16n8k16_f16\n"
        "keep s in register:\n    tile r: 16 unroll\n    move a -> register with ldmatrix\n"
        "    move b -> register with ldmatrix\n    compute with mma_m16n8k16_f16\n"
        "tile t: 16 unroll\nkeep p in register\nmove v -> register with ldmatrix\ncompute with mma_m16n8k16_f16"
    )


def test_what_several_products_read_is_staged_once() -> None:
    """ONE_COPY: the keys of the first are the values, and `q` has two products."""
    for name, tensor in (("of_keys", "k"), ("three", "q")):
        assert compiled(name, "sm_80", LARGE).schedule.count(f"move {tensor} -> shared") == 1


@pytest.mark.parametrize(("name", "device"), [("one", "sm_80"), ("three", "gfx942"), ("of_f32", "sm_80")])
def test_registers(name: str, device: str) -> None:
    """The model counts no fewer than lowering does: what it takes to fit compiles."""
    found = nest(name, device, LARGE)
    t = found.candidates([], {})
    demand = found.demand(t, {i: e.constant or 0 for i, e in found.found.extents.items()})
    fits = np.flatnonzero(np.isfinite(cost(found.machine, demand).seconds))
    for n in (fits[0], fits[-1]):
        lines = found.lines({name: int(v[n]) for name, v in t.items()}, LARGE)["pass"]
        text = "".join("".join(f"    {row}\n" for row in format_node(x).rstrip().splitlines()) for x in lines)
        made = compiled(name, device, LARGE, f"schedule s for {name} on {device}:\n{text}")
        assert memory_peaks(made.program)["register"].bytes / found.machine.register_bytes <= demand.registers[n]


def test_decoding_has_parts_of_the_keys() -> None:
    made = compiled("named", "sm_80", LARGE | {"Q": 1, "T": 8192})
    assert len(made.program.launches) == 2
    assert "-> block online by workspace" in made.schedule


@pytest.mark.parametrize("device", ["emulate:sm_80", "emulate:gfx942", "cpu:avx2"])
def test_open_sizes(device: str) -> None:
    kernel = compile(OPS, op="one", target=device, sizes={"D": 8, "R": 5})
    rng = np.random.default_rng(2)
    for h, n, t in ((1, 37, 70), (2, 1, 5), (1, 3, 0), (0, 4, 4)):
        arrays = [rng.standard_normal(x).astype(np.float16) for x in ((h, n, 8), (h, t, 8), (h, n, 5), (t, 5), (h, t, 8))]
        within_bounds(op_of("one", {"D": 8, "R": 5}), (kernel(*arrays),), arrays)


def test_a_product_that_is_computed_later_is_kept() -> None:
    """`y` is computed before what `s` reads besides: it is no accumulator of `s`."""
    found = pass_in_one_launch(op_of("scaled_later", LARGE))
    assert found is not None
    assert [w.targets for w in found] == [("y",), ("z",), ("s",), ("m",), ("p",), ("l",), ("o",)]


@pytest.mark.parametrize("name", ["one", "of_keys"])
def test_keys_that_heads_share_are_converted_once(name: str) -> None:
    """SHARED: by launches before a pass on cores. Few queries read them as they are."""
    for rows, operands in ((2048, {"k": ".right1_f32", "b": ".right2_f32", "a": ".left2_f32"}), (8, {})):
        made = compiled(name, "cpu:avx512", LARGE | {"Q": rows})
        found = {b.name for b in made.program.buffers if b.kind == "workspace" and b.name.endswith("_f32")}
        assert {f"s{x}" for x in operands.values()} <= found
        assert operands or not found
