"""The recipes of the cookbook with several products in one launch, against formulas in float64, and as text.

Sizes are odd, 1 and 0, open or fixed. Results are written into poisoned memory. `--update-goldens` writes the texts anew: read
what changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import erf

import numpy as np
import pytest
from andiron.codegen.emit.printers import emit
from andiron.codegen.ir.tile_ir import Call
from andiron.codegen.ir.tile_visitors import statements
from andiron.codegen.pipeline import compile_program
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import bind_params
from andiron.runtime.check_results import check
from andiron.runtime.compile import compile

from ..support.library.cases import poisoned
from ..support.paths import ROOT

GOLDENS = ROOT / "tests" / "end_to_end" / "goldens"
COOKBOOK = (ROOT / "docs" / "cookbook.md").read_text(encoding="utf-8")
Arrays = tuple[np.ndarray, ...]


def half(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float16).astype(float)


def mlp(x: np.ndarray, w1: np.ndarray, w2: np.ndarray) -> Arrays:
    s = x @ w1
    return (half(0.5 * s * (1 + np.vectorize(erf, otypes=[float])(s / np.sqrt(2)))) @ w2,)


def backward(q: np.ndarray, k: np.ndarray, v: np.ndarray, do: np.ndarray, lse: np.ndarray, delta: np.ndarray) -> Arrays:
    scale = 1 / np.sqrt(max(1, q.shape[-1]))
    p = np.exp(q @ k.swapaxes(1, 2) * scale - lse[..., None])
    ds = p * (do @ v.swapaxes(1, 2) - delta[..., None]) * scale
    return half(ds).swapaxes(1, 2) @ q, half(p).swapaxes(1, 2) @ do


def separable(image: np.ndarray, f: np.ndarray, g: np.ndarray) -> Arrays:
    (_, rows, columns), (_, _, h, w) = f.shape, image.shape
    padded = np.pad(image, ((0, 0), (0, 0), (1, 1), (1, 1)))
    p, q = h + 3 - rows, w + 3 - columns
    d = np.zeros((*image.shape[:2], p, q))
    for r in range(rows):
        for s in range(columns):
            d += padded[:, :, r : r + p, s : s + q] * f[None, :, r, s, None, None]
    return (np.einsum("oc,ncpq->nopq", g, np.maximum(d, 0)),)


@dataclass(frozen=True)
class Recipe:
    """A file of the cookbook: its op, where it runs, sizes in the op's order, and how many products an instruction computes."""

    op: str
    target: str
    formula: Callable[..., Arrays]
    sizes: tuple[tuple[int, ...], ...]
    products: int = 0


# one size or another is 0
NONE = ((0, 3, 4, 5), (2, 0, 4, 5), (2, 3, 0, 5), (2, 3, 4, 0))
LAYERS = ((3, 5, 7, 2), (70, 17, 65, 33), (1, 1, 1, 1), *NONE)
HEADS = ((2, 3, 5, 7), (1, 20, 72, 24), (1, 66, 65, 17), (1, 1, 1, 1), *NONE)
IMAGES = (
    (2, 3, 5, 7, 5, 3, 3), (1, 33, 4, 70, 9, 3, 2), (1, 1, 1, 1, 1, 1, 1), (0, 3, 5, 5, 4, 3, 3), (2, 0, 5, 5, 4, 3, 3),
    (2, 3, 0, 5, 4, 1, 1), (2, 3, 5, 5, 0, 3, 3), (2, 3, 5, 5, 4, 0, 3),
)  # fmt: skip
RECIPES = {
    "mlp": Recipe("mlp", "emulate:sm_80", mlp, LAYERS, 2),
    "backward": Recipe("attention_backward", "emulate:sm_80", backward, HEADS, 4),
    "separable": Recipe("separable", "cpu", separable, IMAGES),
}


def text_of(recipe: str) -> str:
    (text,) = re.findall(rf'^```sched title="{recipe}.sched"\n(.*?)^```$', COOKBOOK, re.MULTILINE | re.DOTALL)
    return text


def drawn(op, sizes: Mapping[str, int]) -> list[np.ndarray]:
    rng, known = np.random.default_rng(5), op.all_sizes(sizes)
    return [rng.normal(size=tuple(e.evaluate(known) for e in t.shape)).astype(t.dtype.numpy) for t in op.inputs]


@pytest.mark.fewest
@pytest.mark.parametrize("fixed", [False, True], ids=["open", "fixed"])
@pytest.mark.parametrize("name", RECIPES)
def test_right(name: str, fixed: bool) -> None:
    recipe, text = RECIPES[name], text_of(name)
    op = bind_params(loads(text).ops[recipe.op])
    whole = None if fixed else compile(text, schedule="one_launch", target=recipe.target)
    for extents in recipe.sizes:
        sizes = dict(zip([d.name for d in op.dims], extents, strict=True))
        kernel = whole or compile(text, schedule="one_launch", target=recipe.target, sizes=sizes)
        arrays, known = drawn(op, sizes), op.all_sizes(sizes)
        out = [poisoned(tuple(e.evaluate(known) for e in t.shape), t.dtype.numpy) for t in op.outputs]
        kernel(*arrays, out=tuple(out) if len(out) > 1 else out[0])
        assert check(op, arrays, out).ok, sizes
        for result, expected in zip(out, recipe.formula(*(a.astype(float) for a in arrays)), strict=True):
            # a product's factor that is rounded to f16 may be the neighbour of the one that float64 gives
            np.testing.assert_allclose(result, expected, rtol=4e-3, atol=4e-3, err_msg=str(sizes))


@pytest.mark.parametrize("name", RECIPES)
def test_one_launch_instead_of_several(name: str) -> None:
    """And all products by the instruction that the recipe names."""
    recipe, text = RECIPES[name], text_of(name)
    module = loads(text)
    op, device = bind_params(module.ops[recipe.op]), module.device(recipe.target.partition(":")[2] or "cpu:avx2")
    program = compile_program(module, op, module.schedules["one_launch"], device).program
    assert len(program.launches) == 1
    assert not [b for b in program.buffers if b.kind == "workspace"]
    assert len(compile_program(module, op, None, device).program.launches) > 1
    calls = [s.instr for s in statements(program.launches[0].body) if isinstance(s, Call) and s.instr.startswith("mma")]
    assert len(calls) == recipe.products


def kernel_of(name: str) -> str:
    """The kernel alone, of calls with aligned arrays."""
    recipe, module = RECIPES[name], loads(text_of(name))
    op, cpu = bind_params(module.ops[recipe.op]), recipe.target == "cpu"
    program = compile_program(module, op, module.schedules["one_launch"], module.device("cpu:avx2" if cpu else "sm_80")).program
    if cpu:
        text = emit(program)
        return text[text.index("\nstatic void launch__") + 1 : text.index('\nextern "C"')]
    text = emit(program, "cuda")
    head = f"\n// {recipe.op}_"
    return text[text.index(head) + 1 : text.index(head, text.index('extern "C" __global__'))]


@pytest.mark.parametrize("name", RECIPES)
def test_golden(name: str, update_goldens: bool) -> None:
    golden = GOLDENS / f"{name}.{'cpp' if RECIPES[name].target == 'cpu' else 'cu'}"
    if update_goldens:
        GOLDENS.mkdir(exist_ok=True)
        golden.write_text(kernel_of(name), encoding="utf-8")
    assert kernel_of(name) == golden.read_text(encoding="utf-8")
