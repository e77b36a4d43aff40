"""Reductions over nothing: of each kind and type, on each way to run them, beside a formula that is written here."""

from __future__ import annotations

from functools import cache

import andiron
import numpy as np
import pytest
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.pipeline import compile_program
from andiron.dsl.module import Module
from andiron.dsl.types import TYPES

from ....support.rotation import rotated

NUMBERS = ("f64", "f32", "bf16", "f16", "f8e4m3", "f8e5m2", "i64", "i32", "i16", "i8", "u8", "i4")
KINDS = ("sum", "prod", "min", "max")
ROWS = 3


@cache
def module(dtype: str) -> Module:
    """All reductions of a tensor of one type; the narrow outputs of narrow types, and the type that they compute in."""
    lines = [f"    {kind}_[m] = {kind}(k) X[m, k]\n    wide_{kind}[m] = {kind}(k) X[m, k]\n" for kind in KINDS]
    lines += [f"    {kind}_[m] = {kind}(k) (X[m, k] > 0)\n" for kind in ("any", "all")]
    outputs = [f"{kind}_: {dtype}[M], wide_{kind}: {wide_of(dtype)}[M]" for kind in KINDS]
    outputs += [f"{kind}_: bool[M]" for kind in ("any", "all")]
    return andiron.loads(f"op f[M, N](X: {dtype}[M, N]) -> ({', '.join(outputs)}):\n{''.join(lines)}")


def wide_of(dtype: str) -> str:
    return dtype if dtype in ("f64", "i64") else "f32" if dtype[0] in "fb" else "i32"


def wanted(dtype: str) -> dict[str, np.ndarray]:
    """The identity in the type that is computed in; a narrower output takes it as it takes any number."""
    wide = np.dtype({"f64": np.float64, "f32": np.float32, "i64": np.int64, "i32": np.int32}[wide_of(dtype)])
    low, high = (-np.inf, np.inf) if wide.kind == "f" else (np.iinfo(wide).min, np.iinfo(wide).max)
    out = {"any_": np.zeros(ROWS, np.bool_), "all_": np.ones(ROWS, np.bool_)}
    for kind, number in {"sum": 0, "prod": 1, "min": high, "max": low}.items():
        out[f"wide_{kind}"] = exact = np.full(ROWS, number, wide)
        out[f"{kind}_"] = narrow(exact, dtype)
    return out


def narrow(exact: np.ndarray, dtype: str) -> np.ndarray:
    if dtype == "i4":
        return ((exact + 8) % 16 - 8).astype(np.int8)
    if dtype.startswith("f8"):
        most = {"f8e4m3": 448.0, "f8e5m2": 57344.0}[dtype]
        exact = np.clip(exact, -most, most)
    return exact.astype(TYPES[dtype].numpy)


def inputs(dtype: str) -> np.ndarray:
    return np.zeros((ROWS, 0), TYPES[dtype].numpy)


def compared(got: dict[str, np.ndarray], dtype: str) -> None:
    for name, want in wanted(dtype).items():
        np.testing.assert_array_equal(np.asarray(got[name]).astype(np.float64), want.astype(np.float64), f"{name} of {dtype}")


def named(results: tuple[np.ndarray, ...], dtype: str) -> dict[str, np.ndarray]:
    return dict(zip([t.name for t in module(dtype).ops["f"].outputs], results, strict=True))


@pytest.mark.parametrize("dtype", NUMBERS)
def test_reference(dtype: str) -> None:
    compared(named(andiron.reference(module(dtype).ops["f"])(inputs(dtype)), dtype), dtype)


@pytest.mark.parametrize(("dtype", "device"), rotated(NUMBERS, ["cpu:generic", "sm_80", "gfx90a", "cpu:avx2"]))
def test_tile_program(dtype: str, device: str) -> None:
    m = module(dtype)
    program = compile_program(m, m.ops["f"], None, m.device(device)).program
    compared(interpret(program, {"X": inputs(dtype)}, {"M": ROWS, "N": 0}, {level: 2 for level, _ in program.finite}), dtype)


@pytest.mark.parametrize(("dtype", "target"), rotated(NUMBERS, ["cpu", "emulate:sm_80"]))
def test_text(dtype: str, target: str) -> None:
    compared(named(andiron.compile(module(dtype), target=target)(inputs(dtype)), dtype), dtype)


@pytest.mark.parametrize("kind", ["argmin", "argmax"])
@pytest.mark.parametrize("target", [None, "cpu", "emulate:sm_80"])
def test_the_place_of_nothing_is_refused(kind: str, target: str | None) -> None:
    m = andiron.loads(f"op f[M, N](X: i8[M, N]) -> (Y: i64[M]):\n    Y[m] = {kind}(k) X[m, k]\n")
    call = andiron.reference(m.ops["f"]) if target is None else andiron.compile(m, target=target)
    with pytest.raises(andiron.AndironError) as error:
        call(inputs("i8"))
    assert error.value.id == "empty-argmax"
