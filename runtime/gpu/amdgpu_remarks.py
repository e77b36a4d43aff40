"""Remarks of clang for AMD GPUs (`-Rpass-analysis=kernel-resource-usage`): the figures of each kernel, and the other lines."""

from __future__ import annotations

import re

from .device_code import KernelUsage

FLAG = "-Rpass-analysis=kernel-resource-usage"

_REMARK = re.compile(r"remark:\s+([^:]+): (.*) \[" + re.escape(FLAG) + r"\]")
_WORD = 4  # bytes of a register


def parse_remarks(log: str) -> tuple[tuple[KernelUsage, ...], str]:
    """Usage of the kernels in the order of the log, and the lines that are about something else."""
    kernels: list[dict[str, str]] = []
    rest: list[str] = []
    shown = False  # whether the line of the text that a remark is about may follow
    for line in log.splitlines():
        if match := _REMARK.search(line):
            name, value = match[1].strip(), match[2]
            if name == "Function Name":
                kernels.append({})
            if kernels:
                kernels[-1][name] = value
            shown = True
        elif not (shown and re.match(r"\s*\d* \|", line)):
            shown = False
            rest.append(line.rstrip())
    return tuple(map(_usage, kernels)), "\n".join(rest).strip("\n")


def _usage(said: dict[str, str]) -> KernelUsage:
    def number(name: str) -> int:
        text = next((v for k, v in said.items() if k.partition(" [")[0] == name), "0")
        return int(text) if text.isdigit() else 0

    return KernelUsage(
        said["Function Name"],
        number("VGPRs") + number("AGPRs"),
        number("VGPRs Spill") * _WORD,
        number("ScratchSize"),
        number("LDS Size"),
        number("Occupancy") or None,
    )
