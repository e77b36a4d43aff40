"""Every instruction of the library's GPUs: the function that stands for it in an emulated text, against NumPy.

Registers are filled and read by the vendors' tables (`matrix_fragments`), not by the maps of the device text.
"""

from __future__ import annotations

import ctypes
import re
from functools import cache
from math import prod

import numpy as np
import pytest
from andiron.codegen.emit.c.c_expr import Helper
from andiron.codegen.emit.c.templates import environment
from andiron.codegen.emit.cpu.cpp_prelude import prelude
from andiron.codegen.emit.emulated.instr_function import instr_function
from andiron.codegen.emit.gpu.cuda import SPELLING
from andiron.codegen.ir.program import Program
from andiron.dsl.device import Device, Instr, Operand
from andiron.dsl.fragment import FragmentLayout
from andiron.runtime.emulator.build import EmulatedLibrary, build
from andiron.runtime.emulator.observer_records import Observer

from ....support.gpu import matrix_fragments as manual
from ....support.gpu.instr_kernels import registers
from ....support.gpu.library_instrs import instructions

TITLES = list(instructions())
GROUPS = ("sm_", "gfx9", "gfx1")

RUN = """
extern "C" EM_PLAIN int run(void* const* args, const int64_t* dims, int workers) {
    const EmGlobal* globals = (const EmGlobal*)args[0];
    const EmCall call = {"run", globals, (int32_t)dims[1]};
    int status = em_call_begin(&call);
    const int threads = (int)dims[2], lanes = (int)dims[3];
    const EmLaunch launch = {&call, "run", 1, threads, lanes, 1024, nullptr, 0, workers, kernels[dims[0]], args + 1};
    status = em_launch(&launch);
    return em_call_end(&call, status);
}
"""


def units(device: Device, instr: Instr) -> int:
    return prod(x.width or 1 for x in device.levels[device.depth(instr.level) + 1 :])


def kernel(device: Device, instr: Instr, number: int) -> str:
    """Takes for each operand an array of registers by thread, or of addresses by thread."""
    lines, args, after = ["const int t = em_thread_index();"], [], []
    for n, o in enumerate(instr.operands):
        held = registers(device, o)
        if held is None:
            args.append(f"(({'const ' if o.role == 'input' else ''}void**)p[{n}])[t]")
            continue
        kind, count = held
        lines.append(f"{kind} r{n}[{count}];")
        lines.append(f"for (int i = 0; i < {count}; i++) r{n}[i] = (({kind}*)p[{n}])[t * {count} + i];")
        args.append(f"r{n}")
        if o.role != "input":
            after.append(f"for (int i = 0; i < {count}; i++) (({kind}*)p[{n}])[t * {count} + i] = r{n}[i];")
    if instr.awaits:
        after += ["em_commit(EM_GROUP);", f"em_wait(EM_{instr.awaits[0].upper()}, 0);"]
    call = f"i__{instr.name}({', '.join(args)});"
    body = "\n".join("    " + x for x in [*lines, call, *after])
    return f"EM_PLAIN static void k{number}(const void* given) {{\n    void* const* p = (void* const*)given;\n{body}\n}}\n"


@cache
def built(group: str) -> tuple[EmulatedLibrary, list[str]]:
    """All instructions of a vendor's line of devices in one text, with the number of each."""
    titles = [t for t in TITLES if t.startswith(group)]
    needs: dict[Helper, None] = {}
    functions = []
    for n, title in enumerate(titles):
        device, instr = instructions()[title]
        text = instr_function(instr, units(device, instr), device, SPELLING, needs) + kernel(device, instr, n)
        functions.append(text.replace(f"i__{instr.name}", f"i__{n}_{instr.name}"))
    device = instructions()[titles[0]][0]
    helpers = prelude(needs, Program("all", device, (), (), (), (), ()), "", "emulate")
    table = f"static void (*const kernels[])(const void*) = {{{', '.join(f'k{n}' for n in range(len(titles)))}}};"
    head = environment("emulate").get_template("head.j2").render(base="cuda")
    return build("\n".join([head, helpers, *functions, table, RUN]), "run", group, checks=False), titles


class Global(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("bytes", ctypes.c_int64),
        ("element", ctypes.c_int32),
        ("mode", ctypes.c_int32),
        ("initialised", ctypes.c_int32),
        ("poison", ctypes.c_int32),
    ]


def execute(title: str, operands: list[np.ndarray], memory: list[np.ndarray]) -> None:
    """`operands` by thread, [threads, registers] or [threads] of addresses into `memory`."""
    device, _ = instructions()[title]
    library, titles = built(next(g for g in GROUPS if title.startswith(g)))
    known = [Global(b"m", m.ctypes.data, m.nbytes, m.itemsize, 3, 1, 0) for m in memory]
    table = (Global * len(known))(*known)
    args = (ctypes.c_void_p * (1 + len(operands)))(ctypes.addressof(table), *(x.ctypes.data for x in operands))
    dims = (ctypes.c_int64 * 4)(titles.index(title), len(known), len(operands[0]), device.levels[-1].width or 1)
    status = library.call(args, dims, 1)
    assert status == 0, Observer(library.library).faults()


# ------------------------------------------------------------ elements and registers


def numbers(rng: np.random.Generator, o: Operand, shape: tuple[int, ...], whole: bool) -> np.ndarray:
    if o.dtype.kind != "float" or whole:
        return rng.integers(-7, 8, shape).astype(o.dtype.numpy)
    x = rng.standard_normal(shape)
    if o.dtype.name == "tf32":
        x = (np.asarray(x, np.float32).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    return x.astype(o.dtype.numpy)


def words(device: Device, o: Operand, elements: np.ndarray) -> np.ndarray:
    """[threads, elements] as the registers that hold them."""
    kind, count = registers(device, o)  # type: ignore[misc]
    size = {"double": 8, "float": 4, "int64_t": 8, "int32_t": 4, "uint32_t": 4}[kind]
    raw = np.zeros((len(elements), count * size), np.uint8)
    given = np.ascontiguousarray(elements).view(np.uint8).reshape(len(elements), -1)
    raw[:, : given.shape[1]] = given
    return raw


def elements(o: Operand, raw: np.ndarray, count: int) -> np.ndarray:
    return np.ascontiguousarray(raw[:, : count * o.dtype.bytes]).view(o.dtype.numpy)


def spread(device: Device, instr: Instr, dense: list[np.ndarray], tables: list[np.ndarray]) -> list[np.ndarray]:
    """Matrices as the registers of all threads."""
    each = zip(instr.operands, dense, tables, strict=True)
    return [words(device, o, x[tuple(np.moveaxis(t, -1, 0))]) for o, x, t in each]


def table(title: str, instr: Instr, o: Operand) -> np.ndarray:
    """[threads, registers, 2]: the element of the matrix that each register holds."""
    if instr.family == "mma":
        f = FragmentLayout.of(o)
        return manual.table_of(manual.NVIDIA[instr.name][[x.name for x in instr.operands].index(o.name)], 32, f.registers)
    if instr.family == "mfma":
        (m, k), f64 = instr.operands[0].shape, instr.operands[2].dtype.name == "f64"
        return manual.mfma(o.name, m, k, f64)
    return manual.wmma(o.name, 3 if title.startswith("gfx1100") else 4)


def expected(instr: Instr, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """C + A B with sums in double precision and one rounding; whole numbers wrap."""
    kind = instr.operands[2].dtype
    if kind.kind != "float":
        return (c.astype("i8") + a.astype("i8") @ b.astype("i8")).astype(kind.numpy)
    if kind.name == "f64":
        return c + a @ b
    products = a.astype("f4")[:, :, None] * b.astype("f4")[None, :, :]
    return (c.astype("f8") + products.astype("f8").sum(axis=1)).astype(kind.numpy)


# ------------------------------------------------------------ the tests


def of(*families: str) -> list[str]:
    return [t for t in TITLES if instructions()[t][1].family in families]


@pytest.mark.parametrize("title", of("mma", "mfma", "wmma"))
def test_matrix(title: str) -> None:
    device, instr = instructions()[title]
    for seed, whole in enumerate((True, False)):
        rng = np.random.default_rng(seed)
        dense = [numbers(rng, o, o.shape, whole) for o in instr.operands]
        if not whole and instr.operands[0].dtype.kind == "float" and instr.operands[2].dtype.bits >= 32:
            dense[0][1, 0] = np.nan  # a row of what is no number
            dense[1][:, 1] = 0
        tables = [table(title, instr, o) for o in instr.operands]
        given = [
            words(device, o, x[tuple(np.moveaxis(t, -1, 0))]) for o, x, t in zip(instr.operands, dense, tables, strict=True)
        ]
        execute(title, given, [])
        got = np.empty(instr.operands[2].shape, instr.operands[2].dtype.numpy)
        got[tuple(np.moveaxis(tables[2], -1, 0))] = elements(instr.operands[2], given[2], tables[2].shape[1])
        want = expected(instr, *dense)
        if whole or instr.operands[2].dtype.name != "f64":
            np.testing.assert_array_equal(got.astype("f8"), want.astype("f8"))
        else:
            np.testing.assert_allclose(got, want, rtol=1e-14)


def test_whole_numbers_wrap() -> None:
    title = next(t for t in of("mma") if t.endswith("mma_m16n8k32_i8"))
    device, instr = instructions()[title]
    dense = [np.full(o.shape, n, o.dtype.numpy) for o, n in zip(instr.operands, (127, 127, 2**31 - 1), strict=True)]
    tables = [table(title, instr, o) for o in instr.operands]
    given = spread(device, instr, dense, tables)
    execute(title, given, [])
    assert set(elements(instr.operands[2], given[2], 4).ravel()) == {2**31 - 1 + 32 * 127 * 127 - 2**32}


@pytest.mark.parametrize("title", of("ldmatrix"))
def test_ldmatrix(title: str) -> None:
    """Rows of 16 bytes at addresses of their own; the element that a lane gets is where the manual says."""
    device, instr = instructions()[title]
    number, trans = int(re.search(r"_x(\d)", instr.name).group(1)), "trans" in instr.name  # type: ignore[union-attr]
    s, d = instr.operands
    row = 16 // s.dtype.bytes
    rng = np.random.default_rng(0)
    memory = rng.integers(1, 255, (64, 16), np.uint8)
    chosen = rng.permutation(64)[: 8 * number]
    lanes = chosen[np.arange(32) % (8 * number)]
    addresses = (memory.ctypes.data + 16 * lanes).astype(np.int64).reshape(32, 1)
    given = words(device, d, np.zeros((32, number * row // 4), d.dtype.numpy))
    execute(title, [addresses, given], [memory])
    got = elements(d, given, number * row // 4).view(np.uint8).reshape(-1, d.dtype.bytes)
    held = memory.reshape(64, row, s.dtype.bytes)
    for element, (matrix, r, c) in zip(got, manual.ldmatrix(number, trans, row // 4), strict=True):
        np.testing.assert_array_equal(element, held[chosen[8 * matrix + r], c])


@pytest.mark.parametrize("title", of("shuffle"))
def test_shuffle(title: str) -> None:
    device, instr = instructions()[title]
    s, d = instr.operands
    lanes = np.arange(units(device, instr), dtype=np.int64)
    distance = int(instr.name.rpartition("x")[2])
    value = (lanes * 3 + 1).astype(s.dtype.numpy).reshape(-1, 1)
    given, got = words(device, s, value), words(device, d, np.zeros_like(value))
    execute(title, [given, got], [])
    np.testing.assert_array_equal(elements(d, got, 1), value[lanes ^ distance])


COPIES = of("load_global", "store_global", "load_shared", "store_shared", "cp_async", "load_lds")
FILLS = [t for t in COPIES if len(instructions()[t][1].operands) == 3]
COPIES = [t for t in COPIES if t not in FILLS]


@pytest.mark.parametrize("title", COPIES)
def test_copy(title: str) -> None:
    """Bits arrive unchanged, those of what is no number too."""
    device, instr = instructions()[title]
    s, d = instr.operands
    threads = units(device, instr)
    each = prod(s.shape) // threads
    rng = np.random.default_rng(0)
    source = rng.integers(0, 256, (threads, each * s.dtype.bytes), np.uint8)
    to = np.zeros_like(source)
    operands, memory = [], []
    for o, x in ((s, source), (d, to)):
        if registers(device, o) is not None:
            operands.append(words(device, o, x.view(o.dtype.numpy) if o.dtype.name != "bool" else x))
        else:
            step = 0 if o is d and instr.level != device.levels[-1].name else x.shape[1]  # one address for all
            operands.append((x.ctypes.data + step * np.arange(threads)).astype(np.int64).reshape(-1, 1))
            memory.append(x)
    execute(title, operands, memory)
    got = operands[1][:, : to.shape[1]] if registers(device, d) is not None else to
    np.testing.assert_array_equal(got, source)


@pytest.mark.parametrize("title", FILLS)
def test_copy_with_zeros(title: str) -> None:
    """Of S the first L elements arrive, the rest is zero, and is not read: no memory is there."""
    device, instr = instructions()[title]
    s, length, _ = instr.operands
    rng = np.random.default_rng(0)
    for n in range(s.shape[0] + 1):
        source = np.zeros(32, np.uint8)[: s.shape[0] * s.dtype.bytes].view(s.dtype.numpy)
        source[:] = numbers(rng, s, s.shape, True)
        to = np.full_like(source, 1)
        memory = [source[:n], to] if n else [to]
        addresses = [np.array([[x.ctypes.data]], np.int64) for x in (source, to)]
        execute(title, [addresses[0], words(device, length, np.array([[n]], np.int32)), addresses[1]], memory)
        np.testing.assert_array_equal(to.astype("f8"), np.where(np.arange(s.shape[0]) < n, source.astype("f8"), 0))


@pytest.mark.parametrize("title", of("fma", "dot", "dp4a"))
def test_packed(title: str) -> None:
    """C[n] += A B[n], or C += A . B, by one thread."""
    device, instr = instructions()[title]
    rng = np.random.default_rng(0)
    dense = [numbers(rng, o, (64, *(o.shape or (1,))), True) for o in instr.operands]
    given = [words(device, o, x) for o, x in zip(instr.operands, dense, strict=True)]
    execute(title, given, [])
    a, b, c = (x.astype("f8") for x in dense)
    want = c + (a * b).sum(axis=1, keepdims=True) if instr.family != "fma" else c + a * b
    got = elements(instr.operands[2], given[2], c.shape[1])
    np.testing.assert_array_equal(got.astype("f8"), want)


def test_every_instruction_is_tested() -> None:
    # test_device_functions, test_exact_device_functions
    functions = {t for t, (_, i) in instructions().items() if i.used_everywhere is not None}
    chosen = {t for t, (_, i) in instructions().items() if (i.family or "").endswith("_where")}  # test_chosen_terms_text
    known = {*of("mma", "mfma", "wmma", "ldmatrix", "shuffle", "fma", "dot", "dp4a"), *COPIES, *FILLS, *functions, *chosen}
    assert set(TITLES) == known
