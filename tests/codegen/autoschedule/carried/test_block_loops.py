"""Defaults of prefix reductions on GPUs: a nest that goes on from tile to tile is priced beside those with all terms."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.autoschedule.carried.block_loops import CarriedLoop
from andiron.codegen.autoschedule.launches.launches_of_op import launches_of_schedule
from andiron.codegen.autoschedule.rank import block_candidates, every_candidate, rank_candidates
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.pipeline import compile_program
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import specialise
from andiron.dsl.semantics.reference import reference
from andiron.dsl.text.print_node import format_node
from andiron.runtime.compile import compile

from ....support.rotation import LONG, rotated

ROWS = "op f[M, N](X: f32[M, N]) -> (P: f32[M, N]):\n    P[r, i] = sum(j where j <= i) X[r, j]\n"
COLUMNS = "op f[M, N](X: f32[N, M]) -> (P: f32[N, M]):\n    P[i, c] = sum(j where j <= i) X[j, c]\n"
LINE = "op f[N](X: f32[N]) -> (P: f32[N]):\n    P[i] = sum(j where j <= i) X[j]\n"
OPS = {
    "rows": ROWS,
    "columns": COLUMNS,
    "maxima": ROWS.replace("sum(j where j <= i)", "max(j where j < i)"),
    "products": COLUMNS.replace("sum(", "prod("),
    "weights, ahead": ROWS.replace("(X: f32[M, N]", "(X: f32[M, N], W: f32[N]").replace(
        "j <= i) X[r, j]", "j <= i + 3) X[r, j] * W[j]"
    ),
    "halves": ROWS.replace("f32", "f16").replace("sum(j where j <= i) X[r, j]", "f16(sum(j where j <= i) f32(X[r, j]))"),
    "half columns": COLUMNS.replace("f32", "f16").replace(
        "sum(j where j <= i) X[j, c]", "f16(sum(j where j <= i) f32(X[j, c]))"
    ),
    "what is stored is more": ROWS.replace(
        "sum(j where j <= i) X[r, j]", "(sum(j where j <= i) X[r, j]) * 2.0 + X[r, i]"
    ),
    "heads": "op f[H, M, N](X: f32[H, M, N]) -> (P: f32[H, M, N]):\n    P[h, r, i] = sum(j where j <= i) X[h, r, j]\n",
    "columns of heads": "op f[H, M, N](X: f32[H, N, M], g: f32[H, N]) -> (P: f32[H, N, M]):\n"
    "    P[h, i, c] = sum(j where j <= i) X[h, j, c] * g[h, j]\n",
    "later columns": COLUMNS.replace("j <= i", "j <= i - 2"),
    "turned": COLUMNS.replace("X: f32[N, M]", "X: f32[M, N]").replace("X[j, c]", "X[c, j]"),
    "integers": ROWS.replace("f32", "i32"),
    "doubles": ROWS.replace("f32", "f64"),
    "bytes": ROWS.replace("X: f32", "X: i8").replace("P: f32", "P: i32").replace("X[r, j]", "i32(X[r, j])"),
    "some terms": ROWS.replace("j <= i", "j <= i, j >= r"),
}  # fmt: skip
DEVICES = ("sm_80", "gfx942", "sm_75", "gfx1100", "sm_90a")
SIZES = ((0, 3), (3, 0), (1, 1), (5, 37), (70, 41))


def lines_of(text: str, device: str, **sizes: int) -> list[str]:
    module = loads(f"{text}schedule s for f:\n    auto\n")
    op = specialise(module.ops["f"], sizes)
    compiled = compile_program(module, op, module.schedules["s"], module.device(device))
    return [x.strip() for x in compiled.schedule.splitlines()[1:]]


def test_chosen_nests() -> None:
    """Lanes have rows, each of which they add up; or warps have rows; or lanes have columns."""
    many = lines_of(ROWS, "sm_80", M=65536, N=1024)
    assert many[:2] == ["tile r: 32 -> block", "tile i: 8 carry"]
    assert "move P -> shared pad 4" in many
    assert many[-3:] == ["tile r: 1 -> thread", "move X -> register", "compute"]
    few = lines_of(ROWS, "sm_80", M=100, N=4096)
    assert few[1] == "tile i: 32 carry"
    assert few[-3:] == ["tile r: 1 -> warp", "tile i: 1 -> thread", "compute"] or few[-2:] == ["tile i: 1 -> thread", "compute"]
    columns = lines_of(COLUMNS, "gfx942", M=4096, N=1024)
    assert columns[1:] == ["tile i: 32 carry", "keep P in register", "tile c: 1 -> thread", "move X -> register", "compute"]


def test_one_long_prefix_is_computed_apart() -> None:
    """One unit would go along it, and all of them have its terms sooner."""
    assert not any("carry" in x for x in lines_of(LINE, "sm_80", N=65536))
    assert any("carry" in x for x in lines_of(ROWS, "sm_80", M=1024, N=1024))


@pytest.mark.parametrize(
    "statement",
    ["sum(j where j <= i, j > i - 40) X[j]", "sum(j where j >= i) X[j]", "sum(j where j <= i) exp(X[i] - X[j]) * X[j]"],
)
def test_others_are_computed_apart(statement: str) -> None:
    assert not any("carry" in x for x in lines_of(LINE.replace("sum(j where j <= i) X[j]", statement), "sm_80", N=512))


def test_both_are_priced() -> None:
    """One list, by the time that is predicted."""
    module = loads(ROWS)
    made = launches_of_schedule(module.ops["f"], module.device("sm_80"), None, module)
    found = block_candidates(made.context, made.parts[0][0])
    names = [x.about.partition(" ")[0] for x in found]
    assert names[0] == "prefix"
    assert {"prefix", "map"} <= set(names)
    assert found[0].cost is not None
    assert found[0].cost.seconds < next(x.cost.seconds for x in found if x.cost and x.about.startswith("map"))


@pytest.mark.parametrize(("name", "device"), rotated(OPS, DEVICES))
def test_right(name: str, device: str) -> None:
    """Under the emulator, with outputs that hold no number before, at open sizes."""
    op = loads(OPS[name]).ops["f"]
    kernel = compile(OPS[name], op="f", target=f"emulate:{device}")
    assert "carry" in kernel.schedule
    rng = np.random.default_rng(0)
    for m, n in SIZES:
        sizes = {"H": 2, "M": m, "N": n}
        values = (1, -1, 2) if name == "products" else range(-4, 5)
        arrays = [rng.choice(values, [e.evaluate(sizes) for e in t.shape]).astype(t.dtype.numpy) for t in op.inputs]
        want = np.asarray(reference(op)(*arrays))
        out = np.full_like(want, 77 if want.dtype.kind == "i" else np.nan)
        kernel(*arrays, out=out)
        np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize(
    ("name", "device"), [("rows", "sm_80"), ("heads", "gfx942"), ("columns", "sm_80"), ("turned", "gfx942")]
)
def test_each_candidate_is_right(name: str, device: str) -> None:
    module = loads(OPS[name])
    op, target = module.ops["f"], module.device(device)
    made = launches_of_schedule(op, target, None, module)
    nests = [r for r in rank_candidates(made.context, made.parts[0][0]) if isinstance(r.nest, CarriedLoop)]
    tried = every_candidate(nests, "P")
    assert len(tried) >= 4
    if not LONG:  # of candidates that differ in the rows of a block alone, the first and the last
        alike = [[x for x in tried if x.lines[1:] == lines] for lines in {x.lines[1:]: None for x in tried}]
        tried = [x for found in alike for x in {id(x): x for x in (found[0], found[-1])}.values()]
    rng = np.random.default_rng(1)
    for candidate in tried:
        text = "\n".join(f"    {row}" for line in candidate.lines for row in format_node(line).splitlines())
        own = loads(f"{OPS[name]}schedule s for f:\n{text}\n")
        program = compile_program(own, own.ops["f"], own.schedules["s"], target).program
        for m, n in ((1, 1), (35, 37)):
            sizes = {v.name: {"H": 2, "M": m, "N": n}[v.name] for v in op.dims}
            arrays = {
                t.name: rng.integers(-4, 5, [e.evaluate(sizes) for e in t.shape]).astype(t.dtype.numpy) for t in op.inputs
            }
            got = interpret(program, arrays, sizes)["P"]
            np.testing.assert_array_equal(got, np.asarray(reference(op)(*arrays.values())))
