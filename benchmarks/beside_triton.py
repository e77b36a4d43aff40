"""Beside Triton, without a GPU: the machine code of twelve problems for sm_80 or attentions, by counts and the cycle model.

    pip install triton 'andiron[cuda-tools]'
    python benchmarks/beside_triton.py
    python benchmarks/beside_triton.py --attention
    python benchmarks/beside_triton.py --only gemm_f16 --all  # with each configuration of Triton's

Ours is the default schedule, all of its launches. Triton's is the fastest of a few usual configurations, by the same model
(`triton_kernels.py`).
All sizes are fixed. A block's machine code is walked from its beginning to its end and replayed, with as many blocks beside it
as registers and shared memory allow; the busiest SM executes its share of the blocks in rounds (`block_time.py`). Where the
outermost memory takes longer for the operands and the result, once each, that counts.

Not in the model: bank conflicts, partial transactions, what is stored to the L2 cache, its misses, and the start of a launch.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec

import andiron
from andiron.codegen.analysis.occupancy import occupancy
from andiron.runtime.gpu.resource_usage import resource_usage
from andiron.runtime.machine_code.instruction import Instruction
from andiron.runtime.machine_code.nvdisasm import disassemble, find_nvdisasm
from andiron.runtime.machine_code.parse_sass import parse_sass
from andiron.runtime.machine_code.read_machine_code import read_machine_code
from andiron.runtime.machine_code.sass_classes import sass_class
from andiron.runtime.machine_code.sm_figures import SmFigures
from block_time import block_time
from cycle_model import macs
from triton_problems import ATTENTIONS, PROBLEMS, Problem, constants, grid

DEVICE = "sm_80"
TARGET = f"cuda:{DEVICE}"


@dataclass(frozen=True)
class Measured:
    """One kernel of a problem.

    each        instructions of a warp for each mma, or multiply-add; of a lane for each element
    spills      bytes that a thread stores for lack of registers
    shared      bytes of a block
    resident    blocks on an SM
    bound, busy the busiest pipe, and its share of the cycles
    near, far   seconds of an SM, and of the outermost memory
    """

    problem: str
    side: str
    configuration: str
    each: float
    unit: str
    registers: int
    spills: int
    shared: int
    threads: int
    resident: int
    grid: int
    bound: str
    busy: float
    near: float
    far: float
    counts: dict[str, int]

    @property
    def seconds(self) -> float:
        return max(self.near, self.far)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="problems whose name contains this")
    parser.add_argument("--all", action="store_true", help="each configuration of Triton's, not only the fastest")
    parser.add_argument("--attention", action="store_true", help="attentions in place of the twelve")
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    if find_spec("triton") is None:
        sys.exit("no Triton on this machine: pip install triton")
    if find_nvdisasm() is None:
        sys.exit("no nvdisasm on this machine: pip install 'andiron[cuda-tools]'")
    import triton

    print(f"{TARGET}; andiron {andiron.__version__}, Triton {triton.__version__}\n")
    print(
        "| problem | | instructions | registers, spilled bytes | shared, blocks of threads | busiest | time | ratio |\n"
        + "|---" * 8
        + "|"
    )
    every: list[Measured] = []
    good = 0
    chosen = [p for p in (ATTENTIONS if args.attention else PROBLEMS) if args.only in p.name]
    for problem in chosen:
        mine = ours(problem)
        theirs = sorted(of_triton(problem), key=lambda m: (m.seconds, m.near))
        ratio = theirs[0].seconds / mine.seconds
        good += ratio >= 1 and mine.each <= theirs[0].each
        print(row(mine, f"{ratio:.2f}"), *(row(m, "") for m in theirs[: None if args.all else 1]), sep="\n", flush=True)
        every += [mine, *theirs]
    print(f"\nat least as good in instructions and in time: {good} of {len(chosen)}")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump([asdict(m) for m in every], file, indent=1)


def row(m: Measured, ratio: str) -> str:
    near = f"{m.near * 1e6:.1f}"
    side = f"{m.side} {m.configuration}".strip()
    cells = (
        f"`{m.problem}`", side, f"{m.each:.2f} a{'n' * (m.unit != 'multiply-add')} {m.unit}", f"{m.registers}, {m.spills}",
        f"{m.shared / 1024:.1f} KiB, {m.resident} of {m.threads}", f"{m.bound} {m.busy:.0%}",
        f"{near} us" if m.near >= m.far else f"{m.far * 1e6:.1f} us ({near})", ratio,
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"


def ours(problem: Problem) -> Measured:
    """By the default schedule."""
    library = andiron.loads(f"import std.ops.{problem.module}\n")
    kernel = andiron.compile(library, problem.op, "auto", TARGET, sizes=problem.sizes, params=problem.params)
    variant = kernel.variants[0]
    choices = variant.facts["choices"]
    launches = []
    for choice, usage in zip(choices, resource_usage(variant), strict=False):  # first those for operands that are aligned
        code, blocks = read_machine_code(variant)[usage.kernel], int(choice.candidates[0].blocks)
        each = replace(problem, bytes=choice.least) if len(choices) > 1 else problem
        launches.append(measured(each, "andiron", "", code, usage.threads, usage.registers, usage.shared, blocks))
    return several(launches)


def several(launches: Sequence[Measured]) -> Measured:
    """One after another, as the last one, which has the products: with the time and the instructions of all."""
    *first, last = launches
    if not first:
        return last
    warps = [x.grid * x.threads / 32 for x in launches]
    before = sum(w * sum(x.counts.values()) for w, x in zip(warps, first, strict=False)) / warps[-1]
    each = last.each * (1 + before / sum(last.counts.values()))
    more = sum(x.seconds for x in first)
    return replace(
        last, configuration=f"{len(launches)} launches", each=each, near=last.near + more, far=last.far + more,
        spills=max(x.spills for x in launches),
    )  # fmt: skip


def of_triton(problem: Problem) -> Iterator[Measured]:
    """By each of its configurations that fits."""
    import triton_kernels
    from triton.runtime.errors import OutOfResources  # type: ignore[import-not-found]

    for c in problem.configurations:
        try:
            made = triton_kernels.compiled(
                getattr(triton_kernels, problem.kernel), dict(problem.types), constants(problem, c), c.warps, c.stages, 80
            )
        except OutOfResources:
            continue
        text = disassemble(made.asm["cubin"])
        code = parse_sass(text)[made.name]
        registers = int(text.partition("SHI_REGISTERS=")[2].partition('"')[0])
        yield measured(problem, "Triton", str(c), code, c.warps * 32, registers, made.metadata.shared, grid(problem, c))


def measured(
    problem: Problem, side: str, name: str, code: Sequence[Instruction], threads: int, registers: int, shared: int, blocks: int
) -> Measured:
    device = andiron.loads("import std.devices.nvidia\n").device(DEVICE)
    figures = SmFigures(device)
    found = occupancy(device, threads, registers, shared)
    units, clock = int(device.limit("units") or 1), figures.clock
    most = max(1, found.blocks if found else 1)
    share = -(-blocks // units)
    most = min(most, share)
    time = block_time(code, threads, sorted({most, share % most} - {0}), figures)
    counts = Counter(sass_class(i) for i in time.path)
    if problem.per_mma:
        work = sum(macs(i.opcode) for i in time.path if sass_class(i) in ("mma", "fma"))
        each, unit = len(time.path) * problem.per_mma / max(1, work), "mma" if counts["mma"] else "multiply-add"
    else:
        each, unit = len(time.path) * threads * blocks / problem.elements, "element"
    bound, busy = next(iter(time.busy.items()))
    return Measured(
        problem.name, side, name, each, unit, registers, spilled(code), shared, threads, most, blocks, bound, busy,
        time.of_blocks(share) / clock, problem.bytes / float(device.memories[0].bandwidth or 1e12), dict(counts),
    )  # fmt: skip


def spilled(code: Sequence[Instruction]) -> int:
    """Bytes that the stores to local memory in the code have."""
    return sum(int(next((p for p in i.opcode.split(".") if p.isdigit()), "32")) // 8 for i in code if i.base == "STL")


if __name__ == "__main__":
    main()
