"""All ops of the library on all its GPUs, with no schedule: compiled, printed, and held against what the device states.

    python -m tests.support.library.unscheduled_walk [--devices sm_80,gfx90a] [--ops gemm,softmax] [--modes open,one,odd,long]

prints each pair that fails, then how many there were, and what the compilations took of the processor's time.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator, Mapping
from functools import lru_cache

from andiron.codegen.emit.printers import emit
from andiron.codegen.lower.capacity import memory_peaks
from andiron.codegen.pipeline import CompiledProgram
from andiron.dsl.device import Device
from andiron.dsl.op import Op

from .unscheduled import GPUS, compiled, library, op_of

ODD = (1, 2, 3, 7, 35, 17, 5, 9)
WINDOWS = {"R": 3, "S": 2, "H": 9, "W": 7}
LONG = 500_000
MODES = ("open", "one", "odd", "long")


def sizes_of(name: str, mode: str) -> Iterator[dict[str, int]]:
    """Sizes for a mode: none fixed; all 1; all odd; or each in turn very long, the others 1 and 35."""
    op = op_of(name)
    names = [v.name for v in op.dims]
    if mode == "open":
        found = [{}]
    elif mode == "one":
        found = [dict.fromkeys(names, 1)]
    elif mode == "odd":
        found = [{n: WINDOWS.get(n, x) for n, x in zip(names, ODD, strict=False)}]
    else:
        some = [{n: WINDOWS.get(n, (1, 35)[k % 2]) for k, n in enumerate(names)}]
        found = [s | {n: LONG} for s in some for n in names if n not in ("R", "S")]
    return (s for s in found if _allowed(op, s))


def _allowed(op: Op, sizes: Mapping[str, int]) -> bool:
    return not sizes or all(c.evaluate(sizes) >= 0 for c, _ in op.conditions if c.variables() <= {*op.dims})


@lru_cache(maxsize=8)
def dialect(device: Device) -> str:
    """The dialect that the device's instructions, or those of a device it extends, have texts in."""
    return next((name for i in device.instrs for name, _ in i.emits if name in ("cuda", "hip")), "cuda")


def wrong(c: CompiledProgram) -> list[str]:
    """What the program asks for beyond what the device states; its text must come out too."""
    program = c.program
    device = program.device
    out = []
    for launch in program.launches:
        counts = {u.level: u.count.constant for u in launch.units}
        for n, outer in enumerate(device.levels):
            for inner in device.levels[n + 1 :]:
                most = device.limit(f"{outer.name} {inner.name}")
                total = 1
                for level in device.levels[n + 1 : device.depth(inner.name) + 1]:
                    total *= counts.get(level.name) or 1
                if most is not None and total > most:
                    out.append(f"{launch.name}: {total} {inner.name}s in a {outer.name}, of {most:.0f}")
    for name, peak in memory_peaks(program).items():
        if peak.memory.registers is not None:
            words, most = -(-peak.bytes // peak.memory.registers[1]), peak.memory.registers[0]
            if words > most:
                out.append(f"{words} registers, of {most}")
        elif peak.over:
            out.append(f"{peak.bytes} bytes of {name}, of {peak.memory.capacity}")
    if not emit(program, dialect(device)).strip():
        out.append("no text")
    return out


def main() -> None:
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("--devices", default=",".join(GPUS))
    args.add_argument("--ops", default=",".join(sorted(library().ops)))
    args.add_argument("--modes", default=",".join(MODES))
    given = args.parse_args()
    took, failed = [], 0
    for device in given.devices.split(","):
        before = len(took)
        for name in given.ops.split(","):
            for mode in given.modes.split(","):
                for sizes in sizes_of(name, mode):
                    start = time.process_time()
                    try:
                        bad = wrong(compiled(name, device, sizes))
                    except Exception as e:
                        bad = [f"{type(e).__name__}: {e}"]
                    took.append((time.process_time() - start, name, device, mode))
                    failed += bool(bad)
                    for x in bad:
                        print(f"{name} on {device} at {sizes}: {x}", flush=True)
        print(f"{device}: {len(took) - before} compilations", flush=True)
    print(f"{len(took)} compilations, {failed} failed")
    print(f"processor time: median {statistics.median(x[0] for x in took):.3f} s, most {max(took)}")


if __name__ == "__main__":
    main()
