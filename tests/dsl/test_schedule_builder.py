"""Schedules made by programs: what they print is what a file could hold, and mistakes are refused line by line."""

from __future__ import annotations

import andiron
import numpy as np
import pytest
from andiron import Schedule
from andiron.codegen.ir.printer import show
from andiron.codegen.schedule.statement_reference import STATEMENTS
from andiron.dsl.errors import UserError
from andiron.dsl.errors.run import ArgumentKind
from andiron.dsl.errors.schedule import NotOneLine

from ..support.gemm_file import GEMM_OP as GEMM

BLIS = """\
schedule blocked for gemm on cpu:avx2:
    tile n: 4096
    tile k: 256
    move B -> l3 layout panels(n: 16)
    tile m: 72 -> core
    move A -> l2 layout panels(m: 6):
        tile m: 1
        tile k: 1 -> lane
        compute
    tile n: 16, m: 6
    keep C in register
    tile k: 1 unroll 4
    compute with fma_f32x8"""


def blocked() -> Schedule:
    s = Schedule("blocked", "gemm", on="cpu:avx2")
    s.tile(n=4096).tile(k=256)
    s.move("B", "l3", layout={"panels": {"n": 16}})
    s.tile(m=72, to="core")
    with s.move("A", "l2", layout={"panels": {"m": 6}}):
        s.tile(m=1)
        s.tile(k=1, to="lane")
        s.compute()
    return s.tile(n=16, m=6).keep("C", "register").tile(k=1, unroll=4).compute("fma_f32x8")


def test_it_prints_what_a_file_could_hold():
    assert str(blocked()) == BLIS
    module = andiron.loads(f"{GEMM}\n{BLIS}\n")
    assert module.schedules["blocked"] == blocked().decl


def test_it_compiles_and_runs():
    k = andiron.compile(GEMM, schedule=blocked(), target="cpu:avx2")
    assert show(k.program) == show(andiron.compile(f"{GEMM}\n{BLIS}\n", target="cpu:avx2").program)
    s = Schedule("s", "gemm").tile(m=3, to="core").tile(n=5)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, x).astype(np.float32) for x in ((7, 4), (4, 11)))
    np.testing.assert_array_equal(andiron.compile(GEMM, schedule=s)(a, b), a @ b)


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (lambda s: s.tile(m=4, every={"m": 32}, to="thread"), "tile m: 4 every 32 -> thread"),
        (lambda s: s.tile(m=128, n=128, to="block", order="n, m"), "tile m: 128, n: 128 -> block order n, m"),
        (lambda s: s.tile(m="BM", n="auto", raster=8), "tile m: BM, n: auto raster 8"),
        (lambda s: s.tile(k=32, pipeline=4, through=True), "tile k: 32 pipeline 4 through"),
        (lambda s: s.tile(m=4, to="thread", arrange={"u": {"m": "u/2 % 8"}}), "tile m: 4 -> thread arrange u: m = u/2 % 8"),
        (lambda s: s.tile(k=8, to="lane", by="shuffle"), "tile k: 8 -> lane by shuffle"),
        (lambda s: s.tile(m=8, n=8, to="block", within="l2"), "tile m: 8, n: 8 -> block within l2"),
        (lambda s: s.move("A", "shared", swizzle=True, with_="cp_async"), "move A -> shared swizzle with cp_async"),
        (lambda s: s.move("A", "shared", layout=["k", "m"], pad=4), "move A -> shared layout (k, m) pad 4"),
        (lambda s: s.move("I", "shared", view=["m", "k"], swizzle=[3, 3]), "move I as (m, k) -> shared swizzle(3, 3)"),
        (lambda s: s.move("A"), "move A -> auto"),
        (lambda s: s.keep("m", "l", "register"), "keep m, l in register"),
        (lambda s: s.inline("e"), "inline e"),
        (lambda s: s.fuse("p", "q", as_="pq"), "fuse p, q as pq"),
        (lambda s: s.compute("auto"), "compute with auto"),
        (lambda s: s.apply("stage", "A", depth=3), "apply stage(A, depth = 3)"),
        (lambda s: s.param("BM", 64, 128, default=128), "param BM in 64, 128 = 128"),
        (lambda s: s.tile(m=4, unroll=True, vector=None, peel=False), "tile m: 4 unroll"),
        (lambda s: s.tile(t=64, online=True), "tile t: 64 online"),
        (lambda s: s.tile(i=64, carry=True), "tile i: 64 carry"),
        (lambda s: s.auto(), "auto"),
    ],
)
def test_every_statement_and_modifier(make, line):
    s = Schedule("s", "gemm")
    make(s)
    assert str(s) == f"schedule s for gemm:\n    {line}"


def test_there_is_a_method_for_every_statement():
    for statement in STATEMENTS:
        word = statement.form.split()[0]
        if word.islower():
            assert hasattr(Schedule, word) or word in MODIFIERS, word


MODIFIERS = [
    "unroll", "vector", "pipeline", "order", "raster", "arrange", "pad", "swizzle", "layout", "by", "with", "peel", "online",
    "carry", "within",
]  # fmt: skip


@pytest.mark.parametrize(
    "wrong",
    [
        lambda s: s.tile(m="4\n    compute"),
        lambda s: s.tile(m="4 +"),
        lambda s: s.move("A -> l1\n    move B", "l2"),
        lambda s: s.compute("fma\nop evil[N](X: f32[N]) -> (Y: f32[N]):\n    Y[i] = X[i]"),
        lambda s: Schedule("s for gemm:\n    auto\nschedule t", "gemm"),
        lambda s: s.keep("C", "register\n    compute"),
    ],
)
def test_no_text_gets_in_by_a_name(wrong):
    with pytest.raises(UserError):
        wrong(Schedule("s", "gemm"))


@pytest.mark.parametrize(
    "wrong",
    [
        *[lambda s, n=n: s.tile(m=n) for n in (0, -1, 2.5, True, None, [2])],
        *[lambda s, e=e: s.tile(m=2, every=e) for e in (True, -1, 2.5, object(), {"m": 0}, {"n": 4}, {3: 4})],
        *[lambda s, n=n: s.tile(m=2, unroll=n) for n in (-1, 0, 2.5)],
        *[lambda s, w=w: s.tile(**w) for w in ({"m": 2, "to": 3}, {"sizes": 3}, {"sizes": {3: 4}}, {"m": 2, "peel": 3})],
        *[lambda s, w=w: s.tile(m=2, arrange=w) for w in ("u", {}, {"u": "m"}, {"u": {"m": 2.5}}, {3: {"m": "u"}})],
        *[lambda s, w=w: s.tile(m=2, **{w: True}) for w in ("vector", "pipeline", "raster", "order", "by", "within")],
        *[lambda s, w=w: s.move("A", "l2", layout=w) for w in ({"panels": 3}, {}, {"panels": {"m": 0}}, [2.5], True)],
        *[lambda s, w=w: s.move("A", "l2", **w) for w in ({"pad": 0}, {"swizzle": [3, 2.5]}, {"with_": 3}, {"by": 3})],
        *[lambda s, v=v: s.move("A", view=v) for v in (2.5, "qk", ["q", 3])],
        lambda s: s.move(3),
        lambda s: s.move("A", None),
        lambda s: s.keep(3, 4),
        lambda s: s.keep("C", None),
        lambda s: s.inline(None),
        lambda s: s.fuse(True, as_="x"),
        lambda s: s.fuse("m", "n", as_=3),
        lambda s: s.compute(3),
        lambda s: s.compute(order=3),
        lambda s: s.apply(3),
        lambda s: s.apply("stage", 2.5),
        lambda s: s.apply("stage", depth=None),
        lambda s: s.param("BM", 2.5),
        lambda s: s.param("BM", 64, default=True),
        lambda s: s.param(3, 64),
        lambda s: Schedule("s", None),
        lambda s: Schedule(3, "gemm"),
        lambda s: Schedule("s", "gemm", on=3),
        lambda s: Schedule("s", "gemm", where="M <= 4"),
        lambda s: Schedule("s", "gemm", where=[3]),
    ],
)
def test_an_argument_of_a_wrong_kind_is_refused_when_the_line_is_added(wrong):
    s = Schedule("s", "gemm").tile(m=4)
    with pytest.raises(ArgumentKind, match=r"expected|does not tile"):
        wrong(s)
    assert str(s) == "schedule s for gemm:\n    tile m: 4"


def test_whole_numbers_of_numpy_are_sizes():
    s = Schedule("s", "gemm").tile(m=np.int64(4), every={"m": np.int32(8)}, to="core", unroll=np.int8(2))
    assert str(s) == "schedule s for gemm:\n    tile m: 4 every 8 -> core unroll 2"


def test_a_refused_line_leaves_the_schedule_as_it_was():
    s = Schedule("s", "gemm").tile(m=4)
    with pytest.raises(UserError):
        s.tile(n="4 4")
    with pytest.raises(NotOneLine):
        s.compute("fma\n    compute")
    assert str(s) == "schedule s for gemm:\n    tile m: 4"


def test_only_copies_have_blocks():
    s = Schedule("s", "gemm").tile(m=4)
    with pytest.raises(TypeError, match="nested block"), s:
        pass


def test_unknown_modifier():
    with pytest.raises(TypeError, match="no modifier `swizle`"):
        Schedule("s", "gemm").move("A", "shared", swizle=True)
