"""Output of ptxas with `-v`: the figures of each kernel, and the other lines."""

from __future__ import annotations

import re

from .device_code import KernelUsage

_ENTRY = re.compile(r"Compiling entry function '([^']+)'")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, \d+ bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")
_DULL = re.compile(r"Function properties for|bytes gmem|Compile time =|^\s*$")


def parse_ptxas(log: str) -> tuple[tuple[KernelUsage, ...], str]:
    """Usage of the kernels in the order of the log, and the lines that are about something else."""
    found: list[KernelUsage] = []
    rest: list[str] = []
    kernel, stack, spills = "", 0, 0
    for line in log.replace("\0", "").splitlines():
        if match := _ENTRY.search(line):
            kernel, stack, spills = match[1], 0, 0
        elif match := _STACK.search(line):
            stack, spills = int(match[1]), int(match[2])
        elif match := _USED.search(line):
            shared = _SHARED.search(line)
            found.append(KernelUsage(kernel, int(match[1]), spills, stack, int(shared[1]) if shared else 0))
        elif not _DULL.search(line):
            rest.append(line.rstrip())
    return tuple(found), "\n".join(rest).strip("\n")
