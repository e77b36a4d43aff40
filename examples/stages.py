"""Every stage from text to numbers, printed: op, schedule, tile program, C++. Then the same op on another kind of machine.

    python examples/stages.py

The second half describes a small machine with blocks, warps and threads, in text, compiles a schedule with shared memory for
it, and runs the tile program in the interpreter, which looks for races, missing barriers and reads of memory never written.
CUDA, HIP and C++ are printed from such programs; for a machine that exists in text only, this one is as far as it goes.
"""

import andiron
import numpy as np
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.lower.schedule_trace import show_trace
from andiron.codegen.pipeline import compile_program

OP = """
op gemm[M, N, K](A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]):
    C[m, n] = sum(k) A[m, k] * B[k, n]
"""

CPU_SCHEDULE = """
schedule small for gemm:
    tile m: 4 -> core
    tile n: 8
    keep C in register
    tile k: 1
    compute
"""

SIMT = """
device simt:
    level grid: finite 1, siblings nothing
    level block: open, siblings nothing, at most 1024 threads
    level warp: shaped, siblings barrier, at most 32 units
    level thread: shaped, siblings lockstep, at most 32 units, width 32
    memory global of grid: 1555 GB/s, transaction 32 B
    memory shared of block: 163 KiB, banks 32 x 4 B
    memory register of thread: 255 x 4 B
    units 108, clock 1.41 GHz

schedule blocks for gemm on simt:
    tile m: 32, n: 32 -> block
    keep C in register
    tile k: 8
    move A -> shared layout (k, m) pad 4
    move B -> shared
    tile m: 16 -> warp
    tile m: 4, n: 4 -> thread
    tile k: 1
    compute
"""


def title(text):
    print(f"\n==== {text}\n")


module = andiron.loads(OP + CPU_SCHEDULE + SIMT)
op = module.ops["gemm"]
rng = np.random.default_rng(0)
A, B = rng.random((34, 11), dtype=np.float32), rng.random((11, 35), dtype=np.float32)

title("the op")
print(op)

kernel = andiron.compile(module, schedule="small", target="cpu:generic")
title("its explicit schedule")
print(kernel.schedule)
title("its tile program")
print(kernel.program)
title("the start of its C++ text")
print("\n".join(kernel.source.splitlines()[:30]))
title("the same tile program, interpreted: no compiler is needed")
assert np.allclose(interpret(kernel.program, {"A": A, "B": B})["C"], A @ B, atol=1e-4)

here = andiron.compile(module, schedule="small")  # the same for this machine: built by a C++ compiler, and called
assert np.allclose(here(A, B), A @ B, atol=1e-4)

compiled = compile_program(module, op, module.schedules["blocks"], module.devices["simt"])
title("on a machine with blocks, warps and threads: the spec that each line leaves")
print(show_trace(compiled.trace))
title("its tile program, barriers derived")
print(compiled.program)
result = interpret(compiled.program, {"A": A, "B": B})["C"]
assert np.allclose(result, A @ B, atol=1e-4)
print("\ninterpreted: right, and no race found")
