"""An op compiled for the emulator: called as a kernel for a CPU, and what the run found wrong is raised."""

from __future__ import annotations

from typing import Any

from ...codegen import abi
from ...codegen.emit.emulate import describe
from ...dsl.errors import InternalError
from ..build import Library
from ..variant import Variant
from .build import Built, build
from .faults import Told, error_of
from .observed import Observer
from .origin import Origin

_FOUND = 3  # the status of a call in which something was found wrong


class EmulatedVariant(Variant):
    """`built`: the loaded library, once there is one."""

    built: Built | None = None

    def load(self) -> Library:
        """The function to call. Raises NoCompiler, CompilerFailed."""
        with self._lock:
            if self.built is None:
                self.built = build(self.source, abi.symbol(self.program), self.target.name)
                self.library = Library(self._call, self.built.compiler, self.built.path, self.built.cached)
            assert isinstance(self.library, Library)
            return self.library

    @property
    def observer(self) -> Observer:
        """What watched the calls."""
        self.load()
        assert self.built is not None
        return Observer(self.built.library)

    def told(self, dims: Any) -> Told:
        """What messages are made of; `dims`: the values of the program's open sizes, in order."""
        assert self.built is not None
        known = {v.name: int(n) for v, n in zip(self.program.dims, dims, strict=True)}
        for var, e in self.program.lets:
            known[var.name] = int(e.evaluate(known))
        text = describe(self.program)
        origin = Origin(self.built.path, self.source, self.built.text, text.spans)
        return Told(self.program, origin, known, text.lanes)

    def _call(self, args: Any, dims: Any, threads: int) -> int:
        """As `codegen.abi` says. Raises an EmulatorFault, or several."""
        assert self.built is not None
        status = self.built.call(args, dims, threads)
        if status == _FOUND:
            observer = self.observer
            error = error_of(self.told(dims), observer.faults(), observer.reaches())
            raise error or InternalError("the emulator found a fault and cannot say which")
        return status
