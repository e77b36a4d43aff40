"""`features_of_program`: the features of a schedule for a task, and what the closed form predicts for it.

KEPT  Compiling a schedule takes a tenth of a second or more. The features of stored schedules are kept in the cache, a file
      for each task, so that training again is fast, and goes on where it was interrupted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....codegen.ir.program import Program
from ....codegen.pipeline import compile_program
from ....codegen.price_schedule import price_schedule
from ....dsl import syntax
from ....dsl.errors import AndironError
from ....dsl.text.parser import parse_schedule
from ...native import cpu_features
from ...native.build_library import version
from ...storage.cache import cache, key_of
from .features import NAMES, VERSION, features

if TYPE_CHECKING:
    from ...compile import CompileRequest

KIND = "features"  # of cache entries
Numbers = tuple[float, ...]


@dataclass(frozen=True)
class ScheduleFeatures:
    """What is known of a schedule for a task without measuring it.

    seconds   as the closed form predicts them; where it has no opinion, the time to issue the program's statements
    features  in the order of `NAMES`
    """

    seconds: float
    features: Numbers


def features_of_program(
    request: CompileRequest, schedule: syntax.ScheduleDecl, program: Program, sizes: Mapping[str, int]
) -> ScheduleFeatures:
    """Of an explicit schedule and its program.

    sizes  of all dimensions of the op

    Raises what `price_schedule` raises.
    """
    op, device = request.op, request.device
    threads = request.threads or cpu_features.usable_cores()
    cost = price_schedule(request.special, device, schedule, request.module)
    found = features(op, device, program, cost, sizes, threads)
    if cost is not None and cost.seconds > 0:
        return ScheduleFeatures(float(cost.seconds), found)
    issued = 2.0 ** found[NAMES.index("issued")] * 2.0 ** found[NAMES.index("flops")]
    return ScheduleFeatures(issued / (device.limit("clock") or 1e9), found)


def features_of_text(request: CompileRequest, schedule: str, sizes: Mapping[str, int]) -> ScheduleFeatures | None:
    """Of the text of an explicit schedule; None where it is not accepted any more."""
    try:
        decl = parse_schedule(schedule, "<measured>")
        made = compile_program(request.module, request.special, decl, request.device)
        return features_of_program(request, decl, made.program, sizes)
    except (AndironError, ValueError, ArithmeticError):
        return None


def features_of_texts(
    request: CompileRequest, key: str, schedules: Iterable[str], sizes: Mapping[str, int]
) -> dict[str, ScheduleFeatures | None]:
    """KEPT. Of the texts of a task's schedules, by text.

    key  of the task and the machine
    """
    wanted = {key_of(text): text for text in schedules}
    entry_key = key_of(KIND, VERSION, version(), key)
    known = _load(entry_key)
    missing = [h for h in wanted if h not in known]
    for h in missing:
        found = features_of_text(request, wanted[h], sizes)
        known[h] = None if found is None else [found.seconds, *found.features]
    if missing:
        _store(entry_key, known, f"features of {len(known)} schedules of {request.op.name}")
    return {text: _features(known[h]) for h, text in wanted.items()}


def _features(row: list[float | None] | None) -> ScheduleFeatures | None:
    if row is None or row[0] is None:
        return None
    return ScheduleFeatures(row[0], tuple(nan if x is None else x for x in row[1:]))


def _load(entry_key: str) -> dict[str, Any]:
    entry = cache().get(entry_key)
    try:
        known = json.loads((entry.path / "features.json").read_text(encoding="utf-8")) if entry is not None else {}
    except (OSError, ValueError):
        return {}
    rows = known.values() if isinstance(known, dict) else [0]
    return known if all(x is None or (isinstance(x, list) and len(x) == 1 + len(NAMES)) for x in rows) else {}


def _store(entry_key: str, known: Mapping[str, Any], what: str) -> None:
    plain = {h: row and [None if x is None or x != x else x for x in row] for h, row in known.items()}

    def make(folder: Path) -> dict[str, Any]:
        (folder / "features.json").write_text(json.dumps(plain), encoding="utf-8")
        return {"what": what, "kind": KIND}

    cache().put(entry_key, make)
