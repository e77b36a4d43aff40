"""How emitted C++ text is built and called: the contract between the printer and whoever loads the result.

One function is exported, named after the program (`symbol(program)`):

    extern "C" int andiron_NAME(void* const* args, const int64_t* dims, int threads);

args      data pointers of the argument buffers, in the order of `Program.buffers` with kind input or output (`arguments`).
          Each is contiguous, row-major, aligned to its element, never null unless it has no element. Element types as in
          `DType.numpy` (f16, bf16 and f8 as their bits, bool and i4 a byte each).
dims      the values of `Program.dims`, in that order.
threads   how many OS threads may take part, >= 1. It binds the finite level's variable; fewer may come, and a launch may be
          spread over a multiple of them (docs/decisions/cpu-threads.md). With 1, no thread is created or touched. More than
          `MAX_THREADS` are treated as `MAX_THREADS`.

Returns 0; 1 when the allocation of a buffer failed; 100 + i when `Program.conditions[i]` does not hold.

Memory for workspaces and local buffers, and the threads, belong to the loaded text: they persist between calls, grow on
demand, and are not freed. Several threads may call at once: a call that finds the memory or the threads in use allocates
its own memory, and runs on its own thread alone. A process forked after a call creates its own threads.

An argument output may be the same memory as an input that is read only at the index being written; outputs never overlap
otherwise. Nothing is `restrict`: local buffers may share space, and compilers find out where their pointers come from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from .ir.program import Program
from .ir.tile_ir import Buffer
from .name_mangling import mangle

MAX_THREADS = 256  # threads: the most that a call may ask for [limit]

FLAGS = ("-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fwrapv", "-Wno-psabi", "-pthread")
"""What the text needs of g++ and of clang (besides -march, -shared -fPIC): contraction only where the program says fma,
integers that wrap. -Wno-psabi: passing wide vectors to inline functions is noted by gcc, and is harmless."""

GCC_FLAGS = ("-fno-tree-loop-if-convert",)
"""What it needs of g++ besides; not every clang knows it. g++ 12.2 at -O3 gives a copy with a guard around its inner loop a
wrong mask where a vector spans several rows: some rows become 0."""


def symbol(program: Program) -> str:
    """The name of the exported function. The prefix keeps ops named `div`, `read` or `exp` apart from the C library's."""
    return mangle(f"andiron_{program.name}")


def arguments(program: Program) -> tuple[Buffer, ...]:
    """The buffers that `args` points to, in order."""
    return tuple(b for b in program.buffers if b.kind in ("input", "output"))


def programs(program: Program) -> Iterator[Program]:
    """The program and those it is given up for, in order."""
    now: Program | None = program
    while now is not None:
        yield now
        now = now.instead


def chosen(program: Program, sizes: Mapping[str, int], addresses: Mapping[str, int]) -> Program:
    """The first of `programs` whose needs hold. `sizes`: values of dims and lets; `addresses`: of arguments that are not
    aligned."""
    for p in programs(program):
        needs = p.needs
        if needs is None or (
            all(c.evaluate(sizes) >= 0 for c in needs.conds) and all(addresses.get(a, 0) % n == 0 for a, n in needs.aligned)
        ):
            return p
    raise AssertionError("the last program needs nothing")
