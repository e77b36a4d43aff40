"""The text of tile programs."""

import subprocess
import sys

from andiron.codegen.ir.printer import show, show_value
from andiron.codegen.transforms.barriers.place_barriers import place_barriers
from andiron.dsl.index.expr import Var, as_expr
from andiron.dsl.types import TYPES
from andiron.dsl.values import Apply, Cast, Const, IndexValue, Masked

from ...support.tile_programs import F32, at, buffer, gemm_mma, transpose

TRANSPOSE = """\
program transpose(M, N) on gpu
input X: f32[M, N] in global of grid strides (N, 1) size M*N
output Y: f32[N, M] in global of grid strides (M, 1) size M*N

launch main over block b < ((M + 31)/32)*((N + 31)/32), warp w < 4, thread t < 32:
    let m0 = 32*(b/((N + 31)/32))
    let n0 = 32*(b % ((N + 31)/32))
    alloc S: f32[32, 32] in shared of block strides (33, 1) size 1056:
        for j in 0 .. 8:
            S[4*j + w, t] = (X[4*j + m0 + w, n0 + t] if 4*j + m0 + w < M and n0 + t < N else 0.0)
        barrier block  # S is written before, read after
        for j in 0 .. 8:
            if 4*j + n0 + w < N and m0 + t < M:
                Y[4*j + n0 + w, m0 + t] = S[t, 4*j + w]
"""


def test_a_program():
    assert show(place_barriers(transpose()[0])) == TRANSPOSE


def test_calls_and_loops():
    text = show(gemm_mma()[0])
    assert "instr mma on warp\n" in text
    assert "for k0 in 0 .. K step 16:\n" in text
    assert "mma(rA[0] x 8, rB[0] x 4, rC[0] x 4)\n" in text


def test_values():
    x = at(buffer("X", "input", "global", "grid", 4), Var("i"))
    one, half = Const(1.0, F32), Const(0.5, TYPES["f16"])
    product = Apply("mul", (Apply("add", (x, one), F32), Cast(half, F32)), F32)
    assert show_value(product) == "(X[i] + 1.0) * f32(0.5_f16)"
    assert show_value(Masked((Var("i") - 2,), x, one, F32)) == "(X[i] if i >= 2 else 1.0)"
    assert show_value(IndexValue(as_expr(Var("i")), TYPES["i64"])) == "i64<i>"
    assert show_value(Apply("max", (x, one), F32)) == "max(X[i], 1.0)"


def test_importing_the_interpreter_is_not_needed_to_print():
    code = "import sys; import andiron.codegen.ir.printer; print('andiron.codegen.interpret.machine' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
