"""The order of terms in which a result in registers is the operand of the next product, for all products of the library."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
from andiron.codegen.lower.leaves.fit_in_order import fitting_order
from andiron.codegen.lower.leaves.fragment_fit import is_read_as_it_lies
from andiron.codegen.lower.leaves.match_instr import FragmentMap
from andiron.codegen.lower.leaves.term_order import TermOrder, order_of
from andiron.dsl.device import Instr
from andiron.dsl.index.expr import Var, as_expr

from ....support.gpu.library_instrs import instructions


def of_operand(instr: Instr, operand: str, names: str) -> FragmentMap:
    op = instr.operand(operand)
    lane, r = (next((v for v in op.coords if v.name == name), None) for name in ("lane", "r"))
    lanes, registers = (1 if v is None else (v.hi or 0) + 1 for v in (lane, r))
    return FragmentMap(tuple(zip(names, op.shape, op.map, strict=True)), lane, lanes, r, registers)


def pairs() -> Iterator[tuple[str, str, FragmentMap, FragmentMap]]:
    """The result of each product of the library with its own operand, or its transposed one."""
    for title, (_, i) in instructions().items():
        spread = all(len(o.shape) == 2 and any(v.name == "lane" for v in o.coords) for o in i.operands)
        if i.accumulate and len(i.operands) == 3 and spread:
            for name, names, operand in (("A", "it", "A"), ("tA", "ti", "A"), ("tB", "ti", "B")):
                own = "it" if operand == "A" else "ti"
                yield title, name, of_operand(i, "C", names), of_operand(i, operand, own)


FOUND = {
    "sm_75:mma_m8n8k16_i8": {"A": ((2, 1), (2, 8), (4, 2))},
    "sm_80:mma_m16n8k4_tf32": {"A": ((4, 2), (2, 1))},
    "sm_80:mma_m16n8k8_tf32": {"A": ((4, 2), (2, 1))},
    "sm_80:mma_m16n8k16_i8": {"A": ((2, 1), (2, 8), (4, 2))},
    "sm_80:mma_m16n8k32_i8": {"A": ((2, 1), (2, 8), (4, 2), (2, 16))},
    "sm_80:mma_m8n8k4_f64": {"A": ((4, 2), (2, 1))},
    "sm_89:mma_m16n8k32_f8e4m3": {"A": ((2, 1), (2, 8), (4, 2), (2, 16))},
    "sm_89:mma_m16n8k32_f8e5m2": {"A": ((2, 1), (2, 8), (4, 2), (2, 16))},
    "gfx908:mfma_32x32x2_f32": ((2, 4), (4, 1)),
    "gfx908:mfma_16x16x4_f32": ((4, 4), (4, 1)),
    "gfx908:mfma_32x32x4_bf16": ((2, 1), (2, 4), (2, 2)),
    "gfx908:mfma_16x16x8_bf16": ((2, 1), (4, 4), (2, 2)),
    "gfx908:mfma_32x32x16_f16": ((4, 1), (2, 8), (2, 4)),
    "gfx908:mfma_16x16x32_f16": ((4, 1), (2, 16), (4, 4)),
    "gfx90a:mfma_32x32x16_bf16": ((4, 1), (2, 8), (2, 4)),
    "gfx90a:mfma_16x16x32_bf16": ((4, 1), (2, 16), (4, 4)),
    "gfx942:mfma_32x32x4_tf32": ((2, 1), (2, 4), (2, 2)),
    "gfx942:mfma_16x16x8_tf32": ((2, 1), (4, 4), (2, 2)),
    "gfx942:mfma_32x32x16_i8": ((4, 1), (2, 8), (2, 4)),
    "gfx942:mfma_16x16x32_i8": ((4, 1), (2, 16), (4, 4)),
    "gfx942:mfma_32x32x32_i8": ((4, 1), (4, 8), (2, 4)),
    "gfx942:mfma_16x16x64_i8": ((4, 1), (4, 16), (4, 4)),
    "gfx950:mfma_32x32x16_f8e4m3": ((4, 1), (2, 8), (2, 4)),
    "gfx950:mfma_16x16x32_f8e4m3": ((4, 1), (2, 16), (4, 4)),
    "gfx950:mfma_32x32x16_f8e5m2": ((4, 1), (2, 8), (2, 4)),
    "gfx950:mfma_16x16x32_f8e5m2": ((4, 1), (2, 16), (4, 4)),
}  # of MFMA's, both operands of the transposed product


def test_pairs_of_the_library() -> None:
    """Which become possible: none of RDNA3's, whose operands each half of a wave has."""
    found: dict[str, dict[str, tuple]] = {}
    for title, name, held, f in pairs():
        order = None if is_read_as_it_lies(held, f) else fitting_order(held, f, "t")
        if order is not None:
            check_by_force(held, f, order)
            found.setdefault(title, {})[name] = order.digits
    assert found == {t: x if isinstance(x, dict) else {"tA": x, "tB": x} for t, x in FOUND.items()}


def tables(f: FragmentMap) -> dict[str, np.ndarray]:
    env = {"lane": np.arange(f.lanes)[:, None], "r": np.arange(f.registers)[None, :]}
    return {i: np.broadcast_to(e.evaluate(env), (f.lanes, f.registers)) for i, _, e in f.maps}


def check_by_force(held: FragmentMap, f: FragmentMap, order: TermOrder) -> None:
    """Every register of every call is one and the same register of the result, in all lanes."""
    terms = [order.of(as_expr(n)).constant or 0 for n in range(order.span)]
    assert sorted(terms) == list(range(order.span))
    (each, _), (rows, _), (tile, _) = f.of("t") or (0, 0), f.of("i") or (0, 0), held.of("t") or (0, 0)
    own, theirs = tables(f), tables(held)
    whole = int(np.lcm(order.span, tile))
    there = {
        (tuple(theirs["i"][:, r] + i), tuple(theirs["t"][:, r] + t))
        for r, t, i in product(range(held.registers), range(0, whole, tile), range(0, rows, (held.of("i") or (0, 0))[0]))
    }
    for first, r in product(range(0, whole, each), range(f.registers)):
        places = own["t"][:, r] + first
        needed = [n // order.span * order.span + terms[n % order.span] for n in places]
        assert (tuple(own["i"][:, r]), tuple(needed)) in there


def spread(maps: dict[str, tuple[int, str]], lanes: int, registers: int) -> FragmentMap:
    lane, r = Var("lane", 0, lanes - 1), Var("r", 0, registers - 1)
    found = tuple((i, n, as_expr(eval(e, {"lane": as_expr(lane), "r": as_expr(r)}))) for i, (n, e) in maps.items())
    return FragmentMap(found, lane, lanes, r, registers)


def test_what_no_order_gives() -> None:
    held = spread({"i": (4, "lane // 2"), "t": (4, "2 * (lane % 2) + r")}, 8, 2)
    assert fitting_order(held, spread({"i": (4, "lane % 4"), "t": (4, "2 * (lane // 4) + r")}, 8, 2), "t") is None  # other rows
    assert fitting_order(held, spread({"i": (4, "lane // 2"), "t": (2, "r")}, 8, 2), "t") is None  # lanes have the same terms
    turned = spread({"i": (4, "lane // 2"), "t": (4, "lane % 2 + 2 * r")}, 8, 2)
    assert fitting_order(held, turned, "t") == TermOrder("t", ((2, 2), (2, 1)))
    skewed = spread({"i": (4, "lane // 2"), "t": (4, "2 * ((lane % 2 + lane // 2) % 2) + r")}, 8, 2)
    assert fitting_order(held, skewed, "t") is None  # another order for each row


def test_orders_permute_digits() -> None:
    assert order_of("t", (0, 2, 1, 3)) == TermOrder("t", ((2, 2), (2, 1)))
    assert order_of("t", (0, 1, 2, 3, 4, 5)) == TermOrder("t", ((6, 1),))
    assert order_of("t", (0, 2, 4, 1, 3, 5)) is None
    assert order_of("t", (0, 3, 1, 4, 2, 5)) == TermOrder("t", ((2, 3), (3, 1)))
    assert order_of("t", (1, 0)) is None
    assert order_of("t", (0, 1, 3, 2)) is None
