"""`check --verify`: whether the program of each schedule computes its op, each point once, at several small sizes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ...codegen.verify.verify_program import Verification, verify
from ...dsl.errors.verify import NotVerified
from ...runtime.progress import show_progress
from .compile_schedules import CompiledCase


@dataclass(frozen=True)
class VerifiedCase:
    """A case that was found right, and where; `found` is None for an op that cannot be compiled without values."""

    case: CompiledCase
    found: Verification | None

    def __str__(self) -> str:
        return f"{case_name(self.case)}: {self.found or 'its parameters have no values, so nothing was checked'}"

    @property
    def json(self) -> dict[str, Any]:
        found = self.found
        return {
            "op": self.case.op.name,
            "schedule": self.case.schedule.name if self.case.schedule else None,
            "device": self.case.device.name,
            "checked": [{"sizes": dict(x.sizes), "units": dict(x.finite), "why": x.why} for x in found.checked]
            if found
            else [],
            "skipped": [{"sizes": dict(x.sizes), "why": why} for x, why in found.skipped] if found else [],
            "versions": list(found.versions) if found else [0, 0],
        }


def verify_case(case: CompiledCase) -> Iterator[NotVerified | VerifiedCase]:
    """A fault of ours, or what was checked."""
    if case.compiled is None:
        yield VerifiedCase(case, None)
        return
    show_progress(f"checking {case_name(case)}")
    called = f"schedule `{case.schedule.name}`" if case.schedule else "the compiler's own schedule"
    try:
        found = verify(case.compiled.program, case.op, called, case.schedule.span if case.schedule else None)
    except NotVerified as error:
        yield error
    else:
        yield VerifiedCase(case, found)


def case_name(case: CompiledCase) -> str:
    return f"{case.schedule.name if case.schedule else 'auto'} for {case.op.name} on {case.device.name}"
