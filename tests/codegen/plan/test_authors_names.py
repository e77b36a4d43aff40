"""Messages call a sum without a name of its own as the author does, where it is stored as its statement's tensor."""

from __future__ import annotations

import pytest
from andiron.codegen.pipeline import compile_program
from andiron.dsl.errors import UserError
from andiron.dsl.module import loads

NORM = """op f[M, N](X: f32[M, N], G: f32[N]) -> (Y: f32[M, N]):
    mu[i] = (sum(t) X[i, t]) / N
    v[i] = (sum(t) (X[i, t] - mu[i]) * (X[i, t] - mu[i])) / N
    Y[i, t] = (X[i, t] - mu[i]) * rsqrt(v[i] + 0.001) * G[t]
schedule s for f:
    tile t: 4 -> block
    keep {mu} in register
    keep v in register
    tile t: 1
    compute
"""


def refused(text: str) -> UserError:
    module = loads(text)
    with pytest.raises(UserError) as raised:
        compile_program(module, module.ops["f"], module.schedules["s"], module.device("sm_80"))
    return raised.value


def test_a_sum_goes_by_the_tensor_that_it_is_stored_as() -> None:
    assert refused(NORM.format(mu="mu")).message == "`v` needs what every block makes of `mu`, and none waits for another"


def test_a_name_that_a_line_says_stays() -> None:
    assert "`v` needs what every block makes of `mu.sum1`" in refused(NORM.format(mu="mu.sum1")).message


def test_a_sum_that_is_not_stored_as_such_keeps_its_name() -> None:
    text = """op f[M, N, K](A: f16[M, K], B: f16[K, N]) -> (Y: f32[M]):
    s[i, j] = where(j <= i, sum(k) f32(A[i, k]) * f32(B[k, j]), -1)
    Y[i] = sum(j) s[i, j]
schedule s for f:
    tile i: 8 -> block
    tile j: 8
    keep s.sum1 in shared
    keep s.sum1 in shared
    compute
"""
    assert "`s.sum1`" in refused(text).message


def test_no_mark_of_the_compiler_is_shown() -> None:
    text = """op f[M](A: f32[M, 32], b: f32[M]) -> (Y: f32[M], Z: f32[M, 32]):
    Y[i] = (sum(j) A[i, j]) + b[i]
    Z[i, j] = A[i, j] * Y[i]
schedule s for f:
    tile i: 8 -> block
    keep Y in shared:
        tile i: 1 -> warp
        tile j: 1 -> thread
    tile i: 1 -> warp
    tile j: 1 -> thread
    compute with load_global_tf32x4
"""
    assert refused(text).message == "`load_global_tf32x4` does not compute `Y`"
