"""The generators write every production of the grammar, but for those that are listed with a reason."""

from __future__ import annotations

from random import Random

import pytest
from andiron.dsl.module import loads, std_device

from ..drawn import KINDS, WIDE, drawn
from .devices import random_wide_device
from .heads import random_wide_schedule
from .ops import random_wide_op
from .productions import EXCEPTIONS, Productions, excepted
from .products import product_schedule, random_product
from .spelling import spelled

SEEDS = range(15)
PIECES = range(250)  # ops, devices and products by themselves
SCHEDULES = range(3000)  # of one op, for words that few have
OP = """op f[M, N, K](A: f32[M, K], B: f32[K, N]) -> (Y: f32[M, N]):
    C[m, n] = sum(k) A[m, k] * B[k, n]
    D[m, n] = C[m, n] * 2
    Y[m, n] = D[m, n] + D[m, n]
"""


@pytest.fixture(scope="module")
def productions() -> Productions:
    found = Productions()
    texts = [drawn(seed, kind).text for seed in SEEDS for kind in (*KINDS, *WIDE)]
    op, device = loads(OP).ops["f"], std_device("sm_80")
    assert device is not None
    sizes = {"M": 5, "N": 33, "K": 8}
    for rng in map(Random, PIECES):
        texts += [random_wide_op(rng, "f").text, random_wide_device(rng, rng.choice(("interpreter", "native", "emulate")))]
        product = random_product(rng, device, "f")
        assert product is not None
        texts.append(product_schedule(rng, product, device))
    for seed, text in enumerate(texts):
        found.read(text)
        found.read(spelled(text, Random(seed)))
    for seed in SCHEDULES:
        rng = Random(seed)
        found.read(spelled(random_wide_schedule(rng, op, device, sizes), rng))
    return found


def test_every_production_is_drawn(productions):
    """In one test, as the texts are drawn for it: what is drawn after all, or is no longer in the grammar, is no exception."""
    missing = [p for p in productions.all if not productions.seen[p] and not excepted(p)]
    assert not missing, missing
    never = {p for p in productions.all if not productions.seen[p]}
    idle = [x for x in EXCEPTIONS if not any(p == x or (x != "start: " and x in p) for p in never)]
    assert not idle, idle


def test_productions_are_distinguished():
    """One that is absent from a text is not counted."""
    found = Productions()
    found.read("op f[M](A: f32[M]) -> (Y: f32[M]):\n    Y[m] = A[m]\n")
    assert found.seen["op: OP NAME dims params _ARROW tensors _COLON assigns"] == 1
    assert not any("schedule:" in p or "where:" in p for p in found.seen)
    assert len(found.seen) < len(found.all) / 4
