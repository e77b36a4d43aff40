"""Rims on GPUs: each coordinate of a pixel is tested by one comparison, and results there are right, also of 0 or 1 pixels."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pytest
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import bind_params
from andiron.dsl.semantics.reference import reference
from andiron.runtime.compile import compile
from andiron.runtime.random_inputs import random_inputs

OPS = """
import std.ops.conv

op around[N](X: f32[N], W: f32[7]) -> (Y: f32[N]):
    Y[i] = sum(k) X[i + k - 3 else 0] * W[k]
"""
BOTH = re.compile(r"\(uint(32|64)_t\)\S.* < ")


@cache
def module():
    return loads(OPS)


def check(op: str, sizes: dict[str, int], fixed: bool, pad: int | None) -> str:
    params = {} if pad is None else {"pad": pad}
    kernel = compile(module(), op, "auto", "emulate:sm_80", sizes=sizes if fixed else {}, params=params)
    bound = bind_params(module().ops[op], params)
    inputs = random_inputs(bound, sizes, seed=sum(sizes.values()))
    got, expected = kernel(*inputs), reference(bound)(*inputs)
    np.testing.assert_allclose(np.asarray(got, np.float64), np.asarray(expected, np.float64), rtol=2e-3, atol=2e-3)
    return kernel.source


@pytest.mark.parametrize("n", [0, 1, 2, 5, 37])
def test_around_a_point(n: int):
    assert BOTH.search(check("around", {"N": n}, False, None))


@pytest.mark.parametrize(
    ("sizes", "pad"),
    [
        (dict(N=1, C=16, H=7, W=5, O=8, R=3, S=3), 1),
        (dict(N=2, C=8, H=1, W=1, O=9, R=3, S=3), 1),
        (dict(N=1, C=8, H=3, W=2, O=8, R=1, S=1), 2),
        (dict(N=0, C=8, H=3, W=2, O=8, R=3, S=3), 1),
    ],
)
@pytest.mark.parametrize("fixed", [True, False])
def test_channels_last(sizes: dict[str, int], pad: int, fixed: bool):
    text = check("conv2d_nhwc_f16", sizes, fixed, pad)
    assert fixed or BOTH.search(text)
