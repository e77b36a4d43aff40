"""The first candidates for ops of the library, with their predicted times, as they were when somebody last read them.

They pin the constants of the cost models and of the spaces of candidates (docs/constants.md). A change of one shows its effect
here: read the difference, measure where it says that another schedule is faster, then `--update-goldens`.
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest
from andiron.codegen.enumerate_schedules import candidate_schedules
from andiron.dsl.ops.specialise import bind_params, specialise
from andiron.dsl.text.print_node import format_node

from ...support.library.unscheduled import library

GOLDENS = Path(__file__).parent / "goldens"
FEW = 3
CONV = {"N": 1, "C": 64, "H": 56, "W": 56, "O": 64, "R": 3, "S": 3, "pad": 1}
CPU = {
    "gemm": [{}, {"M": 512, "N": 512, "K": 512}, {"M": 3000, "N": 1500, "K": 128}, {"M": 400, "N": 3, "K": 700}],
    "gemm_nt": [{"M": 200, "N": 12, "K": 512}, {"M": 4, "N": 700, "K": 3000}],
    "gemm_tn": [{"M": 700, "N": 128, "K": 256}],
    "gemv": [{"M": 700, "K": 900}],
    "conv2d": [CONV],
    "conv2d_nhwc": [CONV],
    "softmax": [{}, {"M": 1024, "N": 1024}, {"M": 16, "N": 65536}],
    "row_argmax": [{"M": 1024, "N": 1024}],
    "col_sum": [{"M": 1024, "N": 1024}],
    "transpose": [{"M": 2048, "N": 512}],
    "gelu_map": [{"N": 1 << 22}],
    "add": [{"N": 1 << 22}],
    "depthwise_conv2d": [{"N": 1, "C": 64, "H": 56, "W": 56, "R": 3, "S": 3, "pad": 1}],
    "stencil5": [{"M": 1024, "N": 1024}],
    "max_pool2d": [{"N": 1, "C": 64, "H": 112, "W": 112, "size": 3, "stride": 2, "pad": 1}],
}
GPU = {
    "gemm_f16": [{}, {"M": 4096, "N": 4096, "K": 4096}, {"M": 128, "N": 128, "K": 8192}],
    "gemm": [{"M": 1000, "N": 70, "K": 500}],
    "conv2d_nhwc_f16": [{}],
    "softmax": [{}, {"M": 4096, "N": 1000}],
    "col_sum": [{"M": 500000, "N": 35}],
    "transpose": [{"M": 2048, "N": 2048}],
    "gelu_map": [{"N": 1 << 22}],
}
CASES = [
    *((op, device, sizes) for op, several in CPU.items() for sizes in several for device in ("cpu:avx2", "cpu:avx512")),
    *((op, device, sizes) for op, several in GPU.items() for sizes in several for device in ("sm_80", "gfx90a")),
]


def first_candidates(op: str, device: str, given: dict[str, int]) -> str:
    """The first candidates: predicted microseconds, the bound, and the lines."""
    declared = library().ops[op]
    params = {k: n for k, n in given.items() if k in dict(declared.params)}
    sizes = {k: n for k, n in given.items() if k not in params}
    bound = bind_params(declared, params)
    found = islice(candidate_schedules(specialise(bound, sizes) if sizes else bound, library().device(device)), FEW)
    out = [" ".join((op, device, *(f"{k}={n}" for k, n in given.items())))]
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
