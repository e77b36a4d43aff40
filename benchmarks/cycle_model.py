"""The cost model of GPU schedules beside the cycle model: time of the main loop of each launch, and their ratio.

The cycle model replays the machine code of one iteration on one SM. The iterations follow from the work of a launch: its
multiply-adds, or the bytes that its lanes read. Compared are the terms that both models have (`predicted`). It takes a compiler
and nvdisasm, and no GPU.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Any

import andiron
from andiron.codegen.analysis.static_traffic import StaticTraffic, static_traffic
from andiron.codegen.autoschedule.gpu.cost import OVERLAP
from andiron.codegen.autoschedule.machine_model import MachineModel, block_machine
from andiron.codegen.autoschedule.report import CandidateReport
from andiron.runtime.machine_code.main_loop_report import MainLoopReport, main_loop_reports
from andiron.runtime.machine_code.read_machine_code import read_machine_code
from andiron.runtime.machine_code.sass_classes import sass_class
from andiron.runtime.machine_code.whole_step import whole_step

_SQUARE = dict(M=4096, N=4096, K=4096)
_ROWS = dict(M=4096, N=4096)
_DEPTHWISE = dict(N=32, C=128, H=56, W=56, R=3, S=3, pad=1)
_RESNET = dict(N=32, C=256, H=14, W=14, O=256, R=3, S=3, pad=1)
# Every second one was looked at while the model was made; the others judge it.
KERNELS: list[tuple[str, str, dict[str, int]]] = [
    ("gemm_f16", "sm_80", _SQUARE), ("gemm_f16", "sm_90a", _SQUARE),
    ("gemm_f16_nt", "sm_80", _SQUARE), ("gemm_f16_nt", "sm_86", _SQUARE),
    ("gemm_bf16", "sm_86", _SQUARE), ("gemm_bf16", "sm_80", _SQUARE),
    ("gemm_tf32", "sm_80", _SQUARE), ("gemm_tf32", "sm_86", _SQUARE),
    ("gemm_i8", "sm_80", _SQUARE), ("gemm_i8", "sm_90a", _SQUARE),
    ("gemm", "sm_80", _SQUARE), ("gemm", "sm_86", _SQUARE),
    ("gemm_nt", "sm_86", _SQUARE), ("gemm_nt", "sm_90a", _SQUARE),
    ("linear_gelu_f16", "sm_80", _SQUARE), ("linear_f16", "sm_86", _SQUARE),
    ("linear_gelu", "sm_80", dict(M=1024, N=1024, K=1024)), ("linear", "sm_80", dict(M=1024, N=1024, K=1024)),
    ("batched_gemm_f16", "sm_80", dict(B=16, M=512, N=512, K=512)), ("batched_gemm", "sm_86", dict(B=16, M=512, N=512, K=512)),
    ("conv2d_nhwc_f16", "sm_80", _RESNET), ("conv2d_nhwc_f16", "sm_86", _RESNET),
    ("conv2d", "sm_80", _RESNET), ("conv2d_nhwc", "sm_80", _RESNET),
    ("softmax", "sm_80", _ROWS), ("softmax", "sm_86", _ROWS),
    ("softmax_f16", "sm_80", _ROWS), ("log_softmax", "sm_80", _ROWS),
    ("layernorm", "sm_80", _ROWS), ("rmsnorm", "sm_80", _ROWS),
    ("layernorm_f16", "sm_90a", _ROWS), ("rmsnorm_f16", "sm_80", _ROWS),
    ("gelu_map", "sm_80", dict(N=1 << 24)), ("gelu_f16", "sm_80", dict(N=1 << 24)),
    ("tanh_map", "sm_80", dict(N=1 << 24)), ("exp_map", "sm_86", dict(N=1 << 24)),
    ("swiglu", "sm_80", _ROWS), ("erf_map", "sm_80", dict(N=1 << 24)),
    ("row_sum", "sm_80", _ROWS), ("transpose", "sm_80", _ROWS),
    ("gemm", "sm_80", dict(M=256, N=256, K=8192)), ("col_sum", "sm_80", dict(M=1 << 16, N=64)),
    ("depthwise_conv2d", "sm_80", _DEPTHWISE), ("max_pool1d", "sm_80", dict(N=32, C=128, W=4096)),
]  # fmt: skip
# Multiply-adds of one matrix instruction, by its shape in the opcode.
_MMA = {"1688": 16 * 8 * 8, "16816": 16 * 8 * 16, "16832": 16 * 8 * 32, "16864": 16 * 8 * 64, "884": 8 * 8 * 4}


@dataclass(frozen=True)
class Compared:
    """Microseconds of the main loop of one launch, by each model."""

    kernel: str
    target: str
    cost_model: float
    cycle_model: float
    bound: str
    busy: str

    @property
    def ratio(self) -> float:
        return self.cost_model / self.cycle_model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="kernels whose name contains this")
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    library = andiron.loads(
        "".join(f"import std.ops.{m}\n" for m in ("gemm", "conv", "norm", "elementwise", "pool", "reduce", "tensor"))
    )
    rows: list[Compared] = []
    print(f"{'kernel':34} {'target':7} {'cost model':>10} {'cycle model':>11} {'ratio':>6}  bound by")
    for name, target, sizes in KERNELS:
        if args.only in name:
            for row in compared(library, name, target, sizes):
                rows.append(row)
                times = f"{row.cost_model:10.1f} {row.cycle_model:11.1f} {row.ratio:6.2f}"
                print(f"{row.kernel:34} {target:7} {times}  {row.bound}; {row.busy}", flush=True)
    ratios = [r.ratio for r in rows]
    print(f"{len(rows)} launches: median ratio {median(ratios):.2f}, {min(ratios):.2f} to {max(ratios):.2f}")
    if len(rows) > 1:
        print(f"rank correlation {rank_correlation([r.cost_model for r in rows], [r.cycle_model for r in rows]):.3f}")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump([asdict(r) for r in rows], file, indent=1)


def compared(library: Any, name: str, target: str, sizes: Mapping[str, int]) -> Iterator[Compared]:
    """Each launch that the chooser chose."""
    kernel = andiron.compile(library, name, "auto", f"cuda:{target}", sizes={k: v for k, v in sizes.items() if k.isupper()},
                             params={k: v for k, v in sizes.items() if k.islower()})  # fmt: skip
    variant = kernel.variants[0]
    program = variant.program
    machine = block_machine(program.device)
    assert machine is not None
    code, said = read_machine_code(variant), kernel.report.as_dict()
    reports = main_loop_reports(variant, kernel.report.sizes)
    for choice, launch, report in zip(variant.facts["choices"], program.launches, reports, strict=False):
        chosen = choice.candidates[0]
        if report.model is None:
            print(f"{report.kernel}: {report.note}")
            continue
        traffic = static_traffic(replace(program, launches=(launch,)), kernel.report.sizes)
        read = traffic.read[machine.home.name]
        turns = iterations(report, chosen, code[report.kernel], machine.units, said["flops"] / 2, read)
        busy, share = next(iter(report.model.busy.items()))
        ours, parts = predicted(machine, chosen, traffic)
        seconds = turns * report.model.cycles / machine.clock
        bound = max(parts, key=lambda x: parts[x])
        yield Compared(f"{name}.{choice.launch}", target, ours * 1e6, seconds * 1e6, bound, f"{busy} {share:.0%}")


def predicted(machine: MachineModel, chosen: CandidateReport, traffic: StaticTraffic) -> tuple[float, dict[str, float]]:
    """Seconds of a launch by those of the cost model's terms that the cycle model has, and these.

    Not in the cycle model: what is behind the L2 cache; what is stored to the L2 cache; the L1 cache, transactions of which a
    part is used, and bank conflicts, so that each byte that a lane accesses counts once; the first loads and last stores of a
    round, launches.

    traffic  what lanes access in the launch
    """
    parts = {name: s for name, s in chosen.parts.items() if name != "far"}
    bandwidth = machine.cache.bandwidth if machine.cache else None
    parts["near"] = max(traffic.read[machine.home.name] / bandwidth if bandwidth else 0, parts.pop("loads"))
    accessed = sum(traffic.moved(m.name) for m in (machine.home, machine.staging)) / chosen.blocks  # of a block
    each = accessed / machine.staging_bytes / machine.clock
    parts["staging"] = min(parts["staging"], -(-chosen.blocks // machine.units) * each)
    shared = [s for name, s in parts.items() if name not in ("group", "block")]
    return max(parts.values()) + OVERLAP * (sum(shared) - max(shared)), parts


def iterations(report: MainLoopReport, chosen: CandidateReport, code: Any, units: int, products: float, read: float) -> float:
    """Of the busiest SM, one for all of its resident blocks together.

    products, read  multiply-adds of the launch, and bytes that it reads
    """
    busiest = -(-chosen.blocks // units) / chosen.blocks  # its share of the blocks
    if report.loop is None:
        return busiest * chosen.blocks / report.blocks
    step = whole_step(code, sass_class).path
    each = sum(macs(i.opcode) for i in step) * (report.threads // 32) * report.blocks
    if chosen.nest.startswith("contraction"):
        return busiest * products / each
    return busiest * read / report.read


def macs(opcode: str) -> int:
    """Multiply-adds of a warp."""
    if shape := re.match(r"[A-Z]MMA\.(\d+)", opcode):
        return _MMA[shape[1]]
    return 64 if opcode.startswith("HFMA2") else 32 if re.match(r"(FFMA|DFMA|IMAD)\b", opcode) else 0


def rank_correlation(a: list[float], b: list[float]) -> float:
    """Spearman's."""
    ranks = [[sorted(x).index(v) for v in x] for x in (a, b)]
    n = len(a)
    return 1 - 6 * sum((p - q) ** 2 for p, q in zip(*ranks, strict=True)) / (n * (n * n - 1))


if __name__ == "__main__":
    main()
