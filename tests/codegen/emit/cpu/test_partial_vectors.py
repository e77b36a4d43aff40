"""The prelude's loads and stores of some lanes: right for any count, each type and width, with masks and without, and nothing
beyond those lanes is touched."""

from __future__ import annotations

import ctypes
import mmap
from functools import cache

import numpy as np
import pytest
from andiron.codegen.emit.c.c_expr import ELEMENTS, Helper
from andiron.codegen.emit.cpu.cpp_prelude import prelude

from ....support.cpp.build import COMPILERS, MACHINES, library
from ....support.rotation import LONG

DTYPES = {"f32": "f4", "f64": "f8", "i32": "i4", "i64": "i8", "i8": "i1", "u16": "u2"}
HELPERS = ("load_part", "load_between", "store_part", "gather_part", "gather_between", "scatter_part")
VECTORS = [(element, 8 * size // int(element[1:])) for element in DTYPES for size in (16, 32, 64)]
HEAD = """#include <stdint.h>
#include <stddef.h>
#define m_inline static inline __attribute__((always_inline, unused))
"""
P, N = ctypes.c_void_p, ctypes.c_int64
COUNTS = (-(1 << 40), -1, 0, 1, 2, 3, 1 << 40)


@cache
def text() -> str:
    made = HEAD + prelude([Helper(name, e, w) for name in HELPERS for e, w in VECTORS], None, "")
    made += 'extern "C" {\n'
    for e, w in VECTORS:
        c, v = ELEMENTS[e], f"{e}x{w}"
        for kind, args in (("load", ""), ("gather", "s, ")):
            head = "int64_t s, int64_t a, int64_t n"
            made += f"void {kind}_part_of_{v}(const {c}* p, {c}* q, {head}) "
            made += f"{{ *({v}_u*)q = {kind}_part_{v}(p, {args}n); }}\n"
            made += f"void {kind}_between_of_{v}(const {c}* p, {c}* q, {head}) "
            made += f"{{ *({v}_u*)q = {kind}_between_{v}(p, {args}a, n); }}\n"
        made += f"void store_of_{v}({c}* p, const {c}* q, int64_t n) {{ store_part(p, n, *(const {v}_u*)q); }}\n"
        made += (
            f"void scatter_of_{v}({c}* p, const {c}* q, int64_t s, int64_t n) {{ scatter_part(p, s, n, *(const {v}_u*)q); }}\n"
        )
    return made + "}\n"


@cache
def at_the_end(size: int) -> np.ndarray:
    """Bytes up to the end of a page, after which nothing may be read or written."""
    libc = ctypes.CDLL(None, use_errno=True)
    page = mmap.PAGESIZE
    pages = mmap.mmap(-1, 2 * page)
    where = np.frombuffer(pages, np.uint8)
    assert libc.mprotect(P(where.ctypes.data + page), ctypes.c_size_t(page), 0) == 0
    return where[page - size : page]


@pytest.mark.parametrize(("element", "width"), VECTORS)
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("compiler", COMPILERS)
def test_some_lanes(compiler, machine, element, width):
    if (machine == "avx2") != (compiler == "gcc") and len(COMPILERS) > 1 and not LONG:
        pytest.skip("one compiler a machine is enough; with `FUZZ=N` both")
    lib, dtype, v = library(text(), compiler, machine), np.dtype(DTYPES[element]), f"{element}x{width}"

    def call(name, *args):
        getattr(lib, name)(*(P(x.ctypes.data) if isinstance(x, np.ndarray) else N(x) for x in args))

    for n in (*COUNTS, width - 1, width, width + 1):
        taking = max(0, min(n, width))
        source = at_the_end(max(1, taking) * dtype.itemsize).view(dtype)
        source[:] = np.arange(1, max(1, taking) + 1)
        out = np.full(width, 99, dtype)
        call(f"load_part_of_{v}", source, out, 1, 0, n)
        np.testing.assert_array_equal(out, [*source[:taking], *[0] * (width - taking)])
        for first in (*COUNTS, width - 1, width):
            call(f"load_between_of_{v}", source, out, 1, first, n)
            np.testing.assert_array_equal(out, [source[i] if first <= i < taking else 0 for i in range(width)])
        values = np.arange(1, width + 1).astype(dtype)
        source[:] = 77
        call(f"store_of_{v}", source, values, n)
        np.testing.assert_array_equal(source[:taking], values[:taking])
        for step in (3, -2):
            row = np.arange(4 * width).astype(dtype)
            begin = row[2 * width :] if step < 0 else row
            places = [(2 * width if step < 0 else 0) + i * step for i in range(width)]
            call(f"gather_part_of_{v}", begin, out, step, 0, n)
            np.testing.assert_array_equal(out, [row[places[i]] if i < taking else 0 for i in range(width)])
            call(f"gather_between_of_{v}", begin, out, step, 2, n)
            np.testing.assert_array_equal(out, [row[places[i]] if 2 <= i < taking else 0 for i in range(width)])
            expected = row.copy()
            expected[places[:taking]] = values[:taking]
            call(f"scatter_of_{v}", begin, values, step, n)
            np.testing.assert_array_equal(row, expected)
