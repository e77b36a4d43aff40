"""The library's attentions under the emulator, of open sizes with no schedule: right at odd sizes, at 1 and at 0.

Those of matrix instructions, of lanes, and of few queries have schedules of their own, so there are sizes for each.
"""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.pipeline import compile_program
from andiron.dsl.module import Module
from andiron.dsl.ops.specialise import specialise
from andiron.runtime.check_results import check
from andiron.runtime.compile import compile

from ..support.library.cases import library, poisoned
from ..support.library.ops import ATTENTIONS, OPS, values
from ..support.rotation import rotated

DEVICES = ("sm_80", "gfx942", "sm_75", "gfx1100", "sm_90a", "gfx90a", "sm_89")
# Queries, or queries that share a head, beyond what an instruction has rows of; few; one; none; no keys; many features or keys.
SIZES = (
    (1, 35, 41, 24),
    (2, 3, 9, 5),
    (1, 1, 1, 1),
    (1, 0, 7, 8),
    (1, 36, 0, 8),
    (0, 40, 40, 8),
    (1, 34, 37, 68),
    (1, 2, 1040, 9),
)


def cases(name: str) -> list[dict[str, int]]:
    found = []
    for heads, rows, keys, features in SIZES:
        named = {"B": 1, "H": heads, "G": 2, "Q": rows, "T": keys, "D": features, "R": 5, "E": features + 1}
        named |= {"G": rows} if name.startswith("grouped_decode") else {}
        named |= {"Q": min(rows, keys)} if name.startswith("causal") else {}
        found.append({v.name: named[v.name] for v in OPS[name].dims})
    return found


# The keys are taken in the order in which scores lie in registers: by instructions for matrices, so with the first sizes.
IN_ORDER = [("attention_f8", "sm_89"), ("attention_f8", "gfx950"), ("attention_f32", "gfx942"), ("attention_bf16", "gfx908")]


@pytest.mark.parametrize(("name", "device"), list(dict.fromkeys((*rotated(ATTENTIONS, DEVICES), *IN_ORDER))))
def test_right(name: str, device: str) -> None:
    op, kernel = OPS[name], compile(library(), op=name, target=f"emulate:{device}")
    rng = np.random.default_rng(len(name))
    for sizes in cases(name)[: 4 if (name, device) in IN_ORDER else None]:
        arrays = [values(rng, t.dtype, tuple(e.evaluate(sizes) for e in t.shape), False) for t in op.inputs]
        out = tuple(poisoned(tuple(e.evaluate(sizes) for e in t.shape), t.dtype.numpy) for t in op.outputs)
        kernel(*arrays, out=out if len(out) > 1 else out[0], threads=2)
        verdict = check(op, arrays, list(out))
        assert verdict.ok, (sizes, verdict)


@pytest.mark.parametrize("name", ["attention_exp2", "causal_attention_bf16", "grouped_attention_f16"])
def test_values_cross_lanes_through_shared_memory(name: str) -> None:
    """RDNA3: both halves of a wave read all of an operand, and each has half of a result."""
    op = specialise(OPS[name], {"D": 24})
    kernel = compile(library(), op=name, target="emulate:gfx1100", sizes={"D": 24})
    lines = kernel.schedule
    assert lines.count("compute with wmma_16x16x16") == 2
    assert "keep o.left1 in shared" in lines
    rng = np.random.default_rng(5)
    for heads, rows, keys in ((1, 35, 41), (2, 130, 67), (1, 1, 1), (1, 0, 7), (0, 3, 3), (1, 3, 0)):
        sizes = {"H": heads, "G": 3, "Q": min(rows, keys) if name.startswith("causal") else rows, "T": keys, "D": 24}
        arrays = [values(rng, t.dtype, tuple(e.evaluate(sizes) for e in t.shape), False) for t in op.inputs]
        (out,) = (poisoned(tuple(e.evaluate(sizes) for e in t.shape), t.dtype.numpy) for t in op.outputs)
        kernel(*arrays, out=out, threads=2)
        verdict = check(op, arrays, [out])
        assert verdict.ok, (sizes, verdict)


PASSES = [n for n in ATTENTIONS if n != "attention_backward"]


def launches(module: Module, name: str, device: str, **changes: int) -> int:
    sizes = {"B": 64, "H": 64, "G": 8, "Q": 1024, "T": 1024, "D": 64, "R": 32, "E": 64} | changes
    op = specialise(module.ops[name], {v.name: sizes[v.name] for v in module.ops[name].dims})
    return len(compile_program(module, op, None, module.device(device)).program.launches)


@pytest.mark.parametrize("name", PASSES)
def test_one_launch(name: str) -> None:
    """Where a fragment is an operand as it lies."""
    assert launches(library(), name, "sm_89" if name == "attention_f8" else "sm_80") == 1


def test_operands_of_types_that_a_device_does_not_multiply_are_converted_before() -> None:
    assert launches(library(), "attention_f8", "sm_80") == 4


# Launches apart: of f8, which is converted on these devices; where another index than the last has queries that share keys.
APART = ("attention_f8", "grouped_attention", "grouped_attention_f16")


@pytest.mark.parametrize(("name", "device"), rotated([n for n in PASSES if n not in APART], ("sm_80", "sm_90a")))
def test_two_launches_where_keys_are_split(name: str, device: str) -> None:
    """One query a head, as when a model decodes."""
    assert launches(library(), name, device, B=1, H=8, G=4, Q=1, T=8192, D=128) == 2


COUNTED = [("attention", "sm_80"), ("attention_bf16", "gfx942"), ("attention_exp2", "gfx1100")]


@pytest.mark.parametrize(("name", "device"), COUNTED)
def test_bytes(name: str, device: str) -> None:
    """Rows are asked for once, and the keys and values of a head once by each of its blocks: by the emulator's count."""
    heads, rows, keys, features = 2, 256, 192, 64
    kernel = compile(library(), op=name, target=f"emulate:{device}", H=heads, Q=rows, T=keys, D=features)
    kernel.counting = True
    dtype = OPS[name].inputs[0].dtype
    rng = np.random.default_rng(0)
    kernel(*(values(rng, dtype, (heads, n, features), False) for n in (rows, keys, keys)))
    counts = kernel.report.counts
    assert counts is not None
    (launch,) = counts.launches
    of_rows, of_keys = heads * rows * features * dtype.bytes, keys * features * dtype.bytes
    assert sum(counts.moved["global"].values()) == 2 * of_rows + launch["blocks"] * 2 * of_keys
