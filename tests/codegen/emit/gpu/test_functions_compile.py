"""Functions and constants of a text are those that its compiler knows."""

from __future__ import annotations

from pathlib import Path

import andiron
import pytest

from ....support.gpu import compilers

FUNCTIONS = ["tanh", "erf", "exp2", "log2", "log1p", "expm1", "sin"]


def source(value: str, target: str) -> str:
    return andiron.compile(f"op f[M](A: f64[M]) -> (Y: f64[M]):\n    Y[m] = {value}\n", target=target, tune=0).source


def test_functions_of_f64_are_those_of_cuda(tmp_path: Path) -> None:
    compilers.cuda(source(" + ".join(f"{f}(A[m])" for f in FUNCTIONS), "cuda:sm_80"), tmp_path)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions_of_f64_are_those_of_rocm(function: str) -> None:
    text = source(f"{function}(A[m])", "hip:gfx90a")
    assert f'extern "C" __device__ double __ocml_{function}_f64(double);' in text
    assert "__builtin_" + function not in text


def test_constants_of_64_bits_have_the_type_of_the_text(tmp_path: Path) -> None:
    """Functions for both widths of integers are overloads."""
    text = "op f[M](A: bf16[M]) -> (y: f64[]):\n    y[] = max(m) f64(A[m])\n"
    compilers.hip(andiron.compile(text, target="hip:gfx90a", tune=0).source, tmp_path)
