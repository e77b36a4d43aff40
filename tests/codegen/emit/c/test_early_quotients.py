"""Quotients by sizes are computed before the loops that do not change them, where these sizes are surely positive."""

from __future__ import annotations

import re

import andiron
import numpy as np
import pytest
from andiron.codegen.emit.c.c_text import print_texts
from andiron.codegen.emit.c.c_tree import Directive, ExprStatement
from andiron.codegen.emit.c.c_tree import For as CFor
from andiron.codegen.emit.c.text_builder import SourceText, UnrolledLoop
from andiron.codegen.emit.gpu.int32_index import GpuIndex
from andiron.codegen.emit.gpu.tile_counts import positive_sizes
from andiron.codegen.ir.tile_ir import Units
from andiron.dsl.index.expr import Expr, Var
from andiron.runtime.kernel import Kernel

P, Q, N, O = (Var(name, 0, 1 << 30) for name in "PQNO")
UNIT, STEP, ROW = Var("unit", 0, 99), Var("step", 0, None), Var("row", 0, None)
UNROLL = Directive("#pragma unroll")


def printed(e: Expr, positive: frozenset[Var] = frozenset({P, Q}), turns: int = 2, repeats: bool = True) -> str:
    """The text of an expression in an unrolled loop in a loop over steps."""
    text = SourceText(lambda v: v.name, lambda name: None, GpuIndex)
    text.early.positive = positive

    def loop(v: Var, stop: str):
        return lambda: lambda body: CFor("int", text.name_of(v), "0", stop, "1", body)

    unrolled = UnrolledLoop(ROW, turns, UNROLL, False)
    steps = text.block(loop(STEP, "n"), "", STEP, repeats=repeats)
    with steps, text.block(loop(ROW, str(turns)), "", ROW, repeats=True, unrolled=unrolled):
        text.add(ExprStatement(f"use({text.index.text(e)})"))
    return "\n".join(print_texts(text.finish()))


def test_a_quotient_that_no_loop_changes_is_a_value_before_them() -> None:
    text = printed(UNIT // Q * 3 + STEP)
    assert re.search(r"^const \w+ quotient = unit / Q;\nfor \(int step", text)
    assert "use(step + 3 * quotient);" in text


def test_of_an_unrolled_loop_it_is_an_array_before_the_others() -> None:
    text = printed((UNIT + 8 * ROW) // Q % P)
    before, inside = text.split("for (int step")
    assert before.count("#pragma unroll") == 2  # the remainder is one of the quotient
    assert "quotient[row] % P" in before
    assert "use(remainder[row]);" in inside
    assert "/" not in inside


@pytest.mark.parametrize(
    "text",
    [
        printed(UNIT // Q, positive=frozenset({P})),  # it may be 0 where a guard keeps units from it
        printed(UNIT // (Q - P)),
        printed((UNIT + STEP) // Q),
        printed((UNIT + 8 * ROW) // Q, turns=8),  # too many registers
        printed(UNIT // Q, repeats=False),
    ],
)
def test_others_stay_where_they_are(text: str) -> None:
    assert "quotient" not in text
    assert re.search(r"use\(.* / .*\);", text)


def test_a_launch_with_blocks_has_positive_sizes() -> None:
    count = (N * P * Q + 127) // 128 * ((O + 63) // 64)
    assert positive_sizes([Units("block", UNIT, count)], {}) == {N, P, Q, O}
    assert positive_sizes([Units("block", UNIT, (N + 127) // 128)], {N: P * Q}) == {N, P, Q}
    assert positive_sizes([Units("block", UNIT, (N + 128) // 128)], {}) == set()  # there is one for none, too
    assert positive_sizes([Units("block", UNIT, (P - Q + 127) // 128)], {}) == set()


def kernel(target: str, **params: int) -> Kernel:
    return andiron.compile("import std.ops.conv\n", "conv2d_nhwc_f16", target=target, params=params)


@pytest.mark.parametrize("pad", [0, 1])
def test_a_convolution_divides_by_no_size_in_its_loops(pad: int) -> None:
    text = kernel("cuda:sm_80", pad=pad).source
    first = text[text.index("__global__") :]
    inside = first[first.index("for (int r1") : first.index("// y_shared lies where")]
    assert "remainder" in inside
    assert not re.search(r"[/%] [PQ]\b", inside)


@pytest.mark.parametrize("shape", [(2, 5, 6, 8), (0, 4, 4, 8), (1, 3, 3, 9), (3, 9, 7, 16)])
@pytest.mark.parametrize("device", ["sm_80", "gfx942"])
def test_results_are_right(device: str, shape: tuple[int, int, int, int]) -> None:
    n, h, w, c = shape
    rng = np.random.default_rng(3)
    image, filters = (rng.integers(-3, 4, s).astype(np.float16) for s in ((n, h, w, c), (5, 3, 3, c)))
    padded = np.pad(image, ((0, 0), (1, 1), (1, 1), (0, 0))).astype(np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    wanted = np.einsum("npqcrs,orsc->npqo", windows, filters.astype(np.float32)).astype(np.float16)
    np.testing.assert_array_equal(kernel(f"emulate:{device}", pad=1)(image, filters), wanted)
