"""The interpreter of tile programs: right results, and every fault that it promises to find."""

import numpy as np
import pytest
from andiron.codegen.interpret.machine import Fault, interpret
from andiron.codegen.ir.program import Program
from andiron.codegen.ir.tile_ir import Alloc, AllReduce, Barrier, Buffer, Call, Commit, If, Launch, Piece, Store, Wait
from andiron.codegen.ir.tile_visitors import statements
from andiron.codegen.pipeline import compile_program
from andiron.codegen.transforms.barriers.place_barriers import place_barriers
from andiron.dsl.index.expr import Var, as_expr
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import specialise
from andiron.dsl.values import Cast, Const, IndexValue, Masked

from ...support.tile_programs import (
    CASES,
    CPU,
    F16,
    F32,
    GPU,
    I64,
    ZERO,
    N,
    T,
    W,
    add,
    at,
    buffer,
    copy4,
    ends_of,
    exprs,
    gemm_cores,
    gemm_simt,
    gpu,
    let,
    loop,
    mma,
    put,
    transpose,
    vector_add,
    when,
)

X = buffer("X", "input", "global", "grid", 128)
Y = buffer("Y", "output", "global", "grid", 128)
R = buffer("R", "local", "register", "thread", 1)
S = buffer("S", "local", "shared", "block", 128)
U = 32 * W(4) + T
DATA = {"X": np.arange(128, dtype=np.float32)}
ONE_BLOCK = [(Var("b", 0, 0), 1)]


def block(*body, buffers=(X, Y), blocks=ONE_BLOCK, instrs=()) -> Program:
    """One block of 4 warps over X and Y, with S and R at hand."""
    return gpu("t", (), buffers, blocks, 4, Alloc(S, (Alloc(R, tuple(body)),)), instrs=instrs)


def faults(program: Program, arrays=DATA, **more) -> list[tuple[str, str]]:
    found: list[Fault] = []
    interpret(program, arrays, on_fault=found, **more)
    return [(f.kind, f.buffer) for f in found]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_results_are_right_and_nothing_is_reported(case):
    program, arrays, expected = case()
    outputs = interpret(place_barriers(program), arrays)
    assert outputs.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(outputs[name], value)


@pytest.mark.parametrize("shape", [(1, 1, 1), (33, 31, 9), (5, 70, 0)])
def test_any_shape(shape):
    program, arrays, expected = gemm_simt(*shape)
    np.testing.assert_array_equal(interpret(place_barriers(program), arrays)["C"], expected["C"])


@pytest.mark.parametrize("cores", [1, 2, 5])
def test_any_number_of_cores(cores):
    program, arrays, expected = gemm_cores()
    outputs = interpret(place_barriers(program), arrays, finite={"core": cores})
    np.testing.assert_array_equal(outputs["C"], expected["C"])


def test_many_blocks_are_executed_in_chunks():
    program, arrays, expected = vector_add(64 * 1000 - 3)
    np.testing.assert_array_equal(interpret(program, arrays)["C"], expected["C"])


# ---------------------------------------------------------------- values


def test_stores_round_and_registers_keep_their_type():
    h = buffer("H", "local", "register", "thread", 1, dtype=F16)
    body = Alloc(h, (put(h, 0, value=Cast(at(X, U), F16)), put(Y, U, value=Cast(at(h, 0), F32))))
    x = np.full(128, 2049.0, np.float32)  # between two f16
    assert interpret(block(body), {"X": x})["Y"][0] == 2048.0


def test_what_a_mask_excludes_is_not_evaluated():
    y = buffer("Y", "output", "global", "grid", 200)
    value = at(X, U - 100)
    low = put(y, U, value=Masked((U - 100,), value, ZERO, F32))
    rest = when((71 - U,), put(y, U + 128, value=ZERO))
    out = interpret(block(low, rest, buffers=(X, y)), DATA)["Y"]
    np.testing.assert_array_equal(out[:128], np.r_[np.zeros(100), np.arange(28)])


def test_branches_and_loops_whose_bounds_differ():
    i = Var("i")
    count = loop(i, 0, U % 3, put(R, 0, value=add(at(R, 0), Const(1.0, F32))))
    odd = If(((U % 2) - 1,), (put(Y, U, value=at(R, 0)),), (put(Y, U, value=Const(-1.0, F32)),))
    out = interpret(block(put(R, 0, value=ZERO), count, odd), DATA)["Y"]
    u = np.arange(128)
    np.testing.assert_array_equal(out, np.where(u % 2 == 1, u % 3, -1))


def test_atomic_updates_combine_and_do_not_race():
    zero = Launch("zero", (), (put(Y, 0, value=ZERO),))
    y = Buffer("Y", F32, "output", "global", "grid", exprs(1), exprs(1), as_expr(1))
    program = gpu("t", (), (X, y), [(Var("b", 0, 3), 4)], 4, put(y, 0, value=at(X, U), atomic="sum"))
    program = Program("t", GPU, (), (), (), (X, y), (zero, *program.launches))
    assert interpret(program, DATA)["Y"][0] == 4 * DATA["X"].sum()


@pytest.mark.parametrize(("kind", "of"), [("sum", np.sum), ("max", np.max), ("min", np.min)])
def test_all_reduce_over_a_digit(kind, of):
    body = (put(R, 0, value=at(X, U)), AllReduce("thread", kind, 4, 8, (("R", exprs(0)),)), put(Y, U, value=at(R, 0)))
    groups = DATA["X"].reshape(4, 8, 4)
    expected = np.broadcast_to(of(groups, axis=1, keepdims=True), groups.shape).reshape(-1)
    np.testing.assert_array_equal(interpret(block(*body), DATA)["Y"], expected)


def test_arg_reduce_takes_the_first():
    at_most, index = buffer("V", "local", "register", "thread", 1), buffer("I", "local", "register", "thread", 1, dtype=I64)
    out = buffer("Y", "output", "global", "grid", 128, dtype=I64)
    reduce = AllReduce("thread", "argmax", 1, 32, (("V", exprs(0)), ("I", exprs(0))))
    body = (
        put(at_most, 0, value=at(X, U)),
        put(index, 0, value=IndexValue(as_expr(T), I64)),
        reduce,
        put(out, U, value=at(index, 0)),
    )
    x = np.zeros(128, np.float32)
    x[[5, 9, 40, 127]] = [3, 3, 7, 1]
    found = interpret(block(Alloc(at_most, (Alloc(index, body),)), buffers=(X, out)), {"X": x})["Y"]
    assert found[::32].tolist() == [5, 8, 0, 31]


# ---------------------------------------------------------------- faults


def test_out_of_bounds_names_buffer_place_and_unit():
    program, arrays, _ = vector_add(guard=False)
    with pytest.raises(Fault, match=r"`A`\[100\] is outside shape \[100\].*block 1, warp 1, thread 4") as e:
        interpret(program, arrays)
    assert e.value.kind == "out-of-bounds"
    assert isinstance(e.value.stmt, Store)


def test_out_of_bounds_of_one_coordinate_is_found_though_the_address_exists():
    square = buffer("Q", "local", "register", "thread", 2, 2)
    body = Alloc(square, (put(square, 0, 3, value=ZERO), put(Y, U, value=ZERO)))
    assert faults(block(body)) == [("out-of-bounds", "Q")]


def test_uninitialised_read_of_a_register():
    assert faults(block(put(Y, U, value=at(R, 0)))) == [("uninitialised", "R")]


def test_uninitialised_read_after_a_new_lifetime():
    i = Var("i", 0, 1)
    body = loop(i, 0, 2, Alloc(R, (when((-as_expr(i),), put(R, 0, value=ZERO)), put(Y, U, value=at(R, 0)))))
    assert faults(gpu("t", (), (X, Y), ONE_BLOCK, 4, body)) == [("uninitialised", "R")]


def test_an_output_that_is_not_covered():
    assert faults(block(when((126 - U,), put(Y, U, value=ZERO)))) == [("never-written", "Y")]


def test_race_names_both_units_and_both_statements():
    program = block(put(S, U, value=at(X, U)), put(Y, U, value=at(S, 127 - U)))
    with pytest.raises(Fault, match=r"read by block 0, warp 0, thread 0, was written by block 0, warp 3, thread 31 by `S\["):
        interpret(program, DATA)


def test_barrier_of_the_warp_does_not_order_warps():
    body = (put(S, U, value=at(X, U)), Barrier("warp"), put(Y, U, value=at(S, 127 - U)))
    assert faults(block(*body)) == [("race", "S")]


def test_units_in_lockstep_are_ordered_by_themselves():
    other = 32 * W(4) + 31 - T
    assert faults(block(put(S, U, value=at(X, U)), put(Y, U, value=at(S, other)))) == []


def test_different_values_from_units_in_lockstep():
    w = W(4)
    assert faults(block(put(S, 32 * w, value=at(X, U)), put(Y, U, value=at(S, 32 * w)))) == [("race", "S")]
    assert faults(block(put(S, 32 * w, value=at(X, w)), put(Y, U, value=at(S, 32 * w)))) == []


def test_blocks_are_never_ordered():
    body = (put(Y, U, value=at(X, U)), Barrier("grid"))
    program = gpu("t", (), (X, Y), [(Var("b", 0, 1), 2)], 4, *body)
    assert faults(program) == [("race", "Y"), ("malformed", "")]


def test_launches_are_ordered():
    first = gpu("t", (), (X, Y), ONE_BLOCK, 4, put(Y, U, value=at(X, U)))
    second = gpu("t", (), (X, Y), ONE_BLOCK, 4, put(Y, 127 - U, value=add(at(Y, 127 - U), at(X, U))))
    program = Program("t", GPU, (), (), (), (X, Y), (*first.launches, *second.launches))
    assert (interpret(program, DATA)["Y"] == 127).all()


def test_two_readers_at_different_distance_are_both_remembered():
    """The reader in another warp is not hidden by a later one in the writer's own."""
    other = when((W(4) - 1, 1 - W(4)), put(Y, U, value=at(S, T)))  # warp 1 reads what warp 0 wrote
    own = when((-as_expr(W(4)),), put(R, 0, value=at(S, T)))
    again = when((-as_expr(W(4)),), put(S, T, value=ZERO))
    rest = when((W(4) - 2,), put(Y, U, value=ZERO)), when((-as_expr(W(4)),), put(Y, U, value=at(R, 0)))
    body = (put(S, U, value=at(X, U)), Barrier("block"), other, own, again, *rest)
    assert faults(block(*body)) == [("race", "S")]


def test_divergent_barrier():
    body = (when((30 - as_expr(T),), Barrier("block")), put(Y, U, value=ZERO))
    assert faults(block(*body)) == [("divergent-barrier", "")]


def test_a_value_outside_the_interval_of_its_variable():
    i = Var("i", 0, 3)
    assert faults(block(let(i, T), put(Y, U, value=ZERO))) == [("interval", "")]


def _call_mma(*before) -> Program:
    regs = {
        o.name: buffer("r" + o.name, "local", "register", "thread", o.coords[1].hi + 1, dtype=o.dtype) for o in mma().operands
    }
    body = [
        loop(o.coords[1], 0, o.coords[1].hi + 1, put(regs[o.name], o.coords[1], value=Const(0, o.dtype)))
        for o in mma().operands
    ]
    pieces = tuple(Piece(b.name, exprs(0), b.shape[0].const) for b in regs.values())
    body += [*before, Call("mma", pieces), put(Y, U, value=at(regs["C"], 0))]
    for b in regs.values():
        body = [Alloc(b, tuple(body))]
    return block(*body, instrs=(mma(),))


def test_an_instruction_executed_by_some_of_its_units():
    program = _call_mma()
    assert faults(program) == []
    launch = program.launches[0]
    diverging = ends_of(launch.body, lambda s: isinstance(s, Call), lambda s: when((20 - as_expr(T),), s))
    program = Program("t", GPU, (), (), (), program.buffers, (Launch("main", launch.units, diverging),), program.instrs)
    assert faults(program) == [("divergent-call", "")]


def test_a_reduction_without_all_of_its_units():
    body = (
        put(R, 0, value=at(X, U)),
        when((20 - as_expr(T),), AllReduce("thread", "sum", 1, 32, (("R", exprs(0)),))),
        put(Y, U, value=at(R, 0)),
    )
    assert faults(block(*body)) == [("divergent-reduce", "R")]


def test_an_asynchronous_copy_must_be_awaited():
    u = as_expr(U)
    copy = when((31 - u,), Call("copy4", (Piece("S", (u * 4,), 4), Piece("X", (u * 4,), 4))))
    close, wait = Commit("group"), Wait("group", 0)
    meet, use = Barrier("block"), put(Y, U, value=at(S, 127 - U))
    assert faults(block(copy, close, wait, meet, use, instrs=(copy4(),))) == []
    never = [("in-flight", "S")] * 2  # read, and given up
    assert faults(block(copy, close, meet, use, instrs=(copy4(),))) == never
    assert faults(block(copy, close, meet, wait, use, instrs=(copy4(),))) == [("race", "S")]
    assert faults(block(copy, close, Wait("group", 1), meet, use, instrs=(copy4(),))) == never
    assert faults(block(copy, wait, meet, use, instrs=(copy4(),))) == never  # not committed
    assert faults(block(copy, close, close, Wait("group", 1), meet, use, instrs=(copy4(),))) == []  # an empty group counts
    assert faults(block(copy, close, meet, instrs=(copy4(),)))[0] == ("in-flight", "S")  # nobody reads it


def test_faults_are_collected_once_each():
    program, arrays, _ = transpose()
    assert faults(program, arrays) == [("race", "S")]


def test_sizes_that_do_not_fit():
    program, arrays, _ = vector_add()
    with pytest.raises(ValueError, match="B has shape"):
        interpret(program, {**arrays, "B": np.zeros(3, np.float32)})
    with pytest.raises(ValueError, match="no array for input B"):
        interpret(program, {"A": arrays["A"]})
    with pytest.raises(ValueError, match="no size for N"):
        interpret(Program("t", CPU, (N,), (), (), (), ()), {})


def test_a_vector_of_a_fused_index_goes_on_in_the_next_row():
    """It begins early in a row of 31 elements: its column is no remainder any more, and it ends in the next row."""
    text = "op f[N, M](A: f16[N, M], B: f32[N]) -> (Y: f32[M, N]):\n    Y[m, n] = B[n] - f32(A[n, m])\n"
    text += "schedule s for f:\n    fuse n, m as z\n    tile z: 32 every 128 -> block\n    compute\n"
    module = loads(text)
    op = specialise(module.ops["f"], {"N": 3, "M": 31})
    program = compile_program(module, op, module.schedules["s"], module.device("sm_90a")).program
    assert any(isinstance(s, Call) and s.pieces[0].extent == 8 for launch in program.launches for s in statements(launch.body))
    a, b = np.arange(93, dtype="f2").reshape(3, 31), np.arange(3, dtype="f4")
    np.testing.assert_array_equal(interpret(program, {"A": a, "B": b})["Y"], b - a.T.astype("f4"))
