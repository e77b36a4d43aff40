"""The texts of a device's instructions as one file for a compiler: each an inline function, called by a kernel of its own.

How operands are declared is the convention at the head of `stdlib/devices/nvidia.sched`.
"""

from __future__ import annotations

from textwrap import dedent, indent

from andiron.dsl.device import Device, Instr, Operand
from andiron.dsl.fragment import FragmentLayout

OWN = {"f64": "double", "f32": "float", "i64": "int64_t", "i32": "int32_t"}

CUDA = """#include <stdint.h>
#include <string.h>
#define INLINE __device__ __forceinline__
#define KERNEL extern "C" __global__ void
"""
HIP = """typedef int int32_t;
typedef unsigned uint32_t;
typedef long int64_t;
#define INLINE static inline __attribute__((device, always_inline))
#define KERNEL extern "C" __attribute__((global)) void
#define __shared__ __attribute__((shared))
"""


def registers(device: Device, o: Operand) -> tuple[str, int] | None:
    """The C type and the number of the registers that hold an operand, None for one in memory."""
    if o.memory != device.memories[-1].name:
        return None
    count = FragmentLayout.of(o).registers
    if o.dtype.name in OWN:
        return OWN[o.dtype.name], count
    return "uint32_t", -(-count * o.dtype.bytes // 4)


def source(device: Device, instrs: list[Instr], dialect: str) -> str:
    parts = [{"cuda": CUDA, "hip": HIP}[dialect]]
    return "".join([*parts, *(_one(device, i, dialect) for i in instrs)])


def _one(device: Device, instr: Instr, dialect: str) -> str:
    params, locals_, args, after = [], [], [], []
    for n, o in enumerate(instr.operands):
        name, held = o.name.lower(), registers(device, o)
        const = "const " if o.role == "input" else ""
        if held is None:
            params.append(f"{const}void* {name}")
            args.append("lds" if o.memory == "shared" else f"p{n}")
            continue
        ctype, count = held
        params.append(f"{const}{ctype} (&{name})[{count}]")
        locals_ += [f"{ctype} r{n}[{count}];", f"for (int i = 0; i < {count}; i++) r{n}[i] = static_cast<{ctype}*>(p{n})[i];"]
        args.append(f"r{n}")
        if o.role != "input":
            after.append(f"for (int i = 0; i < {count}; i++) static_cast<{ctype}*>(p{n})[i] = r{n}[i];")
    text = indent(dedent(dict(instr.emits)[dialect]).strip("\n"), "    ")
    pointers = ", ".join(f"void* p{n}" for n in range(len(instr.operands)))
    lines = ["__shared__ __attribute__((aligned(16))) char lds[1024];"] if "lds" in args else []
    body = "\n".join("    " + x for x in [*lines, *locals_, f"{instr.name}({', '.join(args)});", *after])
    return (
        f"INLINE void {instr.name}({', '.join(params)}) {{\n{text}\n}}\n"
        f"KERNEL k_{instr.name}({pointers}) {{\n{body}\n}}\n"
    )  # fmt: skip
