"""Kernels written by hand for the emulator's runtime, to see what its observer finds in them."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from andiron.codegen.emit.c.templates import folder
from andiron.runtime.emulator.build import EmulatedLibrary, build
from andiron.runtime.emulator.observer_records import Fault, Observer, Site
from andiron.runtime.emulator.source_map import SourceMap

# Two inputs A, B and an output C of f32, a workspace W of as many; shared buffers s, t with a gap of 16 bytes between.
TEXT = """\
#define m_shared (*em_arena())
struct alignas(16) vec {{ float x, y, z, w; }};
#define thread ((int)em_thread_index())
#define block ((int)em_block_index())
struct Copy {{ float* to; const float* from; }};
EM_PLAIN static void copy_one(void* const* given) {{ *((Copy*)given[0])->to = *((Copy*)given[0])->from; }}
static inline __attribute__((always_inline)) float twice(const float* p) {{ return 2 * *p; }}
extern "C" __attribute__((noinline)) void the_kernel(const float* A, const float* B, float* C, float* W, int64_t N) {{
    extern unsigned char m_shared[];
    float* s = (float*)m_shared;
    float* t = (float*)(m_shared + {gap});
    (void)A, (void)B, (void)C, (void)W, (void)N, (void)s, (void)t;
{body}
}}
struct Given {{ const float *A, *B; float *C, *W; int64_t N; }};
EM_PLAIN static void run(const void* p) {{
    const Given& g = *(const Given*)p;
    the_kernel(g.A, g.B, g.C, g.W, g.N);
}}
extern "C" EM_PLAIN int call(void* const* args, const int64_t* dims, int workers) {{
    const int64_t N = dims[0];
    float* W = (float*)em_workspace(4 * N);
    const EmGlobal globals[] = {{
        {{"A", args[0], 4 * N, 4, EM_READ, 1, 0xff}},
        {{"B", args[1], 4 * N, 4, EM_READ, 1, 0xff}},
        {{"C", args[2], 4 * N, 4, EM_WRITE, 0, 0xff}},
        {{"W", W, 4 * N, 4, EM_READ | EM_WRITE, 0, 0xff}},
    }};
    static const EmShared shared[] = {{{{"s", 0, {size}, 4, 0xff}}, {{"t", {gap}, {size}, 4, 0xff}}}};
    const EmCall call = {{"call", globals, 4}};
    int status = em_call_begin(&call);
    const Given given = {{(const float*)args[0], (const float*)args[1], (float*)args[2], W, N}};
    const EmLaunch launch = {{&call, "the_kernel", dims[1], {threads}, 32, {gap} + {size}, shared, 2, workers, run, &given}};
    if (!status) status = em_launch(&launch);
    status = em_call_end(&call, status);
    em_workspace_free(W);
    return status;
}}
"""
HEAD = (folder("emulate") / "api.h").read_text(encoding="utf-8")


@dataclass
class Run:
    """`where[i]`: the lines of the body, from 1 on, of the i-th fault and of what it conflicts with."""

    status: int
    out: np.ndarray
    faults: list[Fault]
    where: list[tuple[int, int]]
    observer: Observer
    origin: SourceMap
    first: int  # line of the text that the body begins at

    @property
    def kinds(self) -> set[str]:
        return {f.kind for f in self.faults}

    def line(self, site: int) -> int:
        at = self.origin.of(site).line
        return at - self.first + 1 if at else 0

    def site(self, line: int, buffer: str) -> Site:
        return next(s for s in self.observer.sites() if self.line(s.site) == line and s.buffer == buffer)


def text_of(body: str, threads: int) -> str:
    size = 4 * threads
    return HEAD + TEXT.format(body=body.strip("\n"), threads=threads, size=size, gap=size + 16)


@lru_cache(maxsize=64)
def built(text: str) -> EmulatedLibrary:
    return build(text, "call", "emulate")


def run(body: str, blocks: int = 2, threads: int = 64, workers: int = 2, count: bool = True) -> Run:
    """The kernel, of `threads` threads a block, with N = blocks * threads elements in each buffer: A = 0, 1, 2, ..., B = 1."""
    text = text_of(body, threads)
    kernel = built(text)
    observer = Observer(kernel.library)
    observer.clear()
    observer.watch(count, 32, (32, 4))
    n = blocks * threads
    arrays = [aligned(np.arange(n)), aligned(np.ones(n)), aligned(np.zeros(n))]
    args = (ctypes.c_void_p * 3)(*(x.ctypes.data for x in arrays))
    dims = (ctypes.c_int64 * 2)(n, blocks)
    status = kernel.call(args, dims, workers)
    origin = SourceMap(kernel.path, text, kernel.text, {})
    first = text[: text.index(body.strip("\n"))].count("\n") + 1
    out = Run(status, arrays[2], observer.faults(), [], observer, origin, first)
    out.where = [(out.line(f.site), out.line(f.other_site)) for f in out.faults]
    return out


def aligned(values: Sequence[float] | np.ndarray) -> np.ndarray:
    """f32 at a multiple of 256 bytes, as memory of a device is."""
    room = np.empty(4 * len(values) + 256, "u1")
    start = -room.ctypes.data % 256
    x = room[start : start + 4 * len(values)].view("f4")
    x[:] = values
    return x
