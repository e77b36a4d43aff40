"""Products of matrices on CPUs: what is chosen is right at all sizes, open and fixed."""

from __future__ import annotations

import re
from itertools import islice

import numpy as np
import pytest
from andiron.codegen.autoschedule.cpu.matmul import matmul_candidates
from andiron.codegen.autoschedule.launches.launches_of_op import launches_of
from andiron.codegen.autoschedule.op_context import context_of
from andiron.codegen.enumerate_schedules import candidate_schedules
from andiron.codegen.price_schedule import price_schedule
from andiron.dsl.source import Source
from andiron.dsl.text.parser import parse
from andiron.runtime.arrays.convert import numpy_dtype
from andiron.runtime.check_results import check
from andiron.runtime.compile import compile
from andiron.runtime.random_inputs import shape_of
from andiron.runtime.variant import KernelVariants

from ....support.library.unscheduled import library, op_of

CPUS = ("cpu:generic", "cpu:avx2", "cpu:avx512", "cpu:neon")
SIZES = [(1, 1, 1), (5, 1, 300), (9, 3, 40), (3, 4, 4099), (70, 5, 33), (1, 65, 7), (35, 100, 257), (100, 33, 385)]


def numbers(*shape: int) -> np.ndarray:
    """Small whole ones: all sums are exact."""
    return np.random.default_rng(0).integers(-4, 5, shape).astype(np.float32)


@pytest.fixture(scope="module")
def product():
    return compile(library(), op="gemm", target="cpu")


@pytest.mark.parametrize(("m", "n", "k"), SIZES)
def test_open_sizes(product, m, n, k):
    a, b = numbers(m, k), numbers(k, n)
    assert (product(a, b) == a @ b).all()


@pytest.mark.parametrize(("m", "n", "k"), SIZES[1:5])
def test_fixed_sizes(m, n, k):
    a, b = numbers(m, k), numbers(k, n)
    assert (compile(library(), op="gemm", target="cpu", M=m, N=n, K=k)(a, b) == a @ b).all()


def test_nothing_times_nothing(product):
    for m, n, k in ((0, 3, 4), (3, 0, 4), (3, 2, 0), (3, 1, 0)):
        assert (product(numbers(m, k), numbers(k, n)) == np.zeros((m, n))).all()


def variants_taken(op, sizes):
    """By number, for each of the sizes."""
    variants = compile(library(), op=op, target="cpu:avx2").variants
    return [next(i for i, v in enumerate(variants) if v.refusal({"M": 99, "N": 99, "K": 8, **x}) is None) for x in sizes]


@pytest.mark.parametrize("op", ["gemm", "gemm_f64", "gemm_tn"])
def test_each_number_of_columns_has_one(op):
    """The variants together take all sizes; where operands lie otherwise there is one."""
    narrow = {"gemm": [4] * 4 + [5] * 8 + [0], "gemm_f64": [4] * 4 + [0] * 9}  # lanes: 8, and 4
    expected = [0] * 18 if op == "gemm_tn" else [3, 1, 2, 3, 3, *narrow[op]]
    assert variants_taken(op, [{"N": n} for n in range(18)]) == expected


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("gemm", [8, 6, 7, 8, 8, *[9] * 4, *[10] * 8, 0]),
        ("linear", [8, 6, 7, 8, 8, *[9] * 4, *[10] * 8, 0]),
        ("gemm_tn", [3, 1, 2, 3, 3, *[4] * 4, *[5] * 8, 0]),
        ("gemm_tt", [0] * 18),  # both matrices are transposed
        ("gemm_f16", [2, 1, *[2] * 7, *[0] * 9]),  # rows are converted again and again where they are few
        ("gemm_i8", [1, 1, *[0] * 16]),
    ],
)
def test_each_number_of_rows_has_one(op, expected):
    """After those of columns."""
    assert variants_taken(op, [{"M": m} for m in range(18)]) == expected


def test_few_columns_of_operands_that_are_converted_have_one():
    """Where both are contiguous in the reduced index; else columns are gathered."""
    assert variants_taken("gemm_f16_nt", [{"N": n} for n in range(11)]) == [3, 2, *[3] * 7, 0, 0]
    assert variants_taken("gemm_f16_nt", [{"M": m} for m in (0, 1, 32, 33)]) == [1, 1, 1, 0]
    assert variants_taken("gemm_f16", [{"N": n} for n in range(11)]) == [0] * 11


@pytest.mark.parametrize("op", ["gemm", "linear"])
def test_for_one_row_nothing_is_packed(op):
    variants = compile(library(), op=op, target="cpu:avx2").variants
    (one,) = (v.schedule for v in variants if f"for {op} where M == 1:" in v.schedule)
    assert "move" not in one
    assert "move" in variants[0].schedule


@pytest.mark.parametrize("op", ["gemm", "gemm_nt", "gemm_tn", "gemm_f64", "linear", "gemm_f16", "gemm_f16_nt", "gemm_i8"])
def test_few_rows_of_open_sizes(op):
    kernel = compile(library(), op=op, target="cpu")
    rng = np.random.default_rng(5)
    few = (
        (0, 33, 4),
        (1, 70, 33),
        (2, 35, 5),
        (3, 33, 1),
        (4, 129, 64),
        (7, 40, 0),
        (8, 65, 130),
        (11, 48, 17),
        (31, 37, 9),
        (40, 1, 33),
        (40, 6, 70),
    )
    for m, n, k in few:
        shapes = [shape_of(t, {"M": m, "N": n, "K": k}) for t in kernel.op.inputs]
        arrays = [rng.integers(-4, 5, s).astype(numpy_dtype(t.dtype)) for s, t in zip(shapes, kernel.op.inputs, strict=True)]
        assert check(kernel.op, arrays, [kernel(*arrays)]).ok, (m, n, k)


@pytest.mark.fewest
@pytest.mark.parametrize("device", CPUS)
@pytest.mark.parametrize("op", ["gemm", "gemm_nt", "gemm_f64", "batched_gemm", "linear_gelu"])
def test_what_is_best_fits(op, device):
    """Nothing that is chosen needs more registers or a larger cache than there is."""
    cases: list[dict] = [{}, {"M": 35, "N": 700, "K": 2048}, {"M": 3072, "N": 3, "K": 128}]
    for sizes in cases:
        kernel = compile(library(), op=op, target=device, **sizes)
        assert "note:" not in str(kernel.report)
        assert not kernel.notes
        again = compile(library(), op=op, target=device, schedule=kernel.schedule, **sizes)
        assert again.schedule == kernel.schedule


def test_choices_are_ranked_and_compile():
    device, op = library().device("cpu:avx512"), op_of("gemm", {"M": 512, "N": 4, "K": 512})
    (work,), _ = launches_of(op, device, ())[0]
    choices = matmul_candidates(context_of(op, device), (work,))
    assert {c.about.split(":")[0] for c in choices} == {"dots", "panels"}
    assert [c.cost.seconds for c in choices] == sorted(c.cost.seconds for c in choices)
    assert len({c.lines for c in choices}) == len(choices) > 10


def test_tuning_is_given_them():
    device, op = library().device("cpu:avx512"), op_of("gemm", {"M": 35, "N": 700, "K": 2048})
    given = list(islice(candidate_schedules(op, device), 20))
    assert len(given) == 20
    assert [x.seconds for x in given] == sorted(x.seconds or 0 for x in given)
    for x in given[:3]:
        assert compile(library(), op="gemm", schedule=x.schedule, target="cpu:avx512", M=35, N=700, K=2048)


def test_variants_are_compiled_when_asked_for():
    """A variant that no call needs costs nothing, and a slice of them is a tuple."""
    made = []

    def make(i):
        return lambda: made.append(i) or i

    variants = KernelVariants([make(i) for i in range(3)])
    assert (variants[-1], variants[2], made) == (2, 2, [2])
    assert (*variants[:2], len(variants)) == (0, 1, 3)
    with pytest.raises(IndexError):
        variants[3]


@pytest.mark.parametrize("op", ["gru_cell", "lstm_cell"])
def test_cells_have_one_for_each_small_batch(op):
    kernel = compile(library(), op=op, target="cpu", threads=2)
    taken = [next(i for i, v in enumerate(kernel.variants) if v.refusal({"B": b, "I": 8, "H": 8}) is None) for b in range(7)]
    assert taken == [3, 1, 2, 3, 3, 4, 4]
    rng = np.random.default_rng(2)
    for b, i, h in ((0, 3, 4), (1, 33, 7), (2, 5, 64), (3, 70, 17), (4, 40, 40), (5, 16, 31)):
        shapes = [shape_of(t, {"B": b, "I": i, "H": h}) for t in kernel.op.inputs]
        arrays = [rng.standard_normal(s, np.float32) for s in shapes]
        results = kernel(*arrays)
        assert check(kernel.op, arrays, results if isinstance(results, tuple) else [results]).ok


@pytest.mark.parametrize(("m", "n", "k"), [(1, 37, 101), (2, 37, 101), (3, 37, 101), (4, 37, 101), (7, 2048, 1024)])
def test_few_rows_by_what_lies_along_what_is_added_up(m, n, k):
    kernel = compile(library(), op="gemm_nt", target="cpu", M=m, N=n, K=k)
    assert "move" not in kernel.schedule
    a, b = numbers(m, k), numbers(n, k)
    assert (kernel(a, b) == a @ b.T).all()


def test_sums_of_few_rows_stay_in_registers():
    """Rows by columns by vectors of k, at most three quarters of the registers."""
    for n in (1, 2, 3, 4):
        text = compile(library(), op="gemm", target="cpu:avx512", N=n).source
        assert 0 < len(set(re.findall(r"\bc_\d+_\d+(?:_\d+)?\b", text))) <= 24


@pytest.mark.parametrize("op", ["gemm_tn", "gemm_tt"])
@pytest.mark.parametrize("sizes", [{}, {"M": 70, "N": 33, "K": 385}, {"M": 100, "N": 257, "K": 65}])
def test_an_operand_along_the_rows_is_packed_by_whole_vectors(op, sizes):
    kernel = compile(library(), op=op, target="cpu:generic", **sizes)
    for m, n, k in [tuple(sizes.values())] if sizes else SIZES:
        a, b = numbers(k, m), numbers(k, n) if op == "gemm_tn" else numbers(n, k)
        assert (kernel(a, b) == a.T @ (b if op == "gemm_tn" else b.T)).all()
    if not sizes:
        assert "move A" in kernel.schedule


@pytest.mark.parametrize("sizes", [{}, {"M": 3072, "N": 1500, "K": 128}, {"M": 1000, "N": 1000, "K": 1000}])
def test_no_more_rows_at_a_time_than_are_followed(sizes):
    """Whole register tiles, of few rows: those of the result are written a few columns at a time."""
    for op in ("gemm", "gemm_tn"):
        schedule = compile(library(), op=op, target="cpu:avx512", **sizes).schedule
        _, high, rows = map(int, re.findall(r"^    tile m: (\d+)", schedule, re.M))
        assert rows <= high <= 32
        assert high % rows == 0


def priced(sizes: dict[str, int], *lines: str) -> float:
    """Predicted seconds of a product with one thread under a written schedule."""
    op = op_of("gemm", sizes)
    text = "".join(f"    {x}\n" for x in (*lines, "keep C in register", "tile k: 1 unroll 4", "compute with fma_f32x8"))
    (decl,) = parse(Source("x", f"schedule s for gemm:\n{text}")).declarations
    return price_schedule(op, library().device("cpu:avx2"), decl, library()).seconds


def test_a_packed_block_leaves_room_for_what_passes_through():
    """Of a cache of 256 KiB: 35 x 1500 x 2048 took 1.4 times as long with blocks that fill two thirds of theirs."""

    def block(columns: int) -> float:
        tile = ("tile m: 96, n: {} -> core", "tile k: 256", "move B -> l2 layout panels(n: 16)", "tile n: 16", "tile m: 6")
        return priced({"M": 35, "N": 1500, "K": 2048}, *(x.format(columns) for x in tile))

    capacity = library().device("cpu:avx2").memory("l2").capacity
    half = capacity // 2 // (256 * 4) // 16 * 16
    assert block(half + 64) > block(half)


def test_a_pass_over_many_pages_finds_none_again():
    """Blocks of k of 4096 rows begin on 4096 pages, more than a TLB has; of 1032 rows they are found again."""

    def rows(high: int) -> float:
        tiles = (f"tile m: {high}, n: 32 -> core", "tile k: 256", "tile m: 24", "tile n: 16", "tile m: 6")
        return priced({"M": 4096, "N": 32, "K": 4096}, *tiles)

    assert rows(4104) > 1.1 * rows(1032)
