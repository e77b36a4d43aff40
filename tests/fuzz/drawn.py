"""The case of a seed: an op, sizes, a device and a schedule, each from its own generator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from andiron.dsl.errors import UserError
from andiron.dsl.module import loads

from .case import Case, device_of, module_and_op, random_sizes
from .devices import random_device
from .heads import random_schedule
from .model import Op
from .ops import random_op
from .wide.devices import random_wide_device
from .wide.heads import random_bounds, random_wide_schedule
from .wide.ops import random_wide_op, with_conditions
from .wide.products import product_schedule, product_sizes, random_product

CPUS = ("cpu:generic", "cpu:avx2", "cpu:avx512")
GPUS = ("sm_80", "sm_90a", "gfx90a", "gfx942", "gfx1100")
DEVICES = {"native": CPUS, "emulate": GPUS}  # elsewhere: all
POINTS = 2500
KINDS = ("schedule", "op", "device")
WIDE = ("wide-schedule", "wide-op", "wide-device", "product")


def valid_op(rng: Random, name: str, long: float, generator: Callable[[Random, str, float], Op] = random_op) -> Op:
    """A random op that the compiler takes as an op."""
    while True:
        op = generator(rng, name, long)
        try:
            loads(op.text)
        except UserError:
            continue
        return op


def drawn(seed: int, kind: str = "schedule", how: str = "interpreter") -> Case:
    """`kind`: `schedule` (an op under a random schedule), `op` (under the compiler's own), `device` (either, on a device of its
    own); `wide-schedule`, `wide-op`, `wide-device`: by the wider generator, and `product` (about an instruction of a device).
    `how` it will be run tells the devices."""
    if kind in WIDE:
        return wide(seed, kind, how)
    rng = Random(f"{kind} {seed}")
    op = valid_op(rng, f"op{seed}", 1.0 if kind == "op" else 0.2)
    sizes = random_sizes(rng, op, POINTS)
    share = rng.choice((0.0, 0.0, 0.5, 1.0, 1.0))
    fixed = tuple(n for n in sizes if rng.random() < share)
    name, text = rng.choice(DEVICES.get(how, (*CPUS, *GPUS))), ""
    if kind == "device":
        name, text = "odd", random_device(rng, how)
    special = rng.random() < 0.06
    case = Case(seed, op, "", name, text, tuple(sizes.items()), fixed, rng.randint(1, 4), special)
    if kind == "op" or (kind == "device" and rng.random() < 0.3):
        return case
    try:
        _, bound = module_and_op(case)
    except UserError:
        return case
    schedule = random_schedule(rng, bound, device_of(name, text), sizes)
    return Case(seed, op, schedule, name, text, case.sizes, fixed, case.cores, special)


def valid_device(rng: Random, how: str) -> str:
    """A random device, of which the lines agree with each other."""
    while True:
        text = random_wide_device(rng, how)
        try:
            loads(text)
        except UserError:
            continue
        return text


def wide(seed: int, kind: str, how: str) -> Case:
    """The case of a seed by the wider generator."""
    rng = Random(f"{kind} {seed}")
    name, text = rng.choice(DEVICES.get(how, (*CPUS, *GPUS))), ""
    if kind == "wide-device" or (kind == "product" and rng.random() < 0.4):
        name, text = "odd", valid_device(rng, how)
    device = device_of(name, text)
    product = random_product(rng, device, f"op{seed}") if kind == "product" or (text and rng.random() < 0.3) else None
    if product is not None:
        op, sizes = product.op, product_sizes(rng, product)
    else:
        op = valid_op(rng, f"op{seed}", 0.6 if kind == "wide-op" else 0.1, random_wide_op)
        sizes = random_sizes(rng, op, POINTS)
        if op.dims and rng.random() < 0.2:
            op = with_conditions(rng, op, sizes)
    share = rng.choice((0.0, 0.0, 0.5, 1.0, 1.0))
    fixed = tuple(n for n in sizes if rng.random() < share)
    special = rng.random() < 0.06
    spelling = rng.randrange(1 << 30) if rng.random() < 0.15 else None
    case = Case(seed, op, "", name, text, tuple(sizes.items()), fixed, rng.randint(1, 4), special, spelling)
    if kind == "wide-op" or (kind == "wide-device" and product is None and rng.random() < 0.3):
        return case
    try:
        _, bound = module_and_op(case)
    except UserError:
        return case
    if product is not None and (kind == "product" or rng.random() < 0.8):
        schedule = product_schedule(rng, product, device, random_bounds(rng, bound, sizes)[1])
    else:
        schedule = random_wide_schedule(rng, bound, device, sizes)
    return replace(case, schedule=schedule)
