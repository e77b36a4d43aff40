"""`cpu_name`: this machine's CPU with the threads that take part, as one text that tells it from other kinds.

MODEL_ONLY  Two machines of a model are one: a name has what changes times, and no serial number, clock or load.
THREADS     It says the threads that are used, and not the cores that a process may use: a process that is pinned to one core
            measures with one thread what any process with one thread measures.
EARLIER     Earlier names also had the usable cores, in the hash. Those of this machine are known here, so rows under them are
            found. The name that a process with one core gave has not changed.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from itertools import product

from ..storage.cache import key_of
from . import cpu_features
from .detect_cpu import detect_cpu, usable_cpus

_SHARERS = (1, 2, 4)  # cores: of which one may have divided a cache among them [estimate]
_NAME = re.compile(r"(?P<model>.*), (?P<features>[^ ,]+-[0-9a-f]{10}), (?P<threads>\d+ threads?)")


def cpu_name(threads: int) -> str:
    """The name of this machine with so many threads."""
    return f"{_model()}, {_hash(_facts())}, {threads} {'thread' if threads == 1 else 'threads'}"


@lru_cache(maxsize=1024)
def todays_name(name: str) -> str:
    """A name of this machine as `cpu_name` gives it, where it is an EARLIER one; any other as it is."""
    found = _NAME.fullmatch(name)
    if found is None or found["model"] != _model() or found["features"] not in _earlier_hashes():
        return name
    return f"{_model()}, {_hash(_facts())}, {found['threads']}"


def _model() -> str:
    return cpu_features.model() or "CPU"


def _hash(facts: tuple[str, ...]) -> str:
    """The instruction sets and the caches."""
    return f"{cpu_features.architecture()}-{key_of(cpu_features.identity(), *facts)[:10]}"


@lru_cache(maxsize=1)
def _facts() -> tuple[str, ...]:
    """MODEL_ONLY, THREADS: of one core, whose caches nobody shares."""
    lines = detect_cpu(cpus=usable_cpus()[:1]).splitlines()
    return tuple(line for line in lines if "clock" not in line and "GFLOP" not in line)


@lru_cache(maxsize=1)
def _earlier_hashes() -> frozenset[str]:
    """EARLIER: for any number of usable cores, of which some share a cache."""
    cores = range(1, (os.cpu_count() or 1) + 1)
    return frozenset(
        _hash(tuple(_as_shared(line, n, {"l1": l1, "l2": l2}) for line in _facts()))
        for n, l1, l2 in product(cores, _SHARERS, _SHARERS)
        if l1 <= l2
    )


def _as_shared(line: str, cores: int, sharers: dict[str, int]) -> str:
    """A line of the device's text as a process with so many cores has it."""
    if "level core: finite" in line:
        return line.replace("finite 1", f"finite {cores}")
    size = re.fullmatch(r"( *memory (l[12]) of core: )(\d+) KiB", line)
    return line if size is None else f"{size[1]}{int(size[3]) // sharers[size[2]]} KiB"
