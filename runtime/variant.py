"""One compiled variant of an op: the text, and, after its first use, the function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, overload

from ..codegen import abi
from ..codegen.ir.program import Program
from ..codegen.lower.schedule_trace import ScheduleTrace, TracedLine
from ..codegen.targets import Target
from ..dsl.errors import UserError
from ..dsl.errors.run import DeviceMismatch
from ..dsl.support.cached import cached_property
from ..dsl.support.forks import ForkLock
from .arrays.bind_sizes import check_conditions, check_workspaces
from .gpu.device_code import DeviceCode
from .native import cpu_features
from .native.build_library import NativeLibrary, build

if TYPE_CHECKING:
    from .emulator.report import EmulationReport


class Variant:
    """A tile program with its text. It is built at the first call, once, whichever thread comes first.

    checks    whether accesses are looked at; only under the emulator
    counting  whether calls count what they do; only under the emulator, with checks
    counts    of the last such call
    """

    counting = False
    counts: EmulationReport | None = None

    def __init__(
        self,
        program: Program,
        source: str,
        schedule: str,
        target: Target,
        facts: Mapping[str, Any] | None = None,
        steps: ScheduleTrace | None = None,
        checks: bool = True,
    ) -> None:
        self.program = program
        self.source = source
        self.schedule = schedule
        self.target = target
        self.facts = dict(facts or {})
        self._steps = steps
        self.checks = checks
        self.arguments = tuple(b.name for b in abi.arguments(program))
        self.library: NativeLibrary | DeviceCode | None = None
        self._lock = ForkLock()

    @cached_property
    def trace(self) -> tuple[TracedLine, ...]:
        """The lines of the schedule, each with the spec that it left."""
        return self._steps.result() if self._steps is not None else ()

    def load(self) -> NativeLibrary | DeviceCode:
        """The built function, or for a GPU the code, which needs none. Raises NoCompiler, CompilerFailed, DeviceMismatch."""
        with self._lock.held():
            if self.library is None and self.target.family.launcher == "driver":
                from .gpu.toolchains import build_code

                self.library = build_code(self.source, self.target, what=abi.symbol(self.program))
            if self.library is None:
                lacking = cpu_features.missing(self.target.machine)
                if lacking:
                    raise DeviceMismatch(
                        f"this machine cannot execute code for {self.target.name}: it lacks {', '.join(lacking)}",
                        help="compile for `cpu`; the text for the other target is in `.source`",
                    )
                self.library = build(self.source, abi.symbol(self.program), self.target, self.schedule)
            return self.library

    def refusal(self, sizes: Mapping[str, int]) -> UserError | None:
        """Why these sizes are not for this variant; None when they are."""
        known = dict(sizes)
        for var, expr in self.program.lets:
            if all(v.name in known for v in expr.variables()):
                known[var.name] = expr.evaluate(known)
        # A condition on how many units take part is the launcher's own and is checked there.
        conditions = [c for c in self.program.conditions if all(v.name in known for v in c[0].variables())]
        try:
            check_conditions(conditions, known)
            check_workspaces((b for b in self.program.buffers if all(v.name in known for v in b.size.variables())), known)
        except UserError as error:
            return error
        return None


class KernelVariants(Sequence[Variant]):
    """Variants of which each is compiled when it is first asked for, once, whichever thread comes first."""

    def __init__(self, makers: Sequence[Callable[[], Variant]]) -> None:
        self._makers = tuple(makers)
        self._made: dict[int, Variant] = {}
        self._lock = ForkLock()

    def __len__(self) -> int:
        return len(self._makers)

    @overload
    def __getitem__(self, at: int) -> Variant: ...

    @overload
    def __getitem__(self, at: slice) -> tuple[Variant, ...]: ...

    def __getitem__(self, at: int | slice) -> Variant | tuple[Variant, ...]:
        if isinstance(at, slice):
            return tuple(self[i] for i in range(*at.indices(len(self))))
        at = range(len(self))[at]
        with self._lock.held():
            if at not in self._made:
                self._made[at] = self._makers[at]()
            return self._made[at]


def with_variant(variants: Sequence[Variant], place: int, variant: Variant) -> KernelVariants:
    """The variants with another one in a place. Of the others those that are not compiled yet stay so."""
    makers: list[Callable[[], Variant]] = [partial(variants.__getitem__, i) for i in range(len(variants))]
    makers[place] = lambda: variant
    return KernelVariants(makers)
