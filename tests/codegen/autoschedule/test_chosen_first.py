"""The first candidates for ops of the library, with their predicted times, and the sizes of all candidates, as they were when
somebody last read them.

They pin the constants of the cost models and of the spaces of candidates (docs/constants.md). A change of one shows its effect
here: read the difference, measure where it says that another schedule is faster, then `--update-goldens`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from andiron.codegen.autoschedule.access_model import _SLOW
from andiron.codegen.autoschedule.candidates import candidate_groups
from andiron.codegen.autoschedule.launches.launches_of_op import launches_of
from andiron.codegen.autoschedule.op_context import context_of
from andiron.codegen.autoschedule.rank import AUTO, applicable_nests, sample_sizes
from andiron.codegen.enumerate_schedules import candidate_schedules
from andiron.codegen.lower.lowering_context import LoweringContext
from andiron.codegen.plan.computations import Computation
from andiron.dsl import syntax
from andiron.dsl.module import loads
from andiron.dsl.text.print_node import format_node

from ...support.library.unscheduled import library, op_of

GOLDENS = Path(__file__).parent / "goldens"
FEW = 3
CONV = {"N": 1, "C": 64, "H": 56, "W": 56, "O": 64, "R": 3, "S": 3, "pad": 1}
ODD = {"N": 1, "C": 64, "H": 57, "W": 57, "O": 64, "R": 3, "S": 3, "stride": 2}
EVEN = {"N": 1, "C": 64, "H": 28, "W": 28, "O": 64, "R": 3, "S": 3, "stride": 2}
NARROW = {"N": 1, "C": 64, "H": 58, "W": 10, "O": 8, "R": 3, "S": 3}
FLAT = [{"M": 64, "N": 32768, "K": 16}, {"M": 64, "N": 32768, "K": 20}]
CPU = {
    "gemm": [
        {},
        *FLAT,
        {"M": 512, "N": 512, "K": 512},
        {"M": 3000, "N": 1500, "K": 128},
        {"M": 400, "N": 3, "K": 700},
        {"M": 400, "N": 6, "K": 700},
    ],
    "gemm_nt": [{"M": 200, "N": 12, "K": 512}, {"M": 4, "N": 700, "K": 3000}],
    "gemm_tn": [{"M": 700, "N": 128, "K": 256}, {"M": 1024, "N": 2048, "K": 129}, {"M": 64, "N": 100, "K": 6}],
    "linear_f16": [{"M": 17, "N": 512, "K": 512}, {"M": 33, "N": 512, "K": 512}],
    "gemv": [{"M": 700, "K": 900}, {"M": 129, "K": 1}],
    "conv2d": [{}, CONV, EVEN, {**EVEN, "pad": 1}, {**EVEN, "H": 33, "W": 33}, NARROW],
    "conv2d_i8": [ODD],
    "conv2d_nhwc": [CONV],
    "softmax": [{}, {"M": 1024, "N": 1024}, {"M": 16, "N": 65536}],
    "row_argmax": [{"M": 1024, "N": 1024}],
    "col_sum": [{"M": 1024, "N": 1024}],
    "col_min": [{"M": 500, "N": 12}],
    "transpose": [{"M": 2048, "N": 512}],
    "transpose_f16": [{"M": 6, "N": 32}],
    "exp_map": [{"N": 6}],
    "gelu_map": [{"N": 1 << 22}],
    "add": [{"N": 1 << 22}, {"N": 1 << 14}, {"N": 1 << 15}],
    "depthwise_conv2d": [{"N": 1, "C": 64, "H": 56, "W": 56, "R": 3, "S": 3, "pad": 1}],
    "stencil5": [{"M": 1024, "N": 1024}],
    "max_pool2d": [
        {"N": 1, "C": 64, "H": 112, "W": 112, "size": 3, "stride": 2, "pad": 1},
        {"N": 1, "C": 16, "H": 64, "W": 16, "size": 3, "stride": 1, "pad": 1},
    ],
}
GPU = {
    "gemm_f16": [{}, {"M": 4096, "N": 4096, "K": 4096}, {"M": 128, "N": 128, "K": 8192}],
    "gemm": [{"M": 1000, "N": 70, "K": 500}],
    "conv2d_nhwc_f16": [{}],
    "gemm_f16_i4": [{"M": 16, "N": 4096, "K": 4096}],
    "attention": [{"H": 16, "Q": 1024, "T": 1024, "D": 64}],
    "softmax": [{}, {"M": 4096, "N": 1000}, {"M": 4096, "N": 4096}],
    "layernorm": [{"M": 4096, "N": 4096}],
    "col_sum": [{"M": 500000, "N": 35}],
    "transpose": [{"M": 2048, "N": 2048}, {"M": 2047, "N": 2047}],
    "gelu_map": [{"N": 1 << 22}],
}
CASES = [
    *((op, device, sizes) for op, several in CPU.items() for sizes in several for device in ("cpu:avx2", "cpu:avx512")),
    *((op, device, sizes) for op, several in GPU.items() for sizes in several for device in ("sm_80", "gfx90a")),
]


def title(op: str, device: str, given: dict[str, int]) -> str:
    return " ".join((op, device, *(f"{k}={n}" for k, n in given.items())))


def first_candidates(op: str, device: str, given: dict[str, int]) -> str:
    """The first candidates: predicted microseconds, the bound, and the lines."""
    found = islice(candidate_schedules(op_of(op, given), library().device(device)), FEW)
    out = [title(op, device, given)]
    for c in found:
        lines = "; ".join(x.strip() for x in format_node(c.schedule).splitlines()[1:])
        out.append(f"    {'no time' if c.seconds is None else f'{c.seconds * 1e6:.4g} us'}  {c.bound}  {lines}")
    return "\n".join(out)


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_first_candidates(kind: str, update_goldens: bool) -> None:
    text = "".join(first_candidates(*case) + "\n" for case in CASES if case[1].startswith("cpu") == (kind == "cpu"))
    golden = GOLDENS / f"first_candidates_{kind}.txt"
    if update_goldens:
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


def test_slow_functions(update_goldens: bool) -> None:
    """The predicted times of one function of each element."""
    values = {name: f"{name}(X[i])" for name in _SLOW} | {"div": "X[i] / Z[i]", "pow": "pow(X[i], Z[i])", "none": "X[i] + Z[i]"}
    text, device = "", library().device("cpu:avx2")
    for name, value in values.items():
        op = loads(f"op f(X: f32[4096], Z: f32[4096]) -> (Y: f32[4096]):\n    Y[i] = {value}\n").ops["f"]
        text += f"{name}  {(next(candidate_schedules(op, device)).seconds or 0) * 1e6:.4g} us\n"
    golden = GOLDENS / "slow_functions.txt"
    if update_goldens:
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


TRIED = [
    ("col_sum", "cpu:avx2", {"M": 1000, "N": 100000}),
    ("add_row", "cpu:avx2", {"M": 500, "N": 100000}),
    ("row_sum", "cpu:avx2", {"M": 1000, "N": 1000}),
    ("conv2d", "cpu:avx2", {**NARROW, "O": 64}),
    ("conv2d_nhwc", "cpu:avx2", {"N": 1, "C": 512, "H": 14, "W": 14, "O": 64, "R": 3, "S": 3}),
    ("gemm_f16", "sm_80", {"M": 128, "N": 128, "K": 1 << 16}),
    ("gemm_f16", "sm_80", {"M": 128, "N": 128}),
    ("gemm", "gfx90a", {"M": 64, "N": 64, "K": 1 << 14}),
    ("row_sum", "sm_80", {"M": 3, "N": 1 << 20}),
    ("softmax", "sm_80", {"M": 64, "N": 16384}),
    ("transpose", "sm_80", {}),
    ("transpose", "sm_80", {"M": 2048, "N": 2048}),
]


def sizes_tried(op: str, device: str, given: dict[str, int]) -> str:
    """The sizes of all candidates: of each nest by their names, or of tile lines by index and level."""
    bound, target = op_of(op, given), library().device(device)
    ctx, out = context_of(bound, target), [title(op, device, given)]
    for computations, _ in launches_of(bound, target, ()):
        for name, sizes in (_of_cores if device.startswith("cpu") else _of_blocks)(ctx, computations):
            listed = (f"{of} {' '.join(map(str, sorted(several)))}" for of, several in sizes.items())
            out.append(f"    {computations[-1].name} {name}: {'; '.join(listed)}")
    return "\n".join(out)


def _of_blocks(ctx: LoweringContext, computations: tuple[Computation, ...]) -> Iterator[tuple[str, dict[str, set[int]]]]:
    for nest in applicable_nests(ctx, computations):
        sizes = [extents | nest.problem.sizes(e) for e, extents in sample_sizes(ctx, computations)]
        yield nest.name, {of: set(np.unique(x).tolist()) for of, x in nest.candidates(sizes, {}).items()}


def _of_cores(ctx: LoweringContext, computations: tuple[Computation, ...]) -> Iterator[tuple[str, dict[str, set[int]]]]:
    found: dict[str, set[int]] = defaultdict(set)
    for candidate in next(candidate_groups(ctx, computations, AUTO)):
        for a, level in ((a, x.level) for x in candidate.lines if isinstance(x, syntax.Tile) for a in x.axes):
            assert isinstance(a.size, syntax.Num)
            found[f"{a.index} -> {level}" if level else a.index].add(int(a.size.value))
    yield "lines", found


def test_sizes_tried(update_goldens: bool) -> None:
    text = "".join(sizes_tried(*case) + "\n" for case in TRIED)
    golden = GOLDENS / "sizes_tried.txt"
    if update_goldens:
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")
