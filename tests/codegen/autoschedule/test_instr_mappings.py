"""Which indices of a work an instruction's stand for: products are found wherever they are; what is not legal has a reason."""

from __future__ import annotations

import pytest
from andiron.codegen.autoschedule.instr_mappings import InstrMapping, mappings
from andiron.codegen.autoschedule.launches.launches_of_op import launches_of
from andiron.codegen.autoschedule.op_context import context_of
from andiron.codegen.pipeline import compile_program
from andiron.codegen.plan.group_launches import group_launches
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import bind_params

from ...support.library.unscheduled import compiled, library, op_of


def mapped(name: str, device: str, work: int = 0) -> list[InstrMapping]:
    d = library().device(device)
    op = op_of(name)
    works = launches_of(op, d, ())[work][0]
    return list(mappings(context_of(op, d), works[0]))


def of(name: str, device: str, instr: str, work: int = 0) -> list[InstrMapping]:
    return [m for m in mapped(name, device, work) if m.instr is not None and m.instr.name == instr]


LEGAL = {
    ("gemm_f16", "sm_80", "mma_m16n8k16_f16"): {"m = m, n = n, k = k"},
    ("gemm_f16_nt", "gfx90a", "mfma_32x32x8_f16"): {"m = m, n = n, k = k"},
    ("batched_gemm_f16", "sm_80", "mma_m16n8k16_f16"): {"m = m, n = n, k = k"},
    ("gemm_i8", "sm_75", "dp4a_i8"): {"k = k"},
    ("conv2d_nhwc_f16", "sm_80", "mma_m16n8k16_f16"): {"m = n*p*q, n = o, k = r*s*c", "m = n*p*q, n = o, k = c"},
    ("conv2d", "gfx90a", "mfma_32x32x2_f32"): {"m = n*p*q, n = o, k = c*r*s"},
    ("grouped_conv2d", "gfx90a", "mfma_32x32x2_f32"): {"m = n*p*q, n = o, k = c*r*s"},
    ("contract_4d", "gfx90a", "mfma_32x32x2_f32"): {"m = a*b, n = c*d, k = e*f"},
    ("linear_gelu_f16", "sm_80", "mma_m16n8k16_f16"): {"m = m, n = n, k = k"},
    ("attention", "sm_80", "mma_m16n8k16_f16"): {"m = i, n = t, k = d"},
}


@pytest.mark.parametrize(("name", "device", "instr"), LEGAL)
def test_products_are_found(name: str, device: str, instr: str) -> None:
    legal = {str(m).split("(")[1].rstrip(")") for m in of(name, device, instr) if not m.refused}
    assert LEGAL[name, device, instr] <= legal


# op, device, instruction, launch -> mappings that are legal
INSIDE = {
    ("conv2d_f16", "sm_80", "mma_m16n8k16_f16", 0): {"m = n*p*q, n = o, k = c*r*s", "m = o, n = q, k = c*r*s"},
    ("separable_conv2d", "gfx90a", "mfma_32x32x2_f32", 1): {"m = n*p*q, n = o, k = c", "m = o, n = q, k = c"},
    ("separable_conv2d_nhwc_f16", "sm_80", "mma_m16n8k16_f16", 1): {"m = n*p*q, n = o, k = c"},
    ("gru_cell", "gfx90a", "mfma_32x32x2_f32", 0): {"m = s, n = g*j, k = i"},
    ("gru_cell_f16", "sm_80", "mma_m16n8k16_f16", 1): {"m = s, n = g*j, k = k"},
    ("lstm_cell", "gfx942", "mfma_32x32x2_f32", 1): {"m = s, n = g*j, k = k"},
    ("lstm_cell_f16", "sm_80", "mma_m16n8k16_f16", 0): {"m = s, n = g*j, k = i"},
    ("gemm_u8i8", "sm_80", "dp4a_u8i8", 0): {"k = k"},
    ("conv2d_i8", "sm_75", "dp4a_i8", 0): {"k = c*r*s"},
}


@pytest.mark.parametrize(("name", "device", "instr", "launch"), INSIDE)
def test_products_are_found_inside(name: str, device: str, instr: str, launch: int) -> None:
    legal = {str(m).split("(")[1].rstrip(")") for m in of(name, device, instr, launch) if not m.refused}
    assert INSIDE[name, device, instr, launch] <= legal


@pytest.mark.parametrize("right", ["k, n", "n, k"])
@pytest.mark.parametrize("left", ["m, k", "k, m"])
@pytest.mark.parametrize("batch", ["outer", "inner"])
def test_products_in_batches_are_found_in_all_transpositions(batch: str, left: str, right: str) -> None:
    def at(names: str) -> str:
        return f"b, {names}" if batch == "outer" else f"{names.split(', ')[0]}, b, {names.split(', ')[1]}"

    module = loads(
        f"op batched[B, M, N, K](X: f16[{at(left).upper()}], Y: f16[{at(right).upper()}]) -> (Z: f32[{at('m, n').upper()}]):\n"
        f"    Z[{at('m, n')}] = sum(k) f32(X[{at(left)}]) * f32(Y[{at(right)}])\n"
    )
    op, device = bind_params(module.ops["batched"]), library().device("sm_80")
    (work,) = launches_of(op, device, ())[0][0]
    found = list(mappings(context_of(op, device), work))
    (m,) = [m for m in found if m.instr is not None and m.instr.name == "mma_m16n8k16_f16" and not m.refused]
    assert (m.m, m.n, m.k, m.batch) == ("m", "n", "k", ("b",))
    schedule = compile_program(module, op, None, device).schedule
    assert "compute with mma_m16n8k16_f16" in schedule


def test_of_fused_groups_the_others_are_batches() -> None:
    (m,) = [x for x in of("grouped_conv2d", "gfx90a", "mfma_32x32x2_f32") if not x.refused and x.k == "crs" and x.m == "npq"]
    assert (m.n, m.batch, m.loops, m.leaf) == ("o", ("g",), (), (32, 32, 2))


REFUSED = {
    ("gemm_f16", "sm_80", "mma_m16n8k16_f16_f16"): "it accumulates in f16, and this sum is f32",
    ("gemm_f16", "sm_80", "mma_m16n8k16_bf16"): "its operands, of type bf16, do not match the factors",
    ("row_max", "gfx90a", "mfma_32x32x2_f32"): "it does a sum, not a max",
    ("depthwise_conv2d", "gfx90a", "mfma_32x32x2_f32"): "no index occurs exactly in the operands of `m`, C and A",
    ("gemv", "gfx90a", "mfma_32x32x2_f32"): "no index occurs exactly in the operands of `m`, C and A",
    ("copy", "gfx90a", "mfma_32x32x2_f32"): "it accumulates, and this is no reduction",
}


@pytest.mark.parametrize(("name", "device", "instr"), REFUSED)
def test_what_is_not_legal_has_a_reason(name: str, device: str, instr: str) -> None:
    why = {m.refused for m in of(name, device, instr)}
    assert REFUSED[name, device, instr] in why
    assert "" not in why


@pytest.mark.parametrize("extent", ["B", "24", "0", "8*B"])
def test_a_factor_that_is_computed_is_not_padded(extent: str) -> None:
    """exp of padding is no zero."""
    assert refusals(extent) == {"a factor is computed, so its padding along `k` is not zero"}


@pytest.mark.parametrize("extent", ["16", "48", "32*B"])
def test_a_factor_that_is_computed_is_legal_where_nothing_is_padded(extent: str) -> None:
    assert "" in refusals(extent)


def refusals(extent: str) -> set[str]:
    """Why a product with a computed factor whose reduced extent is this cannot take an instruction that takes 16 of it."""
    module = loads(
        f"op f[M, N, B](X: f32[M, {extent}], Y: f16[{extent}, N], W: f32[B]) -> (Z: f32[M, N], V: f32[B]):\n"
        "    Z[m, n] = sum(k) f32(f16(exp(X[m, k]))) * f32(Y[k, n])\n"
        "    V[b] = W[b]\n"
    )
    op, device = bind_params(module.ops["f"]), library().device("sm_80")
    work = group_launches(op, frozenset())[0][0]
    found = mappings(context_of(op, device), work)
    plain = {m.refused for m in found if m.instr is not None and m.instr.name == "mma_m16n8k16_f16"}
    return {x for x in plain if "the leaf would choose" not in x}


# op, device, sizes -> instructions of the products in order
BOTH = [
    ("attention", "sm_80", {}),
    ("attention", "sm_80", {"H": 16, "Q": 1024, "T": 1024, "D": 64}),
    ("attention", "sm_80", {"H": 16, "Q": 1000, "T": 1001, "D": 60}),
    ("attention", "gfx942", {}),
    ("attention", "gfx942", {"H": 16, "Q": 1024, "T": 1024, "D": 64}),
    ("attention_f32", "gfx942", {"H": 16, "Q": 1024, "T": 1024, "D": 64}),
]


@pytest.mark.parametrize(("name", "device", "sizes"), BOTH)
def test_both_products_of_attention_have_instructions(name: str, device: str, sizes: dict[str, int]) -> None:
    """What an epilogue reads, the sum of the exponentials, keeps no operand from being materialised."""
    leaves = [x for x in compiled(name, device, sizes).schedule.splitlines() if "with m" in x and "compute" in x]
    assert len(leaves) == 2


def test_scalars_need_two_groups_that_are_apart() -> None:
    by_scalar = {
        name: [m for m in mapped(name, "sm_80") if m.instr is None] for name in ("gemm", "mttkrp", "gemv", "transpose")
    }
    assert [(m.m, m.n, m.k) for m in by_scalar["gemm"]] == [("m", "n", "k")]
    assert {(m.m, m.n, m.k, m.loops) for m in by_scalar["mttkrp"]} >= {("i", "r", "jk", ()), ("i", "r", "k", ("j",))}
    assert all(m.refused for name in ("gemv", "transpose") for m in by_scalar[name])
