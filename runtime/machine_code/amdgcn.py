"""Assembly of AMD GPUs, as clang prints it: its instructions, and the class of each.

The opcodes are those of LLVM's "User Guide for AMDGPU Backend".
"""

from __future__ import annotations

import re

from .classes import OTHER
from .instruction import Instruction

_FUNCTION = re.compile(r"([A-Za-z_]\w*):")
_LABEL = re.compile(r"(\.LBB\w+):")
_END = re.compile(r"\.Lfunc_end\d+:")
_LOC = re.compile(r"\s+\.loc\s.*?;(.*)")
_LINE = re.compile(r":(\d+):\d+")  # of each place in the comment of a `.loc`, from the inside out
_CODE = re.compile(r"\s+([a-z]\w+)\s*(.*)")

# The first that matches counts.
_CLASSES = [
    (re.compile(pattern), name)
    for pattern, name in [
        (r"v_(mfma|smfmac|wmma|swmmac)_", "mma"),
        (r"v_(dual_)?(pk_)?(fma|fmac|fmaak|fmamk|mad|mac|dot\d\w*)_\w*(f16|f32|f64|bf16|i32_i8|u32_u8|i32_iu8)", "fma"),
        (r"v_(cvt|pack)_|v_pk_cvt_", "conversion"),
        (r"v_(s_)?(exp|log|rcp|rsq|sqrt|sin|cos)_", "special function"),
        (
            r"v_(cmpx?_\w+|(dual_)?(pk_)?(add|sub|subrev|mul|max|min|max3|min3|med3|maximum|minimum|ldexp|div_\w+))_(num_)?(f|bf)\d",
            "float",
        ),
        (r"(global|buffer)_load_lds|buffer_load\w*.*\blds\b", "async copy"),
        (r"ds_(bpermute|permute|swizzle)_|v_(readlane|writelane|permlane)", "shuffle"),
        (r"\w+_atomic_|ds_(add|min|max|and|or|cmpst|cmpstore)_", "atomic"),
        (r"ds_(read|load)", "shared load"),
        (r"ds_(write|store)", "shared store"),
        (r"(global|buffer|flat)_load", "global load"),
        (r"(global|buffer|flat)_store", "global store"),
        (r"scratch_", "local memory"),
        (r"s_(waitcnt|wait_|nop|delay_alu|sleep)", "wait"),
        (r"s_barrier", "barrier"),
        (r"s_(c?branch|endpgm|setpc|swappc|getpc|cbranch)", "branch"),
        (r"s_(buffer_)?load_", OTHER),
        (r"[vs]_", "integer"),
    ]
]


def amdgcn_class(i: Instruction) -> str:
    """One of `classes.CLASSES`."""
    return next((name for pattern, name in _CLASSES if pattern.match(f"{i.opcode} {i.operands}")), OTHER)


def parse_amdgcn(text: str) -> dict[str, tuple[Instruction, ...]]:
    """The instructions of each function. Their addresses are the lines of the text, from 1."""
    functions: dict[str, list[tuple[int, str, str, tuple[int, ...]]]] = {}
    labels: dict[str, int] = {}
    now: list[tuple[int, str, str, tuple[int, ...]]] | None = None
    lines: tuple[int, ...] = ()
    waiting: list[str] = []
    for number, row in enumerate(text.splitlines(), 1):
        if match := _LOC.match(row):
            lines = tuple(map(int, _LINE.findall(match[1])))
        row = row.partition(";")[0].rstrip()
        if _END.match(row):
            now = None
        elif match := _FUNCTION.match(row):
            now, lines = functions.setdefault(match[1], []), ()
        elif match := _LABEL.match(row):
            waiting.append(match[1])
        elif now is not None and (match := _CODE.match(row)):
            labels |= dict.fromkeys(waiting, number)
            waiting = []
            now.append((number, match[1], match[2], lines))
    return {name: tuple(_instruction(*x, labels) for x in code) for name, code in functions.items() if code}


def _instruction(line: int, opcode: str, operands: str, lines: tuple[int, ...], labels: dict[str, int]) -> Instruction:
    branch = opcode.startswith(("s_branch", "s_cbranch"))
    return Instruction(
        line,
        "",
        opcode,
        operands,
        labels.get(operands) if branch else None,
        conditional=opcode.startswith("s_cbranch"),
        ends=opcode.startswith(("s_endpgm", "s_setpc")),
        calls=opcode.startswith("s_swappc"),
        lines=lines,
    )
