"""How long it takes from text to the text of a kernel, where nothing is scheduled: the processor's time, in one warm process.

    python benchmarks/text.py --targets cpu:avx2,cuda:sm_80 --ops gemm,softmax
    python benchmarks/text.py --json text.json

Every op of the library, at open sizes, small, odd and large ones, for each target: the file is read (imports and all), the op
compiled and the kernel's text printed. All names differ each time, so nothing of a compilation before is found again.
What a process does once (reading the library, the device's text, the grammar's tables) is done before, on other ops.
"""

from __future__ import annotations

import argparse
import gc
import json
import re
import time
from collections.abc import Iterator
from importlib.resources import files
from statistics import median
from typing import Any

CPUS = ("generic", "avx2", "avx512", "neon")
NVIDIA = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a")
AMD = ("gfx908", "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201")
TARGETS = tuple(f"{family}:{x}" for family, names in (("cpu", CPUS), ("cuda", NVIDIA), ("hip", AMD)) for x in names)
ODD = (1, 2, 3, 7, 35, 17, 5, 9)
WINDOWS = {"R": 3, "S": 2, "H": 9, "W": 7}
SMALL, LARGE, HUGE = 64, 1024, 500_000


def sizes_of(names: list[str]) -> Iterator[tuple[str, dict[str, int]]]:
    """What sizes are fixed, by a name for them: none, small, odd, large, and the last one huge."""
    windows = {n: x for n, x in WINDOWS.items() if n in names}
    yield "open", {}
    yield "small", dict.fromkeys(names, SMALL) | windows
    yield "odd", dict(zip(names, ODD, strict=False)) | windows
    yield "large", dict.fromkeys(names, LARGE) | {n: x for n, x in windows.items() if n in "RS"}
    last = [n for n in names if n not in "RS"][-1:]
    yield "huge", dict.fromkeys(names, 35) | windows | dict.fromkeys(last, HUGE)


def library() -> dict[str, str]:
    """Each op of the library with the text of the file it is in."""
    from andiron.dsl.module import loads

    out = {}
    for file in sorted(files("andiron.stdlib.ops").iterdir(), key=lambda f: f.name):
        if file.name.endswith(".sched"):
            text = file.read_text()
            out |= dict.fromkeys(loads(text).ops, text)
    return out


def alone(text: str, op: str, name: str, suffix: str = "") -> str:
    """The op by itself, under another name; tensors, sizes and indices get a suffix (windows of sizes: R and S, too)."""
    start = re.search(rf"^op {op}\b", text, re.MULTILINE)
    assert start is not None
    end = re.compile(r"^(op\b|#)", re.MULTILINE).search(text, start.end())
    mine = text[start.start() : end.start() if end else None]
    mine = re.sub(rf"^op {op}\b", f"op {name}", mine)
    return re.sub(rf"\b({'|'.join(map(re.escape, names_in(mine)))})\b(?!\()", rf"\g<1>{suffix}", mine) if suffix else mine


def names_in(text: str) -> set[str]:
    """Names of an op's tensors, sizes and indices."""
    from andiron.dsl.module import loads

    (op,) = loads(text).ops.values()
    out = {t.name for t in op.tensors} | {v.name for v in op.dims} | {v.name for v, _ in op.derived}
    return out | {i for s in op.statements for i, _ in s.ranges} | {s.target for s in op.statements}


def main() -> None:
    args = _options()
    import andiron
    from andiron.dsl.errors import UserError
    from andiron.runtime.compile import compile

    ops = library()
    chosen = [n for n in args.ops.split(",") if n] or list(ops)
    rows: list[dict[str, Any]] = []
    count = 0

    def taken(text: str, op: str, target: str, sizes: dict[str, int]) -> float:
        nonlocal count
        count += 1
        mine = alone(text, op, f"{op}_{count}x", f"x{count}")
        start = time.process_time()
        assert compile(andiron.loads(mine), None, None, target, **{f"{n}x{count}": x for n, x in sizes.items()}).source
        return time.process_time() - start

    for target in args.targets.split(","):
        for op in ("gemm_f16", "softmax", "transpose", "dot"):  # the last one asks isl something
            taken(ops[op], op, target, {})
        for op in chosen:
            names = [d.name for d in andiron.loads(alone(ops[op], op, op)).ops[op].dims]
            for mode, sizes in sizes_of(names):
                if args.modes and mode not in args.modes.split(","):
                    continue
                gc.collect()
                gc.freeze()  # what is alive is not looked through again, or the collections take longer than all else
                try:
                    times = [taken(ops[op], op, target, sizes) for _ in range(args.repeat)]
                except UserError as e:  # sizes that the op refuses
                    if args.verbose:
                        print(op, target, sizes, e.message)
                    continue
                rows.append({"op": op, "target": target, "mode": mode, "seconds": times[0], "least": min(times)})
        mine = [r["seconds"] for r in rows if r["target"] == target]
        if mine:
            over = sum(x > args.limit for x in mine)
            print(f"{target}: {len(mine)} texts, median {median(mine):.3f} s, {over} over {args.limit} s", flush=True)
    print("\nthe slowest")
    for r in sorted(rows, key=lambda r: -r["seconds"])[: args.worst]:
        print(f"{r['seconds']:.3f} s ({r['least']:.3f} at least)  {r['op']} for {r['target']}, {r['mode']}")
    if args.json:
        with open(args.json, "w") as f:
            json.dump(rows, f, indent=1)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--ops", default="")
    parser.add_argument("--modes", default="", help="of open, small, odd, large, huge")
    parser.add_argument("--repeat", type=int, default=1, help="times each; the first is what counts")
    parser.add_argument("--limit", type=float, default=0.25, help="seconds")
    parser.add_argument("--worst", type=int, default=30, help="lines to print")
    parser.add_argument("--verbose", action="store_true", help="print what is refused")
    parser.add_argument("--json", default="", help="a file for the figures")
    return parser.parse_args()


if __name__ == "__main__":
    main()
