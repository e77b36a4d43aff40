"""What a random case for a GPU reaches: its schedule's text, its sizes and its device tell."""

from __future__ import annotations

import re

from .cases import Case
from .gpu import DEVICES

_SAID = {
    "staging in shared memory": r"move \w+ -> shared",
    "staging in registers": r"move \w+ -> register",
    "pipeline": r" pipeline \d",
    "pipeline through": r" through",
    "split by atomic": r"by atomic",
    "split by workspace": r"by workspace",
    "split by shuffle": r"by shuffle",
    "raster": r" raster \d",
    "blocks within slices": r" within \w",
    "fuse": r"fuse ",
    "swizzle": r" swizzle",
    "pad": r" pad \d",
    "asynchronous copies": r"with cp_async",
    "ldmatrix": r"with ldmatrix",
    "mma": r"compute with mma",
    "mfma": r"compute with mfma",
    "wmma": r"compute with wmma",
    "vectors": r" vector \d",
    "strided tiles": r" every \d",
    "write-back through shared memory": r"move C -> shared",
    "the compiler's own": r"^    auto$",
}
_TYPES = ("f16", "bf16", "f8e4m3", "i8", "f64", "tf32")


def features(case: Case) -> set[str]:
    """What the case is about, in words."""
    found = {name for name, pattern in _SAID.items() if re.search(pattern, case.schedule, re.MULTILINE)}
    tensor = re.search(r"compute with (?:mma|mfma|wmma)", case.schedule)
    found |= {f"{t} on a tensor unit" for t in _TYPES if tensor and re.search(rf"\b{t}\b", case.op.text)}
    statements = [x for x in case.op.text.splitlines()[1:] if "=" in x]
    found |= {"several statements"} if len(statements) > 1 else set()
    found |= {"an epilogue"} if tensor and re.search(r"^    H\[", case.op.text, re.MULTILINE) else set()
    found |= {"a prologue"} if tensor and re.search(r"(f16|bf16|i8|f32|f64|tf32|f8\w+)\(max\(", case.op.text) else set()
    found |= {f"a size of {n}" for n in (0, 1) if n in case.sizes.values()}
    found |= {"sizes left open"} if set(case.sizes) - set(case.fixed) else {"sizes fixed"}
    return found | {case.device}


FEATURES = {
    *_SAID, *(f"{t} on a tensor unit" for t in _TYPES), "several statements", "an epilogue", "a prologue",
    "a size of 0", "a size of 1", "sizes left open", "sizes fixed", *DEVICES,
}  # fmt: skip
