"""What the benchmarks share: the machine in words, plain C loops to compare with, samples taken in turns.

Every figure is a ratio of samples taken side by side, so that what slows the machine down slows both sides.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import platform
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import quantiles
from typing import Any

THREAD_COUNTS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
READ, SCALE, TRIAD = 0, 1, 2


def options(text: str, sizes: list[int]) -> argparse.Namespace:
    """The command line of a benchmark. Libraries ask for the number of threads once, so this comes before NumPy."""
    parser = argparse.ArgumentParser(description=text)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--sizes", type=int, nargs="+", default=sizes)
    parser.add_argument("--repeat", type=int, default=15, help="samples of each side")
    parser.add_argument("--only", default="", help="names of ops, separated by commas")
    args = parser.parse_args()
    set_threads(args.threads)
    return args


def set_threads(count: int) -> None:
    """How many threads libraries may take: they read it when they are imported."""
    for name in THREAD_COUNTS:
        os.environ[name] = str(count)


def machine() -> str:
    """The processor's own name, and the versions that matter."""
    import andiron
    import numpy as np
    from andiron.runtime.native.cxx_compiler import find_compiler

    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = dict(x.split(":", 1) for x in info.read_text().splitlines() if ":" in x)
        lines = {k.strip(): v.strip() for k, v in lines.items()}
        name = f"{lines.get('model name', name)} (family {lines.get('cpu family', '?')}, model {lines.get('model', '?')})"
    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]  # type: ignore[index, call-overload]
    return (
        f"{name}; andiron {andiron.__version__}, NumPy {np.__version__} ({blas['name']} {blas['version']}); {find_compiler()}"
    )


def plain_loops() -> Callable[..., float]:
    """`plain.c`, compiled for this machine."""
    folder = Path(tempfile.mkdtemp())
    here = Path(__file__).parent / "plain.c"
    command = ["cc", "-O3", "-march=native", "-ffast-math", "-shared", "-fPIC", "-pthread", "-o"]
    subprocess.run([*command, str(folder / "plain.so"), str(here)], check=True)
    function = ctypes.CDLL(str(folder / "plain.so")).plain
    function.restype = ctypes.c_float
    pointer = ctypes.c_void_p
    function.argtypes = (ctypes.c_int, pointer, pointer, pointer, ctypes.c_int64, ctypes.c_int)
    return function


def compare(mine: Callable[[], Any], theirs: Callable[[], Any], repeat: int) -> tuple[float, float, str]:
    """The least seconds of both sides, and as text how many times faster mine is: the median over neighbouring samples,
    their quartiles, and the ratio of the least seconds, which a busy machine disturbs least."""
    from andiron.runtime.timing import interleaved

    a, b = interleaved([mine, theirs], repeat)
    ratios = [y / x for x, y in zip(a, b, strict=True)]
    low, middle, high = quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
    return min(a), min(b), f"{middle:5.2f} ({low:.2f}-{high:.2f}), of the best {min(b) / min(a):5.2f}"


def processor_time(calls: Sequence[Callable[[], Any]], rounds: int, least: float = 2e-3) -> list[list[float]]:
    """Seconds that the processor spent on a call of this thread, for each round; the order is turned each time.

    Where other programs run, clocks on the wall tell of them, and this does not, but for what they take of caches and memory.
    """
    for call in calls:
        call()
    out = []
    for turn in range(rounds):
        row = [0.0] * len(calls)
        order = range(len(calls)) if turn % 2 == 0 else reversed(range(len(calls)))
        for i in order:
            row[i] = spent(calls[i], least)
        out.append(row)
    return out


def spent(call: Callable[[], Any], least: float = 2e-3) -> float:
    """Seconds that the processor spent on a call of this thread, after one that does not count."""
    call()
    start, count = time.thread_time(), 0
    while (seconds := time.thread_time() - start) < least:
        call()
        count += 1
    return seconds / count


def wanted(args: argparse.Namespace, names: list[str]) -> list[str]:
    chosen = [n for n in args.only.split(",") if n]
    return [n for n in names if not chosen or n in chosen]
