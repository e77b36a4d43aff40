"""Names of GPUs: the device of the language for a GPU, and the kind of code it takes."""

from __future__ import annotations

import re
from collections.abc import Iterable


def nearest_device(arch: str, names: Iterable[str]) -> str | None:
    """The name, of those given, of the device to compile for where the GPU is `arch`.

    Its own name, with the letter of features that only it has (`sm_90a` on sm_90) if there is one; else the nearest below,
    with no such letter: the code of a device runs on its successors.
    """
    known = set(names)
    if arch in known:
        return arch
    number = _number(arch)
    if number is None:
        return None
    letters = sorted(n for n in known if re.fullmatch(re.escape(arch) + "[a-z]", n))
    if letters:
        return letters[0]
    below = [(m, n) for n in known if (m := _number(n)) is not None and m < number]
    return max(below)[1] if below else None


def code_format(arch: str, gpu: str) -> str | None:
    """The format in which code for `arch` runs on a GPU; None when it runs in none.

    NVIDIA, "CUDA C++ Programming Guide", "Binary Compatibility" and "PTX Compatibility": machine code runs on its own
    device and on later ones of its major version, PTX on all later ones; that of `sm_90a` on sm_90 alone.
    """
    if arch.startswith("gfx"):
        return "hsaco" if arch == gpu.partition(":")[0] else None
    plain = arch.rstrip("abcdefghijklmnopqrstuvwxyz")
    mine, its = _number(plain), _number(gpu)
    if mine is None or its is None or mine > its:
        return None
    if plain != arch:
        return "cubin" if mine == its else None
    return "cubin" if mine // 10 == its // 10 else "ptx"


def amd_name(version: int) -> str:
    """`gfx90a` for 90010: major, minor and stepping in decimal, the last two in hexadecimal in the name."""
    return f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}" if version else ""


def _number(name: str) -> int | None:
    match = re.fullmatch(r"sm_(\d+)", name)
    return int(match[1]) if match else None
