"""An op compiled for the emulator: called like a kernel for a CPU, and faults of the run are raised."""

from __future__ import annotations

from typing import Any

from ...codegen import abi
from ...codegen.emit.emulated.emulated_printer import TextDescription, describe_text
from ...dsl.support.cached import cached_property
from ...dsl.support.forks import ForkLock
from ..native.build_library import NativeLibrary
from ..variant import Variant
from .build import EmulatedLibrary, build
from .faults import KernelFacts, fault_error
from .observer_records import Observer
from .report import configure_observer, emulation_report
from .source_map import SourceMap

_FOUND = 3  # the status of a call in which something was found wrong
# What a call found is asked for after it; a call takes all cores anyway. In the middle of one, the runtime has threads and
# locks of its own: a child that was forked there could not go on from them.
_ONE_CALL = ForkLock(forks_wait=True)


class EmulatedVariant(Variant):
    """`built`: the loaded library, once there is one."""

    built: EmulatedLibrary | None = None

    def load(self) -> NativeLibrary:
        """The function to call. Raises NoCompiler, CompilerFailed."""
        with self._lock.held():
            if self.built is None:
                self.built = build(self.source, abi.symbol(self.program), self.target.name, self.checks)
                self.library = NativeLibrary(self._call, self.built.compiler, self.built.path, self.built.cached)
            assert isinstance(self.library, NativeLibrary)
            return self.library

    @property
    def observer(self) -> Observer:
        """What watched the calls."""
        self.load()
        assert self.built is not None
        return Observer(self.built.library)

    def kernel_facts(self, dims: Any) -> KernelFacts:
        """What messages are made of; `dims`: the values of the program's open sizes, in order."""
        assert self.built is not None
        known = self.program.with_derived({v.name: int(n) for v, n in zip(self.program.dims, dims, strict=True)})
        return KernelFacts(self.program, self._origin, known, self._described.lanes)

    @cached_property
    def _described(self) -> TextDescription:
        return describe_text(self.program)

    @cached_property
    def _origin(self) -> SourceMap:
        assert self.built is not None
        return SourceMap(self.built.path, self.source, self.built.text, self._described.spans)

    def _call(self, args: Any, dims: Any, threads: int) -> int:
        """As `codegen.abi` says. Raises an EmulatorFault, or several."""
        assert self.built is not None
        observer, counting = self.observer, self.counting
        with _ONE_CALL.held():
            configure_observer(observer, self.program.device, counting)
            status = self.built.call(args, dims, threads)
            if status == _FOUND or (status == 0 and observer.several()):
                error = fault_error(self.kernel_facts(dims), observer.faults(), observer.reaches())
                if error is not None:
                    raise error
                status = 0
            if status == 0 and counting:
                self.counts = emulation_report(observer, self.program.device, self._origin)
        return status
