"""The case of a seed: an op, sizes, a device and a schedule, each from its own generator."""

from __future__ import annotations

from random import Random

from andiron.dsl.errors import UserError
from andiron.dsl.module import loads

from .case import Case, device_of, module_and_op, random_sizes
from .devices import random_device
from .heads import random_schedule
from .model import Op
from .ops import random_op

CPUS = ("cpu:generic", "cpu:avx2", "cpu:avx512")
GPUS = ("sm_80", "sm_90a", "gfx90a", "gfx1100")
DEVICES = {"native": CPUS, "emulate": GPUS}  # elsewhere: all
POINTS = 2500


def valid_op(rng: Random, name: str, long: float) -> Op:
    """A random op that the compiler takes as an op."""
    while True:
        op = random_op(rng, name, long)
        try:
            loads(op.text)
        except UserError:
            continue
        return op


def drawn(seed: int, kind: str = "schedule", how: str = "interpreter") -> Case:
    """`kind`: `schedule` (an op under a random schedule), `op` (under the compiler's own), `device` (either, on a device of its
    own). `how` it will be run tells the devices."""
    rng = Random(f"{kind} {seed}")
    op = valid_op(rng, f"op{seed}", 1.0 if kind == "op" else 0.2)
    sizes = random_sizes(rng, op, POINTS)
    share = rng.choice((0.0, 0.0, 0.5, 1.0, 1.0))
    fixed = tuple(n for n in sizes if rng.random() < share)
    name, text = rng.choice(DEVICES.get(how, (*CPUS, *GPUS))), ""
    if kind == "device":
        name, text = "odd", random_device(rng)
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
