"""Kernels broken on purpose: each fault is found, by its own name, at the line of the schedule that it comes from.

The breaking is done where a fault of the compiler's would arise: in the tile program, or in the emitted text.
"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from andiron.codegen.ir.program import Program
from andiron.codegen.ir.tile_ir import AllReduce, Barrier, Call, If, Let, Stmt, Store, Wait
from andiron.codegen.ir.tile_visitors import map_places, statements
from andiron.dsl.errors import UserError
from andiron.dsl.errors.emulate import (
    DivergentBarrier,
    DivergentCall,
    InputWritten,
    LimitExceeded,
    Misaligned,
    NotAwaited,
    NotEmulated,
    OutOfBounds,
    Race,
    ReplicasDiffer,
    Uninitialised,
)
from andiron.dsl.index.expr import as_expr
from andiron.dsl.module import loads
from andiron.dsl.values import Masked, transform
from andiron.runtime.native.cxx_compiler import find_compiler

from ...support.gpu.faulty_kernels import (
    DEVICES,
    FILES,
    SIZES,
    compiled,
    each_without,
    edited,
    emulated,
    faults_of,
    line_of,
    wrong,
)


def kinds(errors: list[UserError]) -> set[type]:
    return {type(e) for e in errors}


def broken(of: str, name: str, edit) -> list[UserError]:
    """What is found when `edit` changes the tile program."""
    op, program = compiled(of, name)
    return faults_of(emulated(op, edit(program)), op, SIZES[of, name])


def mistyped(of: str, name: str, pattern: str, put: str, count: int = 0) -> list[UserError]:
    """What is found when the emitted text is changed: line by line, in kernels' bodies."""
    op, program = compiled(of, name)

    def edit(text: str) -> str:
        first = text.index('extern "C" __global__')
        after, n = re.subn(pattern, put, text[first:], count=count, flags=re.MULTILINE)
        assert n
        return text[:first] + after

    return faults_of(emulated(op, program, edit), op, SIZES[of, name])


# ---------------------------------------------------------------- as they are


@pytest.mark.parametrize(("of", "name"), SIZES)
def test_right(of: str, name: str) -> None:
    op, program = compiled(of, name)
    assert faults_of(emulated(op, program), op, SIZES[of, name]) == []


# ---------------------------------------------------------------- barriers and waits


@pytest.mark.parametrize(("of", "name"), SIZES)
def test_each_barrier(of: str, name: str) -> None:
    """The report names the buffer that the barrier was for, at a line that moves it, or the statement that it holds."""
    op, program = compiled(of, name)
    missing = list(each_without(program, Barrier))
    assert missing
    for barrier, less in missing:
        assert isinstance(barrier, Barrier)
        errors = faults_of(emulated(op, less), op, SIZES[of, name])
        assert kinds(errors) & {Race, Uninitialised, NotAwaited}, f"{barrier.why}: {errors}"
        buffer = barrier.why.split()[0]
        about = [e for e in errors if f"{buffer}[" in str(e) or f"of {buffer}" in str(e)]
        assert about, f"{barrier.why}: {errors}"
        tensor = buffer.partition("_")[0].lower()
        if find_compiler().kind == "gcc":  # others make one access of several, which then has no line but that of its loop
            assert any(tensor in line_of(e).lower() for e in about), f"{barrier.why}: {errors}"


@pytest.mark.parametrize("name", ["ampere_nt"])
def test_each_wait(name: str) -> None:
    op, program = compiled("gpu", name)
    missing = list(each_without(program, Wait))
    assert missing
    for _, less in missing:
        errors = faults_of(emulated(op, less), op, SIZES["gpu", name])
        assert NotAwaited in kinds(errors)
        lines = {line_of(e) for e in errors if isinstance(e, NotAwaited)}
        labels = {lab.span.source.line(lab.span.line).strip() for e in errors for lab in e.labels}
        assert any(x.startswith("move A -> register") or x.startswith("move B -> register") for x in lines), errors
        assert any(x.endswith("with cp_async") for x in labels), errors


def test_a_barrier_that_not_all_reach() -> None:
    errors = mistyped("simt", "tiled", r"__syncthreads\(\);", "if (threadIdx.x < 40) __syncthreads();")
    (error,) = (e for e in errors if isinstance(e, DivergentBarrier))
    assert "0-39 wait at a barrier of the block" in error.message
    assert "40-1023 have ended" in error.message
    assert line_of(error) == "Y[j, i] = X[i, j]"  # what the barrier stands before


def test_different_barriers() -> None:
    two = "if (threadIdx.x < 32) { __syncthreads(); } else { __syncthreads(); }"
    assert mistyped("simt", "tiled", r"__syncthreads\(\);", two) == []  # one line of the text: one barrier
    errors = mistyped("simt", "row", r"^(\s*)__syncthreads\(\);", r"\1if (threadIdx.x < 40) __syncthreads();", 1)
    assert DivergentBarrier in kinds(errors)


# ---------------------------------------------------------------- indices and edges


def shifted(program: Program, buffer: str, by: int = 1) -> Program:
    """Every access of a buffer one element further."""

    def place(name: str, coords):
        return (*coords[:-1], coords[-1] + by) if name == buffer else coords

    return replace(program, launches=tuple(replace(x, body=map_places(x.body, place)) for x in program.launches))


@pytest.mark.parametrize("by", [1, -1])
def test_an_index_of_an_input_off_by_one(by: int) -> None:
    errors = broken("simt", "tiled", lambda p: shifted(p, "X", by))
    assert OutOfBounds in kinds(errors)
    assert {line_of(e) for e in errors} == {"move X -> shared pad 1"}
    assert f"element {-1 if by < 0 else 37 * 45} of X, which has {37 * 45}" in str(errors[0])


def test_an_index_of_an_output_off_by_one() -> None:
    errors = broken("simt", "tiled", lambda p: shifted(p, "Y"))
    assert {OutOfBounds} <= kinds(errors) <= {OutOfBounds, Uninitialised}
    assert "writes" in str(errors[0])
    assert line_of(errors[0]) == "Y[j, i] = X[i, j]"


def test_an_index_of_shared_memory_off_by_one() -> None:
    """Stores one element further: the first is never written, and the last lies outside."""

    def later(p: Program) -> Program:
        (buffer,) = {s.buffer for x in p.launches for s in statements(x.body) if isinstance(s, Store) and "shared" in s.buffer}

        def shift(s: Stmt) -> list[Stmt]:
            if isinstance(s, Store) and s.buffer == buffer:
                return [replace(s, coords=(*s.coords[:-1], s.coords[-1] + 2))]
            return [s]

        return edited(p, shift)

    errors = broken("simt", "tiled", later)
    assert Uninitialised in kinds(errors) or OutOfBounds in kinds(errors)
    assert any("x_shared" in str(e) for e in errors)


def test_into_the_next_buffer() -> None:
    """Shared buffers lie side by side: what leaves one is inside of the other, where something was written."""
    _, program = compiled("gpu", "turing")
    size = next(s.buffer.size.constant for x in program.launches for s in statements(x.body) if getattr(s, "buffer", None)
                and getattr(s.buffer, "name", "") == "a_shared")  # fmt: skip
    assert size
    errors = mistyped("gpu", "turing", r"(a_shared_k1 \+ 8 \* k2)", rf"\1 + (k1 > 0 ? {size} : 0)")
    found_ = [e for e in errors if isinstance(e, OutOfBounds)]
    assert found_
    assert any(f"of a_shared, which has {size}" in e.message for e in found_)
    assert {line_of(e) for e in found_} == {"move A -> register with ldmatrix"}


@pytest.mark.parametrize(("of", "name"), [("simt", "tiled"), ("gpu", "dp4a"), ("simt", "maxwell")])
def test_an_unguarded_edge(of: str, name: str) -> None:
    """Conditions on indices, in statements and in values, are taken away."""
    sizes = {"tiled": dict(M=37, N=45), "dp4a": dict(M=21, N=19, K=24), "maxwell": dict(M=37, N=45, K=21)}[name]
    op, program = compiled(of, name, **sizes)

    def bare(v):
        return v.value if isinstance(v, Masked) else None

    def strip(s: Stmt) -> list[Stmt]:
        if isinstance(s, If):
            return list(s.body)
        return [replace(s, value=transform(s.value, bare))] if isinstance(s, Store) else [s]

    errors = faults_of(emulated(op, edited(program, strip)), op, sizes)
    assert OutOfBounds in kinds(errors)


# ---------------------------------------------------------------- registers and instructions


def test_registers_in_the_wrong_order() -> None:
    """A wrong fragment map in the emission: nothing is accessed wrongly, the numbers are wrong."""
    op, program = compiled("gpu", "turing")

    def swap(text: str) -> str:
        first = text.index('extern "C" __global__')
        other = r"{ const uint32_t other[2] = {\2[1], \2[0]}; \1(other, \3); }"
        after, n = re.subn(r"(i__mma\w+)\((a\S*), (.*)\);", other, text[first:])
        assert n
        return text[:first] + after

    assert wrong(emulated(op, program, swap), op, SIZES["gpu", "turing"])


def test_a_wrong_fragment_map() -> None:
    """The device text is wrong about where elements lie; the emulator plays a device that is right."""
    text = "".join((DEVICES / name).read_text(encoding="utf-8") for name in FILES["simt"])
    right = "A in register at (lane, r): m = lane/4 + 8*(r/2 % 2), k = 2*(lane % 4) + r % 2 + 8*(r/4)\n        B in"
    false = "A in register at (lane, r): m = lane/4 + 8*(r/4), k = 2*(lane % 4) + r % 2 + 8*(r/2 % 2)\n        B in"
    assert text.count(right) == 1
    from andiron.codegen.pipeline import compile_program
    from andiron.dsl.ops.specialise import bind_params

    schedule = """
schedule plain for hgemm on simt:
    tile m: 16, n: 8 -> block
    keep C in register
    tile k: 16
    move A -> shared
    compute with mma_m16n8k16_f16
"""
    programs = []
    for t in (text, text.replace(right, false)):
        mod = loads(t + schedule)
        op = bind_params(mod.ops["hgemm"], {})
        programs.append(compile_program(mod, op, mod.schedules["plain"], mod.devices["simt"]).program)
    sizes = dict(M=16, N=8, K=32)
    assert not wrong(emulated(op, programs[0]), op, sizes)
    assert not wrong(emulated(op, programs[1]), op, sizes)  # wrong as well, but in agreement with itself
    assert wrong(emulated(op, replace(programs[1], instrs=programs[0].instrs)), op, sizes)


def test_a_lost_shuffle() -> None:
    op, program = compiled("simt", "row", M=3, N=40)
    for _, less in each_without(program, AllReduce):
        assert wrong(emulated(op, less), op, dict(M=3, N=40))


def test_a_shuffle_that_not_all_reach() -> None:
    errors = mistyped("simt", "row", r"^(\s*)(\w+ = .*__shfl_xor_sync.*;)$", r"\1if (threadIdx.x % 32 != 5) \2", 1)
    assert kinds(errors) & {DivergentCall, DivergentBarrier}
    assert any("shuffle" in line_of(e) or "max(j)" in line_of(e) for e in errors)


def test_an_instruction_that_not_all_reach() -> None:
    errors = mistyped("gpu", "turing", r"^(\s*(?:for \(.*?\) )?)(i__mma\w+\(.*\);)$", r"\1if (threadIdx.x % 32 != 5) \2", 1)
    assert kinds(errors) & {DivergentCall, DivergentBarrier}
    assert any("compute with mma" in str(e) for e in errors)


def test_replicas_that_differ() -> None:
    """RDNA's matrix instruction holds A twice, in lanes 0-15 and 16-31."""
    op, program = compiled("gpu", "rdna3", M=32, N=32, K=32)

    def edit(text: str) -> str:
        first = text.index('extern "C" __global__')
        copy = r"{ uint32_t other[8]; __builtin_memcpy(other, \2, sizeof other); other[0] ^= thread > 15; \1(other, \3); }"
        after, n = re.subn(r"(i__wmma\w+)\((a\S*), (.*)\);", copy, text[first:])
        assert n
        return text[:first] + after

    errors = faults_of(emulated(op, program, edit), op, dict(M=32, N=32, K=32))
    assert ReplicasDiffer in kinds(errors)
    assert "of A" in str(errors[0])


@pytest.mark.parametrize("register", ["init"])
def test_a_missing_initialisation_of_registers(register: str) -> None:
    """Registers are not observed: what was never set holds a pattern, and the numbers are wrong."""
    op, program = compiled("simt", "maxwell")
    assert wrong(emulated(op, edited(program, _no_zeros)), op, SIZES["simt", "maxwell"])


def _no_zeros(s: Stmt) -> list[Stmt]:
    """Without stores of constants: the accumulators' initialisation."""
    from andiron.dsl.values import Const

    return [] if isinstance(s, Store) and isinstance(s.value, Const) else [s]


def test_a_missing_initialisation_of_memory() -> None:
    """A workspace that its first launch does not fill."""
    op, program = compiled("simt", "tall", M=13, N=17, K=150)
    first, *rest = program.launches

    def drop(s: Stmt) -> list[Stmt]:
        named = {s.buffer} if isinstance(s, Store) else {p.buffer for p in s.pieces} if isinstance(s, Call) else set()
        return [] if named & kept else [s]

    kept = {b.name for b in program.buffers if b.kind == "workspace"}
    assert kept
    (body,) = edited(replace(program, launches=(first,)), drop).launches
    less = replace(program, launches=(body, *rest))
    errors = faults_of(emulated(op, less), op, dict(M=13, N=17, K=150))
    assert kinds(errors) == {Uninitialised}
    assert any(name in str(e) for e in errors for name in kept)


def test_an_output_that_is_not_written() -> None:
    def drop(s: Stmt) -> list[Stmt]:
        if isinstance(s, Store) and s.buffer == "Y":
            return [If((as_expr(3) - s.coords[-1],), (s,))]
        return [s]

    errors = broken("simt", "tiled", lambda p: edited(p, drop))
    assert kinds(errors) == {Uninitialised}
    assert f"{(37 - 4) * 45} elements of Y are never written; the first is Y[0, 4]" in str(errors[0])


def test_misaligned() -> None:
    """A vector access one element further."""
    errors = mistyped("gpu", "ampere_nt", r"(i__cp_async_\w+\()(A\w*)", r"\1\2 + 1")
    assert Misaligned in kinds(errors)
    assert "16 bytes" in errors[0].message
    assert any(line_of(e).startswith("move A -> shared") for e in errors)


def test_written_twice() -> None:
    """Two threads write each element: the same value, and still nothing says which one is last."""

    def twice(s: Stmt) -> list[Stmt]:
        if isinstance(s, Store) and s.buffer == "Y":
            j, i = s.coords
            return [replace(s, coords=(j - j % 2, i))]
        return [s]

    errors = broken("simt", "tiled", lambda p: edited(p, twice))
    assert Race in kinds(errors)
    race = next(e for e in errors if isinstance(e, Race))
    assert re.search(r"writes Y\[\d*[02468], \d+\], which .* wrote", race.message)
    assert line_of(race) == "Y[j, i] = X[i, j]"


def test_an_input_is_written() -> None:
    errors = mistyped("simt", "tiled", r"\bY(\d+)\[0\] = x_shared(\d)\[0\];", r"((float*)X)[0] = Y\1[0] = x_shared\2[0];")
    assert InputWritten in kinds(errors)


def test_more_than_the_device_has() -> None:
    """The compiler refuses this first; here the device shrinks after it."""
    op, program = compiled("simt", "tiled")
    limits = tuple((n, 512.0 if n == "block thread" else x) for n, x in program.device.limits)
    errors = faults_of(emulated(op, replace(program, device=replace(program.device, limits=limits))), op, dict(M=37, N=45))
    assert kinds(errors) == {LimitExceeded}
    assert "1,024 threads in a block; simt allows 512" in errors[0].message


def test_counts_are_the_emulators() -> None:
    import andiron

    k = andiron.compile("op id[N](X: f32[N]) -> (Y: f32[N]):\n    Y[i] = X[i]\n")
    with pytest.raises(NotEmulated):
        k.counting = True


def test_a_let_off_by_a_unit() -> None:
    """Every thread computes for its neighbour: the first is done by nobody, the last twice or outside."""

    def next_thread(s: Stmt) -> list[Stmt]:
        return [replace(s, value=s.value + 1)] if isinstance(s, Let) and s.var.name.startswith("j") else [s]

    def calls(s: Stmt) -> bool:
        return isinstance(s, Call | Let)

    op, program = compiled("simt", "tiled")
    assert any(calls(s) for x in program.launches for s in statements(x.body))
    assert wrong(emulated(op, edited(program, next_thread)), op, SIZES["simt", "tiled"])
